/* line.c - a FIX session over the life of its connections: when it is made, how long it waits, who hears of it.
 *
 * What goes out in one turn of the reactor goes in one write: a burst over many accounts costs a system call per
 * session. Thread: reactor. */
#include "fix.h"
#include "wire.h"

#include <tradewake/adapters/secret.h>
#include <tradewake/base/clock.h>
#include <tradewake/base/crash_point.h>
#include <tradewake/base/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS         (250 * TW_NS_PER_MS)
#define BACK_OFF_NS     (250 * TW_NS_PER_MS) /* doubling */
#define BACK_OFF_NS_MAX (30 * TW_NS_PER_S)
#define STOPPED_NS      (300 * TW_NS_PER_S) /* what a person has to mend is looked at again so seldom */
#define STEADY_NS       (10 * TW_NS_PER_S)  /* a connection that lasted so long has not failed to come up */

enum phase { PHASE_DOWN, PHASE_LINKING, PHASE_LOGON, PHASE_UP };

struct fix_line {
    struct fix_adapter *adapter;
    const struct fix_venue *venue;
    struct fix_line *next;
    char account[FIX_ID_BYTES]; /* whose it is; "" = shared */
    char sender[FIX_NAME_BYTES], sender_sub[FIX_NAME_BYTES], username[FIX_NAME_BYTES], password[FIX_NAME_BYTES];
    struct fix_account *accounts;
    struct fix_orders *orders;
    struct fix_wire *wire;
    struct fix_link *link;
    enum phase phase;
    bool is_moving; /* inside a callback of the wire or the link: what fails is taken down afterwards */
    bool has_failed, is_fatal, was_up;
    char why[WHY_BYTES];
    unsigned failures;
    int64_t due_mono_ns, up_mono_ns, reset_wall_ns;
    struct tw_timer tick;
    struct tw_task flush;
    bool is_flush_posted, is_gone;
    char *out; /* not handed to the link yet */
    size_t n_out, out_room;
};

bool fix_line_is_up(const struct fix_line *line)
{
    return line != NULL && line->phase == PHASE_UP && fix_wire_is_synced(line->wire);
}

struct fix_orders *fix_line_orders(struct fix_line *line)
{
    return line->orders;
}

struct fix_account *fix_line_accounts(const struct fix_line *line)
{
    return line->accounts;
}

/* ---- Down. ---- */

static int64_t back_off_ns(struct fix_adapter *adapter, unsigned failures)
{
    int64_t wait = BACK_OFF_NS;
    for (unsigned i = 0; i < failures && wait < BACK_OFF_NS_MAX; i++)
        wait *= 2;
    wait = wait < BACK_OFF_NS_MAX ? wait : BACK_OFF_NS_MAX;
    adapter->dice = adapter->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return wait / 2 + (int64_t)((uint64_t)(wait / 2) * (adapter->dice >> 33) >> 31);
}

static void tick_at(struct fix_line *line, int64_t due_mono_ns)
{
    tw_timer_set(line->adapter->reactor, &line->tick, due_mono_ns);
}

static void line_down(struct fix_line *line)
{
    int64_t now = tw_mono_ns();
    bool was_up = line->phase == PHASE_UP;
    if (line->n_out > 0 && line->link != NULL) /* its last words */
        (void)fix_link_send(line->link, line->out, line->n_out);
    fix_link_close(line->link, false);
    line->link = NULL;
    line->n_out = 0;
    line->phase = PHASE_DOWN;
    line->has_failed = false;
    fix_wire_disconnected(line->wire);
    if (was_up && now - line->up_mono_ns > STEADY_NS)
        line->failures = 0;
    line->due_mono_ns = now + (line->is_fatal ? STOPPED_NS : back_off_ns(line->adapter, line->failures));
    line->failures++;
    tw_log(line->is_fatal ? TW_LOG_ERROR : was_up ? TW_LOG_WARN : TW_LOG_INFO, line->is_fatal ? "fix.stopped" : "fix.down",
           "session=%s account=\"%s\" why=\"%s\" next=%s retry_ms=%lld", line->venue->name, line->account, line->why,
           line->is_fatal ? "mend" : "reconnect", (long long)((line->due_mono_ns - now) / TW_NS_PER_MS));
    line->is_fatal = false;
    tick_at(line, line->due_mono_ns);
    for (struct fix_account *account = line->accounts; account != NULL; account = account->next)
        fix_account_on_line(account, false, line->why);
}

/* Takes it down, at once or when the callback that it is in has returned. */
static void line_fail(struct fix_line *line, bool is_fatal, const char *why)
{
    if (line->phase == PHASE_DOWN || line->has_failed)
        return;
    line->has_failed = true;
    line->is_fatal = is_fatal;
    snprintf(line->why, sizeof line->why, "%s", why);
    if (!line->is_moving)
        line_down(line);
}

