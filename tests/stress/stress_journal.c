/* stress_journal.c - many threads append, one syncs, segments change all the time.
 *
 * Promises: every record comes back exactly once, at the sequence that append returned for it, a
 * thread's own in its order; what was called durable is there after kill -9; who appends does
 * not wait for a sync, but at a change of segments.
 *
 *     stress_journal                      the promises, small and quick
 *     stress_journal measure DIR          what an append and a durable record cost there */
#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>
#include <tradewake/journal/journal.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS          8u
#define RECORDS_EACH     3000u
#define RECORD_BYTES_MAX 2000u
#define KILLS            12u

/* The bytes of a record: who, its how many-eth, then a pattern of both. */
struct mark {
    uint32_t thread, count;
};

static int failures;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            (void)fprintf(stderr, __VA_ARGS__);                                                    \
            (void)fputc('\n', stderr);                                                             \
        }                                                                                          \
    } while (0)

/* --- a journal thread, as the server has one --------------------------------------- */

struct syncer {
    struct tw_journal *journal;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wanted, done;
    bool is_wanted, is_over;
    bool forgets; /* now and then, what is before the last roll */
};

static void *syncer_main(void *context)
{
    struct syncer *syncer = context;

    for (uint32_t round = 1;; round++) {
        (void)pthread_mutex_lock(&syncer->mutex);
        while (!syncer->is_wanted && !syncer->is_over)
            (void)pthread_cond_wait(&syncer->wanted, &syncer->mutex);
        bool is_over = syncer->is_over && !syncer->is_wanted;
        syncer->is_wanted = false;
        (void)pthread_mutex_unlock(&syncer->mutex);
        if (is_over)
            return NULL;

        (void)tw_journal_sync(syncer->journal);
        if (syncer->forgets && round % 50 == 0)
            tw_journal_forget_before(syncer->journal, tw_journal_roll(syncer->journal));
        (void)pthread_mutex_lock(&syncer->mutex);
        (void)pthread_cond_broadcast(&syncer->done);
        (void)pthread_mutex_unlock(&syncer->mutex);
    }
}

static void syncer_start(struct syncer *syncer, struct tw_journal *journal, bool forgets)
{
    *syncer = (struct syncer){.journal = journal, .forgets = forgets};
    (void)pthread_mutex_init(&syncer->mutex, NULL);
    (void)pthread_cond_init(&syncer->wanted, NULL);
    (void)pthread_cond_init(&syncer->done, NULL);
    (void)pthread_create(&syncer->thread, NULL, syncer_main, syncer);
}

static void syncer_want(struct syncer *syncer)
{
    (void)pthread_mutex_lock(&syncer->mutex);
    syncer->is_wanted = true;
    (void)pthread_cond_signal(&syncer->wanted);
    (void)pthread_mutex_unlock(&syncer->mutex);
}

static void syncer_await(struct syncer *syncer, uint64_t sequence)
{
    (void)pthread_mutex_lock(&syncer->mutex);
    while (tw_journal_durable(syncer->journal) < sequence) {
        syncer->is_wanted = true;
        (void)pthread_cond_signal(&syncer->wanted);
        (void)pthread_cond_wait(&syncer->done, &syncer->mutex);
    }
    (void)pthread_mutex_unlock(&syncer->mutex);
}

static void syncer_stop(struct syncer *syncer)
{
    (void)pthread_mutex_lock(&syncer->mutex);
    syncer->is_over = true;
    (void)pthread_cond_signal(&syncer->wanted);
    (void)pthread_mutex_unlock(&syncer->mutex);
    (void)pthread_join(syncer->thread, NULL);
    (void)pthread_cond_destroy(&syncer->wanted);
    (void)pthread_cond_destroy(&syncer->done);
    (void)pthread_mutex_destroy(&syncer->mutex);
}

/* --- records ----------------------------------------------------------------------- */

static size_t fill(struct mark mark, uint8_t *bytes)
{
    size_t size =
        sizeof(mark) + (mark.thread * 7919u + mark.count * 104729u) % (RECORD_BYTES_MAX - 8);

    memcpy(bytes, &mark, sizeof(mark));
    for (size_t i = sizeof(mark); i < size; i++)
        bytes[i] = (uint8_t)(mark.thread + mark.count * 3 + i);
    return size;
}

