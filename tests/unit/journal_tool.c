/* What the commands print, over logs that the real disk holds. */
#include <tradewake/journal/journal.h>
#include <tradewake/journal/snapshot.h>
#include <tradewake/journal/tool.h>
#include <tradewake/journal/walk.h>

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];
static char *out_text, *err_text;
static size_t out_size, err_size;
static struct tw_journal_tool tool;

static struct tw_journal *open_log(void)
{
    struct tw_journal_options options = {.dir = dir, .segment_bytes = 4096, .syncs = true};
    struct tw_journal *journal = NULL;
    struct tw_error error = {0};

    cr_assert_eq(tw_journal_open(&options, &journal, &error), TW_OK, "%s", error.text);
    return journal;
}

/* Ten records, "record 1" to "record 10", types 1 and 2 by turns, five to a segment. */
static void log_make(void)
{
    struct tw_journal *journal = open_log();
    for (int i = 1; i <= 10; i++) {
        char text[32];
        int n = snprintf(text, sizeof(text), "record %d", i);
        (void)tw_journal_append(journal, (uint16_t)(1 + i % 2), text, (size_t)n);
        (void)tw_journal_sync(journal);
        if (i == 5)
            (void)tw_journal_roll(journal);
    }
    tw_journal_close(journal);
}

static void setup(void)
{
    tw_log_level_set(TW_LOG_NONE);
    (void)strcpy(dir, "/tmp/tradewake-journal-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    log_make();
    tool = (struct tw_journal_tool){.dir = dir,
                                    .out = open_memstream(&out_text, &out_size),
                                    .err = open_memstream(&err_text, &err_size)};
}

static void path_of(unsigned number, char ret_path[128])
{
    (void)snprintf(ret_path, 128, "%s/%08u.log", dir, number);
}

static void teardown(void)
{
    char path[128];

    (void)fclose(tool.out);
    (void)fclose(tool.err);
    free(out_text);
    free(err_text);
    for (unsigned i = 1; i < 10; i++) {
        path_of(i, path);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "%s/00000001.snapshot", dir);
    (void)unlink(path);
    (void)rmdir(dir);
}

TestSuite(journal_tool, .init = setup, .fini = teardown, .timeout = 30);

static void flip(unsigned segment, off_t offset)
{
    char path[128];
    uint8_t byte;

    path_of(segment, path);
    int fd = open(path, O_RDWR);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pread(fd, &byte, 1, offset), 1);
    byte ^= 1;
    cr_assert_eq(pwrite(fd, &byte, 1, offset), 1);
    (void)close(fd);
}

static void expect_out(const char *text)
{
    (void)fflush(tool.out);
    cr_expect_str_eq(out_text, text);
}

static void expect_err(const char *words)
{
    (void)fflush(tool.err);
    cr_expect_not_null(strstr(err_text, words), "\"%s\" is not in: %s", words, err_text);
}

static bool print_text(FILE *out, uint16_t type, const uint8_t *bytes, size_t size, bool is_json)
{
    if (type != 2)
        return false;
    (void)fprintf(out, is_json ? "{\"text\":\"%.*s\"}" : "text %.*s", (int)size,
                  (const char *)bytes);
    return true;
}

static const char *type_name(uint16_t type)
{
    return type == 2 ? "EVENT" : NULL;
}

Test(journal_tool, verify_names_every_segment_and_says_whole)
{
    cr_expect_eq(tw_journal_verify(&tool), 0);

    expect_out("00000001.log  sequences 1..5  bytes 40\n"
               "00000002.log  sequences 6..10  bytes 41\n"
               "10 records in 2 segments, sequences 1..10: whole\n");
}

Test(journal_tool, verify_in_json_is_an_object_a_line)
{
    tool.is_json = true;

    cr_expect_eq(tw_journal_verify(&tool), 0);

    expect_out("{\"segment\":1,\"first\":1,\"last\":5,\"bytes\":40}\n"
               "{\"segment\":2,\"first\":6,\"last\":10,\"bytes\":41}\n"
               "{\"records\":10,\"segments\":2,\"first\":1,\"last\":10,\"verdict\":\"whole\"}\n");
}

Test(journal_tool, verify_fails_on_damage_and_says_where_and_what_to_do)
{
    flip(1, 64 + 56 + 50); /* the second record's bytes */

    cr_expect_eq(tw_journal_verify(&tool), 1);

    expect_out("00000001.log  sequences 1..1  bytes 8\n"
               "1 records in 1 segments, sequences 1..1: damage\n");
    expect_err("damage: ");
    expect_err("00000001.log, offset 120, sequence 2: a record whose bytes do not match");
    expect_err("bring the file back from a copy");
}

/* ---- Snapshots ---- */

static tw_status pass(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes, size_t size,
                      struct tw_error *error)
{
    (void)context, (void)sequence, (void)type, (void)bytes, (void)size, (void)error;
    return TW_OK;
}

