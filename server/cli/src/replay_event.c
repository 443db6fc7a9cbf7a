/* A row of history as a request. */
#include "replay.h"

#include <tradewake/base/clock.h>

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._:-", c) != NULL);
}

bool replay_names_init(struct replay_names *names, const char *master_id, const char *run,
                       const uint8_t *bytes, size_t size)
{
    uint8_t digest[32];
    char hash[REPLAY_HASH_CHARS + 1];
    *names = (struct replay_names){.master_id = master_id};
    size_t run_chars = run != NULL ? strlen(run) : 0;
    if (run != NULL && (run_chars == 0 || run_chars > REPLAY_RUN_CHARS_MAX))
        return false;
    for (size_t i = 0; i < run_chars; i++)
        if (!is_id_char(run[i]))
            return false;
    if (EVP_Digest(bytes, size, digest, NULL, EVP_sha256(), NULL) != 1)
        return false;
    for (size_t i = 0; i < REPLAY_HASH_CHARS / 2; i++)
        snprintf(hash + 2 * i, 3, "%02x", digest[i]);
    snprintf(names->prefix, sizeof names->prefix, "rp-%s-%s%s", hash, run != NULL ? run : "",
             run != NULL ? "-" : "");
    snprintf(names->suffix, sizeof names->suffix, "%s%s", run != NULL ? "." : "",
             run != NULL ? run : "");
    snprintf(names->space, sizeof names->space, "%s.", hash);
    return true;
}

void replay_event_id(const struct replay_names *names, const struct tw_history_event *event,
                     char text[TW_ID_BYTES])
{
    int written = snprintf(text, TW_ID_BYTES, "%s%u-%s", names->prefix, event->line,
                           tw_history_kind_word(event->kind));
    assert(written > 0 && (size_t)written < TW_ID_BYTES);
    (void)written;
}

/* A ticket is a name of its own; the number of a row needs the file's before it. */
static void subject_id(const struct replay_names *names, const char *subject,
                       char text[TW_ID_BYTES])
{
    bool is_ticket = subject[0] >= '0' && subject[0] <= '9';
    int written = snprintf(text, TW_ID_BYTES, "%s%s%s", is_ticket ? "" : names->space, subject,
                           names->suffix);
    assert(written > 0 && (size_t)written < TW_ID_BYTES);
    (void)written;
}

static void fill_action(struct replay_request *request, const struct tw_history_event *event)
{
    Tradewake__V1__Side side =
        event->is_sell ? TRADEWAKE__V1__SIDE__SIDE_SELL : TRADEWAKE__V1__SIDE__SIDE_BUY;
    switch (event->kind) {
    case TW_HISTORY_OPEN:
        request->open.position_id = request->subject;
        request->open.symbol = request->symbol;
        request->open.side = side;
        request->open.volume = request->volume;
        request->open.price = request->price;
        request->open.stop_loss = request->stop_loss;
        request->open.take_profit = request->take_profit;
        request->event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN;
        request->event.open = &request->open;
        break;
    case TW_HISTORY_PARTIAL_CLOSE:
        request->close.volume = request->volume;
        request->close.remaining_volume = request->remaining;
        request->close.new_position_id = request->remainder;
        /* fall through */
    case TW_HISTORY_CLOSE:
        request->close.position_id = request->subject;
        request->close.price = request->price;
        request->event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_CLOSE;
        request->event.close = &request->close;
        break;
    case TW_HISTORY_PLACE:
        request->place.order_id = request->subject;
        request->place.symbol = request->symbol;
        request->place.side = side;
        request->place.type = (Tradewake__V1__OrderType)event->type;
        request->place.volume = request->volume;
        request->place.price = request->price;
        request->place.stop_loss = request->stop_loss;
        request->place.take_profit = request->take_profit;
        request->event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_PLACE;
        request->event.place = &request->place;
        break;
    case TW_HISTORY_CANCEL:
        request->cancel.order_id = request->subject;
        request->event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_CANCEL;
        request->event.cancel = &request->cancel;
        break;
    case TW_HISTORY_KIND_COUNT:
        assert(!"not a kind");
    }
}

void replay_request_init(struct replay_request *request, const struct replay_names *names,
                         const struct tw_history_event *event, int64_t observed_wall_ns)
{
    tradewake__v1__stream_events_request__init(&request->request);
    tradewake__v1__trade_event__init(&request->event);
    google__protobuf__timestamp__init(&request->observed_at);
    tradewake__v1__open_position__init(&request->open);
    tradewake__v1__close_position__init(&request->close);
    tradewake__v1__place_order__init(&request->place);
    tradewake__v1__cancel_order__init(&request->cancel);

    replay_event_id(names, event, request->event_id);
    subject_id(names, event->subject, request->subject);
    request->remainder[0] = '\0';
    if (event->remainder[0] != '\0')
        subject_id(names, event->remainder, request->remainder);
    snprintf(request->master_id, sizeof request->master_id, "%s", names->master_id);
    memcpy(request->symbol, event->symbol, sizeof request->symbol);
    tw_decimal_text(event->volume, request->volume);
    tw_decimal_text(event->remaining_volume, request->remaining);
    tw_decimal_text(event->price, request->price);
    tw_decimal_text(event->stop_loss, request->stop_loss);
    tw_decimal_text(event->take_profit, request->take_profit);

    request->observed_at.seconds = observed_wall_ns / TW_NS_PER_S;
    request->observed_at.nanos = (int32_t)(observed_wall_ns % TW_NS_PER_S);
    request->event.event_id = request->event_id;
    request->event.master_id = request->master_id;
    request->event.observed_at = &request->observed_at;
    fill_action(request, event);
    request->request.event = &request->event;
    request->request.view = TRADEWAKE__V1__COPY_VIEW__COPY_VIEW_COUNTS;
}
