/* forgotten.c - what stays of an event when its copies are forgotten: enough to know it again.
 *
 * `copies.remembered` bounds the copies, and 200 000 of them are twenty events of a master with 10 000
 * followers. An upstream that repeats the twenty-first must not have its orders sent twice, so the id
 * and the hash of its content outlive it: for `events.kept`, at most `events.remembered` of them. What had
 * to go earlier moves the horizon: an event observed at or before it, and not known, is refused as EVENT_TOO_OLD.
 *
 * A ring in order of age and, over it, a table of places by key (open addressing, at most half full). Both
 * are mapped and backed by pages at the start, 56 MB for the default of a million: what the process holds then does not grow with the
 * events it has seen, and pieces from the heap, one per event, were seen to keep the holes of the forgotten
 * records from being used again. */
#include "state.h"

#include <tradewake/core/digest.h>

#include <string.h>
#include <sys/mman.h>

struct forgotten_event {
    uint8_t key[TW_EVENT_HASH_BYTES];  /* of master and event id */
    uint8_t hash[TW_EVENT_HASH_BYTES]; /* of the content */
    int64_t received_wall_ns;
    uint32_t accepted, skipped;
};

static void key_make(const char *master_id, const char *event_id, uint8_t ret[TW_EVENT_HASH_BYTES])
{
    uint8_t text[2 * TW_ID_BYTES], digest[TW_SHA256_BYTES];
    size_t n = strlen(master_id) + 1; /* with the NUL: no two pairs run together */
    memcpy(text, master_id, n);
    memcpy(text + n, event_id, strlen(event_id));
    tw_sha256(text, n + strlen(event_id), digest);
    memcpy(ret, digest, TW_EVENT_HASH_BYTES);
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return at != MAP_FAILED ? at : NULL;
}

bool forgotten_init(struct tw_engine *engine, uint32_t n_max, int64_t kept_ns)
{
    uint32_t n_places = 2;
    while (n_places / 2 < n_max)
        n_places *= 2;
    pthread_mutex_init(&engine->forgotten.mutex, NULL);
    engine->forgotten.n_max = n_max;
    engine->forgotten.last_place = n_places - 1;
    engine->forgotten.kept_ns = kept_ns;
    engine->forgotten.ring = map(n_max * sizeof *engine->forgotten.ring);
    engine->forgotten.places = map(n_places * sizeof *engine->forgotten.places);
    return engine->forgotten.ring != NULL && engine->forgotten.places != NULL;
}

void forgotten_clear(struct tw_engine *engine)
{
    if (engine->forgotten.ring != NULL)
        munmap(engine->forgotten.ring, engine->forgotten.n_max * sizeof *engine->forgotten.ring);
    if (engine->forgotten.places != NULL)
        munmap(engine->forgotten.places,
               (engine->forgotten.last_place + 1u) * sizeof *engine->forgotten.places);
    pthread_mutex_destroy(&engine->forgotten.mutex);
}

static uint32_t home_of(const struct tw_engine *engine, const uint8_t key[TW_EVENT_HASH_BYTES])
{
    uint32_t place;
    memcpy(&place, key, sizeof place); /* a SHA-256's bytes: spread already */
    return place & engine->forgotten.last_place;
}

/* Where the key is, or where it would be put. places[]: 0 = empty, else 1 + the index in the ring. */
static uint32_t place_of(const struct tw_engine *engine, const uint8_t key[TW_EVENT_HASH_BYTES])
{
    uint32_t place = home_of(engine, key), last = engine->forgotten.last_place;
    for (uint32_t at; (at = engine->forgotten.places[place]) != 0; place = (place + 1) & last)
        if (memcmp(engine->forgotten.ring[at - 1].key, key, TW_EVENT_HASH_BYTES) == 0)
            break;
    return place;
}

static struct forgotten_event *lookup(const struct tw_engine *engine, const uint8_t key[TW_EVENT_HASH_BYTES])
{
    uint32_t at = engine->forgotten.places[place_of(engine, key)];
    return at != 0 ? &engine->forgotten.ring[at - 1] : NULL;
}

static void horizon_move(struct tw_engine *engine, int64_t received_wall_ns)
{
    if (received_wall_ns > engine->forgotten.horizon_wall_ns)
        engine->forgotten.horizon_wall_ns = received_wall_ns;
}

