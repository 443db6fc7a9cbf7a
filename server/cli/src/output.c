/* Tables, details and colours. */
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS_MAX = 16 };

struct table {
    const struct column *columns;
    size_t n_columns;
    size_t widths[COLUMNS_MAX];
    char **cells; /* row by row; from the heap */
    size_t n_cells, capacity;
    bool has_header;
    bool is_broken; /* no memory: what was added since is not printed, and that is said */
};

/* Characters, not bytes; wide ones count as one. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

struct table *table_new(const struct column *columns)
{
    struct table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->columns = columns;
    for (; columns[table->n_columns].title != NULL && table->n_columns < COLUMNS_MAX;
         table->n_columns++)
        table->widths[table->n_columns] = text_width(columns[table->n_columns].title);
    return table;
}

static void add_cell(struct table *table, const char *text)
{
    if (table->n_cells == table->capacity) {
        size_t capacity = table->capacity > 0 ? 2 * table->capacity : 256;
        char **grown = realloc(table->cells, capacity * sizeof *grown);
        table->is_broken = table->is_broken || grown == NULL;
        if (grown == NULL)
            return;
        table->cells = grown;
        table->capacity = capacity;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        table->is_broken = true;
        return;
    }
    size_t column = table->n_cells % table->n_columns, width = text_width(text);
    table->cells[table->n_cells++] = copy;
    if (width > table->widths[column])
        table->widths[column] = width;
}

void table_add(struct table *table, const ProtobufCMessage *message)
{
    char text[PRINTED_BYTES];
    for (size_t i = 0; table != NULL && i < table->n_columns; i++)
        add_cell(table, tw_fields_text(message, table->columns[i].path, table->columns[i].format,
                                       text, sizeof text));
}

void table_add_texts(struct table *table, const char *const *cells)
{
    for (size_t i = 0; table != NULL && i < table->n_columns; i++)
        add_cell(table, cells[i]);
}

static void print_padded(FILE *out, const char *text, size_t width, bool is_last)
{
    fputs(text, out);
    for (size_t used = text_width(text); used < width + 2 && !is_last; used++)
        fputc(' ', out);
}

/* States stand out; everything else is plain. */
static enum style cell_style(const char *text)
{
    static const char *const bad[] = {"REJECTED", "UNKNOWN", "EXPIRED", "PARTIAL", "CANCELLED"};
    for (size_t i = 0; i < COUNT(bad); i++)
        if (strcmp(text, bad[i]) == 0)
            return STYLE_BAD;
    return strcmp(text, "DONE") == 0 || strcmp(text, "ACTIVE") == 0 ? STYLE_GOOD : STYLE_PLAIN;
}

void table_print(struct table *table, FILE *out)
{
    if (table == NULL) {
        fputs("tradewake: no memory for a table\n", stderr);
        return;
    }
    size_t n = table->n_columns;
    if (!table->has_header) {
        table->has_header = true;
        fputs(style_on(out, STYLE_BOLD), out);
        for (size_t i = 0; i < n; i++)
            print_padded(out, table->columns[i].title, table->widths[i], i + 1 == n);
        fprintf(out, "%s\n", style_off(out));
    }
    for (size_t at = 0; at + n <= table->n_cells; at += n) {
        for (size_t i = 0; i < n; i++) {
            enum style style = cell_style(table->cells[at + i]);
            fputs(style != STYLE_PLAIN ? style_on(out, style) : "", out);
            print_padded(out, table->cells[at + i], table->widths[i], i + 1 == n);
            fputs(style != STYLE_PLAIN ? style_off(out) : "", out);
        }
        fputc('\n', out);
    }
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    table->n_cells = 0;
    if (table->is_broken)
        fputs("tradewake: no memory for the whole table\n", stderr);
    fflush(out);
}

void table_free(struct table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

struct details {
    FILE *out;
    size_t n;
};

static void print_detail(void *context, const char *path, const char *text)
{
    struct details *details = context;
    FILE *out = details->out;
    details->n++;
    fprintf(out, "%s%-32s%s %s\n", style_on(out, STYLE_DIM), path, style_off(out), text);
}

void print_message(struct session *session, const ProtobufCMessage *message)
{
    struct details details = {stdout, 0};
    if (session->is_json) {
        tw_json_message(&session->json, message);
        return;
    }
    tw_fields_each(message, print_detail, &details);
    if (details.n == 0)
        puts("done"); /* an answer that only says so */
}

static bool is_coloured(FILE *out)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(fileno(out)) != 0 && (no_color == NULL || no_color[0] == '\0');
}

const char *style_on(FILE *out, enum style style)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "",       [STYLE_BOLD] = "\033[1m", [STYLE_GOOD] = "\033[32m",
        [STYLE_BAD] = "\033[31m", [STYLE_DIM] = "\033[2m",
    };
    return is_coloured(out) ? codes[style] : "";
}

const char *style_off(FILE *out)
{
    return is_coloured(out) ? "\033[0m" : "";
}
