/* The YAML file: nested maps are the dotted names of the settings; `plugins` has names of its own. */
#include <tradewake/config/settings.h>

#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#define NAME_BYTES 160u /* a key as found, dotted; longer ones are cut in messages */

struct reading {
    const char *file;
    yaml_document_t *document;
    struct tw_settings *settings;
    struct tw_config_report *report;
};

static uint32_t line_of(const yaml_node_t *node)
{
    return (uint32_t)node->start_mark.line + 1;
}

static uint32_t column_of(const yaml_node_t *node)
{
    return (uint32_t)node->start_mark.column + 1;
}

/* Does a setting begin with this name and a dot? */
static bool is_section(const char *name)
{
    size_t n, length = strlen(name);
    const struct tw_setting *table = tw_settings_table(&n);
    for (size_t i = 0; i < n; i++)
        if (strncmp(table[i].name, name, length) == 0 && table[i].name[length] == '.')
            return true;
    return false;
}

static const char *kind_text(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SEQUENCE_NODE:
        return "a list";
    case YAML_MAPPING_NODE:
        return "a mapping";
    case YAML_SCALAR_NODE:
        return "a value";
    case YAML_NO_NODE:
        break;
    }
    return "nothing";
}

/* ---- plugins: the one part of the file whose keys are names of the operator's ---- */

static bool is_plugin_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return length > 0 && name[length] == '\0' && length < TW_PLUGIN_NAME_BYTES;
}

static void plugin_value(const struct reading *reading, struct tw_plugin_setting *plugin, const yaml_node_t *key,
                         const yaml_node_t *value)
{
    static const struct tw_value_rule path = {.type = TW_VALUE_PATH}, yes_or_no = {.type = TW_VALUE_BOOL};
    const char *word = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "";
    const char *text = value->type == YAML_SCALAR_NODE ? (const char *)value->data.scalar.value : NULL;
    struct tw_error error = {{0}};
    int64_t number = 0;
    tw_status status = TW_OK;
    if (strcmp(word, "library") == 0) {
        if (text == NULL || text[0] != '/')
            status = tw_error_set(&error, TW_INVALID, "found \"%.80s\", expected a path from the root: /opt/broker.so",
                                  text != NULL ? text : "no text");
        else
            status = tw_value_parse(&path, text, &number, &error);
        if (status == TW_OK)
            snprintf(plugin->library, sizeof plugin->library, "%s", text);
    } else if (strcmp(word, "in_process") == 0) {
        status = text == NULL ? tw_error_set(&error, TW_INVALID, "found no text, expected true or false")
                              : tw_value_parse(&yes_or_no, text, &number, &error);
        plugin->in_process = number != 0;
    } else {
        status = tw_error_set(&error, TW_INVALID, "unknown; a plugin has library and in_process");
    }
    if (status != TW_OK)
        report_add(reading->report, false, "%s:%u:%u: plugins.%s.%.40s: %s", reading->file, line_of(value),
                   column_of(value), plugin->name, word, error.text);
}

static void plugin_check(const struct reading *reading, const struct tw_plugin_setting *plugin)
{
    if (plugin->library[0] == '\0')
        report_add(reading->report, false, "%s:%u:%u: plugins.%s has no library", reading->file, plugin->line, plugin->column,
                   plugin->name);
}