struct replayed {
    uint64_t sequences[THREADS][RECORDS_EACH]; /* of a thread's records; 0: not seen */
    uint32_t next[THREADS];
    uint64_t records, last;
};

static tw_status replay(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes,
                        size_t size, struct tw_error *error)
{
    struct replayed *replayed = context;
    uint8_t expected[RECORD_BYTES_MAX];
    struct mark mark;

    (void)error;
    CHECK(replayed->last == 0 || sequence == replayed->last + 1, "%" PRIu64 " after %" PRIu64,
          sequence, replayed->last);
    replayed->last = sequence;
    replayed->records++;
    memcpy(&mark, bytes, sizeof(mark));
    CHECK(mark.thread < THREADS && mark.count < RECORDS_EACH, "whose is %" PRIu64 "?", sequence);
    if (mark.thread >= THREADS || mark.count >= RECORDS_EACH)
        return TW_INVALID;
    CHECK(type == mark.thread + 1, "type of %" PRIu64, sequence);
    CHECK(fill(mark, expected) == size && memcmp(bytes, expected, size) == 0, "bytes of %" PRIu64,
          sequence);
    CHECK(mark.count >= replayed->next[mark.thread], "thread %u: %u twice, or late", mark.thread,
          mark.count);
    replayed->next[mark.thread] = mark.count + 1;
    replayed->sequences[mark.thread][mark.count] = sequence;
    return TW_OK;
}

static struct tw_journal *open_log(const char *dir, uint64_t segment_bytes,
                                   const struct tw_journal_disk *disk, struct replayed *replayed)
{
    struct tw_journal_options options = {.dir = dir,
                                         .segment_bytes = segment_bytes,
                                         .syncs = true,
                                         .disk = disk,
                                         .replay = replayed != NULL ? replay : NULL,
                                         .replay_context = replayed};
    struct tw_journal *journal = NULL;
    struct tw_error error = {0};

    tw_status status = tw_journal_open(&options, &journal, &error);
    CHECK(status == TW_OK, "%s", error.text);
    if (status != TW_OK)
        exit(1);
    return journal;
}

/* The directory stays. */
static void remove_log(const char *dir)
{
    char command[256];

    (void)snprintf(command, sizeof(command), "rm -f '%s'/*.log", dir);
    CHECK(system(command) == 0, "cannot remove %s", dir);
}

/* --- many appenders ---------------------------------------------------------------- */

struct appender {
    struct syncer *syncer;
    uint32_t thread;
    uint64_t sequences[RECORDS_EACH];
    pthread_t id;
};

static void *appender_main(void *context)
{
    struct appender *appender = context;
    uint8_t bytes[RECORD_BYTES_MAX];

    for (uint32_t i = 0; i < RECORDS_EACH; i++) {
        struct mark mark = {.thread = appender->thread, .count = i};
        size_t size = fill(mark, bytes);
        appender->sequences[i] = tw_journal_append(appender->syncer->journal,
                                                   (uint16_t)(appender->thread + 1), bytes, size);
        if (i % 64 == 0)
            syncer_want(appender->syncer);
        if (i % 256 == 255)
            syncer_await(appender->syncer, appender->sequences[i]);
        if (appender->thread == 0 && i % 500 == 499)
            (void)tw_journal_roll(appender->syncer->journal);
    }
    return NULL;
}

