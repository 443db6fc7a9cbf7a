/* Bidi and server streams through a server in this process. */
#include "wire_support.h"

#include <grpc/status.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct tw_wire_stream *events_open(struct pair *pair)
{
    struct tw_wire_stream *stream = NULL;
    struct tw_error error = {0};
    cr_assert_eq(tw_wire_stream_open(pair->client, STREAM_EVENTS, NULL, INT64_MAX, &stream, &error),
                 TW_OK, "%s", error.text);
    return stream;
}

static tw_status events_write(struct tw_wire_stream *stream, const char *id, const char *comment)
{
    Tradewake__V1__OpenPosition open;
    tradewake__v1__open_position__init(&open);
    open.comment = (char *)(uintptr_t)comment;
    Tradewake__V1__TradeEvent event;
    tradewake__v1__trade_event__init(&event);
    event.event_id = (char *)(uintptr_t)id;
    event.open = &open;
    event.action_case = TRADEWAKE__V1__TRADE_EVENT__ACTION_OPEN;
    Tradewake__V1__StreamEventsRequest request;
    tradewake__v1__stream_events_request__init(&request);
    request.event = &event;
    struct tw_error error = {0};
    return tw_wire_stream_write(stream, &request.base, &error);
}

static Tradewake__V1__StreamEventsResponse *events_read(struct pair *pair,
                                                        struct tw_wire_stream *stream)
{
    ProtobufCMessage *message = NULL;
    struct tw_wire_answer answer;
    struct tw_error error = {0};
    tw_status status =
        tw_wire_stream_read(stream, in_ms(5000), &pair->arena, &message, &answer, &error);
    cr_assert_eq(status, TW_OK, "%s", error.text);
    return (Tradewake__V1__StreamEventsResponse *)message;
}

static tw_status read_end(struct pair *pair, struct tw_wire_stream *stream,
                          struct tw_wire_answer *ret_answer)
{
    ProtobufCMessage *message = NULL;
    struct tw_error error = {0};
    tw_status status;
    do {
        tw_arena_reset(&pair->arena);
        status =
            tw_wire_stream_read(stream, in_ms(5000), &pair->arena, &message, ret_answer, &error);
    } while (status == TW_OK);
    return status;
}

Test(wire_streams, answers_come_in_order_and_a_bad_message_does_not_end_the_stream, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = events_open(&pair);
    struct tw_wire_answer answer;
    char id[16];

    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "e%d", i);
        cr_assert_eq(events_write(stream, id, i == 50 ? "a\x7f" : "fine"), TW_OK);
    }
    tw_wire_stream_half_close(stream);

    for (int i = 0; i < 100; i++) {
        Tradewake__V1__StreamEventsResponse *response = events_read(&pair, stream);
        snprintf(id, sizeof id, "e%d", i);
        cr_expect_str_eq(response->event_id, id);
        if (i != 50) {
            cr_expect_null(response->refused);
            continue;
        }
        cr_assert_not_null(response->refused);
        cr_expect_str_eq(response->refused->reason, "INVALID_FIELD");
        cr_expect_str_eq(response->refused->field, "event.open.comment");
        cr_expect_eq(response->refused->code, GRPC_STATUS_INVALID_ARGUMENT);
    }
    cr_expect_eq(read_end(&pair, stream, &answer), TW_ENDED);
    cr_expect_eq(answer.code, GRPC_STATUS_OK);
    cr_expect_eq(atomic_load(&seen.blocked), 0);
    tw_wire_stream_close(stream);
    cr_expect(await_count(&seen.finished, 1));
    cr_expect_eq(atomic_load(&seen.cancelled), 0);
    pair_stop(&pair);
}

