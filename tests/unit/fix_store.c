/* The file of a FIX session: what it remembers over kills, power cuts, damage, and a full disk. */
#include <tradewake/fix/store.h>

#include "record.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128];
static struct tw_error error;
static bool disk_is_full, disk_fails, boot_id_fails;
static unsigned syncs;

ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
ssize_t __real_read(int fd, void *bytes, size_t n);
ssize_t __wrap_read(int fd, void *bytes, size_t n);

/* A disk that takes half and is full then. */
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    static bool has_taken_half;
    if (!disk_is_full)
        return __real_pwrite(fd, bytes, n, at);
    has_taken_half = !has_taken_half;
    if (has_taken_half)
        return __real_pwrite(fd, bytes, n / 2, at);
    errno = ENOSPC;
    return -1;
}

int __wrap_fdatasync(int fd)
{
    syncs++;
    errno = EIO;
    return disk_fails ? -1 : __real_fdatasync(fd);
}

/* The store reads its own file with pread(): only the boot's id comes this way. */
ssize_t __wrap_read(int fd, void *bytes, size_t n)
{
    errno = EIO;
    return boot_id_fails ? -1 : __real_read(fd, bytes, n);
}

static void start(void)
{
    strcpy(folder, "/tmp/fix_store.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.fix", folder);
}

static void stop(void)
{
    static const char *const ends[] = {"", ".old", ".new", ".copy"};
    char name[160];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        (void)unlink(name);
    }
    (void)rmdir(folder);
}

TestSuite(fix_store, .init = start, .fini = stop, .timeout = 60);

static struct fix_store *open_boot(const char *boot_id)
{
    struct fix_store *store = NULL;
    const struct fix_store_options options = {.path = path, .boot_id = boot_id};
    cr_assert_eq(fix_store_open(&options, 1000, &store, &error), TW_OK, "%s", error.text);
    return store;
}

static void out(struct fix_store *store, uint64_t seq)
{
    cr_assert_eq(fix_store_out(store, seq, 1, "8=FIX.4.4\00135=D\001", 15, &error), TW_OK, "%s", error.text);
}

