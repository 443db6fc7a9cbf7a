/* fuzz_history.c
 * Targets:  tw_history_read
 * Property: what was read is a history that a server can take: times do not go back, nothing is
 * closed or cancelled before it was opened, what remains of a position never grows and is what was
 *           announced, ids are unique, and opens less closes is what is said to be held. */
#include <tradewake/cli/history.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool good, const char *what, const struct tw_history_event *event)
{
    if (good)
        return;
    fprintf(stderr, "line %u, %s: %s\n", event->line, tw_history_kind_word(event->kind), what);
    abort();
}

/* What is left of the position before this event; its events are linked backwards. */
static tw_decimal left_before(const struct tw_history *history,
                              const struct tw_history_event *event)
{
    const struct tw_history_event *before = &history->events[event->previous];
    return before->kind == TW_HISTORY_PARTIAL_CLOSE ? before->remaining_volume : before->volume;
}

static void check_event(const struct tw_history *history, uint32_t index)
{
    const struct tw_history_event *event = &history->events[index];
    bool begins = event->kind == TW_HISTORY_OPEN || event->kind == TW_HISTORY_PLACE;
    require(index == 0 || history->events[index - 1].at_s <= event->at_s, "time goes back", event);
    require(begins == (event->previous == TW_HISTORY_NONE),
            "begins in the middle, or ends what never began", event);
    require(event->volume > 0, "no volume", event);
    require(event->price == TW_DECIMAL_UNSET || event->price > 0, "a price that is none", event);
    require(event->symbol[0] != '\0' && event->subject[0] != '\0', "no name", event);
    if (begins)
        return;

    require(event->previous < index, "before what it depends on", event);
    const struct tw_history_event *before = &history->events[event->previous];
    const char *name = before->remainder[0] != '\0' ? before->remainder : before->subject;
    require(strcmp(name, event->subject) == 0, "goes on under another name", event);
    require(strcmp(before->symbol, event->symbol) == 0 && before->is_sell == event->is_sell,
            "changes what it is", event);
    require(before->kind != TW_HISTORY_CLOSE && before->kind != TW_HISTORY_CANCEL,
            "goes on after its end", event);
    if (event->kind == TW_HISTORY_PARTIAL_CLOSE) {
        require(event->remaining_volume > 0, "a part that is all", event);
        require(left_before(history, event) - event->volume == event->remaining_volume,
                "does not add up", event);
    } else if (event->kind == TW_HISTORY_CLOSE) {
        require(left_before(history, event) == event->volume, "closes another volume than there is",
                event);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tw_history history;
    struct tw_error error = {0};
    if (tw_history_read("F", (const char *)bytes, size, &history, &error) != TW_OK) {
        assert(strncmp(error.text, "F:", 2) == 0 || strncmp(error.text, "more than", 9) == 0);
        return 0;
    }
    assert(history.n_events > 0);
    uint32_t by_kind[TW_HISTORY_KIND_COUNT] = {0};
    for (uint32_t i = 0; i < history.n_events; i++) {
        check_event(&history, i);
        by_kind[history.events[i].kind]++;
    }
    assert(history.positions_held == by_kind[TW_HISTORY_OPEN] - by_kind[TW_HISTORY_CLOSE]);
    assert(history.orders_held == by_kind[TW_HISTORY_PLACE] - by_kind[TW_HISTORY_CANCEL]);
    tw_history_clear(&history);
    return 0;
}
