#include <tradewake/journal/tool.h>

#include "snapshot_file.h"

#include <tradewake/base/clock.h>
#include <tradewake/journal/walk.h>

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define HEX_BYTES_MAX   24u
#define FOLLOW_PAUSE_NS (100 * TW_NS_PER_MS)

static int tool_fail(const struct tw_journal_tool *tool, const struct tw_error *error)
{
    (void)fprintf(tool->err, "tradewake: %s\n", error->text);
    return 1;
}

static const char *problem_word(enum tw_journal_problem problem)
{
    static const char *const words[] = {
        [TW_JOURNAL_PROBLEM_NONE] = "whole",      [TW_JOURNAL_PROBLEM_TORN] = "torn",
        [TW_JOURNAL_PROBLEM_DAMAGE] = "damage",   [TW_JOURNAL_PROBLEM_VERSION] = "version",
        [TW_JOURNAL_PROBLEM_MISSING] = "missing",
    };
    return words[problem];
}

/* What it means, for the one who has to do something. */
static const char *problem_advice(enum tw_journal_problem problem)
{
    static const char *const advice[] = {
        [TW_JOURNAL_PROBLEM_NONE] = "every record is as it was written",
        [TW_JOURNAL_PROBLEM_TORN] =
            "the end of a crash, or being written now: it was never durable, the "
            "next start cuts it",
        [TW_JOURNAL_PROBLEM_DAMAGE] =
            "it was durable once and no server starts on it: bring the file back "
            "from a copy, or move the directory away",
        [TW_JOURNAL_PROBLEM_VERSION] = "another version of tradewake wrote it: use that one",
        [TW_JOURNAL_PROBLEM_MISSING] =
            "no server starts without it: bring the file back from a copy, or "
            "move the directory away",
    };
    return advice[problem];
}

/* --- one record -------------------------------------------------------------------- */

static void print_hex(FILE *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        (void)fprintf(out, "%02x", bytes[i]);
}

static bool print_meaning(const struct tw_journal_tool *tool, const struct tw_journal_entry *entry)
{
    return tool->print != NULL &&
           tool->print(tool->out, entry->type, entry->bytes, entry->size, tool->is_json);
}

static void record_as_json(const struct tw_journal_tool *tool, const struct tw_journal_entry *entry,
                           const char *type)
{
    FILE *out = tool->out;

    (void)fprintf(out,
                  "{\"segment\":%" PRIu32 ",\"offset\":%" PRIu64 ",\"sequence\":%" PRIu64
                  ",\"durable\":%" PRIu64 ",\"type\":\"%s\",\"size\":%zu,\"content\":",
                  entry->segment, entry->offset, entry->sequence, entry->durable, type,
                  entry->size);
    if (!print_meaning(tool, entry)) {
        (void)fputc('"', out);
        print_hex(out, entry->bytes, entry->size);
        (void)fputc('"', out);
    }
    (void)fputs("}\n", out);
}

static void record_as_row(const struct tw_journal_tool *tool, const struct tw_journal_entry *entry,
                          const char *type)
{
    FILE *out = tool->out;

    (void)fprintf(out, "%08" PRIu32 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %-10s %8zu  ",
                  entry->segment, entry->offset, entry->sequence, entry->durable, type,
                  entry->size);
    if (!print_meaning(tool, entry)) {
        size_t shown = entry->size < HEX_BYTES_MAX ? entry->size : HEX_BYTES_MAX;
        print_hex(out, entry->bytes, shown);
        (void)fputs(shown < entry->size ? "..." : "", out);
    }
    (void)fputc('\n', out);
}

static void print_record(const struct tw_journal_tool *tool, const struct tw_journal_entry *entry)
{
    const char *type = tool->type_name != NULL ? tool->type_name(entry->type) : NULL;
    char number[8];

    if (type == NULL) {
        (void)snprintf(number, sizeof(number), "%u", entry->type);
        type = number;
    }
    if (tool->is_json)
        record_as_json(tool, entry, type);
    else
        record_as_row(tool, entry, type);
}

static void print_head(const struct tw_journal_tool *tool)
{
    if (!tool->is_json)
        (void)fprintf(tool->out, "%-8s %10s %10s %10s %-10s %8s  %s\n", "SEGMENT", "OFFSET",
                      "SEQUENCE", "DURABLE", "TYPE", "BYTES", "CONTENT");
}