static char *slurp(const char *name, size_t *ret_n)
{
    char *bytes = calloc(1, 1 << 20);
    FILE *file = fopen(name, "r");
    cr_assert_not_null(file);
    *ret_n = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void spit(const char *name, const char *bytes, size_t n)
{
    FILE *file = fopen(name, "w");
    cr_assert(file != NULL && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
}

/* As a kill leaves it: the process is gone, and the file is what it was. */
static void killed(struct fix_store *store)
{
    size_t n;
    char *bytes = slurp(path, &n);
    fix_store_close(store);
    spit(path, bytes, n);
    free(bytes);
}

Test(fix_store, a_new_file_counts_from_one_and_is_nobody_elses)
{
    struct stat file;
    struct fix_store *store = open_boot("a");
    cr_expect_eq(fix_store_numbers(store).next_out, 1);
    cr_expect_eq(fix_store_numbers(store).next_in, 1);
    cr_expect_eq(fix_store_numbers(store).since_wall_ns, 1000);
    cr_assert_eq(stat(path, &file), 0);
    cr_expect_eq(file.st_mode & 0777, 0600);
    fix_store_close(store);
}

Test(fix_store, the_sum_of_a_record_is_crc_32c)
{
    char head[RECORD_HEAD_BYTES];
    const struct record record = {.kind = RECORD_NOTE, .payload = "x", .n = 1};
    fix_record_head(head, &record);
    cr_expect_eq(memcmp(head + 4, "\x8b\xf2\xa7\xf0", 4), 0, "CRC-32C of 05, eight times 00, and 78");
    size_t at = 0;
    char whole[RECORD_HEAD_BYTES + 1];
    struct record back;
    memcpy(whole, head, sizeof head);
    whole[RECORD_HEAD_BYTES] = 'x';
    cr_assert(fix_record_next(whole, sizeof whole, &at, &back));
    cr_expect_eq(at, sizeof whole);
    for (size_t i = 0; i < sizeof whole * 8; i++) {
        whole[i / 8] = (char)(whole[i / 8] ^ 1 << i % 8);
        at = 0;
        cr_expect_not(fix_record_next(whole, sizeof whole, &at, &back), "bit %zu", i);
        whole[i / 8] = (char)(whole[i / 8] ^ 1 << i % 8);
    }
}

Test(fix_store, after_a_kill_the_numbers_go_on_exactly)
{
    struct fix_store *store = open_boot("a");
    out(store, 1);
    out(store, 2);
    cr_assert_eq(fix_store_expect(store, 7, &error), TW_OK);
    out(store, 3);
    killed(store);

    store = open_boot("a");
    cr_expect_eq(fix_store_numbers(store).next_out, 4);
    cr_expect_eq(fix_store_numbers(store).next_in, 7);
    fix_store_close(store);
}

Test(fix_store, a_number_is_used_once)
{
    struct fix_store *store = open_boot("a");
    out(store, 1);
    out(store, 2);
    cr_expect_eq(fix_store_out(store, 2, 1, "x", 1, &error), TW_INVALID);
    cr_expect_eq(fix_store_numbers(store).next_out, 3);
    out(store, 0); /* a gap fill uses none */
    cr_expect_eq(fix_store_numbers(store).next_out, 3);
    fix_store_close(store);
}

Test(fix_store, after_a_power_cut_the_numbers_go_on_behind_what_was_reserved)
{
    size_t first_n, n;
    struct fix_store *store = open_boot("a");
    char *first = slurp(path, &first_n);
    for (uint64_t seq = 1; seq <= 500; seq++)
        out(store, seq);
    killed(store);
    free(slurp(path, &n));
    cr_assert_gt(n, first_n);
    spit(path, first, first_n); /* all that was not synced is lost */

    store = open_boot("b");
    cr_expect_gt(fix_store_numbers(store).next_out, 500);
    cr_expect_eq(fix_store_numbers(store).next_in, 1);
    fix_store_close(store);
    free(first);
}

Test(fix_store, after_an_orderly_end_another_boot_loses_nothing)
{
    struct fix_store *store = open_boot("a");
    out(store, 1);
    fix_store_close(store);

    store = open_boot("b");
    cr_expect_eq(fix_store_numbers(store).next_out, 2);
    fix_store_close(store);
}

Test(fix_store, the_disk_is_waited_for_once_in_many_orders)
{
    struct fix_store *store = open_boot("a");
    syncs = 0;
    for (uint64_t seq = 1; seq <= 3000; seq++)
        out(store, seq);
    cr_expect_leq(syncs, 3);
    cr_assert_eq(fix_store_tick(store, 1, &error), TW_OK);
    unsigned before = syncs;
    cr_assert_eq(fix_store_tick(store, 1, &error), TW_OK);
    cr_expect_eq(syncs, before, "there is enough in reserve");
    fix_store_close(store);
}

/* At whatever byte a file ends: no number below one whose record is whole. */
Test(fix_store, wherever_the_file_is_cut_no_number_is_lower)
{
    size_t n, at = MAGIC_BYTES;
    struct record record;
    struct fix_store *store = open_boot("a");
    for (uint64_t seq = 1; seq <= 20; seq++)
        out(store, seq);
    char *bytes = slurp(path, &n);
    fix_store_close(store);
    size_t ends[32], n_ends = 0;
    while (fix_record_next(bytes, n, &at, &record))
        ends[n_ends++] = at;
    for (size_t cut = 0; cut <= n; cut++) {
        uint64_t expected = 1;
        for (size_t i = 1; i < n_ends && ends[i] <= cut; i++)
            expected++;
        spit(path, bytes, cut);
        store = open_boot("a");
        cr_assert_eq(fix_store_numbers(store).next_out, expected, "cut at %zu: %llu", cut,
                     (unsigned long long)fix_store_numbers(store).next_out);
        out(store, expected);
        fix_store_close(store);
    }
    free(bytes);
}

Test(fix_store, damage_before_the_end_is_told_from_a_torn_end)
{
    size_t n;
    struct fix_store *store = open_boot("a");
    for (uint64_t seq = 1; seq <= 20; seq++)
        out(store, seq);
    char *bytes = slurp(path, &n);
    fix_store_close(store);
    bytes[n / 2] = (char)(bytes[n / 2] ^ 1);
    spit(path, bytes, n);
    const struct fix_store_options options = {.path = path, .boot_id = "a"};
    store = NULL;
    cr_expect_eq(fix_store_open(&options, 1, &store, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "damaged at byte"));
    size_t after_n;
    char *after = slurp(path, &after_n);
    cr_expect(after_n == n && memcmp(after, bytes, n) == 0, "it is left as it is");
    free(after);

    /* After a power cut a hole among what was not synced is nobody's fault. */
    store = open_boot("b");
    cr_expect_gt(fix_store_numbers(store).next_out, 20);
    fix_store_close(store);
    free(bytes);
}

Test(fix_store, a_foreign_file_is_left_alone)
{
    const struct fix_store_options options = {.path = path};
    struct fix_store *store = NULL;
    spit(path, "something else", 14);
    cr_expect_eq(fix_store_open(&options, 1, &store, &error), TW_INVALID);
    size_t n;
    char *bytes = slurp(path, &n);
    cr_expect_str_eq(bytes, "something else");
    free(bytes);
}

Test(fix_store, where_the_boot_is_not_known_nothing_is_opened)
{
    const struct fix_store_options options = {.path = path};
    struct fix_store *store = NULL;
    struct stat file;
    boot_id_fails = true;
    cr_expect_eq(fix_store_open(&options, 1, &store, &error), TW_IO);
    cr_expect_not_null(strstr(error.text, "it needs /proc/sys/kernel/random/boot_id: Input/output error"), "%s", error.text);
    cr_expect_neq(stat(path, &file), 0, "nothing is begun");
    boot_id_fails = false;
    cr_expect_eq(fix_store_open(&options, 1, &store, &error), TW_OK, "%s", error.text);
    fix_store_close(store);
}

Test(fix_store, a_file_of_a_boot_without_a_name_goes_on_behind_what_was_reserved)
{
    struct fix_store *store = open_boot("");
    out(store, 1);
    killed(store);

    store = open_boot("a");
    cr_expect_eq(fix_store_numbers(store).next_out, 1 + FIX_STORE_RESERVE);
    cr_expect_eq(fix_store_numbers(store).since_wall_ns, 1000);
    fix_store_close(store);
}

Test(fix_store, a_session_is_open_once)
{
    const struct fix_store_options options = {.path = path};
    struct fix_store *store = open_boot("a"), *second = NULL;
    cr_expect_eq(fix_store_open(&options, 1, &second, &error), TW_EXISTS);
    out(store, 1);
    fix_store_close(store);
}

Test(fix_store, what_cannot_be_written_is_not_to_be_sent)
{
    struct fix_store *store = open_boot("a");
    out(store, 1);
    disk_is_full = true;
    cr_expect_eq(fix_store_out(store, 2, 1, "8=FIX.4.4\00135=D\001", 15, &error), TW_IO);
    disk_is_full = false;
    cr_expect_eq(fix_store_out(store, 3, 1, "x", 1, &error), TW_IO, "not before it is opened anew");
    fix_store_close(store);

    store = open_boot("a");
    cr_expect_eq(fix_store_numbers(store).next_out, 2);
    out(store, 2);
    fix_store_close(store);
}

Test(fix_store, a_reservation_that_is_not_on_the_disk_is_none)
{
    struct fix_store *store = open_boot("a");
    for (uint64_t seq = 1; seq <= FIX_STORE_RESERVE; seq++)
        out(store, seq);
    disk_fails = true;
    cr_expect_eq(fix_store_out(store, FIX_STORE_RESERVE + 1, 1, "x", 1, &error), TW_IO);
    disk_fails = false;
    fix_store_close(store);
}

Test(fix_store, numbers_begin_anew_only_where_it_is_said)
{
    struct fix_store *store = open_boot("a");
    out(store, 1);
    out(store, 2);
    cr_assert_eq(fix_store_renumber(store, 1, 1, 5000, &error), TW_OK);
    killed(store);

    store = open_boot("b");
    cr_expect_eq(fix_store_numbers(store).since_wall_ns, 5000);
    cr_expect_gt(fix_store_numbers(store).next_out, 1);
    fix_store_close(store);
}

Test(fix_store, a_long_file_is_begun_anew_with_the_same_numbers)
{
    char old[160];
    struct stat file;
    struct fix_store *store = NULL;
    const struct fix_store_options options = {.path = path, .boot_id = "a", .bytes_max = 4096};
    cr_assert_eq(fix_store_open(&options, 1000, &store, &error), TW_OK);
    snprintf(old, sizeof old, "%s.old", path);
    uint64_t seq = 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 200; i++)
            out(store, seq++);
        cr_assert_eq(fix_store_expect(store, seq * 2, &error), TW_OK);
        cr_assert_eq(fix_store_tick(store, 1, &error), TW_OK, "%s", error.text);
        cr_assert_eq(stat(path, &file), 0);
        cr_expect_lt(file.st_size, 1024);
        cr_assert_eq(stat(old, &file), 0);
        cr_expect_gt(file.st_size, 4096);
    }
    struct fix_store *second = NULL;
    cr_expect_eq(fix_store_open(&options, 1, &second, &error), TW_EXISTS);
    killed(store);

    store = open_boot("a");
    cr_expect_eq(fix_store_numbers(store).next_out, seq);
    cr_expect_eq(fix_store_numbers(store).next_in, seq * 2);
    cr_expect_eq(fix_store_numbers(store).since_wall_ns, 1000);
    fix_store_close(store);
}