static bool move_begin(struct fix_line *line)
{
    bool was = line->is_moving;
    line->is_moving = true;
    return was;
}

static void move_end(struct fix_line *line, bool was)
{
    line->is_moving = was;
    if (!was && line->has_failed)
        line_down(line);
}

/* ---- Out. ---- */

static void on_flush(struct tw_task *task)
{
    struct fix_line *line = (struct fix_line *)(void *)((char *)task - offsetof(struct fix_line, flush));
    line->is_flush_posted = false;
    if (line->is_gone) {
        free(line->out);
        free(line);
        return;
    }
    bool was = move_begin(line);
    size_t n = line->n_out;
    line->n_out = 0;
    if (n > 0 && line->link != NULL)
        (void)fix_link_send(line->link, line->out, n); /* what fails is told by the link */
    tw_crash_point("fix.sent");
    move_end(line, was);
}

/* The wire has written it down. */
static void on_out(void *context, const char *bytes, size_t n)
{
    struct fix_line *line = context;
    if (line->n_out + n > line->out_room) {
        size_t room = (line->n_out + n) * 2;
        char *grown = realloc(line->out, room);
        if (grown == NULL) {
            line_fail(line, false, "no memory for what is sent");
            return;
        }
        line->out = grown;
        line->out_room = room;
    }
    memcpy(line->out + line->n_out, bytes, n);
    line->n_out += n;
    if (line->is_flush_posted)
        return;
    line->is_flush_posted = true;
    tw_reactor_post(line->adapter->reactor, &line->flush);
}

bool fix_line_send(struct fix_line *line, const char *msg_type, const struct fix_body *body, uint64_t *ret_seq,
                   char why[WHY_BYTES])
{
    if (line->phase != PHASE_UP) {
        snprintf(why, WHY_BYTES, "no connection");
        return false;
    }
    if (body->is_full) {
        snprintf(why, WHY_BYTES, "a field is empty, too long, or has a separator in it");
        return false;
    }
    struct tw_error error = {{0}};
    bool was = move_begin(line);
    tw_status status = fix_wire_send(line->wire, msg_type, body->text, body->n, tw_mono_ns(), ret_seq, &error);
    snprintf(why, WHY_BYTES, "%.200s", error.text);
    line->is_moving = was; /* what fails is taken down by whoever began, or by the next tick: not under a call */
    if (!was && line->has_failed)
        tick_at(line, tw_mono_ns());
    return status == TW_OK;
}

/* ---- What the wire says. ---- */

static void on_message(void *context, const struct fix_heard *heard)
{
    struct fix_line *line = context;
    switch (heard->kind) {
    case FIX_HEARD_EXECUTION:
        fix_accounts_on_execution(line, &heard->report);
        break;
    case FIX_HEARD_CANCEL_REJECT:
        fix_accounts_on_cancel_reject(line, &heard->report);
        break;
    case FIX_HEARD_POSITION:
        fix_accounts_on_position(line, &heard->report);
        break;
    case FIX_HEARD_UNREAD:
        fix_accounts_on_unread(line, heard->ref_seq, heard->ref_id, heard->is_session_reject, heard->code, heard->report.text);
        break;
    case FIX_HEARD_OTHER:
        break;
    }
}

static void on_logon(void *context)
{
    struct fix_line *line = context;
    line->phase = PHASE_UP;
    line->was_up = true;
    line->up_mono_ns = tw_mono_ns();
    tw_log(TW_LOG_INFO, "fix.up", "session=%s account=\"%s\" sender=\"%s\"", line->venue->name, line->account, line->sender);
}

static void on_end(void *context, bool is_fatal, const char *why)
{
    line_fail(context, is_fatal, why);
}

static void on_missed(void *context)
{
    struct fix_line *line = context;
    for (struct fix_account *account = line->accounts; account != NULL; account = account->next)
        fix_account_on_missed(account);
}

static const struct fix_wire_host wire_host = {on_out, on_message, on_logon, on_missed, on_end};

/* Accounts are up when what was missed has been replayed. */
static void accounts_look(struct fix_line *line)
{
    if (!fix_line_is_up(line) || line->has_failed)
        return;
    for (struct fix_account *account = line->accounts; account != NULL; account = account->next)
        fix_account_on_line(account, true, "");
}

/* ---- What the link says. ---- */

static void secret_use(struct fix_line *line, struct tw_secret *ret, char why[WHY_BYTES])
{
    struct tw_error error = {{"there is no directory of secrets"}};
    why[0] = '\0';
    if (line->password[0] == '\0')
        return;
    if (line->adapter->secrets_dir == NULL ||
        tw_secret_read(line->adapter->secrets_dir, line->password, ret, &error) != TW_OK)
        snprintf(why, WHY_BYTES, "password (554): %.200s", error.text);
}

