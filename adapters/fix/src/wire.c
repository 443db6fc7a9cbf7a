#include "wire.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/crash_point.h>
#include <tradewake/base/log.h>
#include <tradewake/fix/codec.h>
#include <tradewake/fix/session.h>
#include <tradewake/fix/store.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STORE_PATH_BYTES = 1024 };

struct fix_wire {
    const struct fix_venue *venue;
    const struct fix_wire_host *host;
    void *context;
    char account[FIX_ID_BYTES], sender[FIX_NAME_BYTES], sender_sub[FIX_NAME_BYTES], username[FIX_NAME_BYTES];
    char path[STORE_PATH_BYTES]; /* "" = nothing is kept */
    struct fix_store *store;     /* NULL: nothing is kept, or it has failed and is to be opened anew */
    struct fix_session *session;
    struct fix_reader reader;
    bool is_ended; /* until the next connection */
    /* What came, and what goes out while that is taken up, each have their own. */
    struct fix_actions taken, going;
};

static struct fix_now now_of(int64_t mono_ns)
{
    return (struct fix_now){.mono_ns = mono_ns, .wall_ns = tw_wall_ns()};
}

/* ---- What the session wants done. ---- */

static void end(struct fix_wire *wire, bool is_fatal, const char *why)
{
    if (wire->is_ended)
        return;
    wire->is_ended = true;
    tw_status noted = wire->store != NULL ? fix_store_note(wire->store, tw_wall_ns(), why, NULL) : TW_OK;
    (void)noted; /* for the log alone */
    wire->host->on_end(wire->context, is_fatal, why);
}

/* The disk does not take it: nothing more goes out before the file has been opened anew. */
static void store_fail(struct fix_wire *wire, const char *why)
{
    fix_store_close(wire->store);
    wire->store = NULL;
    end(wire, false, why);
}

static bool do_send(struct fix_wire *wire, const struct fix_action *action, struct tw_error *error)
{
    tw_crash_point("fix.numbered");
    if (wire->path[0] != '\0' && wire->store == NULL) {
        (void)tw_error_set(error, TW_IO, "the session's file has failed");
        return false;
    }
    if (wire->store != NULL &&
        fix_store_out(wire->store, action->seq, tw_wall_ns(), action->bytes, action->n, error) != TW_OK) {
        store_fail(wire, error->text);
        return false;
    }
    tw_crash_point("fix.stored");
    wire->host->on_out(wire->context, action->bytes, action->n);
    return true;
}

static const char *value_of(const void *message, uint32_t tag, size_t *ret_n)
{
    return fix_message_value(message, tag, ret_n);
}

static void do_deliver(struct fix_wire *wire, const struct fix_message *message)
{
    struct fix_heard heard;
    tw_status kept = wire->store != NULL ? fix_store_in(wire->store, tw_wall_ns(), message->bytes, message->n, NULL) : TW_OK;
    (void)kept; /* for the log alone: what cannot be written is told at the next number */
    fix_hear(&wire->venue->profile, message->type, value_of, message, &heard);
    wire->host->on_message(wire->context, &heard);
    tw_crash_point("fix.delivered");
}

static void do_say(const struct fix_wire *wire, const char *why)
{
    tw_log(TW_LOG_INFO, "fix.session", "session=%s account=\"%s\" what=\"%s\"", wire->venue->name, wire->account, why);
}

/* False: it could not be done, and what follows from it is not done either. */
static bool act(struct fix_wire *wire, const struct fix_action *action, struct tw_error *error)
{
    switch (action->what) {
    case FIX_DO_RENUMBER:
        if (wire->store == NULL ||
            fix_store_renumber(wire->store, action->next_out, action->next_in, tw_wall_ns(), error) == TW_OK)
            return true;
        store_fail(wire, error->text);
        return false;
    case FIX_DO_SEND:
        return do_send(wire, action, error);
    case FIX_DO_DELIVER:
        do_deliver(wire, action->message);
        return true;
    case FIX_DO_EXPECT:
        if (wire->store != NULL && fix_store_expect(wire->store, action->next_in, error) != TW_OK)
            store_fail(wire, error->text);
        tw_crash_point("fix.expected");
        return true;
    case FIX_DO_UP:
        wire->host->on_logon(wire->context);
        return true;
    case FIX_DO_MISSED:
        do_say(wire, "messages are missing for good: the orders are asked for");
        wire->host->on_missed(wire->context);
        return true;
    case FIX_DO_SAY:
        do_say(wire, action->why);
        return true;
    case FIX_DO_END:
        end(wire, action->is_fatal, action->why);
        return true;
    }
    return true;
}