static void read_plugin(const struct reading *reading, const yaml_node_t *key, const yaml_node_t *value)
{
    struct tw_settings *settings = reading->settings;
    const char *name = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "";
    const char *wrong = !is_plugin_name(name)                 ? "a name of at most 32 of a-z, 0-9, _ and -"
                        : value->type != YAML_MAPPING_NODE    ? "a mapping with library and in_process"
                        : settings->n_plugins == TW_PLUGINS_MAX ? "at most 16 plugins"
                                                              : NULL;
    for (uint32_t i = 0; i < settings->n_plugins && wrong == NULL; i++)
        if (strcmp(settings->plugins[i].name, name) == 0)
            wrong = "each plugin once";
    if (wrong != NULL) {
        report_add(reading->report, false, "%s:%u:%u: plugins: found \"%.40s\", expected %s", reading->file, line_of(key),
                   column_of(key), name, wrong);
        return;
    }
    struct tw_plugin_setting *plugin = &settings->plugins[settings->n_plugins++];
    *plugin = (struct tw_plugin_setting){.line = line_of(key), .column = column_of(key)};
    snprintf(plugin->name, sizeof plugin->name, "%s", name);
    for (const yaml_node_pair_t *pair = value->data.mapping.pairs.start; pair < value->data.mapping.pairs.top; pair++)
        plugin_value(reading, plugin, yaml_document_get_node(reading->document, pair->key),
                     yaml_document_get_node(reading->document, pair->value));
    plugin_check(reading, plugin);
}

static void read_plugins(const struct reading *reading, const yaml_node_t *value)
{
    if (value->type != YAML_MAPPING_NODE) {
        report_add(reading->report, false, "%s:%u:%u: plugins: found %s, expected a mapping: {NAME: {library: /path, in_process: true}}",
                   reading->file, line_of(value), column_of(value), kind_text(value));
        return;
    }
    for (const yaml_node_pair_t *pair = value->data.mapping.pairs.start; pair < value->data.mapping.pairs.top; pair++)
        read_plugin(reading, yaml_document_get_node(reading->document, pair->key),
                    yaml_document_get_node(reading->document, pair->value));
}

/* What a wrong key was meant to be: a whole name, or the last part of one. */
static const char *suggestion(const char *name)
{
    const char *words[2 * TW_SETTINGS_MAX];
    size_t n, used = 0;
    const struct tw_setting *table = tw_settings_table(&n);
    for (size_t i = 0; i < n; i++)
        words[used++] = table[i].name;
    const char *whole = tw_value_suggest(name, words, used);
    if (whole != NULL)
        return whole;

    const char *last = strrchr(name, '.') != NULL ? strrchr(name, '.') + 1 : name;
    size_t best = n;
    for (size_t i = 0; i < n; i++) {
        const char *dot = strrchr(table[i].name, '.');
        words[i] = dot != NULL ? dot + 1 : table[i].name;
    }
    const char *part = tw_value_suggest(last, words, n);
    for (size_t i = 0; i < n && part != NULL; i++)
        if (words[i] == part)
            best = i;
    return best < n ? table[best].name : NULL;
}

/* "a mapping with level and format": the settings of a section. */
static void section_text(const char *section, char *text, size_t size)
{
    size_t n, length = strlen(section), used = 0;
    const struct tw_setting *table = tw_settings_table(&n);
    text[0] = '\0';
    for (size_t i = 0; i < n && used < size; i++)
        if (strncmp(table[i].name, section, length) == 0 && table[i].name[length] == '.')
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     table[i].name + length + 1);
}