static void print_problem(const struct tw_journal_tool *tool, const struct tw_journal_entry *entry)
{
    (void)fprintf(tool->err,
                  "tradewake: %s: %s/%08" PRIu32 ".log, offset %" PRIu64 ", sequence %" PRIu64
                  ": %s: %s\n",
                  problem_word(entry->problem), tool->dir, entry->segment, entry->offset,
                  entry->sequence, entry->words, problem_advice(entry->problem));
}

/* --- verify ------------------------------------------------------------------------ */

enum { SNAPSHOTS_MAX = 16 }; /* two stay */

struct verifying {
    const struct tw_journal_tool *tool;
    struct {
        uint32_t number;
        struct tw_snapshot_place place; /* segment 0: it could not be read */
        bool is_of_log;                 /* the record that it stands at is there */
        char why[TW_ERROR_TEXT_BYTES];
    } snapshots[SNAPSHOTS_MAX]; /* the newest, ascending */
    uint32_t n_snapshots;
    struct tw_journal_entry problem; /* its words; .problem NONE while there is none */
    uint32_t segment, segments;      /* the one being read; how many had records */
    uint64_t first, last;            /* sequences over all */
    uint64_t segment_first, segment_bytes;
    uint64_t records;
};

static void verify_segment_end(const struct verifying *verifying)
{
    if (verifying->segment == 0)
        return;
    (void)fprintf(verifying->tool->out,
                  verifying->tool->is_json ? "{\"segment\":%" PRIu32 ",\"first\":%" PRIu64
                                             ",\"last\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n"
                                           : "%08" PRIu32 ".log  sequences %" PRIu64 "..%" PRIu64
                                             "  bytes %" PRIu64 "\n",
                  verifying->segment, verifying->segment_first, verifying->last,
                  verifying->segment_bytes);
}

static tw_status verify_entry(void *context, const struct tw_journal_entry *entry)
{
    struct verifying *verifying = context;

    if (entry->problem != TW_JOURNAL_PROBLEM_NONE) {
        verifying->problem = *entry;
        return TW_OK;
    }
    if (entry->segment != verifying->segment) {
        verify_segment_end(verifying);
        verifying->segment = entry->segment;
        verifying->segments++;
        verifying->segment_first = entry->sequence;
        verifying->segment_bytes = 0;
    }
    if (verifying->records++ == 0)
        verifying->first = entry->sequence;
    for (uint32_t i = 0; i < verifying->n_snapshots; i++) {
        const struct tw_snapshot_place *place = &verifying->snapshots[i].place;
        verifying->snapshots[i].is_of_log |= place->sequence == entry->sequence && place->crc == entry->crc &&
                                             place->segment == entry->segment;
    }
    verifying->last = entry->sequence;
    verifying->segment_bytes += entry->size;
    return TW_OK;
}

static void verify_verdict(const struct verifying *verifying)
{
    const struct tw_journal_tool *tool = verifying->tool;
    const char *word = problem_word(verifying->problem.problem);

    if (tool->is_json)
        (void)fprintf(tool->out,
                      "{\"records\":%" PRIu64 ",\"segments\":%" PRIu32 ",\"first\":%" PRIu64
                      ",\"last\":%" PRIu64 ",\"verdict\":\"%s\"}\n",
                      verifying->records, verifying->segments, verifying->first, verifying->last,
                      word);
    else
        (void)fprintf(
            tool->out,
            "%" PRIu64 " records in %" PRIu32 " segments, sequences %" PRIu64 "..%" PRIu64 ": %s\n",
            verifying->records, verifying->segments, verifying->first, verifying->last, word);
    if (verifying->problem.problem != TW_JOURNAL_PROBLEM_NONE)
        print_problem(tool, &verifying->problem);
}

/* --- verify: snapshots ------------------------------------------------------------- */

static tw_status pass(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes, size_t size,
                      struct tw_error *error)
{
    (void)context, (void)sequence, (void)type, (void)bytes, (void)size, (void)error;
    return TW_OK;
}

