#include "readers.h"

#include <tradewake/base/clock.h>

#include <stdatomic.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

static struct {
    /* main sets them, at the start and when the configuration is read again; each stands alone. */
    atomic_int_fast64_t hopeless_after_ns;
    atomic_uint watchers_max;

    atomic_uint watchers;
    atomic_uint_fast64_t evicted;
} readers = {.hopeless_after_ns = TW_READERS_HOPELESS_NS, .watchers_max = TW_WATCHERS_MAX_DEFAULT};

void tw_readers_limits_set(int64_t hopeless_after_ns, uint32_t watchers_max)
{
    atomic_store(&readers.hopeless_after_ns, hopeless_after_ns);
    atomic_store(&readers.watchers_max, watchers_max);
}

int64_t tw_reader_due_mono_ns(const struct tw_call *call)
{
    int64_t started_ns = tw_call_write_started_mono_ns(call);
    return started_ns == 0 ? INT64_MAX : started_ns + atomic_load_explicit(&readers.hopeless_after_ns, memory_order_relaxed);
}

bool tw_reader_evict(struct tw_call *call, int64_t now_mono_ns)
{
    if (now_mono_ns < tw_reader_due_mono_ns(call))
        return false;
    struct tw_refusal refusal = {0};
    tw_refuse(&refusal, REASON(SUBSCRIBER_TOO_SLOW), NULL,
              "nothing was taken for %lld ms; call again, and read as fast as it comes",
              (long long)(atomic_load(&readers.hopeless_after_ns) / TW_NS_PER_MS));
    tw_call_evict(call, &refusal);
    atomic_fetch_add_explicit(&readers.evicted, 1, memory_order_relaxed);
    return true;
}

bool tw_watcher_take(struct tw_refusal *refusal)
{
    uint32_t watchers_max = atomic_load_explicit(&readers.watchers_max, memory_order_relaxed);
    if (atomic_fetch_add(&readers.watchers, 1) < watchers_max)
        return true;
    atomic_fetch_sub(&readers.watchers, 1);
    tw_refuse(refusal, REASON(TOO_MANY_STREAMS), NULL, "%u streams watch copies already; close one first",
              watchers_max);
    tw_refusal_fact_add(refusal, "streams_max", "%u", watchers_max);
    return false;
}

void tw_watcher_give(void)
{
    atomic_fetch_sub(&readers.watchers, 1);
}

uint32_t tw_watchers_count(void)
{
    return atomic_load_explicit(&readers.watchers, memory_order_relaxed);
}

uint64_t tw_readers_evicted(void)
{
    return atomic_load_explicit(&readers.evicted, memory_order_relaxed);
}
