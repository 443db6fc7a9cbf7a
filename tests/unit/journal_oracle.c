#include "journal_oracle.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES_MAX 20000u

static struct oracle *current;

static void die(const char *why)
{
    (void)snprintf(current->why, sizeof(current->why), "%s", why);
    if (!current->may_die)
        cr_assert_fail("seed %" PRIu64 ": died: %s", current->seed, why);
    siglongjmp(current->died, 1);
}

void oracle_init(struct oracle *oracle, uint64_t seed, uint64_t segment_bytes)
{
    memset(oracle, 0, sizeof(*oracle));
    oracle->segment_bytes = segment_bytes;
    oracle->seed = seed;
    disk_init(&oracle->disk, seed);
    current = oracle;
}

void oracle_clear(struct oracle *oracle)
{
    oracle_close(oracle);
    disk_clear(&oracle->disk);
}

/* Type, size and bytes all follow from the seed. */
static uint16_t type_of(uint64_t seed)
{
    return (uint16_t)(seed >> 48);
}

static size_t size_of(uint64_t seed)
{
    return (size_t)(seed & 0xffffffu);
}

static void fill(uint64_t seed, uint8_t *bytes)
{
    uint64_t state = seed | 1;

    for (size_t i = 0; i < size_of(seed); i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(state >> 56);
    }
}

static tw_status replay(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes,
                        size_t size, struct tw_error *error)
{
    struct oracle *oracle = context;
    static uint8_t expected[RECORD_BYTES_MAX];
    uint64_t seed = sequence < ORACLE_RECORDS_MAX ? oracle->seeds[sequence] : 0;

    (void)error;
    if (oracle->replayed_first == 0)
        oracle->replayed_first = sequence;
    else
        cr_assert_eq(sequence, oracle->replayed_last + 1,
                     "seed %" PRIu64 ": %" PRIu64 " after %" PRIu64, oracle->seed, sequence,
                     oracle->replayed_last);
    oracle->replayed_last = sequence;
    cr_assert_leq(sequence, oracle->appended, "seed %" PRIu64 ": %" PRIu64 " was never appended",
                  oracle->seed, sequence);
    cr_assert_eq(size, size_of(seed), "seed %" PRIu64 ": size of %" PRIu64, oracle->seed, sequence);
    cr_assert_eq(type, type_of(seed), "seed %" PRIu64 ": type of %" PRIu64, oracle->seed, sequence);
    fill(seed, expected);
    cr_assert(size == 0 || memcmp(bytes, expected, size) == 0,
              "seed %" PRIu64 ": bytes of %" PRIu64, oracle->seed, sequence);
    return TW_OK;
}

tw_status oracle_open(struct oracle *oracle, struct tw_error *error)
{
    struct tw_journal_options options = {.dir = oracle->disk.dir,
                                         .segment_bytes = oracle->segment_bytes,
                                         .syncs = true,
                                         .disk = &oracle->disk.calls,
                                         .replay = replay,
                                         .replay_context = oracle,
                                         .die = die};

    oracle->replayed_first = oracle->replayed_last = 0;
    oracle->why[0] = '\0';
    tw_status status = tw_journal_open(&options, &oracle->journal, error);
    if (status != TW_OK)
        return status;

    uint64_t last = tw_journal_appended(oracle->journal);
    cr_assert_geq(last, oracle->durable,
                  "seed %" PRIu64 ": %" PRIu64 " was durable, %" PRIu64 " came back", oracle->seed,
                  oracle->durable, last);
    cr_assert_eq(tw_journal_durable(oracle->journal), last);
    if (oracle->replayed_first != 0) {
        cr_assert_eq(oracle->replayed_last, last, "seed %" PRIu64, oracle->seed);
        cr_assert_leq(oracle->replayed_first, oracle->kept_from + 1,
                      "seed %" PRIu64 ": begins at %" PRIu64 ", forgotten up to %" PRIu64,
                      oracle->seed, oracle->replayed_first, oracle->kept_from);
    } else {
        cr_assert_leq(last, oracle->kept_from,
                      "seed %" PRIu64 ": nothing up to %" PRIu64 " came back", oracle->seed, last);
    }
    oracle->appended = oracle->durable = last;
    return TW_OK;
}

void oracle_close(struct oracle *oracle)
{
    tw_journal_close(oracle->journal);
    oracle->journal = NULL;
}

void oracle_append(struct oracle *oracle, size_t size)
{
    static uint8_t bytes[RECORD_BYTES_MAX];
    uint64_t sequence = oracle->appended + 1;

    cr_assert_lt(sequence, ORACLE_RECORDS_MAX);
    if (size == SIZE_MAX)
        size = (size_t)disk_random(&oracle->disk,
                                   disk_random(&oracle->disk, 32) == 0 ? RECORD_BYTES_MAX : 400);
    uint64_t seed = (disk_random(&oracle->disk, UINT64_MAX) & ~UINT64_C(0xffffff)) | size;
    oracle->seeds[sequence] = seed;
    oracle->appended = sequence; /* it may come back even if append does not */
    fill(seed, bytes);
    cr_assert_eq(tw_journal_append(oracle->journal, type_of(seed), bytes, size), sequence);
    if (oracle->durable < tw_journal_durable(oracle->journal))
        oracle->durable = tw_journal_durable(oracle->journal);
}

void oracle_sync(struct oracle *oracle)
{
    uint64_t appended = oracle->appended;
    uint64_t durable = tw_journal_sync(oracle->journal);

    cr_assert_eq(durable, appended, "seed %" PRIu64 ": synced to %" PRIu64 " of %" PRIu64,
                 oracle->seed, durable, appended);
    oracle->durable = durable;
}

void oracle_forget(struct oracle *oracle)
{
    uint32_t segment = tw_journal_roll(oracle->journal);

    oracle->durable = tw_journal_durable(oracle->journal);
    oracle->kept_from = oracle->appended;
    tw_journal_forget_before(oracle->journal, segment);
}
