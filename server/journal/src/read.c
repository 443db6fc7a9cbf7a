#include "read.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

static tw_status load(struct log_reading *reading, uint32_t number, struct tw_error *error)
{
    return segment_image_load(&reading->image, reading->disk, reading->dir, number, error);
}

static void set_verdict(struct log_reading *reading, enum verdict verdict, uint32_t segment,
                        uint64_t offset, const char *what)
{
    reading->verdict = verdict;
    reading->bad_segment = segment;
    reading->bad_offset = offset;
    reading->what = what;
}

static bool note_ended(struct log_reading *reading)
{
    if (reading->ended_bytes == NULL) {
        reading->ended_bytes = calloc(reading->list.count, sizeof(*reading->ended_bytes));
        if (reading->ended_bytes == NULL)
            return false;
    }
    reading->ended_bytes[reading->ended_count++] = reading->current_end;
    return true;
}

/* A segment is begun only when all before it is durable: anything at all in a later one makes a bad
 * place damage. */
static tw_status judge_later(struct log_reading *reading, uint32_t at, struct tw_error *error)
{
    for (uint32_t i = at + 1; i < reading->list.count; i++) {
        tw_status status = load(reading, reading->list.numbers[i], error);
        if (status != TW_OK)
            return status;
        if (!is_all_zero(reading->image.bytes, reading->image.size)) {
            reading->verdict = VERDICT_DAMAGE;
            return TW_OK;
        }
    }
    return TW_OK;
}

/* Torn, unless something behind it says that it was durable. */
static tw_status judge_bad_place(struct log_reading *reading, uint32_t at,
                                 const struct segment_end *end, struct tw_error *error)
{
    uint64_t claimed =
        segment_claims(&reading->image, reading->chain.salt, end->offset, &reading->records_behind);
    bool was_durable = claimed >= reading->chain.sequence_next;

    set_verdict(reading, was_durable ? VERDICT_DAMAGE : VERDICT_TORN, reading->list.numbers[at],
                end->offset, found_words(end->found));
    return was_durable ? TW_OK : judge_later(reading, at, error);
}

/* The oldest segment is not begun. A first start that was cut short leaves zeros, or a part of the
 * header and zeros, and nothing else: a second file, even of zeros, is made when the first is begun
 * and durable. Anything else was a log. */
static tw_status judge_oldest(struct log_reading *reading, const struct segment_end *end)
{
    uint32_t number = reading->list.numbers[reading->first];
    const struct segment_image *image = &reading->image;
    bool is_empty =
        image->size <= SEGMENT_HEADER_BYTES ||
        is_all_zero(image->bytes + SEGMENT_HEADER_BYTES, image->size - SEGMENT_HEADER_BYTES);

    bool is_alone = reading->first + 1 == reading->list.count;

    if (number != 1 || !is_empty || !is_alone || end->found == FOUND_CHAIN) {
        set_verdict(reading, VERDICT_DAMAGE, number, 0,
                    "the log's oldest segment, without its header");
        return TW_OK;
    }
    reading->next = number;
    if (end->found != FOUND_ZEROS)
        set_verdict(reading, VERDICT_TORN, number, 0, "part of the first header");
    else
        set_verdict(reading, VERDICT_WHOLE, number, 0, "a log that was never begun");
    return TW_OK;
}

static tw_status judge_not_begun(struct log_reading *reading, uint32_t at,
                                 const struct segment_end *end, struct tw_error *error)
{
    uint32_t number = reading->list.numbers[at];

    if (at == reading->first)
        return judge_oldest(reading, end);
    if (end->found == FOUND_CHAIN) {
        set_verdict(reading, VERDICT_DAMAGE, number, 0,
                    "a segment that does not follow the one before it");
        return TW_OK;
    }
    reading->next = number;
    if (end->found != FOUND_ZEROS)
        return judge_bad_place(reading, at, end, error);
    set_verdict(reading, VERDICT_WHOLE, number, 0,
                "a segment that was never begun, and later ones");
    return judge_later(reading, at, error);
}

/* Beside a writer: what has been added to the current segment since it was read. */
static tw_status read_added(struct log_reading *reading, bool *ret_is_more, struct tw_error *error)
{
    struct segment_read_options options = {
        .each = reading->each, .context = reading->context, .from = reading->current_end};
    struct segment_end end;

    tw_status status = load(reading, reading->current, error);
    if (status == TW_OK)
        status = segment_read(&reading->image, &reading->chain, &options, &end, error);
    if (status != TW_OK)
        return status;
    *ret_is_more = end.offset > reading->current_end;
    reading->current_end = end.offset;
    return TW_OK;
}

/* One segment, up to its end or its bad place. Beside a writer, a file that grows while it is read
 * looks torn, and a segment that is begun after the one before it was read does not follow it. Read
 * again, the bad place has moved; one that stays is bad. */
