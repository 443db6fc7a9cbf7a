/* fuzz_fix_session.c
 * Targets:  fix_session, with messages and times that the bytes choose
 * Property: what is sent is a message, and its number is the next one, always; an application message is sent once, when
 * it is asked for, and never as a duplicate; numbers go down only where that is allowed; what is delivered comes in the
 * order of its numbers, each once; nothing follows the end. */
#include <tradewake/fix/session.h>

#include <tradewake/base/clock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

struct bytes {
    const uint8_t *at, *end;
};

static unsigned take(struct bytes *bytes)
{
    return bytes->at < bytes->end ? *bytes->at++ : 0;
}

struct run {
    struct fix_session *session;
    struct fix_actions *actions;
    struct fix_now now;
    uint64_t next_out, next_in, delivered;
    unsigned orders_asked, orders_sent;
    bool may_renumber, is_up, has_ended;
};

static struct fix_field *fields_of(int which)
{
    static struct fix_field *fields[2];
    if (fields[which] == NULL)
        fields[which] = calloc(FIX_FIELDS_MAX, sizeof *fields[which]);
    return fields[which];
}

static void sent_check(struct run *run, const struct fix_action *action)
{
    struct fix_message message;
    require(fix_message_read(action->bytes, action->n, fields_of(0), &message));
    require(message.defect == FIX_NO_DEFECT && message.has_seq && message.is_44);
    if (action->seq != 0) {
        require(action->seq == run->next_out && message.seq == action->seq);
        run->next_out++;
    } else {
        require(strcmp(message.type, "4") == 0 && fix_message_is(&message, 123, "Y") && message.seq < run->next_out);
    }
    if (!fix_type_is_admin(message.type)) {
        run->orders_sent++;
        require(!fix_message_is(&message, 43, "Y"));
    }
}

static void perform(struct run *run)
{
    require(run->actions->n <= FIX_ACTIONS_MAX);
    for (size_t i = 0; i < run->actions->n; i++) {
        const struct fix_action *action = &run->actions->list[i];
        require(!run->has_ended);
        switch (action->what) {
        case FIX_DO_RENUMBER:
            require(run->may_renumber);
            run->next_out = action->next_out;
            run->next_in = action->next_in;
            run->delivered = 0;
            break;
        case FIX_DO_SEND:
            sent_check(run, action);
            break;
        case FIX_DO_DELIVER:
            require(action->message->seq > run->delivered);
            run->delivered = action->message->seq;
            break;
        case FIX_DO_EXPECT:
            require(action->next_in >= run->next_in);
            run->next_in = action->next_in;
            break;
        case FIX_DO_UP:
            require(!run->is_up);
            run->is_up = true;
            break;
        case FIX_DO_MISSED:
            require(action->from <= action->to);
            break;
        case FIX_DO_SAY:
            require(action->why[0] != '\0');
            break;
        case FIX_DO_END:
            require(action->why[0] != '\0' && i + 1 == run->actions->n);
            run->has_ended = true;
            break;
        }
    }
    require(run->next_out == fix_session_next_out(run->session));
    require(run->orders_sent == run->orders_asked);
    while (run->actions->has_more && !run->has_ended) {
        fix_session_more(run->session, run->now, run->actions);
        perform(run);
    }
    require(run->next_in == fix_session_next_in(run->session));
}

static void disconnect(struct run *run)
{
    fix_session_on_disconnected(run->session);
    run->is_up = run->has_ended = false;
}