/* At the end of the first segment. */
static void snapshot_make(void)
{
    const struct tw_snapshot_options options = {.dir = dir, .until = 1, .snapshot = pass, .replay = pass};
    struct tw_snapshot *snapshot;
    struct tw_error error;
    uint64_t bytes;
    cr_assert_eq(tw_snapshot_begin(&options, &snapshot, &error), TW_OK, "%s", error.text);
    tw_snapshot_put(snapshot, 9, "all of it", 9);
    cr_assert_eq(tw_snapshot_finish(snapshot, &bytes, &error), TW_OK, "%s", error.text);
}

static void snapshot_flip(off_t offset)
{
    char path[128];
    uint8_t byte;
    (void)snprintf(path, sizeof(path), "%s/00000001.snapshot", dir);
    int fd = open(path, O_RDWR);
    cr_assert_eq(pread(fd, &byte, 1, offset), 1);
    byte ^= 1;
    cr_assert_eq(pwrite(fd, &byte, 1, offset), 1);
    (void)close(fd);
}

Test(journal_tool, verify_reads_snapshots)
{
    snapshot_make();

    cr_expect_eq(tw_journal_verify(&tool), 0);

    expect_out("00000001.log  sequences 1..5  bytes 40\n"
               "00000002.log  sequences 6..10  bytes 41\n"
               "00000001.snapshot  until sequence 5: whole\n"
               "10 records in 2 segments, sequences 1..10: whole\n");
}

Test(journal_tool, verify_fails_on_a_damaged_snapshot)
{
    snapshot_make();
    snapshot_flip(64 + 8 + 3);

    cr_expect_eq(tw_journal_verify(&tool), 1);

    expect_err("damage: ");
    expect_err("00000001.snapshot: ");
}

Test(journal_tool, verify_fails_on_a_snapshot_of_another_log)
{
    char path[128];
    snapshot_make();
    for (unsigned i = 1; i < 10; i++) {
        path_of(i, path);
        (void)unlink(path);
    }
    log_make();

    cr_expect_eq(tw_journal_verify(&tool), 1);

    expect_err("stands at sequence 5 of another log");
}

Test(journal_tool, verify_names_a_beginning_that_no_snapshot_stands_for)
{
    char path[128];
    path_of(1, path);
    cr_assert_eq(unlink(path), 0);

    cr_expect_eq(tw_journal_verify(&tool), 1);

    expect_err("the log begins at sequence 6, and no snapshot stands for what was before it");
}

Test(journal_tool, verify_says_of_a_torn_end_that_it_is_one_and_does_not_fail)
{
    flip(2, 64 + 4 * 56 + 50);

    cr_expect_eq(tw_journal_verify(&tool), 0);

    expect_err("torn: ");
    expect_err("sequence 10");
}

Test(journal_tool, verify_names_a_missing_segment)
{
    char path[128];
    path_of(2, path);
    cr_assert_eq(unlink(path), 0); /* 1 and the prepared 3 are left */

    cr_expect_eq(tw_journal_verify(&tool), 1);

    expect_err("missing: ");
    expect_err("00000002.log");
}

Test(journal_tool, a_directory_without_a_log_is_said_to_be_one)
{
    tool.dir = "/tmp";
    cr_expect_eq(tw_journal_verify(&tool), 1);
    expect_err("there is no log in /tmp");

    tool.dir = "/tmp/tradewake-journal-that-is-not-there";
    cr_expect_eq(tw_journal_dump(&tool), 1);
    expect_err("No such file or directory");
}

Test(journal_tool, dump_shows_a_row_a_record_from_where_it_is_told)
{
    tool.from = 9;
    tool.type_name = type_name;
    tool.print = print_text;

    cr_expect_eq(tw_journal_dump(&tool), 0);

    expect_out(
        "SEGMENT      OFFSET   SEQUENCE    DURABLE TYPE          BYTES  CONTENT\n"
        "00000002        232          9          8 EVENT             8  text record 9\n"
        "00000002        288         10          9 1                 9  7265636f7264203130\n");
}

Test(journal_tool, dump_in_json_gives_all_bytes)
{
    tool.from = 9;
    tool.is_json = true;
    tool.print = print_text;

    cr_expect_eq(tw_journal_dump(&tool), 0);

    expect_out(
        "{\"segment\":2,\"offset\":232,\"sequence\":9,\"durable\":8,\"type\":\"2\",\"size\":8,"
        "\"content\":{\"text\":\"record 9\"}}\n"
        "{\"segment\":2,\"offset\":288,\"sequence\":10,\"durable\":9,\"type\":\"1\",\"size\":9,"
        "\"content\":\"7265636f7264203130\"}\n");
}