/* Those behind a place that becomes empty move up, as far as their home allows (Knuth 6.4, algorithm R). */
static void drop_oldest(struct tw_engine *engine)
{
    uint32_t *places = engine->forgotten.places, last = engine->forgotten.last_place;
    const struct forgotten_event *oldest = &engine->forgotten.ring[engine->forgotten.oldest];
    horizon_move(engine, oldest->received_wall_ns);
    uint32_t hole = place_of(engine, oldest->key);
    for (uint32_t next = (hole + 1) & last; places[next] != 0; next = (next + 1) & last) {
        uint32_t home = home_of(engine, engine->forgotten.ring[places[next] - 1].key);
        if (((next - home) & last) >= ((next - hole) & last)) {
            places[hole] = places[next];
            hole = next;
        }
    }
    places[hole] = 0;
    engine->forgotten.oldest = (engine->forgotten.oldest + 1) % engine->forgotten.n_max;
    engine->forgotten.n--;
}

/* As the newest. */
static void put_newest(struct tw_engine *engine, const struct forgotten_event *event)
{
    if (engine->forgotten.n == engine->forgotten.n_max)
        drop_oldest(engine);
    uint32_t place = place_of(engine, event->key);
    if (engine->forgotten.places[place] == 0) {
        uint32_t at = (engine->forgotten.oldest + engine->forgotten.n++) % engine->forgotten.n_max;
        engine->forgotten.ring[at] = *event;
        engine->forgotten.places[place] = at + 1;
    }
}

void forgotten_add(struct tw_engine *engine, const struct tw_record *record)
{
    if (record->origin != ORIGIN(EVENT))
        return;
    struct forgotten_event event = {
        .received_wall_ns = record->received_wall_ns,
        .accepted = record->accepted,
        .skipped = record->skipped,
    };
    key_make(record->master->id, record->event_id, event.key);
    memcpy(event.hash, record->hash, sizeof event.hash);
    int64_t until_wall_ns = tw_wall_ns() - engine->forgotten.kept_ns;

    pthread_mutex_lock(&engine->forgotten.mutex);
    while (engine->forgotten.n > 0 &&
           engine->forgotten.ring[engine->forgotten.oldest].received_wall_ns < until_wall_ns)
        drop_oldest(engine);
    put_newest(engine, &event);
    pthread_mutex_unlock(&engine->forgotten.mutex);
}

bool forgotten_find(struct tw_engine *engine, const struct tw_event *event,
                    const uint8_t hash[TW_EVENT_HASH_BYTES], struct tw_submitted *ret,
                    struct tw_refusal *refusal)
{
    uint8_t key[TW_EVENT_HASH_BYTES];
    bool ok = true;
    *ret = (struct tw_submitted){0};
    key_make(event->master_id, event->event_id, key);
    pthread_mutex_lock(&engine->forgotten.mutex);
    const struct forgotten_event *known = lookup(engine, key);
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

/* ---- In a snapshot: key, content, time and counts of each, oldest first ---- */

uint32_t forgotten_write(const struct tw_engine *engine, uint32_t from, uint32_t n_max, struct state_out *out)
{
    uint32_t n = engine->forgotten.n - from < n_max ? engine->forgotten.n - from : n_max;
    state_put_u(out, n);
    for (uint32_t i = from; i < from + n; i++) {
        const struct forgotten_event *event =
            &engine->forgotten.ring[(engine->forgotten.oldest + i) % engine->forgotten.n_max];
        state_put_raw(out, event->key, sizeof event->key);
        state_put_raw(out, event->hash, sizeof event->hash);
        state_put_i(out, event->received_wall_ns);
        state_put_u(out, event->accepted);
        state_put_u(out, event->skipped);
    }
    return n;
}

bool forgotten_read(struct tw_engine *engine, struct state_in *in)
{
    uint64_t n = state_get_u(in);
    for (uint64_t i = 0; i < n && !in->failed; i++) {
        struct forgotten_event event;
        if ((size_t)(in->end - in->at) < sizeof event.key + sizeof event.hash)
            return false;
        memcpy(event.key, in->at, sizeof event.key);
        memcpy(event.hash, in->at + sizeof event.key, sizeof event.hash);
        in->at += sizeof event.key + sizeof event.hash;
        event.received_wall_ns = state_get_i(in);
        event.accepted = (uint32_t)state_get_u(in);
        event.skipped = (uint32_t)state_get_u(in);
        put_newest(engine, &event);
    }
    return !in->failed;
}