static void perform(struct fix_wire *wire, struct fix_actions *actions, int64_t now_mono_ns)
{
    struct tw_error error = {{0}};
    for (;;) {
        for (size_t i = 0; i < actions->n; i++)
            if (!act(wire, &actions->list[i], &error))
                return;
        if (!actions->has_more || wire->is_ended)
            return;
        fix_session_more(wire->session, now_of(now_mono_ns), actions);
    }
}

/* ---- Life. ---- */

static tw_status store_open(struct fix_wire *wire, struct tw_error *error)
{
    const struct fix_store_options options = {.path = wire->path};
    return wire->path[0] == '\0' ? TW_OK : fix_store_open(&options, tw_wall_ns(), &wire->store, error);
}

static tw_status session_new(struct fix_wire *wire, struct tw_error *error)
{
    const struct fix_venue *venue = wire->venue;
    struct fix_store_numbers numbers = {.next_out = 1, .next_in = 1};
    const struct fix_session_options options = {
        .sender = wire->sender,
        .target = venue->target,
        .sender_sub = wire->sender_sub,
        .target_sub = venue->target_sub,
        .username = wire->username,
        .heartbeat_s = venue->heartbeat_s,
        .logon_ms = venue->connect_ms,
        .resets_at_logon = venue->profile.resets_at_logon,
        .takes_user_tags = venue->profile.takes_user_tags,
    };
    if (wire->store != NULL)
        numbers = fix_store_numbers(wire->store);
    fix_session_free(wire->session);
    wire->session = NULL;
    return fix_session_new(&options, numbers.next_out, numbers.next_in, &wire->session, error);
}

static tw_status path_set(struct fix_wire *wire, const char *state_dir, struct tw_error *error)
{
    if (state_dir == NULL && !wire->venue->profile.resets_at_logon)
        return tw_error_set(error, TW_INVALID,
                            "its numbers (34) must outlive the server: give --state-dir, or reset = logon if the venue wants that");
    if (state_dir == NULL)
        return TW_OK;
    int n = snprintf(wire->path, sizeof wire->path, "%s/%s%s%s.fix", state_dir, wire->venue->name,
                     wire->account[0] != '\0' ? "@" : "", wire->account);
    return n > 0 && (size_t)n < sizeof wire->path ? TW_OK : tw_error_set(error, TW_INVALID, "the path of its file is too long");
}

