/* services.h - the services over the engine: each call is read, checked, handed to the engine and
 * answered; nothing is decided here.
 *
 * Thread: every method runs on its call's own thread; see wire/server.h. */
#ifndef TW_RPC_SERVICES_H
#define TW_RPC_SERVICES_H

#include <tradewake/engine/engine.h>
#include <tradewake/wire/server.h>

/* Tells the methods which engine. Thread: main, before tw_wire_server_start(); it stays until after
 * tw_wire_server_stop(). */
void tw_services_engine_set(struct tw_engine *engine);
struct tw_engine *tw_services_engine(void);

/* ---- Pages (AIP-158). A token is opaque and belongs to the request's filter. ---- */

#define TW_PAGE_SIZE_DEFAULT 100u
#define TW_PAGE_SIZE_MAX 1000u

uint32_t tw_page_size(uint32_t asked);
/* place: at most 80 bytes of text; filter: any text that names what is listed. In arena. */
char *tw_page_token(struct tw_arena *arena, const char *filter, const char *place);
/* "" gives "". False with INVALID_FIELD page_token: not ours, or of another filter. */
bool tw_page_place(const char *token, const char *filter, char ret_place[81],
                   struct tw_refusal *refusal);

/* The rows for the table of methods. */
void tw_submit_event_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid);
void tw_submit_event_on_news(struct tw_call *call);
void tw_submit_event_on_timer(struct tw_call *call);
void tw_submit_event_on_finished(struct tw_call *call, bool cancelled);
void tw_stream_events_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                 const struct tw_refusal *invalid);
void tw_stream_events_on_writable(struct tw_call *call);
void tw_stream_events_on_news(struct tw_call *call);
void tw_stream_events_on_timer(struct tw_call *call);
void tw_stream_events_on_half_close(struct tw_call *call);
void tw_stream_events_on_finished(struct tw_call *call, bool cancelled);
void tw_get_event_on_request(struct tw_call *call, const ProtobufCMessage *request,
                             const struct tw_refusal *invalid);
void tw_get_event_on_past(struct tw_call *call);
void tw_get_master_on_request(struct tw_call *call, const ProtobufCMessage *request,
                              const struct tw_refusal *invalid);
void tw_list_masters_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid);
void tw_sync_master_on_request(struct tw_call *call, const ProtobufCMessage *request,
                               const struct tw_refusal *invalid);
void tw_explain_event_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                 const struct tw_refusal *invalid);

void tw_get_copy_on_request(struct tw_call *call, const ProtobufCMessage *request,
                            const struct tw_refusal *invalid);
void tw_list_copies_on_request(struct tw_call *call, const ProtobufCMessage *request,
                               const struct tw_refusal *invalid);
void tw_get_copy_on_past(struct tw_call *call);
void tw_resolve_copy_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid);
void tw_list_copies_on_past(struct tw_call *call);
void tw_watch_copies_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid);
void tw_watch_copies_on_news(struct tw_call *call);
void tw_watch_copies_on_timer(struct tw_call *call);
void tw_watch_copies_on_finished(struct tw_call *call, bool cancelled);
void tw_compare_follower_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                    const struct tw_refusal *invalid);
void tw_compare_follower_on_post(struct tw_call *call);

#define TW_FOLLOWER_METHOD_MAP(X)                                                                    \
    X(CreateFollower, create_follower)                                                               \
    X(GetFollower, get_follower)                                                                     \
    X(ListFollowers, list_followers)                                                                 \
    X(UpdateFollower, update_follower)                                                               \
    X(DeleteFollower, delete_follower)                                                               \
    X(CreateSubscription, create_subscription)                                                       \
    X(GetSubscription, get_subscription)                                                             \
    X(ListSubscriptions, list_subscriptions)                                                         \
    X(UpdateSubscription, update_subscription)                                                       \
    X(DeleteSubscription, delete_subscription)                                                       \
    X(Halt, halt)                                                                                    \
    X(Resume, resume)                                                                                \
    X(ListHalts, list_halts)                                                                         \
    X(RearmGate, rearm_gate)                                                                         \
    X(ResetStopOut, reset_stop_out)

#define TW_FOLLOWER_METHOD_DECLARE(name, function)                                                   \
    void tw_##function##_on_request(struct tw_call *call, const ProtobufCMessage *request,           \
                                    const struct tw_refusal *invalid);
TW_FOLLOWER_METHOD_MAP(TW_FOLLOWER_METHOD_DECLARE)
#undef TW_FOLLOWER_METHOD_DECLARE

/* clang-format off */
#define TW_FOLLOWER_METHOD_ROW(name, function)                                                       \
    {.path = "/tradewake.v1.FollowerService/" #name, .on_request = tw_##function##_on_request},

#define TW_SERVICE_METHODS                                                                           \
    {.path = "/tradewake.v1.EventService/SubmitEvent", .request_bytes_max = TW_EVENT_BYTES_MAX,      \
     .on_request = tw_submit_event_on_request, .on_post = tw_submit_event_on_news,                   \
     .on_timer = tw_submit_event_on_timer, .on_finished = tw_submit_event_on_finished},              \
    {.path = "/tradewake.v1.EventService/StreamEvents", .request_bytes_max = TW_EVENT_BYTES_MAX,     \
     .takes_invalid = true, .on_request = tw_stream_events_on_request,                               \
     .on_writable = tw_stream_events_on_writable, .on_post = tw_stream_events_on_news,               \
     .on_timer = tw_stream_events_on_timer,                                                          \
     .on_half_close = tw_stream_events_on_half_close,                                                \
     .on_finished = tw_stream_events_on_finished},                                                   \
    {.path = "/tradewake.v1.EventService/SyncMaster", .on_request = tw_sync_master_on_request},      \
    {.path = "/tradewake.v1.EventService/ExplainEvent", .request_bytes_max = TW_EVENT_BYTES_MAX,     \
     .on_request = tw_explain_event_on_request},                                                     \
    {.path = "/tradewake.v1.EventService/GetEvent", .on_request = tw_get_event_on_request,           \
     .on_post = tw_get_event_on_past},                                                               \
    {.path = "/tradewake.v1.EventService/GetMaster", .on_request = tw_get_master_on_request},        \
    {.path = "/tradewake.v1.EventService/ListMasters", .on_request = tw_list_masters_on_request},    \
    {.path = "/tradewake.v1.CopyService/GetCopy", .on_request = tw_get_copy_on_request,              \
     .on_post = tw_get_copy_on_past},                                                                \
    {.path = "/tradewake.v1.CopyService/ListCopies", .on_request = tw_list_copies_on_request,        \
     .on_post = tw_list_copies_on_past},                                                             \
    {.path = "/tradewake.v1.CopyService/WatchCopies", .watches = true,                               \
     .on_request = tw_watch_copies_on_request, .on_post = tw_watch_copies_on_news,                   \
     .on_writable = tw_watch_copies_on_news, .on_timer = tw_watch_copies_on_timer,                   \
     .on_finished = tw_watch_copies_on_finished},                                                    \
    {.path = "/tradewake.v1.CopyService/ResolveCopy", .on_request = tw_resolve_copy_on_request},     \
    TW_FOLLOWER_METHOD_MAP(TW_FOLLOWER_METHOD_ROW)                                                   \
    {.path = "/tradewake.v1.CopyService/CompareFollower",                                            \
     .on_request = tw_compare_follower_on_request, .on_post = tw_compare_follower_on_post}
/* clang-format on */

#endif