Test(wire_streams, garbage_and_too_large_messages_are_refused_in_their_answers, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = events_open(&pair);
    Tradewake__V1__StreamEventsRequest request;
    tradewake__v1__stream_events_request__init(&request);
    static uint8_t bytes[65 * 1024];
    ProtobufCMessageUnknownField field = {.tag = 1,
                                          .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                          .len = 3,
                                          .data = (uint8_t[]){2, 0xff, 0xff}};
    request.base.unknown_fields = &field;
    request.base.n_unknown_fields = 1;
    struct tw_error error = {0};

    cr_assert_eq(tw_wire_stream_write(stream, &request.base, &error), TW_OK);
    Tradewake__V1__StreamEventsResponse *response = events_read(&pair, stream);
    cr_assert_not_null(response->refused);
    cr_expect_str_eq(response->refused->reason, "UNDECODABLE");

    field.tag = 100;
    field.data = bytes;
    field.len = sizeof bytes;
    bytes[0] = 0xfd;
    bytes[1] = 0xff;
    bytes[2] = 0x03;
    cr_assert_eq(tw_wire_stream_write(stream, &request.base, &error), TW_OK);
    response = events_read(&pair, stream);
    cr_assert_not_null(response->refused);
    cr_expect_str_eq(response->refused->reason, "TOO_LARGE");

    cr_assert_eq(events_write(stream, "after", ""), TW_OK);
    cr_expect_str_eq(events_read(&pair, stream)->event_id, "after");
    tw_wire_stream_close(stream);
    pair_stop(&pair);
}

Test(wire_streams, a_message_is_stamped_when_it_comes_not_when_the_stream_did, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = events_open(&pair);
    cr_assert_eq(events_write(stream, "first", ""), TW_OK);
    events_read(&pair, stream);
    int64_t between_ns = tw_mono_ns();

    cr_assert_eq(events_write(stream, "second", ""), TW_OK);
    events_read(&pair, stream);

    cr_expect_geq(atomic_load(&seen.received_mono_ns), between_ns);
    tw_wire_stream_close(stream);
    pair_stop(&pair);
}

Test(wire_streams, the_handler_may_end_a_stream_that_the_client_keeps_open, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = events_open(&pair);
    struct tw_wire_answer answer;

    cr_assert_eq(events_write(stream, "end", ""), TW_OK);

    cr_expect_str_eq(events_read(&pair, stream)->event_id, "end");
    cr_expect_eq(read_end(&pair, stream, &answer), TW_ENDED);
    cr_expect(await_count(&seen.finished, 1));
    tw_wire_stream_close(stream);
    pair_stop(&pair);
}

Test(wire_streams, closing_an_open_stream_cancels_it_at_the_server, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = events_open(&pair);
    cr_assert_eq(events_write(stream, "a", ""), TW_OK);
    events_read(&pair, stream);

    tw_wire_stream_close(stream);

    cr_expect(await_count(&seen.finished, 1));
    cr_expect_eq(atomic_load(&seen.cancelled), 1);
    cr_expect_eq(atomic_load(&seen.half_closes), 0, "a cancel is no half-close");
    pair_stop(&pair);
}

Test(wire_streams, reading_waits_for_a_message_no_longer_than_it_is_told, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = events_open(&pair);
    ProtobufCMessage *message = NULL;
    struct tw_wire_answer answer;
    struct tw_error error = {0};

    cr_expect_eq(tw_wire_stream_read(stream, in_ms(50), &pair.arena, &message, &answer, &error),
                 TW_TIMEOUT);
    cr_assert_eq(events_write(stream, "later", ""), TW_OK);
    cr_expect_str_eq(events_read(&pair, stream)->event_id, "later");
    tw_wire_stream_close(stream);
    pair_stop(&pair);
}

/* ---- Watching. ---- */

