#include "adapter_check.h"

#include <tradewake/base/arena.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/decimal.h>
#include <tradewake/wire/client.h>

#include <tradewake/adapter/v1/broker_adapter.pb-c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define METHOD(name)  "/tradewake.adapter.v1.BrokerAdapterService/" name
#define OUTCOME(name) TRADEWAKE__ADAPTER__V1__OUTCOME__OUTCOME_##name
#define PAYLOAD(name) TRADEWAKE__ADAPTER__V1__WATCH_ACCOUNT_RESPONSE__PAYLOAD_##name
#define CALL_NS       (10 * TW_NS_PER_S)
#define UPDATES_NS    (2 * TW_NS_PER_S)

typedef Tradewake__Adapter__V1__ExecuteResponse answer;

struct checking {
    const struct tw_cli_adapter_check *wanted;
    struct tw_wire_client *client;
    struct tw_arena arena;
    const Tradewake__Adapter__V1__GetCapabilitiesResponse *can;
    const Tradewake__Adapter__V1__OpenSessionResponse *session;
    unsigned n_held, n_broken, n_orders;
    char run[12]; /* in every id, so that a second run asks anew */
};

static char *text(const char *value)
{
    return (char *)(uintptr_t)value; /* messages are written to be read */
}

/* One line. `why` is what was seen where it does not hold. */
static bool holds(struct checking *checking, bool is_so, const char *promise, const char *why)
{
    printf("%s %s%s%s\n", is_so ? "ok    " : "BROKEN", promise, is_so || why[0] == '\0' ? "" : ": ", is_so ? "" : why);
    checking->n_held += is_so;
    checking->n_broken += !is_so;
    return is_so;
}

static const void *ask(struct checking *checking, const char *path, const ProtobufCMessage *request)
{
    struct tw_error error = {{0}};
    ProtobufCMessage *response = NULL;
    if (tw_wire_client_call(checking->client, path, request, tw_mono_ns() + CALL_NS, &checking->arena, &response, NULL,
                            &error) == TW_OK)
        return response;
    fprintf(stderr, "tradewake: %s: %s\n", strrchr(path, '/') + 1, error.text);
    return NULL;
}

/* ---- Orders. ---- */

static void request_init(struct checking *checking, Tradewake__Adapter__V1__ExecuteRequest *request, char id[21])
{
    tradewake__adapter__v1__execute_request__init(request);
    snprintf(id, 21, "C%s%u", checking->run, checking->n_orders++);
    request->session_id = checking->session->session_id;
    request->client_order_id = id;
}

static const answer *open_send(struct checking *checking, Tradewake__Adapter__V1__ExecuteRequest *request,
                               Tradewake__Adapter__V1__Open *open, char id[21])
{
    request_init(checking, request, id);
    tradewake__adapter__v1__open__init(open);
    open->symbol = text(checking->wanted->symbol);
    open->side = TRADEWAKE__V1__SIDE__SIDE_BUY;
    open->type = TRADEWAKE__V1__ORDER_TYPE__ORDER_TYPE_MARKET;
    open->volume = text(checking->wanted->volume);
    request->operation_case = TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_OPEN;
    request->open = open;
    return ask(checking, METHOD("Execute"), &request->base);
}

static const answer *close_send(struct checking *checking, const char *position_id, const char *volume)
{
    char id[21];
    Tradewake__Adapter__V1__ExecuteRequest request;
    Tradewake__Adapter__V1__Close close;
    request_init(checking, &request, id);
    tradewake__adapter__v1__close__init(&close);
    close.position_id = text(position_id);
    close.volume = text(volume);
    close.symbol = text(checking->wanted->symbol);
    close.side = TRADEWAKE__V1__SIDE__SIDE_BUY;
    request.operation_case = TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_CLOSE;
    request.close = &close;
    return ask(checking, METHOD("Execute"), &request.base);
}

static bool is_done(const answer *got)
{
    return got != NULL && got->status != NULL && got->status->outcome == OUTCOME(DONE);
}