/* A message of theirs: its type, how far its number is from the one that is due, and what else is in it. */
static void on_message(struct run *run, struct bytes *bytes)
{
    static const char *const types[] = {"0", "1", "2", "3", "4", "5", "A", "8", "9", "j", "AP", "*"};
    static char text[8192];
    struct fix_writer writer;
    struct fix_message message;
    unsigned type = take(bytes), what = take(bytes), off = take(bytes), more = take(bytes);
    int64_t seq = (int64_t)run->next_in + (int64_t)(off % 16) - (off % 16 > 12 ? 16 : 0);
    fix_writer_begin(&writer, text, sizeof text, off == 255 ? "FIX.4.2" : "FIX.4.4", types[type % 12]);
    if (off != 254)
        fix_writer_number(&writer, 34, off >= 250 ? 1 : seq < 0 ? 0 : (uint64_t)seq);
    if ((what & 1) != 0)
        fix_writer_text(&writer, 43, "Y");
    fix_writer_text(&writer, 49, more == 251 ? "WHO" : "THEM");
    fix_writer_time(&writer, 52, run->now.wall_ns + (more == 252 ? 500 * TW_NS_PER_S : 0));
    fix_writer_text(&writer, 56, "US");
    if ((what & 2) != 0)
        fix_writer_time(&writer, 122, run->now.wall_ns - ((int64_t)(more % 3) - 1) * TW_NS_PER_S);
    if ((what & 4) != 0)
        fix_writer_text(&writer, 123, (more & 1) != 0 ? "Y" : "N");
    if ((what & 8) != 0)
        fix_writer_number(&writer, 36, run->next_in + more % 9);
    if ((what & 16) != 0) {
        fix_writer_number(&writer, 7, more % 16);
        fix_writer_number(&writer, 16, more / 16);
    }
    if ((what & 32) != 0)
        fix_writer_text(&writer, 112, "ID");
    if ((what & 64) != 0)
        fix_writer_number(&writer, 108, more % 40);
    if ((what & 128) != 0)
        fix_writer_text(&writer, more % 2 == 0 ? 141 : 58, more % 2 == 0 ? "Y" : "too low");
    size_t n = fix_writer_end(&writer);
    require(n > 0 && fix_message_read(text, n, fields_of(1), &message));
    fix_session_on_message(run->session, run->now, &message, run->actions);
    perform(run);
}

/* A message with any body at all. */
static void on_any_message(struct run *run, struct bytes *bytes)
{
    static char text[512];
    struct fix_message message;
    char body[256];
    size_t n = take(bytes) % 200;
    for (size_t i = 0; i < n; i++)
        body[i] = (char)take(bytes);
    int head = snprintf(text, sizeof text, "8=FIX.4.4\0019=%zu\00135=", n + 4);
    memcpy(text + head, body, n);
    size_t size = (size_t)head + n;
    text[size++] = FIX_SOH;
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += (unsigned char)text[i];
    size += (size_t)snprintf(text + size, 16, "10=%03u\001", sum % 256);
    if (!fix_message_read(text, size, fields_of(1), &message))
        return;
    fix_session_on_message(run->session, run->now, &message, run->actions);
    perform(run);
}

static void on_send(struct run *run, unsigned letter)
{
    char body[32];
    int n = snprintf(body, sizeof body, "11=%c\00155=X\001", (char)letter);
    tw_status status = fix_session_send(run->session, run->now, "D", body, (size_t)n, run->actions, NULL);
    require(status != TW_OK || run->is_up);
    run->orders_asked += status == TW_OK;
    perform(run);
}

static void step(struct run *run, struct bytes *bytes)
{
    unsigned what = take(bytes);
    bool is_down = fix_session_phase(run->session) == FIX_DOWN;
    if (run->has_ended)
        disconnect(run);
    else if (is_down) {
        fix_session_on_connected(run->session, run->now, "secret", run->actions);
        perform(run);
    } else if (what < 160)
        on_message(run, bytes);
    else if (what < 180)
        on_any_message(run, bytes);
    else if (what < 210) {
        int64_t ns = (int64_t)(what - 179) * TW_NS_PER_S / 2;
        run->now.mono_ns += ns;
        run->now.wall_ns += ns;
        fix_session_on_tick(run->session, run->now, run->actions);
        perform(run);
    } else if (what < 245)
        on_send(run, what);
    else if (what < 250) {
        fix_session_logout(run->session, run->now, what % 2 == 0 ? "bye" : "", run->actions);
        perform(run);
    } else
        disconnect(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, data + size};
    unsigned first = take(&bytes);
    struct fix_session_options options = {.sender = "US", .target = "THEM", .heartbeat_s = first % 4 * 5,
                                          .resend_chunk = (first & 8) != 0 ? 3 : 0, .resets_at_logon = (first & 16) != 0,
                                          .takes_user_tags = (first & 32) != 0};
    struct run run = {.now = {.mono_ns = TW_NS_PER_S, .wall_ns = INT64_C(1796126400) * TW_NS_PER_S},
                      .next_out = 1 + first % 3, .next_in = 1 + first % 5, .may_renumber = (first & (16 | 64)) != 0};
    run.actions = calloc(1, sizeof *run.actions);
    require(run.actions != NULL && fix_session_new(&options, run.next_out, run.next_in, &run.session, NULL) == TW_OK);
    run.delivered = run.next_in - 1;
    fix_session_allow_reset(run.session, (first & 64) != 0);
    while (bytes.at < bytes.end)
        step(&run, &bytes);
    fix_session_free(run.session);
    free(run.actions);
    return 0;
}
