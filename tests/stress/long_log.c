/* long_log DIR EVENTS [SEGMENT_KIB]: what a long life of one follower leaves behind.
 *
 * An engine with the built-in broker takes EVENTS events, opens and closes in turn, and keeps its journal in DIR
 * with snapshots and the default retention. Then it starts once more. Prints one line: events, seconds, segments,
 * bytes on the disk, seconds of the start. Fails when the start takes 10 s, or more is on the disk than retention, what
 * two snapshots stand for, and the snapshots themselves come to.
 *
 * DIR -: a temporary one, removed when all is well. In CI with few events and small segments; ten million by hand: see tests/README.md. */
#include "engine_house.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>
#include <tradewake/journal/snapshot.h>

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
#define START_NS_MAX (100 * TW_NS_PER_S) /* its own memory comes on top of everything that is mapped */
#else
#define START_NS_MAX (10 * TW_NS_PER_S)
#endif
enum { EVERY = 4, QUEUED_MAX = 4000, EASY = 200 };

struct disk_use {
    uint64_t log_bytes, snapshot_bytes;
    unsigned segments, snapshots;
    unsigned long newest_segment, newest_snapshot; /* numbers; 0 = none */
};

/* In two steps: ThreadSanitizer sees the closing of a directory, but only this way its opening. */
static DIR *directory_open(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fdopendir(fd) : NULL;
}

static struct disk_use disk_use(const char *dir)
{
    struct disk_use use = {0};
    DIR *list = directory_open(dir);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[4096];
        struct stat file;
        const char *end = strchr(entry->d_name, '.');
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (end == NULL || stat(path, &file) != 0 || !S_ISREG(file.st_mode))
            continue;
        bool is_log = strcmp(end, ".log") == 0;
        use.segments += is_log;
        use.snapshots += !is_log;
        *(is_log ? &use.log_bytes : &use.snapshot_bytes) += (uint64_t)file.st_size;
        unsigned long number = strtoul(entry->d_name, NULL, 10);
        unsigned long *newest = is_log ? &use.newest_segment : &use.newest_snapshot;
        *newest = number > *newest ? number : *newest;
    }
    if (list != NULL)
        closedir(list);
    return use;
}

static void remove_dir(const char *dir)
{
    DIR *list = directory_open(dir);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (list != NULL)
        closedir(list);
    rmdir(dir);
}

static void rest_while_full(const struct house *house)
{
    struct tw_executor_status status;
    const struct timespec moment = {0, TW_NS_PER_MS / 2};
    for (;;) {
        tw_executor_status_get(house->executor, &status);
        if (status.calls_queued < QUEUED_MAX)
            return;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
}

static void run_events(struct house *house, uint64_t from, uint64_t until)
{
    for (uint64_t i = from; i < until; i++) {
        char id[32], position[32];
        struct tw_submitted submitted;
        const struct house_event event = {.kind = i % 2 == 0 ? TW_EVENT_OPEN : TW_EVENT_CLOSE, .master_id = "M1",
                                          .event_id = id, .position_id = position,
                                          .volume = i % 2 == 0 ? "0.10" : NULL};
        snprintf(id, sizeof id, "e%" PRIu64, i);
        snprintf(position, sizeof position, "p%" PRIu64, i / 2);
        if (!house_submit(house, &event, &submitted)) {
            fprintf(stderr, "event %" PRIu64 ": %s\n", i, house->reason);
            exit(1);
        }
        if (submitted.record != NULL)
            tw_record_release(submitted.record);
        if (i % 64 == 0)
            rest_while_full(house);
        while (i % 4096 == 0 && !tw_engine_catch_up(house->engine)) /* what is not written stays in memory */
            continue;
    }
    house_settle(house, 0);
}

/* Snapshots are as far as they have to be: what is in use, the next, and fewer than are due are behind the last. */
static bool is_caught_up(const char *dir)
{
    struct disk_use use = disk_use(dir);
    return use.newest_segment <= use.newest_snapshot + EVERY + 2;
}

/* The server goes on at the pace of its snapshots, until what may go has gone. */
static bool await_bound(struct house *house, const char *dir, uint64_t bound, uint64_t from)
{
    const struct timespec moment = {0, 20 * TW_NS_PER_MS};
    int64_t until_ns = tw_mono_ns() + 120 * TW_NS_PER_S;
    for (; disk_use(dir).log_bytes > bound && tw_mono_ns() < until_ns; from += EASY) {
        run_events(house, from, from + EASY);
        while (!is_caught_up(dir) && tw_mono_ns() < until_ns)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    return disk_use(dir).log_bytes <= bound;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: long_log DIR EVENTS [SEGMENT_KIB]\n");
        return 2;
    }
    uint64_t events = strtoull(argv[2], NULL, 10);
    uint64_t segment = argc == 4 ? strtoull(argv[3], NULL, 10) * 1024 : 64 * 1024 * 1024;
    struct house house = {0};
    char made[] = "/tmp/tradewake-long-XXXXXX";
    const char *dir = strcmp(argv[1], "-") != 0 ? argv[1] : mkdtemp(made);
    const struct tw_engine_options options = {
        .copies_remembered = 200000,
        .events_remembered = 1000000,
        .events_kept_ns = 168 * 3600 * TW_NS_PER_S,
        .journal_dir = dir,
        .journal_syncs = true,
        .journal_segment_bytes = segment,
        .snapshot_segments = EVERY,
        .log_bytes = 16 * segment,
    };
    /* Sealed ones for retention, or for two snapshots, of which the newest may be on its way; the one in use; the next. */
    uint64_t bound = (16 + 2 + 2) * segment;
    tw_log_level_set(TW_LOG_WARN);
    int64_t from_ns = tw_mono_ns();
    house_open(&house, options);
    if (!house_follower(&house, "F1", "zero") || !house_subscribe(&house, "M1", "F1", NULL)) {
        fprintf(stderr, "%s\n", house.reason);
        return 1;
    }
    run_events(&house, 0, events);
    double run_s = (double)(tw_mono_ns() - from_ns) / 1e9;
    bool is_bounded = await_bound(&house, dir, bound, events);
    house_close(&house, true);
    from_ns = tw_mono_ns();
    house_open(&house, options);
    int64_t start_ns = tw_mono_ns() - from_ns;
    house_close(&house, true);
    struct disk_use use = disk_use(dir);
    printf("events %" PRIu64 " in %.1f s; on the disk %u segments of %.1f MB, %u snapshots of %.1f MB; start %.2f s\n",
           events, run_s, use.segments, (double)use.log_bytes / 1e6, use.snapshots, (double)use.snapshot_bytes / 1e6,
           (double)start_ns / 1e9);
    if (!is_bounded)
        fprintf(stderr, "the log is %" PRIu64 " bytes, expected at most %" PRIu64 "\n", use.log_bytes, bound);
    if (start_ns > START_NS_MAX)
        fprintf(stderr, "the start took too long\n");
    bool is_good = is_bounded && start_ns <= START_NS_MAX;
    if (is_good && dir == made)
        remove_dir(dir);
    return is_good ? 0 : 1;
}