static void on_link_up(void *context)
{
    struct fix_line *line = context;
    struct tw_secret secret = {0};
    char why[WHY_BYTES];
    bool was = move_begin(line);
    line->phase = PHASE_LOGON;
    secret_use(line, &secret, why);
    if (why[0] == '\0')
        fix_wire_connected(line->wire, tw_mono_ns(), secret.text != NULL ? secret.text : "");
    else
        line_fail(line, false, why);
    tw_secret_wipe(&secret);
    move_end(line, was);
    if (line->phase != PHASE_DOWN)
        tick_at(line, tw_mono_ns() + TICK_NS);
}

static void on_link_bytes(void *context, const char *bytes, size_t n)
{
    struct fix_line *line = context;
    bool was = move_begin(line);
    fix_wire_bytes(line->wire, bytes, n, tw_mono_ns());
    accounts_look(line);
    move_end(line, was);
}

static void on_link_down(void *context, const char *why)
{
    line_fail(context, false, why);
}

static void line_connect(struct fix_line *line)
{
    const struct fix_venue *venue = line->venue;
    const struct fix_link_options options = {
        .reactor = line->adapter->reactor,
        .host = venue->host,
        .port = venue->port,
        .tls = line->adapter->tls[venue - line->adapter->venues.list],
        .server_name = venue->server_name,
        .step_ns = (int64_t)venue->connect_ms * TW_NS_PER_MS,
        .callbacks = {line, on_link_up, on_link_bytes, on_link_down},
    };
    line->link = fix_link_open(&options);
    line->phase = PHASE_LINKING;
    if (line->link == NULL)
        line_fail(line, false, "no memory for a connection");
}

/* ---- Time. ---- */

static void hours_keep(struct fix_line *line, bool is_open, int64_t wall_ns)
{
    int64_t reset = fix_last_reset_wall_ns(line->venue, wall_ns);
    if (is_open && reset == line->reset_wall_ns)
        return;
    fix_wire_logout(line->wire, tw_mono_ns(), is_open ? "numbers begin anew" : "the session's hours are over");
    line_fail(line, false, is_open ? "numbers begin anew" : "outside the session's hours");
}

/* The venue's numbers may begin anew when nothing is on its way. After a start nobody knows what is. */
static bool may_reset(const struct fix_line *line)
{
    for (const struct fix_account *account = line->accounts; account != NULL; account = account->next)
        if (account->flights != NULL)
            return false;
    for (const struct fix_order *order = fix_orders_first(line->orders); order != NULL; order = order->older)
        if (order->is_ours && !order->is_absent && (order->state == FIX_SENT || order->change_id[0] != '\0'))
            return false;
    return line->was_up;
}

static void on_tick(struct tw_timer *timer)
{
    struct fix_line *line = (struct fix_line *)(void *)((char *)timer - offsetof(struct fix_line, tick));
    int64_t now = tw_mono_ns(), wall = tw_wall_ns();
    bool is_open = fix_hours_are_open(&line->venue->hours, wall);
    if (line->phase == PHASE_DOWN && !is_open) {
        for (struct fix_account *account = line->accounts; account != NULL; account = account->next)
            fix_account_tell(account, false, "outside the session's hours");
        tick_at(line, now + TW_NS_PER_S);
        return;
    }
    if (line->phase == PHASE_DOWN) {
        struct tw_error error = {{0}};
        line->reset_wall_ns = fix_last_reset_wall_ns(line->venue, wall);
        if (fix_wire_prepare(line->wire, line->reset_wall_ns, may_reset(line), &error) != TW_OK) {
            tw_log(TW_LOG_ERROR, "fix.store", "session=%s account=\"%s\" why=\"%s\"", line->venue->name, line->account, error.text);
            tick_at(line, now + BACK_OFF_NS_MAX);
            return;
        }
        line_connect(line);
        return;
    }
    bool was = move_begin(line);
    if (line->phase >= PHASE_LOGON) {
        fix_wire_tick(line->wire, now);
        accounts_look(line);
        if (line->phase == PHASE_UP)
            hours_keep(line, is_open, wall);
    }
    move_end(line, was);
    if (line->phase != PHASE_DOWN)
        tick_at(line, now + TICK_NS);
}

/* ---- Life. ---- */

static void line_free(struct fix_line *line)
{
    fix_wire_close(line->wire);
    fix_orders_free(line->orders);
    if (line->is_flush_posted) {
        line->is_gone = true; /* the task is still with the reactor */
        return;
    }
    free(line->out);
    free(line);
}

