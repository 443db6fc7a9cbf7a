#include "metric_lines.h"

#include "readers.h"

#include <tradewake/engine/engine.h>

static uint64_t streams_evicted(struct tw_engine *engine)
{
    (void)engine;
    return tw_readers_evicted();
}

static uint64_t copy_watchers(struct tw_engine *engine)
{
    (void)engine;
    return tw_watchers_count();
}

static uint64_t copies_unknown(struct tw_engine *engine)
{
    return tw_engine_copies_unknown(engine);
}

#define REFUSED(word, load)                                             \
    static uint64_t refused_for_##word(struct tw_engine *engine)        \
    {                                                                   \
        return tw_engine_refused(engine, load);                         \
    }
REFUSED(queue, TW_LOAD_QUEUE)
REFUSED(backlog, TW_LOAD_BACKLOG)
REFUSED(disk, TW_LOAD_DISK)
REFUSED(memory, TW_LOAD_MEMORY)

static uint64_t breakers_of_adapters(struct tw_engine *engine)
{
    return tw_engine_breakers_open(engine, true);
}

static uint64_t breakers_of_sessions(struct tw_engine *engine)
{
    return tw_engine_breakers_open(engine, false);
}

static const struct {
    const char *name, *labels, *type, *help;
    uint64_t (*read)(struct tw_engine *engine);
} rows[] = {
    {"streams_evicted_total", "", "counter", "Streams that were ended because nobody read them (streams.hopeless_after).",
     streams_evicted},
    {"copy_watchers", "", "gauge", "Streams of copies that are open; at most streams.watchers_max.", copy_watchers},
    {"copies_unknown", "", "gauge", "Copies that may have executed, and of which nobody knows now; each is being looked up.", copies_unknown},
    {"breakers_open", "{of=\"adapter\"}", "gauge", "Breakers that are open now: opens there are skipped, closes go on.",
     breakers_of_adapters},
    {"breakers_open", "{of=\"session\"}", NULL, NULL, breakers_of_sessions},
    {"events_refused_total", "{load=\"queue\"}", "counter",
     "Events refused for load, by what was short; nothing of them was written or sent.", refused_for_queue},
    {"events_refused_total", "{load=\"backlog\"}", NULL, NULL, refused_for_backlog},
    {"events_refused_total", "{load=\"disk\"}", NULL, NULL, refused_for_disk},
    {"events_refused_total", "{load=\"memory\"}", NULL, NULL, refused_for_memory},
};

bool metric_line(struct tw_engine *engine, unsigned index, struct tw_metric_line *ret)
{
    if (engine == NULL || index >= sizeof rows / sizeof rows[0])
        return false;
    *ret = (struct tw_metric_line){rows[index].name, rows[index].labels, rows[index].type, rows[index].help,
                                   rows[index].read(engine)};
    return true;
}