static struct tw_wire_stream *watch_open(struct pair *pair, const char *mode, uint32_t count)
{
    Tradewake__V1__SampleFilter filter;
    tradewake__v1__sample_filter__init(&filter);
    filter.master_id = (char *)(uintptr_t)mode;
    Tradewake__V1__WatchOwnTimeRequest request;
    tradewake__v1__watch_own_time_request__init(&request);
    request.filter = &filter;
    request.max_batch = count;
    struct tw_wire_stream *stream = NULL;
    struct tw_error error = {0};
    cr_assert_eq(tw_wire_stream_open(pair->client, WATCH_OWN_TIME, &request.base, INT64_MAX,
                                     &stream, &error),
                 TW_OK, "%s", error.text);
    return stream;
}

Test(wire_streams, a_watcher_gets_every_message_in_order_and_then_the_end, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = watch_open(&pair, "count", 2000);
    ProtobufCMessage *message = NULL;
    struct tw_wire_answer answer;
    struct tw_error error = {0};
    uint32_t n_messages = 0;

    for (;;) {
        tw_arena_reset(&pair.arena);
        if (tw_wire_stream_read(stream, in_ms(5000), &pair.arena, &message, &answer, &error) !=
            TW_OK)
            break;
        const Tradewake__V1__WatchOwnTimeResponse *response = (const void *)message;
        cr_assert_eq(response->started->last_change_id, 2000 - n_messages);
        n_messages++;
    }

    cr_expect_eq(n_messages, 2000);
    cr_expect_eq(answer.code, GRPC_STATUS_OK, "%s", answer.message);
    tw_wire_stream_close(stream);
    cr_expect(await_count(&seen.finished, 1));
    pair_stop(&pair);
}

Test(wire_streams, a_watch_that_is_refused_at_once_has_its_details, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = watch_open(&pair, "refuse", 0);
    struct tw_wire_answer answer;

    cr_expect_eq(read_end(&pair, stream, &answer), TW_REFUSED);

    cr_expect_eq(answer.refusal.reason, REASON(POSITION_EXISTS));
    cr_expect_eq(answer.refusal.n_facts, 1);
    tw_wire_stream_close(stream);
    pair_stop(&pair);
}

Test(wire_streams, a_reader_that_takes_nothing_holds_the_writer_back_and_is_evicted, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = watch_open(&pair, "flood", 0);
    struct tw_wire_answer answer;

    cr_assert(await_count(&seen.finished, 1)); /* nothing is read meanwhile */

    int n_written = atomic_load(&seen.writes);
    cr_expect(n_written >= 65 && n_written < 20000, "%d writes were let through", n_written);
    cr_expect_neq(atomic_load(&seen.write_started_mono_ns), 0);
    cr_expect_eq(atomic_load(&seen.cancelled), 1);
    cr_expect_eq(read_end(&pair, stream, &answer), TW_REFUSED);
    cr_expect_eq(answer.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    cr_expect_eq(strncmp(answer.message, "SUBSCRIBER_TOO_SLOW: ", 21), 0, "%s", answer.message);
    tw_wire_stream_close(stream);
    pair_stop(&pair);
}

Test(wire_streams, one_connection_has_so_many_streams_and_no_more, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, &(struct tw_wire_options){.streams_per_peer_max = 3});
    struct tw_wire_stream *streams[3], *one_more;
    struct tw_wire_answer answer;
    struct tw_error error = {0};
    ProtobufCMessage *message;
    for (int i = 0; i < 3; i++)
        streams[i] = i == 0 ? events_open(&pair) : watch_open(&pair, "quiet", 0);
    cr_assert_eq(events_write(streams[0], "a", ""), TW_OK);
    cr_assert(await_count(&seen.requests, 3));

    one_more = watch_open(&pair, "quiet", 0);
    cr_expect_eq(read_end(&pair, one_more, &answer), TW_REFUSED);
    cr_expect_eq(answer.refusal.reason, REASON(TOO_MANY_STREAMS));
    cr_expect_str_eq(answer.refusal.facts[0].value, "3");
    tw_wire_stream_close(one_more);

    tw_wire_stream_close(streams[2]); /* makes room */
    cr_assert(await_count(&seen.finished, 1));
    streams[2] = watch_open(&pair, "count", 1);
    cr_expect_eq(
        tw_wire_stream_read(streams[2], in_ms(5000), &pair.arena, &message, &answer, &error), TW_OK,
        "%s", error.text);
    for (int i = 0; i < 3; i++)
        tw_wire_stream_close(streams[i]);
    pair_stop(&pair);
}