static bool line_fill_in(struct fix_line *line, const char *account)
{
    const struct fix_venue *venue = line->venue;
    return fix_fill_in(venue->sender, account, line->sender, sizeof line->sender) &&
           fix_fill_in(venue->sender_sub, account, line->sender_sub, sizeof line->sender_sub) &&
           fix_fill_in(venue->username, account, line->username, sizeof line->username) &&
           fix_fill_in(venue->password, account, line->password, sizeof line->password);
}

static struct fix_line *line_new(struct fix_adapter *adapter, const struct fix_venue *venue, const char *account,
                                 char why[WHY_BYTES])
{
    struct tw_error error = {{"no memory for a session"}};
    struct fix_line *line = calloc(1, sizeof *line);
    if (line == NULL) {
        snprintf(why, WHY_BYTES, "%.200s", error.text);
        return NULL;
    }
    line->adapter = adapter;
    line->venue = venue;
    line->flush.run = on_flush;
    line->tick.fire = on_tick;
    snprintf(line->account, sizeof line->account, "%s", venue->is_per_account ? account : "");
    line->orders = fix_orders_new(ORDERS_REMEMBERED);
    bool fits = line_fill_in(line, account);
    if (!fits)
        (void)tw_error_set(&error, TW_INVALID, "sender (49) or username (553) is too long with this account");
    const struct fix_wire_options options = {
        .venue = venue,
        .state_dir = adapter->state_dir,
        .account = line->account,
        .sender = line->sender,
        .sender_sub = line->sender_sub,
        .username = line->username,
        .host = &wire_host,
        .context = line,
    };
    if (line->orders != NULL && fits && fix_wire_open(&options, &line->wire, &error) == TW_OK)
        return line;
    snprintf(why, WHY_BYTES, "%.200s", error.text);
    line_free(line);
    return NULL;
}

struct fix_line *fix_line_attach(struct fix_adapter *adapter, struct fix_account *account, char why[WHY_BYTES])
{
    const struct fix_venue *venue = account->venue;
    const char *key = venue->is_per_account ? account->settings.account : "";
    struct fix_line *line = adapter->lines;
    while (line != NULL && (line->venue != venue || strcmp(line->account, key) != 0))
        line = line->next;
    for (const struct fix_account *other = line != NULL ? line->accounts : NULL; other != NULL; other = other->next)
        if (strcmp(other->settings.account, account->settings.account) == 0) {
            snprintf(why, WHY_BYTES, "another follower has account %s of FIX session %s", account->settings.account, venue->name);
            return NULL;
        }
    if (line == NULL) {
        line = line_new(adapter, venue, account->settings.account, why);
        if (line == NULL)
            return NULL;
        line->next = adapter->lines;
        adapter->lines = line;
        tick_at(line, tw_mono_ns());
    }
    account->line = line;
    account->next = line->accounts;
    line->accounts = account;
    if (fix_line_is_up(line))
        fix_account_on_line(account, true, "");
    return line;
}

/* Says goodbye, and is gone. */
static void line_end(struct fix_line *line)
{
    struct fix_line **at = &line->adapter->lines;
    bool was = move_begin(line);
    while (*at != line)
        at = &(*at)->next;
    *at = line->next;
    if (line->phase == PHASE_UP)
        fix_wire_logout(line->wire, tw_mono_ns(), "");
    if (line->n_out > 0 && line->link != NULL)
        (void)fix_link_send(line->link, line->out, line->n_out);
    line->n_out = 0;
    (void)tw_timer_stop(line->adapter->reactor, &line->tick);
    fix_link_close(line->link, false);
    line->link = NULL;
    line->phase = PHASE_DOWN;
    line->is_moving = was;
    line_free(line);
}

void fix_line_detach(struct fix_line *line, struct fix_account *account)
{
    struct fix_account **at = &line->accounts;
    (void)tw_timer_stop(account->adapter->reactor, &account->start_timer);
    account->is_up = account->is_starting = false;
    fix_calls_cut(account, "the session is closed");
    while (*at != account)
        at = &(*at)->next;
    *at = account->next;
    account->next = NULL;
    for (struct fix_order *order = fix_orders_first(line->orders); order != NULL; order = order->older)
        if (order->owner == account)
            order->owner = NULL;
    if (line->accounts == NULL)
        line_end(line);
}

void fix_lines_close(struct fix_adapter *adapter)
{
    while (adapter->lines != NULL) {
        struct fix_line *line = adapter->lines;
        while (line->accounts != NULL) {
            struct fix_account *account = line->accounts;
            bool is_last = account->next == NULL;
            fix_line_detach(line, account);
            account->line = NULL;
            if (is_last)
                break; /* the line is gone with it */
        }
    }
}
