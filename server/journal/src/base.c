#include "base.h"

#include "snapshot_file.h"

#include <tradewake/base/log.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool has_segment(const struct segment_list *list, uint32_t number)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->numbers[i] == number)
            return true;
    return false;
}

static void pass_over(struct base *base, uint32_t segment, const char *why)
{
    tw_log(TW_LOG_WARN, "journal.snapshot_unusable",
           "snapshot=%08" PRIu32 " why=\"%s\" next=\"the one before it, or the whole log\"", segment,
           why);
    if (base->why[0] == '\0')
        (void)snprintf(base->why, sizeof(base->why), "%s", why);
}

/* True: it is the one, or a failure that ends the search. */
static bool try_snapshot(struct base *base, const struct segment_list *segments, uint32_t number,
                         tw_status *ret_status, struct tw_error *error)
{
    char why[TW_ERROR_TEXT_BYTES];
    struct tw_error found = {0};

    if (!has_segment(segments, number)) {
        (void)snprintf(why, sizeof(why), "%08" PRIu32 ".log, at whose end it stands, is missing", number);
        pass_over(base, number, why);
        return false;
    }
    *ret_status = tw_snapshot_read(base->dir, base->disk, number, base->snapshot, base->context,
                                   &base->place, &found);
    bool is_untouched = base->place.segment == 0; /* nothing was handed out */
    if (*ret_status != TW_OK && *ret_status != TW_NO_MEMORY && is_untouched) {
        pass_over(base, number, found.text);
        return false;
    }
    if (*ret_status != TW_OK && error != NULL)
        *error = found;
    return true;
}

tw_status base_find(struct base *base, struct tw_error *error)
{
    struct segment_list segments = {0}, snapshots = {0};
    bool is_found = false;

    base->place = (struct tw_snapshot_place){0};
    tw_status status = segment_list_read(base->dir, &segments, error);
    if (status == TW_OK)
        status = snapshot_list_read(base->dir, &snapshots, error);
    for (uint32_t i = snapshots.count; status == TW_OK && i > 0 && !is_found; i--) {
        uint32_t number = snapshots.numbers[i - 1];
        if (base->before != 0 && number >= base->before)
            continue;
        is_found = try_snapshot(base, &segments, number, &status, error);
        if (!is_found)
            status = TW_OK;
    }
    segment_list_clear(&segments);
    segment_list_clear(&snapshots);
    return status;
}

static tw_status refuse(const struct base *base, struct tw_error *error, const char *what)
{
    return tw_error_set(error, TW_INVALID,
                        "journal: %s in %s%s%s. Nothing was changed: bring the missing files back from a "
                        "copy, or move the directory away and start with an empty one",
                        what, base->dir, base->why[0] != '\0' ? "; " : "", base->why);
}

static tw_status refuse_stranger(const struct base *base, struct tw_error *error)
{
    char what[160];
    (void)snprintf(what, sizeof(what),
                   "%08" PRIu32 ".snapshot stands at sequence %" PRIu64 " of another log than the one",
                   base->place.segment, base->place.sequence);
    return refuse(base, error, what);
}

static tw_status refuse_gap(const struct base *base, uint64_t first, struct tw_error *error)
{
    char what[160];
    (void)snprintf(what, sizeof(what),
                   "the log begins at sequence %" PRIu64 ", and no snapshot stands before it", first);
    return refuse(base, error, what);
}

tw_status base_record(void *context, const struct record *record, uint64_t offset,
                      const uint8_t *bytes, struct tw_error *error)
{
    struct base *base = context;
    uint64_t at = base->place.sequence;

    (void)offset;
    if (base->until != 0 && record->segment > base->until)
        return TW_ENDED;
    base->last = record->sequence;
    base->last_crc = record->crc;
    base->last_segment = record->segment;
    if (record->sequence <= at) {
        if (record->sequence < at)
            return TW_OK;
        base->is_ours = record->crc == base->place.crc && record->segment == base->place.segment;
        return base->is_ours ? TW_OK : refuse_stranger(base, error);
    }
    if (at == 0 && record->sequence != 1 && !base->is_ours)
        return refuse_gap(base, record->sequence, error);
    if (at > 0 && !base->is_ours)
        return refuse_stranger(base, error);
    base->is_ours = true;
    return base->replay != NULL ? base->replay(base->context, record->sequence, record->type, bytes,
                                               record->size, error)
                                : TW_OK;
}

tw_status base_end(const struct base *base, const struct log_reading *reading,
                   struct tw_error *error)
{
    if (base->is_ours)
        return TW_OK;
    if (base->place.segment != 0)
        return refuse_stranger(base, error);
    return reading->chain.sequence_next == 1
               ? TW_OK
               : refuse_gap(base, reading->chain.sequence_next, error);
}