/* ---- Going away. ---- */

Test(wire_streams, end_streams_ends_watchers_and_answers_what_was_read, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *watch = watch_open(&pair, "quiet", 0);
    struct tw_wire_stream *events = events_open(&pair);
    struct tw_wire_answer answer;
    cr_assert_eq(events_write(events, "a", ""), TW_OK);
    cr_assert(await_count(&seen.requests, 2));

    tw_wire_server_end_streams(pair.server);

    cr_expect_eq(read_end(&pair, watch, &answer), TW_REFUSED);
    cr_expect_eq(answer.code, GRPC_STATUS_UNAVAILABLE);
    cr_expect_eq(answer.refusal.reason, REASON(SHUTTING_DOWN));
    cr_expect_str_eq(events_read(&pair, events)->event_id, "a");
    cr_expect_eq(read_end(&pair, events, &answer), TW_REFUSED);
    cr_expect_eq(answer.refusal.reason, REASON(SHUTTING_DOWN));
    cr_expect_eq(atomic_load(&seen.half_closes), 1);
    tw_wire_stream_close(watch);
    tw_wire_stream_close(events);
    cr_expect(await_count(&seen.finished, 2));
    cr_expect_eq(atomic_load(&seen.cancelled), 0);
    pair_stop(&pair);
}

Test(wire_streams, stop_with_open_streams_ends_them_and_is_quick, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *watch = watch_open(&pair, "quiet", 0);
    struct tw_wire_stream *flooded = watch_open(&pair, "count", 5000); /* stuck in its write */
    struct tw_wire_answer answer;
    cr_assert(await_count(&seen.requests, 2));
    int64_t before_ns = tw_mono_ns();

    tw_wire_server_stop(pair.server, 300);
    pair.server = NULL;

    cr_expect_lt(tw_mono_ns() - before_ns, 5 * TW_NS_PER_S);
    cr_expect_eq(atomic_load(&seen.finished), 2);
    cr_expect_eq(read_end(&pair, watch, &answer), TW_REFUSED);
    cr_expect_eq(answer.refusal.reason, REASON(SHUTTING_DOWN));
    tw_wire_stream_close(watch);
    tw_wire_stream_close(flooded);
    pair_stop(&pair);
}

Test(wire_streams, what_the_client_asks_wrongly_is_told_before_anything_is_sent, .timeout = 20)
{
    struct pair pair;
    pair_start(&pair, NULL);
    struct tw_wire_stream *stream = NULL;
    struct tw_error error = {0};
    Tradewake__V1__SubmitEventRequest request;
    tradewake__v1__submit_event_request__init(&request);

    cr_expect_eq(tw_wire_stream_open(pair.client, "/a.B/C", NULL, INT64_MAX, &stream, &error),
                 TW_INVALID);
    cr_expect_eq(
        tw_wire_stream_open(pair.client, SUBMIT_EVENT, &request.base, INT64_MAX, &stream, &error),
        TW_INVALID);
    cr_expect_eq(tw_wire_stream_open(pair.client, WATCH_OWN_TIME, NULL, INT64_MAX, &stream, &error),
                 TW_INVALID);
    cr_expect_eq(
        tw_wire_stream_open(pair.client, WATCH_OWN_TIME, &request.base, INT64_MAX, &stream, &error),
        TW_INVALID);
    cr_expect_not_null(strstr(error.text, "WatchOwnTimeRequest"), "%s", error.text);
    pair_stop(&pair);
}