static const Tradewake__Adapter__V1__SnapshotResponse *picture(struct checking *checking)
{
    Tradewake__Adapter__V1__SnapshotRequest request;
    tradewake__adapter__v1__snapshot_request__init(&request);
    request.session_id = checking->session->session_id;
    return ask(checking, METHOD("Snapshot"), &request.base);
}

static size_t positions_of(const Tradewake__Adapter__V1__SnapshotResponse *picture, const char *client_order_id)
{
    size_t n = 0;
    for (size_t i = 0; picture != NULL && i < picture->n_positions; i++)
        n += strcmp(picture->positions[i]->client_order_id, client_order_id) == 0;
    return n;
}

static bool has_position(const Tradewake__Adapter__V1__SnapshotResponse *picture, const char *position_id)
{
    for (size_t i = 0; picture != NULL && i < picture->n_positions; i++)
        if (strcmp(picture->positions[i]->position_id, position_id) == 0)
            return true;
    return false;
}

/* Whatever we opened is closed, also what should not be there. */
static void clean(struct checking *checking)
{
    const Tradewake__Adapter__V1__SnapshotResponse *left = picture(checking);
    char ours[16];
    snprintf(ours, sizeof ours, "C%s", checking->run);
    for (size_t i = 0; left != NULL && i < left->n_positions; i++)
        if (strncmp(left->positions[i]->client_order_id, ours, strlen(ours)) == 0)
            (void)close_send(checking, left->positions[i]->position_id, "");
}

/* ---- The promises. ---- */

static void check_lookup(struct checking *checking, const char *id, const char *promise)
{
    Tradewake__Adapter__V1__LookupRequest request;
    tradewake__adapter__v1__lookup_request__init(&request);
    request.session_id = checking->session->session_id;
    request.client_order_id = text(id);
    request.symbol = text(checking->wanted->symbol);
    const Tradewake__Adapter__V1__LookupResponse *found = ask(checking, METHOD("Lookup"), &request.base);
    bool is_absent = found != NULL && found->last != NULL && found->last->status != NULL &&
                     found->last->status->outcome == OUTCOME(NOT_FOUND);
    holds(checking, found != NULL && !(is_absent && found->authoritative), promise,
          found == NULL ? "no answer" : "NOT_FOUND, and authoritative, before the settle time: the order is there");
}

/* Returns the position, "" = none. */
static const char *check_open(struct checking *checking)
{
    static char position_id[256];
    char id[21];
    Tradewake__Adapter__V1__ExecuteRequest request;
    Tradewake__Adapter__V1__Open open;
    position_id[0] = '\0';
    const answer *first = open_send(checking, &request, &open, id);
    if (!holds(checking, is_done(first) && first->position_id[0] != '\0', "an open is DONE and names its position",
               first != NULL && first->status != NULL ? first->status->broker_message : "no answer"))
        return position_id;
    snprintf(position_id, sizeof position_id, "%s", first->position_id);
    check_lookup(checking, id, "a look-up right after an order does not prove that it is absent");

    const answer *again = ask(checking, METHOD("Execute"), &request.base);
    holds(checking, again != NULL && again->repeated_answer, "a repeat is answered from the journal, and says so",
          "repeated_answer is not set");
    holds(checking, again != NULL && strcmp(again->position_id, first->position_id) == 0,
          "a repeat has the first one's answer", "it names another position");
    const Tradewake__Adapter__V1__SnapshotResponse *now = picture(checking);
    holds(checking, positions_of(now, id) <= 1, "a repeat sends nothing", "the order was sent again");
    holds(checking, has_position(now, first->position_id), "a snapshot has what was opened", "it does not");
    return position_id;
}

static void check_snapshot(struct checking *checking)
{
    const Tradewake__Adapter__V1__SnapshotResponse *now = picture(checking);
    holds(checking, now != NULL && now->position_count == now->n_positions && now->order_count == now->n_orders,
          "a snapshot counts what it holds", "position_count or order_count is not the number of entries: it is void");
    holds(checking, now != NULL && now->epoch[0] != '\0', "a snapshot names its epoch", "it does not");
    holds(checking, now != NULL && now->account != NULL && now->account->currency[0] != '\0', "a snapshot has the account",
          "no currency");
}