static void many_append(const char *dir, bool forgets)
{
    static struct appender appenders[THREADS];
    static struct replayed replayed;
    struct syncer syncer;
    uint64_t matching = 0;

    struct tw_journal *journal = open_log(dir, 64 * 1024, NULL, NULL);
    syncer_start(&syncer, journal, forgets);
    for (uint32_t i = 0; i < THREADS; i++) {
        appenders[i] = (struct appender){.syncer = &syncer, .thread = i};
        (void)pthread_create(&appenders[i].id, NULL, appender_main, &appenders[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        (void)pthread_join(appenders[i].id, NULL);
    syncer_stop(&syncer);
    uint64_t appended = tw_journal_appended(journal);
    uint32_t segments;
    uint64_t bytes;
    tw_journal_size(journal, &segments, &bytes);
    tw_journal_close(journal);

    memset(&replayed, 0, sizeof(replayed));
    tw_journal_close(open_log(dir, 64 * 1024, NULL, &replayed));
    for (uint32_t i = 0; i < THREADS; i++)
        for (uint32_t k = 0; k < RECORDS_EACH; k++)
            matching += replayed.sequences[i][k] == appenders[i].sequences[k];
    (void)printf("appended %" PRIu64 " in %u threads, came back %" PRIu64 " (%" PRIu64
                 " where append said) from %u segments%s\n",
                 appended, THREADS, replayed.records, matching, segments,
                 forgets ? ", the others forgotten" : "");
    CHECK(appended == THREADS * RECORDS_EACH, "not all were appended");
    CHECK(matching == replayed.records, "some came back elsewhere");
    CHECK(forgets ? replayed.records < appended : replayed.records == appended,
          "records are missing");
    CHECK(replayed.last == appended || (forgets && replayed.records == 0),
          "the last one is missing");
    remove_log(dir);
}

/* --- kill -9 ----------------------------------------------------------------------- */

/* Tells what is durable through the pipe, as an answer to a client would. */
static void child_main(const char *dir, int out)
{
    struct syncer syncer;
    uint8_t bytes[RECORD_BYTES_MAX];

    struct tw_journal *journal = open_log(dir, 64 * 1024, NULL, NULL);
    syncer_start(&syncer, journal, false);
    for (uint32_t i = 0;; i++) {
        struct mark mark = {.thread = 0, .count = i % RECORDS_EACH};
        uint64_t sequence = tw_journal_append(journal, 1, bytes, fill(mark, bytes));
        if (i % 8 == 7) {
            syncer_await(&syncer, sequence);
            if (write(out, &sequence, sizeof(sequence)) != (ssize_t)sizeof(sequence))
                _exit(1);
        }
    }
}

struct counted {
    uint64_t records, last;
};

static tw_status count(void *context, uint64_t sequence, uint16_t type, const uint8_t *bytes,
                       size_t size, struct tw_error *error)
{
    struct counted *counted = context;
    uint8_t expected[RECORD_BYTES_MAX];
    struct mark mark;

    (void)type, (void)error;
    memcpy(&mark, bytes, sizeof(mark));
    CHECK(sequence == counted->last + 1, "%" PRIu64 " after %" PRIu64, sequence, counted->last);
    CHECK(fill(mark, expected) == size && memcmp(bytes, expected, size) == 0, "bytes of %" PRIu64,
          sequence);
    counted->last = sequence;
    counted->records++;
    return TW_OK;
}

static void kill_again_and_again(const char *dir)
{
    uint64_t acknowledged = 0, lost = 0;
    struct counted counted;

    for (uint32_t i = 0; i < KILLS; i++) {
        int pipes[2];
        uint64_t sequence;
        CHECK(pipe(pipes) == 0, "no pipe");
        pid_t child = fork();
        if (child == 0) {
            (void)close(pipes[0]);
            child_main(dir, pipes[1]);
        }
        (void)close(pipes[1]);
        for (uint32_t n = 0; n < 5 + i * 7 && read(pipes[0], &sequence, sizeof(sequence)) > 0; n++)
            acknowledged = sequence;
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        while (read(pipes[0], &sequence, sizeof(sequence)) == (ssize_t)sizeof(sequence))
            acknowledged = sequence;
        (void)close(pipes[0]);

        counted = (struct counted){0};
        struct tw_journal_options options = {.dir = dir,
                                             .segment_bytes = 64 * 1024,
                                             .syncs = true,
                                             .replay = count,
                                             .replay_context = &counted};
        struct tw_journal *journal = NULL;
        struct tw_error error = {0};
        CHECK(tw_journal_open(&options, &journal, &error) == TW_OK, "%s", error.text);
        tw_journal_close(journal);
        lost += counted.last < acknowledged;
    }
    (void)printf("killed %u times: acknowledged up to %" PRIu64 ", came back up to %" PRIu64 "\n",
                 KILLS, acknowledged, counted.last);
    CHECK(lost == 0, "acknowledged records are gone");
    remove_log(dir);
}

/* --- a slow disk ------------------------------------------------------------------- */

/* A sync that is let in, and stays in until it is let out. */
static sem_t is_inside, may_leave;
static atomic_bool is_gated, is_held_up;

static int gated_fdatasync(void *context, int fd)
{
    (void)context;
    if (atomic_load(&is_gated)) {
        (void)sem_post(&is_inside);
        struct timespec deadline;
        (void)clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += 20;
        if (sem_timedwait(&may_leave, &deadline) != 0)
            atomic_store(&is_held_up, true);
    }
    return tw_journal_disk_real()->fdatasync(NULL, fd);
}

/* Every append happens while the journal thread stands in a sync: of records, of zeros ahead, of
 * the next segment. One that waited for it would wait for ever. */
static void append_beside_syncs(const char *dir)
{
    struct tw_journal_disk gated = *tw_journal_disk_real();
    struct syncer syncer;
    uint8_t bytes[RECORD_BYTES_MAX];
    uint32_t appended = 0;

    gated.fdatasync = gated_fdatasync;
    (void)sem_init(&is_inside, 0, 0);
    (void)sem_init(&may_leave, 0, 0);
    struct tw_journal *journal = open_log(dir, 16 * 1024 * 1024, &gated, NULL);
    syncer_start(&syncer, journal, false);
    (void)tw_journal_append(journal, 1, bytes, fill((struct mark){0}, bytes));
    atomic_store(&is_gated, true);
    for (uint32_t round = 0; round < 100 && !atomic_load(&is_held_up); round++) {
        syncer_want(&syncer);
        (void)sem_wait(&is_inside);
        for (uint32_t i = 0; i < 100; i++, appended++)
            (void)tw_journal_append(journal, 1, bytes, fill((struct mark){.count = i}, bytes));
        (void)sem_post(&may_leave);
    }
    atomic_store(&is_gated, false);
    (void)sem_post(&may_leave); /* one may have got in */
    syncer_stop(&syncer);
    (void)printf("%u appends while a sync was on: %s\n", appended,
                 atomic_load(&is_held_up) ? "they waited for it" : "none waited for it");
    CHECK(!atomic_load(&is_held_up), "appends wait for the disk");
    tw_journal_close(journal);
    (void)sem_destroy(&is_inside);
    (void)sem_destroy(&may_leave);
    remove_log(dir);
}

/* --- figures ----------------------------------------------------------------------- */

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_ns(const char *what, int64_t *ns, size_t n)
{
    qsort(ns, n, sizeof(*ns), compare_ns);
    (void)printf("%-44s p50 %8.1f us  p99 %8.1f us  max %8.1f us\n", what, (double)ns[n / 2] / 1e3,
                 (double)ns[n * 99 / 100] / 1e3, (double)ns[n - 1] / 1e3);
}

#define SAMPLES 20000u

static void measure_append(const char *dir, size_t size)
{
    static int64_t ns[SAMPLES];
    static uint8_t bytes[16384];
    char what[64];
    struct tw_journal *journal = open_log(dir, 0, NULL, NULL);

    for (uint32_t i = 0; i < SAMPLES; i++) {
        int64_t before = tw_mono_ns();
        (void)tw_journal_append(journal, 1, bytes, size);
        ns[i] = tw_mono_ns() - before;
        if (i % 64 == 0)
            (void)tw_journal_sync(journal);
    }
    tw_journal_close(journal);
    (void)snprintf(what, sizeof(what), "append of %zu bytes", size);
    print_ns(what, ns, SAMPLES);
    remove_log(dir);
}

/* What the disk itself needs: data that is overwritten in a file of zeros. */
static void measure_disk(const char *dir)
{
    static int64_t ns[2000];
    static uint8_t bytes[1 << 20];
    const struct tw_journal_disk *disk = tw_journal_disk_real();
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/floor", dir);
    int fd = disk->open(NULL, path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0, "cannot make %s", path);
    CHECK(disk->pwrite(NULL, fd, bytes, sizeof(bytes), 0) == sizeof(bytes), "cannot write %s",
          path);
    CHECK(disk->fdatasync(NULL, fd) == 0, "cannot sync %s", path);
    for (uint32_t i = 0; i < 2000; i++) {
        (void)disk->pwrite(NULL, fd, bytes, 248, (int64_t)i * 248);
        int64_t before = tw_mono_ns();
        (void)disk->fdatasync(NULL, fd);
        ns[i] = tw_mono_ns() - before;
    }
    (void)disk->close(NULL, fd);
    (void)disk->unlink(NULL, path);
    print_ns("fdatasync of 248 bytes, the disk alone", ns, 2000);
}

static void measure_sync(const char *dir)
{
    static int64_t ns[2000];
    static uint8_t bytes[200];
    struct tw_journal *journal = open_log(dir, 0, NULL, NULL);

    for (uint32_t i = 0; i < 2000; i++) {
        (void)tw_journal_append(journal, 1, bytes, sizeof(bytes));
        int64_t before = tw_mono_ns();
        (void)tw_journal_sync(journal);
        ns[i] = tw_mono_ns() - before;
    }
    tw_journal_close(journal);
    print_ns("sync of 200 bytes", ns, 2000);
    remove_log(dir);
}

struct producer {
    struct syncer *syncer;
    pthread_t id;
    int64_t ns[1000];
    uint32_t count;
    int64_t until_ns;
};

static void *producer_main(void *context)
{
    struct producer *producer = context;
    static const uint8_t bytes[200];

    while (producer->count < 1000 && tw_mono_ns() < producer->until_ns) {
        int64_t before = tw_mono_ns();
        uint64_t sequence = tw_journal_append(producer->syncer->journal, 1, bytes, sizeof(bytes));
        syncer_await(producer->syncer, sequence);
        producer->ns[producer->count++] = tw_mono_ns() - before;
    }
    return NULL;
}

static void measure_durable(const char *dir, uint32_t producers)
{
    static struct producer all[64];
    static int64_t ns[64 * 1000];
    struct syncer syncer;
    char what[64];
    size_t n = 0;
    struct tw_journal *journal = open_log(dir, 0, NULL, NULL);

    syncer_start(&syncer, journal, false);
    int64_t began = tw_mono_ns();
    for (uint32_t i = 0; i < producers; i++) {
        all[i] = (struct producer){.syncer = &syncer, .until_ns = began + 2 * TW_NS_PER_S};
        (void)pthread_create(&all[i].id, NULL, producer_main, &all[i]);
    }
    for (uint32_t i = 0; i < producers; i++) {
        (void)pthread_join(all[i].id, NULL);
        memcpy(ns + n, all[i].ns, all[i].count * sizeof(ns[0]));
        n += all[i].count;
    }
    int64_t took = tw_mono_ns() - began;
    syncer_stop(&syncer);
    tw_journal_close(journal);
    (void)snprintf(what, sizeof(what), "durable, %u producers, %.0f a second", producers,
                   (double)n * 1e9 / (double)took);
    print_ns(what, ns, n);
    remove_log(dir);
}

static void measure(const char *dir)
{
    measure_append(dir, 200);
    measure_append(dir, 4096);
    measure_append(dir, 10240);
    measure_disk(dir);
    measure_sync(dir);
    measure_durable(dir, 1);
    measure_durable(dir, 64);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/tradewake-journal-XXXXXX";

    tw_log_level_set(TW_LOG_ERROR);
    if (argc == 3 && strcmp(argv[1], "measure") == 0) {
        measure(argv[2]);
        return 0;
    }
    if (mkdtemp(dir) == NULL)
        return 1;
    kill_again_and_again(dir); /* first: it forks, and there is one thread yet */
    many_append(dir, false);
    many_append(dir, true);
    append_beside_syncs(dir);
    (void)rmdir(dir);
    return failures == 0 ? 0 : 1;
}
