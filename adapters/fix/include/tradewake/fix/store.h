/* store.h - what a FIX session must not forget: its numbers, and what was said.
 *
 * One small file for a session, only ever appended to, a checksum on every record; what a kill or a power cut leaves half
 * written at its end is cut off. A file that is damaged before its end is not used: TW_INVALID, and a person looks.
 *
 * Never a lower number, and no wait for the disk on the way of an order:
 *   - After kill -9 the kernel still has every record that write() took, so the numbers go on exactly.
 *   - Against a power cut, numbers are reserved ahead in a record that is on the disk (fdatasync) before the first of them
 *     is used. A session that finds itself after another boot of the machine goes on behind what was reserved: the venue sees
 *     a gap of some numbers, asks, and gets a gap fill. Half of a reservation used up, the next is made, at best in
 *     fix_store_tick().
 *
 * Messages are kept to be read by people (tradewake fix log), not to be sent again. Secrets in them are masked before they
 * are written: passwords are in no file.
 *
 * Compaction: a file above a size is put aside as PATH.old (one is kept) and begun anew with its numbers, atomically.
 * Thread: one at a time. */
#ifndef TW_FIX_STORE_H
#define TW_FIX_STORE_H

#include <tradewake/fix/codec.h>

#include <stdio.h>

enum {
    FIX_STORE_RESERVE = 1024,          /* numbers reserved at once */
    FIX_STORE_BYTES_MAX_DEFAULT = 8 << 20, /* then it is begun anew */
};

struct fix_store;

struct fix_store_options {
    const char *path;   /* created, 0600, when it is not there; its directory is */
    size_t bytes_max;   /* 0 = the default */
    bool syncs_each;    /* fdatasync for every message that is sent, too: for tests and the anxious */
    const char *boot_id; /* NULL = of this machine; tests say what they like */
};

struct fix_store_numbers {
    uint64_t next_out, next_in;
    int64_t since_wall_ns; /* when they began at 1 */
};

/* Fails: TW_EXISTS (another process has it open), TW_INVALID (damaged, or none of ours), TW_IO (also: the machine does not
 * tell which boot this is), TW_NO_MEMORY; nothing has been changed then. Blocks: for the disk. */
TW_MUST_CHECK tw_status fix_store_open(const struct fix_store_options *options, int64_t now_wall_ns, struct fix_store **ret,
                                       struct tw_error *error);
/* What is not on the disk yet gets there. NULL is allowed. */
void fix_store_close(struct fix_store *store);

struct fix_store_numbers fix_store_numbers(const struct fix_store *store);

/* For FIX_DO_SEND, before the send: seq is used up (0: none is), and this is what it was used for. Blocks: for the disk only when a
 * reservation ends in a burst. Fails: TW_IO: the message must not be sent, and the store takes nothing more until it is
 * opened anew; the number may be used up. TW_INVALID: seq is below what was used already; nothing is written. */
TW_MUST_CHECK tw_status fix_store_out(struct fix_store *store, uint64_t seq, int64_t now_wall_ns, const char *bytes,
                                      size_t n, struct tw_error *error);
/* A message that came, for the log. */
TW_MUST_CHECK tw_status fix_store_in(struct fix_store *store, int64_t now_wall_ns, const char *bytes, size_t n,
                                     struct tw_error *error);
/* For FIX_DO_EXPECT. A record that is lost costs a replay. */
TW_MUST_CHECK tw_status fix_store_expect(struct fix_store *store, uint64_t next_in, struct tw_error *error);
/* For FIX_DO_RENUMBER: on the disk when it returns. The only way to lower numbers. */
TW_MUST_CHECK tw_status fix_store_renumber(struct fix_store *store, uint64_t next_out, uint64_t next_in,
                                           int64_t now_wall_ns, struct tw_error *error);
/* Words between messages, for the log: "connected", why it ended. */
TW_MUST_CHECK tw_status fix_store_note(struct fix_store *store, int64_t now_wall_ns, const char *text,
                                       struct tw_error *error);
/* Now and then, at rest: reserves ahead and compacts when that is due. Blocks: for the disk, when it is. */
TW_MUST_CHECK tw_status fix_store_tick(struct fix_store *store, int64_t now_wall_ns, struct tw_error *error);

/* ---- Reading it, also beside a server that has it open. ---- */

enum fix_log_kind { FIX_LOG_OUT, FIX_LOG_IN, FIX_LOG_NOTE, FIX_LOG_NUMBERS };

struct fix_log_entry {
    enum fix_log_kind kind;
    int64_t wall_ns;
    const char *bytes; /* OUT, IN: the message; NOTE: the words */
    size_t n;
    struct fix_store_numbers numbers; /* NUMBERS */
};

typedef void fix_log_fn(void *context, const struct fix_log_entry *entry);

/* Fails: TW_NOT_FOUND, TW_INVALID (none of ours, or damaged: what comes before has been told), TW_IO, TW_NO_MEMORY. */
TW_MUST_CHECK tw_status fix_log_read(const char *path, fix_log_fn *tell, void *context, struct tw_error *error);

/* One entry as a line for people: time, direction, the names of type and fields; secrets masked. */
void fix_log_print(FILE *out, const struct fix_log_entry *entry);

/* The same as an object of JSON on a line of its own; a separator is "|". */
void fix_log_json(FILE *out, const struct fix_log_entry *entry);

/* Puts a copy of the message with every secret's value replaced by "***" into ret; its length and checksum are left as
 * they were, so it is no message any more. Returns the size, cut to fit. */
size_t fix_mask(const char *bytes, size_t n, char *ret, size_t room);

#endif
