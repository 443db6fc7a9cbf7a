/* forgotten.c - what stays of an event when its copies are forgotten: enough to know it again.
 *
 * `copies.remembered` bounds the copies, and 200 000 of them are twenty events of a master with 10 000
 * followers. An upstream that repeats the twenty-first must not have its orders sent twice, so the id
 * and the hash of its content outlive it: for 7 days, at most 1 000 000 of them. What had to go earlier
 * moves the horizon: an event observed at or before it, and not known, is refused as EVENT_TOO_OLD. */
#include "internal.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#define FORGOTTEN_MAX 1000000u
#define FORGOTTEN_KEPT_NS (7 * 24 * 3600 * TW_NS_PER_S)

struct forgotten_event {
    uint8_t key[TW_EVENT_HASH_BYTES];  /* of master and event id */
    uint8_t hash[TW_EVENT_HASH_BYTES]; /* of the content */
    int64_t received_wall_ns;
    uint32_t accepted, skipped;
    UT_hash_handle hh; /* oldest first */
};

static void key_make(const char *master_id, const char *event_id, uint8_t ret[TW_EVENT_HASH_BYTES])
{
    uint8_t text[2 * TW_ID_BYTES], digest[SHA256_DIGEST_LENGTH];
    size_t n = strlen(master_id) + 1; /* with the NUL: no two pairs run together */
    memcpy(text, master_id, n);
    memcpy(text + n, event_id, strlen(event_id));
    SHA256(text, n + strlen(event_id), digest);
    memcpy(ret, digest, TW_EVENT_HASH_BYTES);
}

static void drop(struct tw_engine *engine, struct forgotten_event *event)
{
    if (event->received_wall_ns > engine->forgotten.horizon_wall_ns)
        engine->forgotten.horizon_wall_ns = event->received_wall_ns;
    HASH_DEL(engine->forgotten.events, event);
    free(event);
}

void forgotten_add(struct tw_engine *engine, const struct tw_record *record)
{
    if (record->origin != ORIGIN(EVENT))
        return;
    struct forgotten_event *event = calloc(1, sizeof *event), *twin = NULL;
    pthread_mutex_lock(&engine->forgotten.mutex);
    if (event == NULL) { /* refusing what is new is safe, taking it for new is not */
        if (record->received_wall_ns > engine->forgotten.horizon_wall_ns)
            engine->forgotten.horizon_wall_ns = record->received_wall_ns;
        pthread_mutex_unlock(&engine->forgotten.mutex);
        return;
    }
    key_make(record->master->id, record->event_id, event->key);
    memcpy(event->hash, record->hash, sizeof event->hash);
    event->received_wall_ns = record->received_wall_ns;
    event->accepted = record->accepted;
    event->skipped = record->skipped;
    HASH_FIND(hh, engine->forgotten.events, event->key, sizeof event->key, twin);
    if (twin == NULL)
        HASH_ADD(hh, engine->forgotten.events, key, sizeof event->key, event);
    else
        free(event);
    int64_t until_wall_ns = tw_wall_ns() - FORGOTTEN_KEPT_NS;
    while (engine->forgotten.events != NULL &&
           (HASH_COUNT(engine->forgotten.events) > FORGOTTEN_MAX ||
            engine->forgotten.events->received_wall_ns < until_wall_ns))
        drop(engine, engine->forgotten.events);
    pthread_mutex_unlock(&engine->forgotten.mutex);
}

bool forgotten_find(struct tw_engine *engine, const struct tw_event *event,
                    const uint8_t hash[TW_EVENT_HASH_BYTES], struct tw_submitted *ret,
                    struct tw_refusal *refusal)
{
    uint8_t key[TW_EVENT_HASH_BYTES];
    struct forgotten_event *known = NULL;
    bool ok = true;
    *ret = (struct tw_submitted){0};
    key_make(event->master_id, event->event_id, key);
    pthread_mutex_lock(&engine->forgotten.mutex);
    HASH_FIND(hh, engine->forgotten.events, key, sizeof key, known);
    if (known == NULL) {
        int64_t horizon_wall_ns = engine->forgotten.horizon_wall_ns;
        pthread_mutex_unlock(&engine->forgotten.mutex);
        return horizon_wall_ns == 0 || event->observed_wall_ns > horizon_wall_ns ||
               tw_refuse(refusal, REFUSAL(EVENT_TOO_OLD), "event.observed_at",
                         "it was observed before what is remembered of events begins");
    }
    ok = memcmp(known->hash, hash, sizeof known->hash) == 0;
    if (ok) {
        ret->is_duplicate = true;
        ret->forgotten_received_wall_ns = known->received_wall_ns;
        ret->forgotten_accepted = known->accepted;
        ret->forgotten_skipped = known->skipped;
    }
    pthread_mutex_unlock(&engine->forgotten.mutex);
    return ok || tw_refuse(refusal, REFUSAL(EVENT_ID_REUSED), "event.event_id",
                           "\"%s\" was another event of \"%s\"", event->event_id, event->master_id);
}

void forgotten_clear(struct tw_engine *engine)
{
    struct forgotten_event *event, *next;
    HASH_ITER(hh, engine->forgotten.events, event, next)
    {
        HASH_DEL(engine->forgotten.events, event);
        free(event);
    }
    pthread_mutex_destroy(&engine->forgotten.mutex);
}