tw_status fix_wire_open(const struct fix_wire_options *options, struct fix_wire **ret, struct tw_error *error)
{
    struct fix_wire *wire = calloc(1, sizeof *wire);
    if (wire == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a session");
    wire->venue = options->venue;
    wire->host = options->host;
    wire->context = options->context;
    snprintf(wire->account, sizeof wire->account, "%s", options->account);
    snprintf(wire->sender, sizeof wire->sender, "%s", options->sender);
    snprintf(wire->sender_sub, sizeof wire->sender_sub, "%s", options->sender_sub);
    snprintf(wire->username, sizeof wire->username, "%s", options->username);
    tw_status status = path_set(wire, options->state_dir, error);
    if (status == TW_OK)
        status = fix_reader_init(&wire->reader, 0);
    if (status == TW_OK)
        status = store_open(wire, error);
    if (status == TW_OK)
        status = session_new(wire, error);
    if (status == TW_OK)
        *ret = wire;
    else
        fix_wire_close(wire);
    return status;
}

void fix_wire_close(struct fix_wire *wire)
{
    if (wire == NULL)
        return;
    fix_session_free(wire->session);
    fix_store_close(wire->store);
    fix_reader_clear(&wire->reader);
    free(wire);
}

tw_status fix_wire_prepare(struct fix_wire *wire, int64_t reset_wall_ns, bool may_reset, struct tw_error *error)
{
    if (wire->path[0] != '\0' && wire->store == NULL) {
        tw_status status = store_open(wire, error);
        if (status == TW_OK)
            status = session_new(wire, error);
        if (status != TW_OK)
            return status;
    }
    fix_session_allow_reset(wire->session, may_reset);
    if (reset_wall_ns == INT64_MIN || wire->store == NULL || fix_store_numbers(wire->store).since_wall_ns >= reset_wall_ns)
        return TW_OK;
    tw_status status = fix_session_renumber(wire->session, &wire->taken, error);
    wire->is_ended = false;
    if (status == TW_OK)
        perform(wire, &wire->taken, tw_mono_ns());
    return wire->is_ended ? tw_error_set(error, TW_IO, "numbers could not begin anew: the session's file has failed") : status;
}

/* ---- Inputs. ---- */

void fix_wire_connected(struct fix_wire *wire, int64_t now_mono_ns, const char *password)
{
    wire->is_ended = false;
    fix_reader_reset(&wire->reader);
    fix_session_on_connected(wire->session, now_of(now_mono_ns), password, &wire->taken);
    perform(wire, &wire->taken, now_mono_ns);
    /* The one message with a secret in it. */
    explicit_bzero(wire->taken.bytes, sizeof wire->taken.bytes);
}

void fix_wire_disconnected(struct fix_wire *wire)
{
    wire->is_ended = true;
    fix_session_on_disconnected(wire->session);
}

void fix_wire_bytes(struct fix_wire *wire, const char *bytes, size_t n, int64_t now_mono_ns)
{
    struct fix_message message;
    tw_crash_point("fix.received");
    while (n > 0 && !wire->is_ended) {
        size_t taken = fix_reader_feed(&wire->reader, bytes, n);
        bytes += taken;
        n -= taken;
        while (!wire->is_ended && fix_reader_next(&wire->reader, &message)) {
            fix_session_on_message(wire->session, now_of(now_mono_ns), &message, &wire->taken);
            perform(wire, &wire->taken, now_mono_ns);
        }
    }
}

void fix_wire_tick(struct fix_wire *wire, int64_t now_mono_ns)
{
    struct tw_error error = {{0}};
    if (wire->is_ended)
        return;
    fix_session_on_tick(wire->session, now_of(now_mono_ns), &wire->taken);
    perform(wire, &wire->taken, now_mono_ns);
    if (!wire->is_ended && wire->store != NULL && fix_store_tick(wire->store, tw_wall_ns(), &error) != TW_OK)
        store_fail(wire, error.text);
}

void fix_wire_logout(struct fix_wire *wire, int64_t now_mono_ns, const char *text)
{
    if (wire->is_ended)
        return;
    fix_session_logout(wire->session, now_of(now_mono_ns), text, &wire->taken);
    perform(wire, &wire->taken, now_mono_ns);
}

bool fix_wire_is_synced(const struct fix_wire *wire)
{
    return !wire->is_ended && fix_session_is_synced(wire->session);
}

tw_status fix_wire_send(struct fix_wire *wire, const char *msg_type, const char *body, size_t n, int64_t now_mono_ns,
                        uint64_t *ret_seq, struct tw_error *error)
{
    struct fix_actions *actions = &wire->going;
    if (wire->is_ended)
        return tw_error_set(error, TW_UNREACHABLE, "no connection");
    tw_status status = fix_session_send(wire->session, now_of(now_mono_ns), msg_type, body, n, actions, error);
    for (size_t i = 0; status == TW_OK && i < actions->n; i++) {
        if (!act(wire, &actions->list[i], error))
            return TW_IO;
        if (actions->list[i].what == FIX_DO_SEND && ret_seq != NULL)
            *ret_seq = actions->list[i].seq;
    }
    return status;
}