/* Reads them whole; which records they stand at is looked at while the log is read. */
static tw_status snapshots_read(struct verifying *verifying, struct tw_error *error)
{
    struct segment_list list = {0};
    tw_status status = snapshot_list_read(verifying->tool->dir, &list, error);
    uint32_t from = list.count > SNAPSHOTS_MAX ? list.count - SNAPSHOTS_MAX : 0;
    for (uint32_t i = from; status == TW_OK && i < list.count; i++) {
        uint32_t at = verifying->n_snapshots++;
        struct tw_error found = {0};
        struct tw_snapshot_place place = {0};
        tw_status read = tw_snapshot_read(verifying->tool->dir, NULL, list.numbers[i], pass, NULL, &place, &found);
        verifying->snapshots[at].number = list.numbers[i];
        verifying->snapshots[at].place = read == TW_OK ? place : (struct tw_snapshot_place){0};
        (void)snprintf(verifying->snapshots[at].why, sizeof(found.text), "%s", found.text);
        if (read == TW_NOT_FOUND) /* a server beside us has removed it */
            verifying->n_snapshots--;
        else if (read == TW_NO_MEMORY)
            status = tw_error_set(error, read, "%s", found.text);
    }
    segment_list_clear(&list);
    return status;
}

/* Whether a start could go by it; says it when not. */
static bool snapshot_verdict(const struct verifying *verifying, uint32_t i)
{
    const struct tw_journal_tool *tool = verifying->tool;
    const struct tw_snapshot_place *place = &verifying->snapshots[i].place;
    uint32_t number = verifying->snapshots[i].number;
    bool is_whole = place->segment != 0;
    bool is_read = verifying->problem.problem == TW_JOURNAL_PROBLEM_NONE || place->sequence < verifying->problem.sequence;
    bool is_good = is_whole && (verifying->snapshots[i].is_of_log || !is_read);
    const char *word = is_good ? "whole" : is_whole ? "of another log" : "damage";
    if (tool->is_json)
        (void)fprintf(tool->out, "{\"snapshot\":%" PRIu32 ",\"sequence\":%" PRIu64 ",\"verdict\":\"%s\"}\n", number,
                      place->sequence, word);
    else
        (void)fprintf(tool->out, "%08" PRIu32 ".snapshot  until sequence %" PRIu64 ": %s\n", number, place->sequence, word);
    if (!is_whole)
        (void)fprintf(tool->err, "tradewake: damage: %s/%08" PRIu32 ".snapshot: %s: a start reads the one before it, or the "
                                 "whole log; remove the file once it starts without\n",
                      tool->dir, number, verifying->snapshots[i].why);
    else if (!is_good)
        (void)fprintf(tool->err, "tradewake: damage: %s/%08" PRIu32 ".snapshot: it stands at sequence %" PRIu64
                                 " of another log than this: bring the missing files back from a copy\n",
                      tool->dir, number, place->sequence);
    return is_good;
}

/* What was forgotten must be in a snapshot that a start can go by. */
static bool has_beginning(const struct verifying *verifying)
{
    bool has = verifying->records == 0 || verifying->first == 1;
    for (uint32_t i = 0; i < verifying->n_snapshots; i++)
        has |= verifying->snapshots[i].place.segment != 0 && verifying->snapshots[i].is_of_log;
    if (!has)
        (void)fprintf(verifying->tool->err,
                      "tradewake: missing: %s: the log begins at sequence %" PRIu64 ", and no snapshot stands for what was "
                      "before it: %s\n",
                      verifying->tool->dir, verifying->first, problem_advice(TW_JOURNAL_PROBLEM_MISSING));
    return has;
}

int tw_journal_verify(const struct tw_journal_tool *tool)
{
    struct verifying verifying = {.tool = tool};
    struct tw_error error = {0};

    tw_status status = snapshots_read(&verifying, &error);
    if (status == TW_OK)
        status = tw_journal_walk(tool->dir, 0, verify_entry, &verifying, &error);
    if (status != TW_OK)
        return tool_fail(tool, &error);
    verify_segment_end(&verifying);
    bool is_good = verifying.problem.problem <= TW_JOURNAL_PROBLEM_TORN;
    for (uint32_t i = 0; i < verifying.n_snapshots; i++)
        is_good &= snapshot_verdict(&verifying, i);
    is_good &= has_beginning(&verifying) || verifying.problem.problem > TW_JOURNAL_PROBLEM_TORN;
    verify_verdict(&verifying);
    return is_good ? 0 : 1;
}

