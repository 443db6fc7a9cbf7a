/* journal.h - the append-only log: what must survive is written here before it has an effect.
 *
 *   any thread --append--> [one lock, one write] --> segment file     journal thread: sync, prepare
 *
 * A record is in the page cache when append returns: it survives kill -9 from there on. It is durable,
 * over a power cut too, once tw_journal_sync() has passed it. Bytes of a record mean nothing here.
 *
 * Segments DIR/00000001.log, ... of segment_bytes; each record {magic, version, type, sequence, length,
 * crc32c of header and bytes, crc of the record before, durable sequence when it was written}. The rest
 * of a segment is zeros. One process per directory (flock).
 *
 * A write or sync that fails ends the process at once, with a line that says what to do: what is in the
 * page cache then is unknown, and trying again would hide it. */
#ifndef TW_JOURNAL_JOURNAL_H
#define TW_JOURNAL_JOURNAL_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_journal;

/* The system calls a journal makes; a test's own may fail, be short, slow, or lose what was not synced.
 * As the calls of their names; negative errno on failure. */
struct tw_journal_disk {
    void *context;
    int (*open)(void *context, const char *path, int flags, uint32_t mode);
    int (*close)(void *context, int fd);
    int64_t (*pwrite)(void *context, int fd, const void *bytes, size_t size, int64_t offset);
    int64_t (*pread)(void *context, int fd, void *bytes, size_t size, int64_t offset);
    int (*fdatasync)(void *context, int fd);
    int (*sync_directory)(void *context, const char *path);
    int (*rename)(void *context, const char *from, const char *to);
    int (*unlink)(void *context, const char *path);
    int64_t (*free_bytes)(void *context, const char *path); /* of the file system, for us; NULL = nobody knows */
};

/* The real one; static. */
const struct tw_journal_disk *tw_journal_disk_real(void);

/* Called for every record that is there, in order. bytes: valid until it returns.
 * Another status than TW_OK ends the opening with it. Thread: the one in tw_journal_open(). */
typedef tw_status tw_journal_replay_fn(void *context, uint64_t sequence, uint16_t type,
                                       const uint8_t *bytes, size_t size, struct tw_error *error);

struct tw_journal_options {
    const char *dir;                     /* made when missing */
    uint64_t segment_bytes;              /* 0 = 64 MiB */
    bool syncs;                          /* false: for measuring only; durable = appended at once */
    const struct tw_journal_disk *disk;  /* NULL = the real one */
    tw_journal_replay_fn *replay;        /* NULL = nobody wants to hear */
    void *replay_context;
    /* What a snapshot holds, before what the log holds behind it (snapshot.h). NULL: there are none, and all
     * of the log is replayed. */
    tw_journal_replay_fn *snapshot;
    void (*die)(const char *why);        /* NULL = log and _exit(1); a test's may longjmp */
};

/* Locks, reads everything that is there, cuts a torn tail, prepares to append.
 *
 * A bad record that a later one calls durable, or with valid records in a later segment, is damage; a
 * bad one above every durable sequence named later is a torn tail: it is cut, and the rest of the
 * segment zeroed and synced before the first append, because stale records with valid checksums have
 * been seen to come back.
 *
 * Thread: main.  Blocks: as long as reading takes.
 * Fails: TW_EXISTS (another process has it), TW_INVALID (damage: error says segment, offset, sequence
 *        and what to do; another version: which), TW_IO, or what replay said. */
TW_MUST_CHECK tw_status tw_journal_open(const struct tw_journal_options *options,
                                        struct tw_journal **ret_journal, struct tw_error *error);

/* NULL is allowed. Does not sync. Thread: main, nobody else is inside. */
void tw_journal_close(struct tw_journal *journal);

#define TW_JOURNAL_RECORD_BYTES_MAX (4u * 1024u * 1024u)

/* Writes one record; returns its sequence (from 1, without gaps). Thread: any.  Blocks: for the page
 * cache, about a microsecond; now and then for a new segment.
 * size: at most TW_JOURNAL_RECORD_BYTES_MAX. Never fails: see above. */
uint64_t tw_journal_append(struct tw_journal *journal, uint16_t type, const void *bytes, size_t size);

/* The last sequence that append has returned, and the last that is durable. Thread: any. */
uint64_t tw_journal_appended(const struct tw_journal *journal);
uint64_t tw_journal_durable(const struct tw_journal *journal);

/* Makes everything appended before the call durable, then prepares space ahead. Returns the durable
 * sequence. Thread: journal (one).  Blocks: as long as the disk takes. */
uint64_t tw_journal_sync(struct tw_journal *journal);

/* Whether there is room for opens: false when space ahead could not be prepared, or when less is left than
 * tw_journal_reserve_set() asks for. At least a quarter of a segment is kept for everything else.
 * tw_journal_sync() looks again, also when it has nothing to sync.  Thread: any.  Blocks: no. */
bool tw_journal_has_room(const struct tw_journal *journal);

/* So many bytes, of the file system's and of what is prepared, are for what may not be refused. The next
 * tw_journal_sync() looks.  Thread: any.  Blocks: no. */
void tw_journal_reserve_set(struct tw_journal *journal, uint64_t bytes);

/* Begins a new segment (whatever is appended from here on is in it) and returns its number. Thread: any. */
uint32_t tw_journal_roll(struct tw_journal *journal);

/* The number of the segment in use: all before it are sealed, and durable. Thread: any. */
uint32_t tw_journal_segment(const struct tw_journal *journal);

/* At the end of which segment the snapshot stands that was read at the start; 0 = none was. Thread: any. */
uint32_t tw_journal_snapshot(const struct tw_journal *journal);

/* The sequence with which a segment begins; 0: there is no such segment. Thread: any.  Blocks: for the disk. */
uint64_t tw_journal_segment_first(const struct tw_journal *journal, uint32_t segment);

/* Removes every segment before this one. Thread: one at a time. */
void tw_journal_forget_before(struct tw_journal *journal, uint32_t segment);

/* How many segments, and bytes in them, there are. Thread: any. */
void tw_journal_size(const struct tw_journal *journal, uint32_t *ret_segments, uint64_t *ret_bytes);

/* Before which segment everything may be removed, so that the log has at most so many bytes in sealed
 * segments; the oldest there is: nothing need be. Thread: any. */
uint32_t tw_journal_oldest_for(const struct tw_journal *journal, uint64_t bytes);

#endif