Test(fix_store, no_password_is_in_the_file)
{
    static const char logon[] = "8=FIX.4.4\0019=1\00135=A\001553=U7\001554=hunter2\00195=5\00196=ra\001w!\001925=new-one\00110=000\001";
    size_t n;
    struct fix_store *store = open_boot("a");
    cr_assert_eq(fix_store_out(store, 1, 1, logon, sizeof logon - 1, &error), TW_OK);
    cr_assert_eq(fix_store_in(store, 1, logon, sizeof logon - 1, &error), TW_OK);
    char *bytes = slurp(path, &n);
    cr_expect_null(memmem(bytes, n, "hunter2", 7));
    cr_expect_null(memmem(bytes, n, "w!", 2));
    cr_expect_null(memmem(bytes, n, "new-one", 7));
    cr_expect_not_null(memmem(bytes, n, "553=U7", 6));
    free(bytes);
    fix_store_close(store);
}

struct heard {
    unsigned n_out, n_in, n_notes, n_numbers;
    char *text;
    size_t size;
    FILE *file;
};

static void hear(void *context, const struct fix_log_entry *entry)
{
    struct heard *heard = context;
    heard->n_out += entry->kind == FIX_LOG_OUT;
    heard->n_in += entry->kind == FIX_LOG_IN;
    heard->n_notes += entry->kind == FIX_LOG_NOTE;
    heard->n_numbers += entry->kind == FIX_LOG_NUMBERS;
    fix_log_print(heard->file, entry);
}