/* --- dump and tail ----------------------------------------------------------------- */

struct showing {
    const struct tw_journal_tool *tool;
    uint64_t from, left; /* from this sequence on; how many more */
    uint64_t last;       /* shown, or passed over */
    uint32_t segment;    /* of the last record */
    struct tw_journal_entry problem;
};

static tw_status show_entry(void *context, const struct tw_journal_entry *entry)
{
    struct showing *showing = context;

    if (entry->problem != TW_JOURNAL_PROBLEM_NONE) {
        showing->problem = *entry;
        return TW_OK;
    }
    showing->segment = entry->segment;
    showing->last = entry->sequence;
    if (entry->sequence < showing->from)
        return TW_OK;
    if (showing->left == 0)
        return TW_ENDED;
    showing->left--;
    print_record(showing->tool, entry);
    return TW_OK;
}

/* 0, or 1 with the words said. */
static int show(struct showing *showing, uint32_t from_segment)
{
    struct tw_error error = {0};

    showing->problem = (struct tw_journal_entry){0};
    tw_status status =
        tw_journal_walk(showing->tool->dir, from_segment, show_entry, showing, &error);
    if (status != TW_OK && status != TW_ENDED)
        return tool_fail(showing->tool, &error);
    bool is_torn = showing->problem.problem == TW_JOURNAL_PROBLEM_TORN;
    if (showing->problem.problem > TW_JOURNAL_PROBLEM_TORN || (is_torn && !showing->tool->follow))
        print_problem(showing->tool, &showing->problem);
    return showing->problem.problem > TW_JOURNAL_PROBLEM_TORN ? 1 : 0;
}

int tw_journal_dump(const struct tw_journal_tool *tool)
{
    struct showing showing = {
        .tool = tool, .from = tool->from, .left = tool->count == 0 ? UINT64_MAX : tool->count};

    print_head(tool);
    return show(&showing, 0);
}

struct counting {
    uint64_t records, last;
};

static tw_status count_entry(void *context, const struct tw_journal_entry *entry)
{
    struct counting *counting = context;

    if (entry->problem == TW_JOURNAL_PROBLEM_NONE) {
        counting->records++;
        counting->last = entry->sequence;
    }
    return TW_OK;
}

/* The segment to begin with and the first sequence to show; looks no further back than it must. */
static tw_status tail_find(const struct tw_journal_tool *tool, uint32_t *ret_segment,
                           uint64_t *ret_from, struct tw_error *error)
{
    uint32_t oldest, newest;
    tw_status status = tw_journal_span(tool->dir, &oldest, &newest, error);
    if (status != TW_OK)
        return status;

    for (uint32_t back = 1;; back *= 2) {
        uint32_t segment = back > newest - oldest ? oldest : newest - back;
        struct counting counting = {0};
        status = tw_journal_walk(tool->dir, segment, count_entry, &counting, error);
        if (status != TW_OK)
            return status;
        if (counting.records >= tool->count || segment == oldest) {
            *ret_segment = segment;
            *ret_from = counting.last < tool->count ? 1 : counting.last - tool->count + 1;
            return TW_OK;
        }
    }
}

static bool tail_wait(const struct tw_journal_tool *tool)
{
    const struct timespec pause = {.tv_nsec = FOLLOW_PAUSE_NS};

    if (tool->deadline_mono_ns != 0 && tw_mono_ns() >= tool->deadline_mono_ns)
        return false;
    (void)fflush(tool->out);
    (void)nanosleep(&pause, NULL);
    return true;
}

int tw_journal_tail(const struct tw_journal_tool *tool)
{
    struct showing showing = {.tool = tool, .left = UINT64_MAX};
    struct tw_error error = {0};
    uint32_t segment;

    if (tail_find(tool, &segment, &showing.from, &error) != TW_OK)
        return tool_fail(tool, &error);
    print_head(tool);
    int code = show(&showing, segment);
    while (code == 0 && tool->follow && tail_wait(tool)) {
        showing.from = showing.last + 1;
        code = show(&showing, showing.segment);
    }
    return code;
}
