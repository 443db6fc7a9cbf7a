/* audit.h - who changed what and when, and who was refused: records of the journal, kept in the history.
 *
 *   rpc thread --tw_engine_audit_change()---> [log, durable] --.
 *   rpc thread --tw_engine_audit_refusal()--> [log, so many] --+--> history thread --> table `audit`
 *
 * A change is written when it was made, and durable before its caller hears of it. Refusals cost whoever sends them
 * nothing, so they are paced: a thousand at once, then one in ten seconds; the rest is counted, and the count is a
 * record. Strangers and known callers are paced apart, so that a flood from outside does not hide what
 * a known caller tries. No hot path comes by here. */
#ifndef TW_ENGINE_AUDIT_H
#define TW_ENGINE_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_engine;

/* A protobuf message; type NULL or "" = none. */
struct tw_audit_message {
    const char *type; /* full name: "tradewake.v1.Follower" */
    const uint8_t *bytes;
    size_t size;
};

/* One record. Texts are never NULL; "" = none. */
struct tw_audit {
    int64_t at_wall_ns;
    const char *who;    /* the identity; "" = not known, or nobody is asked */
    const char *peer;   /* "ipv4:127.0.0.1:40122" */
    const char *method; /* "/tradewake.v1.FollowerService/Halt" */
    const char *master_id, *follower_id, *object_id; /* what it is about; object: a subscription or copy */
    int32_t result;     /* 0 = done; else a tradewake.v1.ErrorReason */
    const char *why;    /* of a refusal: what the caller is not told, too */
    uint64_t left_out;  /* above 0: stands for so many refusals, the last of which is told above */
    struct tw_audit_message request, before, after;
};

/* The change was made. Thread: rpc, without a lock.  Blocks: until it is durable. */
void tw_engine_audit_change(struct tw_engine *engine, const struct tw_audit *audit);

/* is_stranger: nobody knows who it was. Thread: any, without a lock.  Blocks: no. */
void tw_engine_audit_refusal(struct tw_engine *engine, const struct tw_audit *audit, bool is_stranger);

/* What a record's bytes say; texts point into buffer, messages into bytes. False: they are none of ours. */
enum { TW_AUDIT_TEXTS_BYTES = 4096 };
bool tw_audit_read(const uint8_t *bytes, size_t size, char buffer[TW_AUDIT_TEXTS_BYTES], struct tw_audit *ret);

/* The type of such records in the journal. */
#define TW_AUDIT_RECORD_TYPE 15u

/* ---- The pace, alone: pure ---- */

/* A flood that lasts as long as records are kept (400 days) is 3.5 million of them, about 1 GB. */
enum { TW_AUDIT_REFUSALS_AT_ONCE = 1000, TW_AUDIT_REFUSAL_EVERY_S = 10 };

struct tw_audit_pace {
    int64_t filled_mono_ns; /* so many were there at this time */
    uint32_t left;
    bool is_begun;
};

/* Whether there is room for one more record at this time. */
bool tw_audit_paced(struct tw_audit_pace *pace, int64_t now_mono_ns);

#endif