Test(fix_store, the_log_is_read_beside_the_one_who_writes_it)
{
    struct heard heard = {0};
    struct fix_store *store = open_boot("a");
    heard.file = open_memstream(&heard.text, &heard.size);
    cr_assert_eq(fix_store_note(store, INT64_C(1796126400000000000), "connected to venue\x1b[2J", &error), TW_OK);
    cr_assert_eq(fix_store_out(store, 1, INT64_C(1796126400000000000), "8=FIX.4.4\0019=5\00135=D\00134=1\00111=T1\0019999=x\00110=1\001", 42, &error), TW_OK);
    cr_assert_eq(fix_store_in(store, INT64_C(1796126400001000000), "8=FIX.4.4\00135=8\00114=1\001", 20, &error), TW_OK);
    cr_assert_eq(fix_log_read(path, hear, &heard, &error), TW_OK, "%s", error.text);
    fclose(heard.file);
    cr_expect(heard.n_out == 1 && heard.n_in == 1 && heard.n_notes == 1 && heard.n_numbers == 1);
    cr_expect_not_null(strstr(heard.text, "20261201-12:00:00.000 > 35=D NewOrderSingle 34=1 ClOrdID(11)=T1 9999=x\n"), "%s", heard.text);
    cr_expect_not_null(strstr(heard.text, "20261201-12:00:00.001 < 35=8 ExecutionReport CumQty(14)=1\n"), "%s", heard.text);
    cr_expect_not_null(strstr(heard.text, "# connected to venue\\x1b[2J\n"), "%s", heard.text);
    free(heard.text);
    fix_store_close(store);
    cr_expect_eq(fix_log_read("/nonexistent/file", hear, &heard, &error), TW_IO);
}