static void read_setting(const struct reading *reading, const struct tw_setting *setting,
                         const yaml_node_t *value)
{
    struct tw_error error;
    char expected[256];
    if (value->type != YAML_SCALAR_NODE) {
        report_add(reading->report, false, "%s:%u:%u: %s: found %s, expected %s", reading->file,
                   line_of(value), column_of(value), setting->name, kind_text(value),
                   tw_value_expected(&setting->rule, expected, sizeof expected));
        return;
    }
    /* libyaml has refused NUL and control characters; a scalar is a text of ours. */
    const char *text = (const char *)value->data.scalar.value;
    struct tw_origin origin = {TW_ORIGIN_FILE, line_of(value), column_of(value)};
    bool is_null = value->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                   (strcmp(text, "") == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
    if (is_null)
        report_add(reading->report, false, "%s:%u:%u: %s: found nothing, expected %s",
                   reading->file, origin.line, origin.column, setting->name,
                   tw_value_expected(&setting->rule, expected, sizeof expected));
    else if (!setting_set(reading->settings, setting, text, origin, &error))
        report_add(reading->report, false, "%s:%u:%u: %s: %s", reading->file, origin.line,
                   origin.column, setting->name, error.text);
}

static void read_mapping(const struct reading *reading, const yaml_node_t *mapping,
                         const char *prefix);

static void report_bridge(const struct reading *reading, const yaml_node_t *node, const char *name, const char *words)
{
    report_add(reading->report, false, "%s:%u:%u: bridges.%.80s: %s", reading->file, line_of(node), column_of(node),
               name, words);
}

static void read_bridge(const struct reading *reading, const yaml_node_t *key, const yaml_node_t *value)
{
    struct tw_error error = {{0}};
    const char *name = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "";
    struct tw_bridge_setting *bridge = settings_bridge_add(reading->settings, name, strlen(name), &error);
    if (bridge == NULL) {
        report_bridge(reading, key, name, error.text);
        return;
    }
    if (value->type != YAML_MAPPING_NODE) {
        report_bridge(reading, value, name, "expected a mapping with address, ca, certificate, key, server_name");
        return;
    }
    for (const yaml_node_pair_t *pair = value->data.mapping.pairs.start; pair < value->data.mapping.pairs.top; pair++) {
        const yaml_node_t *field = yaml_document_get_node(reading->document, pair->key);
        const yaml_node_t *text = yaml_document_get_node(reading->document, pair->value);
        bool is_scalar = field->type == YAML_SCALAR_NODE && text->type == YAML_SCALAR_NODE;
        if (!is_scalar)
            report_bridge(reading, text, name, "expected name: value");
        else if (settings_bridge_field_set(bridge, (const char *)field->data.scalar.value,
                                  (const char *)text->data.scalar.value, &error) != TW_OK)
            report_bridge(reading, text, name, error.text);
    }
    if (settings_bridge_check(bridge, &error) != TW_OK)
        report_bridge(reading, value, name, error.text);
}

/* A mapping by name, not by setting: the only one. */
static void read_bridges(const struct reading *reading, const struct tw_setting *setting, const yaml_node_t *mapping)
{
    struct tw_settings *settings = reading->settings;
    struct tw_error error;
    struct tw_origin origin = {TW_ORIGIN_FILE, line_of(mapping), column_of(mapping)};
    settings->n_bridges = 0;
    for (const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top; pair++)
        read_bridge(reading, yaml_document_get_node(reading->document, pair->key),
                    yaml_document_get_node(reading->document, pair->value));
    settings->bridges_mapped = true;
    (void)setting_set(settings, setting, "", origin, &error); /* notes the place */
    settings_bridges_show(settings);
}

static void read_pair(const struct reading *reading, const char *prefix, const yaml_node_t *key,
                      const yaml_node_t *value)
{
    char name[NAME_BYTES], section[256];
    if (key->type != YAML_SCALAR_NODE) {
        report_add(reading->report, false,
                   "%s:%u:%u: found %s as a key, expected the name of a setting", reading->file,
                   line_of(key), column_of(key), kind_text(key));
        return;
    }
    snprintf(name, sizeof name, "%s%s%.80s", prefix, prefix[0] != '\0' ? "." : "",
             (const char *)key->data.scalar.value);

    const struct tw_setting *setting = tw_setting_find(name);
    if (setting != NULL) {
        const struct tw_origin *origin = setting_origin(reading->settings, setting);
        if (origin->kind == TW_ORIGIN_FILE)
            report_add(reading->report, false,
                       "%s:%u:%u: %s is given twice, first at %u:%u; keep one", reading->file,
                       line_of(key), column_of(key), name, origin->line, origin->column);
        else if (value->type == YAML_MAPPING_NODE && strcmp(name, "bridges") == 0)
            read_bridges(reading, setting, value);
        else
            read_setting(reading, setting, value);
    } else if (strcmp(name, "plugins") == 0) {
        read_plugins(reading, value);
    } else if (!is_section(name)) {
        const char *near = suggestion(name);
        report_add(reading->report, false, "%s:%u:%u: unknown setting \"%s\"%s%s%s", reading->file,
                   line_of(key), column_of(key), name, near != NULL ? "; did you mean " : "",
                   near != NULL ? near : "", near != NULL ? "?" : "");
    } else if (value->type != YAML_MAPPING_NODE) {
        section_text(name, section, sizeof section);
        report_add(reading->report, false, "%s:%u:%u: %s: found %s, expected a mapping with %s",
                   reading->file, line_of(value), column_of(value), name, kind_text(value),
                   section);
    } else {
        read_mapping(reading, value, name);
    }
}

/* Recursion ends with the names of the table: a section that is none is not entered. */
static void read_mapping(const struct reading *reading, const yaml_node_t *mapping,
                         const char *prefix)
{
    for (const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
         pair < mapping->data.mapping.pairs.top; pair++)
        read_pair(reading, prefix, yaml_document_get_node(reading->document, pair->key),
                  yaml_document_get_node(reading->document, pair->value));
}

/* Line and column of a byte, for errors that libyaml gives as an offset only. */
static void place_of(const char *text, size_t size, size_t offset, uint32_t *ret_line,
                     uint32_t *ret_column)
{
    *ret_line = 1;
    *ret_column = 1;
    for (size_t i = 0; i < offset && i < size; i++) {
        *ret_column += 1;
        if (text[i] == '\n') {
            *ret_line += 1;
            *ret_column = 1;
        }
    }
}

static void report_syntax(const yaml_parser_t *parser, const char *name, const char *text,
                          size_t size, struct tw_config_report *report)
{
    const char *problem = parser->problem != NULL ? parser->problem : "not enough memory";
    const char *context = parser->context != NULL ? parser->context : "";
    uint32_t line = (uint32_t)parser->problem_mark.line + 1;
    uint32_t column = (uint32_t)parser->problem_mark.column + 1;
    if (parser->error == YAML_READER_ERROR)
        place_of(text, size, parser->problem_offset, &line, &column);
    report_add(report, false, "%s:%" PRIu32 ":%" PRIu32 ": not YAML: %s%s%s", name, line, column,
               problem, context[0] != '\0' ? " " : "", context);
}

static void read_document(const struct reading *reading)
{
    const yaml_node_t *root = yaml_document_get_root_node(reading->document);
    bool is_empty =
        root == NULL || (root->type == YAML_SCALAR_NODE && root->data.scalar.length == 0);
    if (is_empty)
        return; /* an empty file, or one of comments: every setting has a default */
    if (root->type != YAML_MAPPING_NODE)
        report_add(reading->report, false, "%s:%u:%u: found %s, expected \"name: value\" lines",
                   reading->file, line_of(root), column_of(root), kind_text(root));
    else
        read_mapping(reading, root, "");
}

void tw_settings_apply_yaml(const char *name, const char *text, size_t size,
                            struct tw_settings *settings, struct tw_config_report *report)
{
    yaml_parser_t parser;
    yaml_document_t document;
    if (!yaml_parser_initialize(&parser)) {
        report_add(report, false, "%s: no memory to read the configuration", name);
        return;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);

    if (!yaml_parser_load(&parser, &document)) {
        report_syntax(&parser, name, text, size, report);
        goto done;
    }
    read_document(&(struct reading){name, &document, settings, report});
    yaml_document_delete(&document);

    if (!yaml_parser_load(&parser, &document)) {
        report_syntax(&parser, name, text, size, report);
        goto done;
    }
    const yaml_node_t *second = yaml_document_get_root_node(&document);
    if (second != NULL)
        report_add(report, false, "%s:%u:%u: found a second document, expected one", name,
                   line_of(second), column_of(second));
    yaml_document_delete(&document);

done:
    yaml_parser_delete(&parser);
}