static void check_close(struct checking *checking, const char *position_id)
{
    char half[TW_DECIMAL_TEXT_BYTES];
    tw_decimal volume, part;
    bool is_number = tw_decimal_parse(checking->wanted->volume, &volume) && tw_decimal_parse(checking->wanted->part, &part);
    if (position_id[0] == '\0' || !is_number)
        return;
    const char *rest = position_id;
    if (checking->can->partial_close) {
        const answer *partly = close_send(checking, position_id, checking->wanted->part);
        holds(checking, is_done(partly), "a partial close is DONE", "it is not");
        if (partly != NULL && partly->remainder_position_id[0] != '\0')
            rest = partly->remainder_position_id;
        holds(checking, has_position(picture(checking), rest),
              "the rest of a partial close has the ticket that was named (remainder_position_id)",
              "the account holds no such position: wrong remainder ticket");
        holds(checking,
              partly != NULL && (partly->remaining_volume[0] == '\0' ||
                                 strcmp(partly->remaining_volume, tw_decimal_text(volume - part, half)) == 0),
              "what is left is what was said (remaining_volume)", "it is another volume");
    }
    const answer *whole = close_send(checking, rest, "");
    holds(checking, is_done(whole), "a full close is DONE", "it is not");
    const answer *gone = close_send(checking, rest, "");
    holds(checking, gone != NULL && gone->status != NULL && gone->status->outcome == OUTCOME(NOT_FOUND),
          "a close of what is gone is NOT_FOUND", "it is not");
}

static void check_deadline(struct checking *checking)
{
    char id[21];
    Tradewake__Adapter__V1__ExecuteRequest request;
    Tradewake__Adapter__V1__Cancel cancel;
    Google__Protobuf__Timestamp past;
    google__protobuf__timestamp__init(&past);
    past.seconds = 1;
    request_init(checking, &request, id);
    tradewake__adapter__v1__cancel__init(&cancel);
    cancel.order_id = text("1");
    request.deadline = &past;
    request.operation_case = TRADEWAKE__ADAPTER__V1__EXECUTE_REQUEST__OPERATION_CANCEL;
    request.cancel = &cancel;
    const answer *late = ask(checking, METHOD("Execute"), &request.base);
    holds(checking,
          late != NULL && late->status != NULL && late->status->outcome == OUTCOME(REJECTED) && late->status->not_sent,
          "what is past its deadline is REJECTED and not_sent", "it is not");
}

/* Reads what is told for a while: the first message, then the numbers. */
static void check_updates(struct checking *checking, struct tw_wire_stream *stream, uint64_t last, unsigned n_expected)
{
    const Tradewake__Adapter__V1__WatchAccountResponse *message;
    ProtobufCMessage *read;
    struct tw_error error = {{0}};
    bool has_gap = false, has_heartbeat = false;
    unsigned n = 0;
    int64_t until = tw_mono_ns() + UPDATES_NS;
    while (tw_wire_stream_read(stream, until, &checking->arena, &read, NULL, &error) == TW_OK) {
        message = (const void *)read;
        if (message->payload_case == PAYLOAD(HEARTBEAT)) {
            has_heartbeat = true;
            has_gap |= message->heartbeat->last_sequence > last && message->sequence == 0;
            if (message->sequence == 0)
                continue;
        }
        has_gap |= message->sequence > last + 1 || message->sequence == 0;
        last = message->sequence > last ? message->sequence : last;
        n++;
    }
    holds(checking, !has_gap, "updates are numbered without a gap", "a sequence gap: an update is missing");
    holds(checking, n >= n_expected, "what happens at the account is told", "fewer updates than changes");
    holds(checking, has_heartbeat || checking->can->heartbeat == NULL || checking->can->heartbeat->seconds >= 2,
          "heartbeats come as promised", "none came");
}

