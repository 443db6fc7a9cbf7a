#include <tradewake/journal/walk.h>

#include "read.h"

struct walk {
    tw_journal_walk_fn *each;
    void *context;
};

static tw_status walk_record(void *context, const struct record *record, uint64_t offset,
                             const uint8_t *bytes, struct tw_error *error)
{
    struct walk *walk = context;
    struct tw_journal_entry entry = {.segment = record->segment,
                                     .crc = record->crc,
                                     .offset = offset,
                                     .sequence = record->sequence,
                                     .durable = record->durable,
                                     .type = record->type,
                                     .bytes = bytes,
                                     .size = record->size};

    (void)error;
    return walk->each(walk->context, &entry);
}

static tw_status walk_problem(const struct walk *walk, const struct log_reading *reading)
{
    static const enum tw_journal_problem problems[] = {
        [VERDICT_WHOLE] = TW_JOURNAL_PROBLEM_NONE,
        [VERDICT_TORN] = TW_JOURNAL_PROBLEM_TORN,
        [VERDICT_DAMAGE] = TW_JOURNAL_PROBLEM_DAMAGE,
        [VERDICT_VERSION] = TW_JOURNAL_PROBLEM_VERSION,
        [VERDICT_MISSING] = TW_JOURNAL_PROBLEM_MISSING,
    };
    struct tw_journal_entry entry = {.problem = problems[reading->verdict],
                                     .words = reading->what,
                                     .segment = reading->bad_segment,
                                     .offset = reading->bad_offset,
                                     .sequence = reading->chain.sequence_next};

    return entry.problem == TW_JOURNAL_PROBLEM_NONE ? TW_OK : walk->each(walk->context, &entry);
}

tw_status tw_journal_walk(const char *dir, uint32_t from_segment, tw_journal_walk_fn *each,
                          void *context, struct tw_error *error)
{
    struct walk walk = {.each = each, .context = context};
    struct log_reading reading = {.disk = tw_journal_disk_real(),
                                  .dir = dir,
                                  .each = walk_record,
                                  .context = &walk,
                                  .from_segment = from_segment,
                                  .is_live = true};

    tw_status status = log_read(&reading, error);
    if (status == TW_OK && reading.list.count == 0)
        status = tw_error_set(error, TW_NOT_FOUND, "journal: there is no log in %s", dir);
    if (status == TW_OK)
        status = walk_problem(&walk, &reading);
    log_reading_clear(&reading);
    return status;
}

tw_status tw_journal_span(const char *dir, uint32_t *ret_oldest, uint32_t *ret_newest,
                          struct tw_error *error)
{
    struct segment_list list = {0};

    tw_status status = segment_list_read(dir, &list, error);
    if (status != TW_OK)
        return status;
    if (list.count == 0)
        return tw_error_set(error, TW_NOT_FOUND, "journal: there is no log in %s", dir);
    *ret_oldest = list.numbers[0];
    *ret_newest = list.numbers[list.count - 1];
    segment_list_clear(&list);
    return TW_OK;
}