static unsigned lines_of(const char *text)
{
    unsigned count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

Test(journal_tool, dump_stops_after_the_count)
{
    tool.count = 3;
    tool.is_json = true;

    cr_expect_eq(tw_journal_dump(&tool), 0);

    (void)fflush(tool.out);
    cr_expect_eq(lines_of(out_text), 3);
    cr_expect_not_null(strstr(out_text, "\"sequence\":3"));
}

Test(journal_tool, tail_shows_the_last_ones_over_segments)
{
    for (uint64_t count = 0; count < 13; count++) {
        rewind(tool.out);
        tool.count = count;
        tool.is_json = true;

        cr_expect_eq(tw_journal_tail(&tool), 0);

        (void)fputc('\0', tool.out);
        (void)fflush(tool.out);
        cr_expect_eq(lines_of(out_text), count < 10 ? count : 10, "count %d", (int)count);
        if (count > 0)
            cr_expect_not_null(strstr(out_text, "\"sequence\":10"));
    }
}

Test(journal_tool, tail_follows_what_is_appended_until_its_time_is_up)
{
    struct tw_journal *journal = open_log(); /* beside the one that writes */
    (void)tw_journal_append(journal, 2, "new", 3);
    tool.count = 1;
    tool.is_json = true;
    tool.follow = true;
    tool.deadline_mono_ns = tw_mono_ns() + 50 * TW_NS_PER_MS;

    cr_expect_eq(tw_journal_tail(&tool), 0);

    (void)fflush(tool.out);
    cr_expect_eq(lines_of(out_text), 1);
    cr_expect_not_null(strstr(out_text, "\"sequence\":11"));
    tw_journal_close(journal);
}

/* --- beside a writer --------------------------------------------------------------- */

static atomic_bool is_over;

static void *write_on(void *context)
{
    struct tw_journal *journal = context;
    static const uint8_t bytes[700];

    while (!atomic_load(&is_over)) {
        (void)tw_journal_append(journal, 3, bytes, sizeof(bytes));
        if (tw_journal_appended(journal) % 16 == 0)
            (void)tw_journal_sync(journal);
    }
    return NULL;
}

struct walked {
    uint64_t last;
    unsigned problems;
};

static tw_status walked_entry(void *context, const struct tw_journal_entry *entry)
{
    struct walked *walked = context;

    if (entry->problem > TW_JOURNAL_PROBLEM_TORN)
        walked->problems++;
    else if (entry->problem == TW_JOURNAL_PROBLEM_NONE) {
        cr_assert_eq(entry->sequence, walked->last + 1);
        walked->last = entry->sequence;
    }
    return TW_OK;
}

struct meddled {
    struct walked walked;
    struct tw_journal *journal;
};

/* While the walk is in the last segment, it gets one more record and another one is begun. */
static tw_status meddle(void *context, const struct tw_journal_entry *entry)
{
    struct meddled *meddled = context;

    if (entry->sequence == 10) {
        (void)tw_journal_append(meddled->journal, 3, "eleven", 6);
        (void)tw_journal_roll(meddled->journal);
        (void)tw_journal_append(meddled->journal, 3, "twelve", 6);
    }
    return walked_entry(&meddled->walked, entry);
}

Test(journal_tool, a_segment_that_is_begun_under_a_walk_follows_the_one_before_it)
{
    struct meddled meddled = {.journal = open_log()};
    struct tw_error error = {0};
    (void)tw_journal_sync(meddled.journal);

    cr_expect_eq(tw_journal_walk(dir, 0, meddle, &meddled, &error), TW_OK, "%s", error.text);

    cr_expect_eq(meddled.walked.problems, 0);
    cr_expect_eq(meddled.walked.last, 12);
    tw_journal_close(meddled.journal);
}

Test(journal_tool, a_walk_beside_the_server_sees_no_damage)
{
    struct tw_journal_options options = {.dir = dir, .segment_bytes = 1 << 17, .syncs = true};
    struct tw_journal *journal;
    struct tw_error error = {0};
    pthread_t writer;
    uint64_t seen = 0;
    cr_assert_eq(tw_journal_open(&options, &journal, &error), TW_OK, "%s", error.text);
    cr_assert_eq(pthread_create(&writer, NULL, write_on, journal), 0);

    for (int i = 0; i < 20 || seen < 3000; i++) {
        struct walked walked = {0};
        tw_status status = tw_journal_walk(dir, 0, walked_entry, &walked, &error);
        cr_assert_eq(status, TW_OK, "%s", error.text);
        cr_expect_eq(walked.problems, 0);
        cr_expect_geq(walked.last, seen);
        seen = walked.last;
    }
    atomic_store(&is_over, true);
    (void)pthread_join(writer, NULL);
    uint32_t segments = tw_journal_roll(journal);
    tw_journal_forget_before(journal, segments);
    tw_journal_close(journal);
    char path[128];
    path_of(segments, path);
    (void)unlink(path);
    path_of(segments + 1, path);
    (void)unlink(path);
}