static tw_status read_records(struct log_reading *reading, uint32_t number,
                              struct segment_end *ret_end, struct tw_error *error)
{
    struct segment_read_options options = {.each = reading->each, .context = reading->context};
    uint64_t bad_offset = UINT64_MAX;

    for (;;) {
        tw_status status = load(reading, number, error);
        if (status == TW_OK)
            status = segment_read(&reading->image, &reading->chain, &options, ret_end, error);
        if (status != TW_OK || !reading->is_live || ret_end->found == FOUND_ZEROS)
            return status;

        bool is_more = ret_end->offset != bad_offset;
        bad_offset = ret_end->offset;
        options.from = ret_end->is_begun ? ret_end->offset : 0;
        if (!ret_end->is_begun && ret_end->found == FOUND_CHAIN && reading->current != 0)
            status = read_added(reading, &is_more, error);
        if (status != TW_OK || !is_more)
            return status;
    }
}

/* *ret_is_last: nothing behind this segment is to be read. */
static tw_status read_one(struct log_reading *reading, uint32_t at, bool *ret_is_last,
                          struct tw_error *error)
{
    uint32_t number = reading->list.numbers[at];
    struct segment_end end;
    bool is_more = false;

    tw_status status = read_records(reading, number, &end, error);
    if (status != TW_OK)
        return status;
    *ret_is_last = !end.is_begun || end.found != FOUND_ZEROS;
    if (end.found == FOUND_VERSION) {
        set_verdict(reading, VERDICT_VERSION, number, end.offset, found_words(end.found));
        reading->bad_version = end.version;
        return TW_OK;
    }
    if (!end.is_begun)
        return judge_not_begun(reading, at, &end, error);

    if (reading->current != 0 && !note_ended(reading))
        return tw_error_set(error, TW_NO_MEMORY, "journal: no memory for the list of segments");
    reading->current = number;
    reading->current_end = end.offset;
    reading->current_size = reading->image.size;
    if (!*ret_is_last)
        return TW_OK;
    if (at + 1 < reading->list.count)
        reading->next = reading->list.numbers[at + 1];
    status = judge_bad_place(reading, at, &end, error);
    if (status != TW_OK || !reading->is_live || reading->verdict != VERDICT_DAMAGE)
        return status;
    /* What speaks for damage may have been written after the bad place was looked at, and the place with
     * it: a writer that stood still in the middle of a record has gone on. */
    status = read_added(reading, &is_more, error);
    if (status == TW_OK && is_more) {
        reading->verdict = VERDICT_WHOLE;
        *ret_is_last = false; /* the next one is begun: read on */
    }
    return status;
}

/* Of segments that are left out, so much is known: they are full, and as long as their files. */
static tw_status note_left_out(struct log_reading *reading, struct tw_error *error)
{
    for (uint32_t i = 0; i < reading->first; i++) {
        char path[SEGMENT_PATH_BYTES];
        struct stat file;
        if (!segment_path(reading->dir, reading->list.numbers[i], path) || stat(path, &file) != 0)
            return segment_io_error(error, -errno, "cannot look at", path);
        reading->current_end = (uint64_t)file.st_size;
        if (!note_ended(reading))
            return tw_error_set(error, TW_NO_MEMORY, "journal: no memory for the list of segments");
    }
    return TW_OK;
}

tw_status log_read(struct log_reading *reading, struct tw_error *error)
{
    reading->chain.sequence_next = 1;
    tw_status status = segment_list_read(reading->dir, &reading->list, error);
    uint32_t missing = status == TW_OK ? segment_list_missing(&reading->list) : 0;
    if (missing != 0 && reading->is_live) { /* a listing may miss what is made meanwhile */
        segment_list_clear(&reading->list);
        status = segment_list_read(reading->dir, &reading->list, error);
        missing = status == TW_OK ? segment_list_missing(&reading->list) : 0;
    }
    if (status != TW_OK)
        return status;
    if (missing != 0) {
        set_verdict(reading, VERDICT_MISSING, missing, 0, "nothing");
        return TW_OK;
    }

    while (reading->first + 1 < reading->list.count &&
           reading->list.numbers[reading->first] < reading->from_segment)
        reading->first++;
    status = reading->is_live ? TW_OK : note_left_out(reading, error);

    bool is_last = false;
    for (uint32_t i = reading->first; status == TW_OK && i < reading->list.count && !is_last; i++) {
        status = read_one(reading, i, &is_last, error);
        if (status == TW_NOT_FOUND && reading->is_live && i == reading->first) {
            reading->first++; /* forgotten since it was listed */
            status = TW_OK;
        }
    }
    return status;
}

void log_reading_clear(struct log_reading *reading)
{
    segment_list_clear(&reading->list);
    segment_image_clear(&reading->image);
    free(reading->ended_bytes);
    reading->ended_bytes = NULL;
}