static struct tw_wire_stream *watch_open(struct checking *checking, uint64_t *ret_last)
{
    Tradewake__Adapter__V1__WatchAccountRequest request;
    struct tw_wire_stream *stream = NULL;
    struct tw_error error = {{0}};
    ProtobufCMessage *read = NULL;
    tradewake__adapter__v1__watch_account_request__init(&request);
    request.session_id = checking->session->session_id;
    bool is_open = tw_wire_stream_open(checking->client, METHOD("WatchAccount"), &request.base, INT64_MAX, &stream, &error) == TW_OK &&
                   tw_wire_stream_read(stream, tw_mono_ns() + CALL_NS, &checking->arena, &read, NULL, &error) == TW_OK;
    const Tradewake__Adapter__V1__WatchAccountResponse *first = (const void *)read;
    holds(checking, is_open && first->payload_case == PAYLOAD(SNAPSHOT_REQUIRED), "updates begin with SnapshotRequired for who knows nothing",
          error.text);
    const Tradewake__Adapter__V1__SnapshotResponse *now = is_open ? picture(checking) : NULL;
    *ret_last = now != NULL ? now->sequence : 0;
    if (now != NULL)
        return stream;
    tw_wire_stream_close(stream);
    return NULL;
}

/* ---- All of it. ---- */

static bool session_open(struct checking *checking)
{
    Tradewake__Adapter__V1__GetCapabilitiesRequest capabilities;
    Tradewake__Adapter__V1__OpenSessionRequest open;
    tradewake__adapter__v1__get_capabilities_request__init(&capabilities);
    tradewake__adapter__v1__open_session_request__init(&open);
    open.account_key = text(checking->wanted->account);
    open.credentials_ref = text(checking->wanted->credentials_ref);
    checking->can = ask(checking, METHOD("GetCapabilities"), &capabilities.base);
    if (checking->can == NULL)
        return false;
    printf("       %s %s\n", checking->can->adapter, checking->can->version);
    holds(checking, checking->can->client_order_id_max == 0 || checking->can->client_order_id_max >= 20,
          "client order ids of 20 characters are kept", "client_order_id_max is smaller");
    checking->session = ask(checking, METHOD("OpenSession"), &open.base);
    return holds(checking,
                 checking->session != NULL && checking->session->status != NULL &&
                     checking->session->status->outcome == OUTCOME(DONE) && checking->session->session_id[0] != '\0' &&
                     checking->session->epoch[0] != '\0',
                 "a session opens, with an id and an epoch", "it does not");
}

static void check_all(struct checking *checking)
{
    uint64_t last = 0;
    struct tw_wire_stream *stream = watch_open(checking, &last);
    const char *position_id = check_open(checking);
    check_snapshot(checking); /* while there is something to count */
    check_close(checking, position_id);
    check_deadline(checking);
    if (stream != NULL)
        check_updates(checking, stream, last, 2);
    tw_wire_stream_close(stream);
    clean(checking);
}

int tw_adapter_check_command(const struct tw_cli_adapter_check *wanted)
{
    struct checking checking = {.wanted = wanted};
    struct tw_error error = {{0}};
    if (tw_wire_client_open_plain(wanted->address, &checking.client, &error) != TW_OK) {
        fprintf(stderr, "tradewake: %s\n", error.text);
        return TW_EXIT_USAGE;
    }
    snprintf(checking.run, sizeof checking.run, "%010llX", (unsigned long long)tw_wall_ns() / 1000000 % 0xffffffffffull);
    tw_arena_init(&checking.arena, 64 * 1024 * 1024);
    bool is_there = session_open(&checking);
    int code = checking.can == NULL ? TW_EXIT_UNREACHABLE : TW_EXIT_FAILED;
    if (is_there) {
        check_all(&checking);
        code = checking.n_broken == 0 ? TW_EXIT_DONE : TW_EXIT_FAILED;
    }
    printf("%u hold, %u do not\n", checking.n_held, checking.n_broken);
    tw_arena_clear(&checking.arena);
    tw_wire_client_close(checking.client);
    return code;
}
