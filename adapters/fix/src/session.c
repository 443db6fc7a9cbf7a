#include <tradewake/fix/session.h>

#include <tradewake/base/clock.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOGON_MS_DEFAULT = 10000,
    LOGOUT_MS_DEFAULT = 2000,
    SENDING_TIME_S_DEFAULT = 120,
    GAP_MS_DEFAULT = 5000,
    HEARTBEAT_S_MAX = 86400,
    TEST_ID_BYTES_MAX = 1024, /* 112 is sent back */
    TAG_LAST_OF_44 = 956,
    REPLY_BYTES_MAX = 64, /* of their own words that go into ours */
};

/* A message behind a gap. */
struct held {
    uint64_t seq;
    char *bytes;
    size_t n;
    bool is_done; /* it was answered when it came: only its number is still to be counted */
};

struct fix_session {
    /* Set once. */
    struct fix_session_options options; /* its strings are those below */
    char sender[FIX_COMP_BYTES], target[FIX_COMP_BYTES], sender_sub[FIX_COMP_BYTES], target_sub[FIX_COMP_BYTES];
    char username[FIX_COMP_BYTES];

    enum fix_phase phase;
    uint64_t next_out, next_in;
    int64_t heartbeat_ns; /* as agreed */
    int64_t sent_mono_ns, heard_mono_ns;
    int64_t deadline_mono_ns; /* LOGON, LOGOUT */
    bool is_tested;           /* a TestRequest waits for whatever comes */
    bool is_reset_asked;      /* our Logon had 141=Y */
    bool may_reset;
    bool is_ended;

    /* What is missing: next_in up to gap_high. 0 = nothing. */
    uint64_t gap_high, gap_asked_to; /* asked_to 0 = all */
    int64_t gap_mono_ns;             /* asked, or the last step forward */
    unsigned gap_tries;

    struct held held[FIX_HELD_MAX]; /* lowest number first */
    size_t n_held, held_bytes;
    char *current;                /* the one that is delivered */
    struct fix_message message;   /* read from it */
    struct fix_field *fields;
};

/* ---- Actions. ---- */

static void actions_begin(struct fix_actions *ret)
{
    ret->n = ret->n_bytes = 0;
    ret->has_more = false;
}

/* A message of theirs is over. Not with every input: an order may be sent while one is delivered. */
static void current_drop(struct fix_session *session)
{
    free(session->current);
    session->current = NULL;
}

static struct fix_action *action_add(struct fix_actions *ret, enum fix_do what)
{
    assert(ret->n < FIX_ACTIONS_MAX);
    struct fix_action *action = &ret->list[ret->n++];
    *action = (struct fix_action){.what = what};
    return action;
}

static void say(struct fix_actions *ret, const char *why)
{
    snprintf(action_add(ret, FIX_DO_SAY)->why, FIX_WHY_BYTES, "%s", why);
}

static void end(struct fix_session *session, bool is_fatal, const char *why, struct fix_actions *ret)
{
    if (session->is_ended)
        return;
    session->is_ended = true;
    struct fix_action *action = action_add(ret, FIX_DO_END);
    action->is_fatal = is_fatal;
    snprintf(action->why, FIX_WHY_BYTES, "%s", why);
}

static void expect(struct fix_session *session, struct fix_actions *ret)
{
    action_add(ret, FIX_DO_EXPECT)->next_in = session->next_in;
}

static void renumber(struct fix_session *session, uint64_t next_out, uint64_t next_in, struct fix_actions *ret)
{
    struct fix_action *action = action_add(ret, FIX_DO_RENUMBER);
    action->next_out = session->next_out = next_out;
    action->next_in = session->next_in = next_in;
}

/* ---- Writing. ---- */

/* The header. dup_of_seq: a gap fill that begins there; 0 = a new message. */
static void out_begin(struct fix_session *session, struct fix_now now, struct fix_actions *ret, struct fix_writer *writer,
                      const char *type, uint64_t dup_of_seq)
{
    size_t room = sizeof ret->bytes - ret->n_bytes;
    bool is_dup = dup_of_seq != 0 && !session->options.plain_gap_fill;
    fix_writer_begin(writer, ret->bytes + ret->n_bytes, room < FIX_OUT_BYTES_MAX ? room : FIX_OUT_BYTES_MAX, "FIX.4.4", type);
    fix_writer_number(writer, 34, dup_of_seq != 0 ? dup_of_seq : session->next_out);
    if (is_dup)
        fix_writer_text(writer, 43, "Y");
    fix_writer_text(writer, 49, session->sender);
    if (session->sender_sub[0] != '\0')
        fix_writer_text(writer, 50, session->sender_sub);
    fix_writer_time(writer, 52, now.wall_ns);
    fix_writer_text(writer, 56, session->target);
    if (session->target_sub[0] != '\0')
        fix_writer_text(writer, 57, session->target_sub);
    if (is_dup)
        fix_writer_time(writer, 122, now.wall_ns);
}

/* False: it did not fit, and nothing has happened. */
static bool out_end(struct fix_session *session, struct fix_now now, struct fix_actions *ret, struct fix_writer *writer,
                    const char *type, bool uses_number)
{
    size_t n = fix_writer_end(writer);
    if (n == 0)
        return false;
    struct fix_action *action = action_add(ret, FIX_DO_SEND);
    action->bytes = ret->bytes + ret->n_bytes;
    action->n = n;
    action->seq = uses_number ? session->next_out++ : 0;
    snprintf(action->type, sizeof action->type, "%s", type);
    ret->n_bytes += n;
    session->sent_mono_ns = now.mono_ns;
    return true;
}

/* A message of the session with at most one field; tag 0 = none. */
static void out_simple(struct fix_session *session, struct fix_now now, const char *type, uint32_t tag, const char *value,
                       size_t n, struct fix_actions *ret)
{
    struct fix_writer writer;
    out_begin(session, now, ret, &writer, type, 0);
    if (tag != 0)
        fix_writer_bytes(&writer, tag, value, n);
    bool fits = out_end(session, now, ret, &writer, type, true);
    assert(fits);
    (void)fits;
}

static void out_logon(struct fix_session *session, struct fix_now now, const char *password, bool is_reset,
                      struct fix_actions *ret)
{
    struct fix_writer writer;
    out_begin(session, now, ret, &writer, "A", 0);
    fix_writer_number(&writer, 98, 0);
    fix_writer_number(&writer, 108, session->options.heartbeat_s);
    if (is_reset)
        fix_writer_text(&writer, 141, "Y");
    if (session->username[0] != '\0')
        fix_writer_text(&writer, 553, session->username);
    if (password != NULL && password[0] != '\0')
        fix_writer_text(&writer, 554, password);
    if (!out_end(session, now, ret, &writer, "A", true))
        end(session, true, "password (554) is too long or has a separator in it", ret);
}

/* We leave, and wait for their answer. */
static void logout_begin(struct fix_session *session, struct fix_now now, const char *text, struct fix_actions *ret)
{
    if (session->phase == FIX_LOGOUT)
        return;
    out_simple(session, now, "5", text[0] != '\0' ? 58 : 0, text, strlen(text), ret);
    session->phase = FIX_LOGOUT;
    session->deadline_mono_ns = now.mono_ns + (int64_t)session->options.logout_ms * TW_NS_PER_MS;
}

/* The end for good: a person has to look. Where the venue begins anew at every Logon, the next one mends it. */
static void stop(struct fix_session *session, struct fix_now now, const char *text, const char *why, struct fix_actions *ret)
{
    if (session->phase != FIX_LOGOUT)
        out_simple(session, now, "5", 58, text, strlen(text), ret);
    session->phase = FIX_LOGOUT;
    end(session, !session->options.resets_at_logon, why, ret);
}

/* Their field as a word for people. */
static void words_of(const struct fix_message *message, uint32_t tag, char ret[REPLY_BYTES_MAX])
{
    fix_message_text(message, tag, ret, REPLY_BYTES_MAX);
}

/* A Reject (3) of their message. tag NULL: 371 is not sent. */
static void reject(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                   enum fix_defect defect, const char *tag, size_t tag_n, struct fix_actions *ret)
{
    struct fix_writer writer;
    char type[REPLY_BYTES_MAX], text[REPLY_BYTES_MAX] = "", why[FIX_WHY_BYTES];
    words_of(message, 35, type);
    for (size_t i = 0; tag != NULL && i < tag_n && i + 1 < sizeof text; i++) {
        text[i] = tag[i] >= ' ' && tag[i] <= '~' ? tag[i] : '?';
        text[i + 1] = '\0';
    }
    snprintf(why, sizeof why, "message %llu of theirs (35=%s) is rejected: %s%s, %s (373=%d)",
             (unsigned long long)message->seq, type, text[0] != '\0' ? "tag " : "no tag", text, fix_defect_words(defect),
             (int)defect);
    say(ret, why);
    if (strcmp(message->type, "3") == 0)
        return; /* two sides that reject each other's Rejects never end */
    out_begin(session, now, ret, &writer, "3", 0);
    fix_writer_number(&writer, 45, message->seq);
    fix_writer_text(&writer, 58, fix_defect_words(defect));
    if (text[0] != '\0')
        fix_writer_text(&writer, 371, text);
    if (type[0] != '\0')
        fix_writer_text(&writer, 372, type);
    fix_writer_number(&writer, 373, (uint64_t)defect);
    bool fits = out_end(session, now, ret, &writer, "3", true);
    assert(fits);
    (void)fits;
}

static void reject_tag(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                       enum fix_defect defect, uint32_t tag, struct fix_actions *ret)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%u", tag);
    reject(session, now, message, defect, text, (size_t)n, ret);
}

/* ---- Gaps. ---- */

static void held_clear(struct fix_session *session)
{
    for (size_t i = 0; i < session->n_held; i++)
        free(session->held[i].bytes);
    session->n_held = session->held_bytes = 0;
}

/* Kept until its number is due. What does not fit is asked for again, since gap_high knows of it. */
static void hold(struct fix_session *session, const struct fix_message *message, bool is_done)
{
    size_t at = session->n_held;
    while (at > 0 && session->held[at - 1].seq > message->seq)
        at--;
    bool is_there = at > 0 && session->held[at - 1].seq == message->seq;
    if (is_there || session->n_held == FIX_HELD_MAX || session->held_bytes + message->n > FIX_HELD_BYTES_MAX)
        return;
    char *bytes = malloc(message->n);
    if (bytes == NULL)
        return;
    memcpy(bytes, message->bytes, message->n);
    memmove(&session->held[at + 1], &session->held[at], (session->n_held - at) * sizeof session->held[0]);
    session->held[at] = (struct held){.seq = message->seq, .bytes = bytes, .n = message->n, .is_done = is_done};
    session->n_held++;
    session->held_bytes += message->n;
}

static void gap_ask(struct fix_session *session, struct fix_now now, struct fix_actions *ret)
{
    struct fix_writer writer;
    uint64_t chunk = session->options.resend_chunk;
    session->gap_asked_to = chunk == 0 ? 0 : session->next_in + chunk - 1;
    if (session->gap_asked_to > session->gap_high)
        session->gap_asked_to = session->gap_high;
    session->gap_mono_ns = now.mono_ns;
    out_begin(session, now, ret, &writer, "2", 0);
    fix_writer_number(&writer, 7, session->next_in);
    fix_writer_number(&writer, 16, session->gap_asked_to);
    bool fits = out_end(session, now, ret, &writer, "2", true);
    assert(fits);
    (void)fits;
}

/* This number has been seen, and the ones before it have not. Asked for once. */
static void gap_found(struct fix_session *session, struct fix_now now, uint64_t seq, struct fix_actions *ret)
{
    bool is_asked = session->gap_high != 0;
    if (seq > session->gap_high)
        session->gap_high = seq;
    if (is_asked)
        return;
    session->gap_tries = 1;
    gap_ask(session, now, ret);
}

static bool more_is_due(const struct fix_session *session)
{
    return session->n_held > 0 && session->held[0].seq <= session->next_in;
}

/* Everything before next_in is done with. */
static void advance(struct fix_session *session, struct fix_now now, uint64_t next_in, struct fix_actions *ret)
{
    session->next_in = next_in;
    expect(session, ret);
    session->gap_mono_ns = now.mono_ns;
    ret->has_more = more_is_due(session);
    if (session->gap_high == 0)
        return;
    /* What is held reaches further: no need to ask for it. */
    uint64_t reach = next_in;
    for (size_t i = 0; i < session->n_held && session->held[i].seq <= reach; i++)
        if (session->held[i].seq == reach)
            reach++;
    if (reach > session->gap_high) {
        if (!ret->has_more)
            session->gap_high = 0;
        return;
    }
    if (session->gap_asked_to != 0 && next_in > session->gap_asked_to && session->phase == FIX_UP) {
        session->gap_tries = 1;
        gap_ask(session, now, ret);
    }
}

static void missed(uint64_t from, uint64_t to, struct fix_actions *ret)
{
    struct fix_action *action = action_add(ret, FIX_DO_MISSED);
    action->from = from;
    action->to = to;
}

/* It does not come. The session goes on: what cannot be sent any more costs more than what was not heard. */
static void gap_give_up(struct fix_session *session, struct fix_now now, struct fix_actions *ret)
{
    if (more_is_due(session)) {
        ret->has_more = true;
        return;
    }
    uint64_t to = session->n_held > 0 ? session->held[0].seq - 1 : session->gap_high;
    char why[FIX_WHY_BYTES];
    snprintf(why, sizeof why, "messages %llu to %llu of theirs were asked for %d times and do not come",
             (unsigned long long)session->next_in, (unsigned long long)to, FIX_GAP_TRIES_MAX);
    say(ret, why);
    missed(session->next_in, to, ret);
    session->gap_tries = 1;
    advance(session, now, to + 1, ret);
}

/* ---- What is in a message. ---- */

/* Tags that a message of the session may have beside the header; user-defined ones apart. Logon is not looked at: venues
 * put into it what they like. */
static const struct {
    char type;
    uint16_t tags[10];
} session_tags[] = {
    {'0', {112}},
    {'1', {112}},
    {'2', {7, 16}},
    {'3', {45, 58, 354, 355, 371, 372, 373}},
    {'4', {36, 123}},
    {'5', {58, 354, 355}},
};

static const uint16_t header_tags[] = {8,   9,   10,  34,  35,  43,  49,  50,  52,  56,  57,  89,  90,  91,
                                       93,  97,  115, 116, 122, 128, 129, 142, 143, 144, 145, 212, 213, 347,
                                       369, 627, 628, 629, 630};

static bool is_header_tag(uint32_t tag)
{
    for (size_t i = 0; i < sizeof header_tags / sizeof header_tags[0]; i++)
        if (header_tags[i] == tag)
            return true;
    return false;
}

static bool is_tag_of_session(char type, uint32_t tag)
{
    for (size_t i = 0; i < sizeof session_tags / sizeof session_tags[0]; i++) {
        if (session_tags[i].type != type)
            continue;
        for (size_t k = 0; k < sizeof session_tags[i].tags / sizeof session_tags[i].tags[0]; k++)
            if (session_tags[i].tags[k] == tag)
                return true;
        return false;
    }
    return true;
}

/* What is required, and of which form: N a number, ? anything. */
static const struct {
    char type;
    uint16_t tag;
    char form;
} required[] = {
    {'1', 112, '?'}, {'2', 7, 'N'}, {'2', 16, 'N'}, {'3', 45, 'N'}, {'4', 36, 'N'},
};

/* True: the message has been rejected. */
static bool is_rejected(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                        struct fix_actions *ret)
{
    static const uint16_t of_header[] = {49, 52, 56};
    bool is_admin = fix_type_is_admin(message->type);
    int64_t wall_ns;
    size_t n = 0;
    /* A report with an empty text is still a report. */
    if (message->defect != FIX_NO_DEFECT && (is_admin || message->defect != FIX_NO_VALUE)) {
        reject(session, now, message, message->defect, message->defect_tag, message->defect_tag_n, ret);
        return true;
    }
    for (size_t i = 0; i < sizeof of_header / sizeof of_header[0]; i++)
        if (fix_message_value(message, of_header[i], &n) == NULL || n == 0) {
            reject_tag(session, now, message, FIX_TAG_MISSING, of_header[i], ret);
            return true;
        }
    const char *sent = fix_message_value(message, 52, &n);
    if (!fix_time_read(sent, n, &wall_ns)) {
        reject_tag(session, now, message, FIX_FORMAT_WRONG, 52, ret);
        return true;
    }
    if (!is_admin)
        return false;
    for (size_t i = 0; i < message->n_fields; i++) {
        uint32_t tag = message->fields[i].tag;
        if (is_header_tag(tag) || is_tag_of_session(message->type[0], tag) ||
            (tag > TAG_LAST_OF_44 && session->options.takes_user_tags))
            continue;
        reject_tag(session, now, message, tag > TAG_LAST_OF_44 ? FIX_INVALID_TAG : FIX_TAG_NOT_OF_TYPE, tag, ret);
        return true;
    }
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        uint64_t number;
        if (required[i].type != message->type[0])
            continue;
        if (fix_message_value(message, required[i].tag, &n) == NULL) {
            reject_tag(session, now, message, FIX_TAG_MISSING, required[i].tag, ret);
            return true;
        }
        if (required[i].form == 'N' && !fix_message_number(message, required[i].tag, &number)) {
            reject_tag(session, now, message, FIX_FORMAT_WRONG, required[i].tag, ret);
            return true;
        }
    }
    return false;
}

/* Absent or empty is another rule's matter. */
static bool comp_is(const struct fix_message *message, uint32_t tag, const char *expected)
{
    size_t n = 0;
    const char *value = fix_message_value(message, tag, &n);
    return value == NULL || n == 0 || (n == strlen(expected) && memcmp(value, expected, n) == 0);
}

static bool comps_are_right(const struct fix_session *session, const struct fix_message *message)
{
    return comp_is(message, 49, session->target) && comp_is(message, 56, session->sender);
}

static bool time_of(const struct fix_message *message, uint32_t tag, int64_t *ret)
{
    size_t n = 0;
    const char *value = fix_message_value(message, tag, &n);
    return value != NULL && fix_time_read(value, n, ret);
}

static bool time_is_right(const struct fix_session *session, struct fix_now now, const struct fix_message *message)
{
    int64_t sent = 0;
    int64_t most = (int64_t)session->options.sending_time_s_max * TW_NS_PER_S;
    if (!time_of(message, 52, &sent))
        return true;
    return sent >= now.wall_ns ? sent - now.wall_ns <= most : now.wall_ns - sent <= most;
}

/* Their Logout says that our numbers are below what they have seen: nothing heals that. */
static bool says_too_low(const struct fix_session *session, const char *text)
{
    if (session->options.resets_at_logon)
        return false;
    return strcasestr(text, "too low") != NULL || strcasestr(text, "lower than expected") != NULL ||
           strcasestr(text, "less than expected") != NULL;
}

/* ---- Messages of the session. ---- */

static void too_low(struct fix_session *session, struct fix_now now, uint64_t seq, struct fix_actions *ret)
{
    char text[FIX_WHY_BYTES], why[FIX_WHY_BYTES];
    snprintf(text, sizeof text, "MsgSeqNum too low, expecting %llu but received %llu",
             (unsigned long long)session->next_in, (unsigned long long)seq);
    snprintf(why, sizeof why, "their number (34) is %llu, expected %llu: what is known of the session is not what they know",
             (unsigned long long)seq, (unsigned long long)session->next_in);
    stop(session, now, text, why, ret);
}

/* They begin their numbers anew, unasked. False: that ended the session. */
static bool reset_is_followed(struct fix_session *session, struct fix_now now, struct fix_actions *ret)
{
    if (session->may_reset)
        return true;
    stop(session, now, "ResetSeqNumFlag not expected, orders may be out",
         "they begin their numbers anew (141=Y) while orders may be out", ret);
    return false;
}

static void answer_test(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                        struct fix_actions *ret)
{
    size_t n = 0;
    const char *id = fix_message_value(message, 112, &n);
    if (id != NULL && n > 0 && n <= TEST_ID_BYTES_MAX)
        out_simple(session, now, "0", 112, id, n, ret);
    else
        reject_tag(session, now, message, FIX_VALUE_WRONG, 112, ret);
}

/* All that is asked for in one gap fill, whatever it was. */
static void answer_resend(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                          struct fix_actions *ret)
{
    struct fix_writer writer;
    uint64_t from = 0, to = 0;
    (void)fix_message_number(message, 7, &from);
    (void)fix_message_number(message, 16, &to);
    if (to == 0 || to >= session->next_out)
        to = session->next_out - 1;
    if (from == 0 || from > to) {
        reject_tag(session, now, message, FIX_VALUE_WRONG, 7, ret);
        return;
    }
    out_begin(session, now, ret, &writer, "4", from);
    fix_writer_number(&writer, 36, to + 1);
    fix_writer_text(&writer, 123, "Y");
    bool fits = out_end(session, now, ret, &writer, "4", false);
    assert(fits);
    (void)fits;
}

static void on_logout(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                      struct fix_actions *ret)
{
    char text[REPLY_BYTES_MAX], why[FIX_WHY_BYTES];
    words_of(message, 58, text);
    bool is_fatal = says_too_low(session, text);
    snprintf(why, sizeof why, "they log out: %s", text[0] != '\0' ? text : "no reason is given");
    if (session->phase == FIX_UP && !is_fatal) {
        say(ret, why);
        logout_begin(session, now, "", ret); /* they close; at the time-out we do */
        return;
    }
    if (session->phase == FIX_UP)
        out_simple(session, now, "5", 0, NULL, 0, ret);
    session->phase = FIX_LOGOUT;
    end(session, is_fatal, why, ret);
}

/* SequenceReset: Reset, which takes no heed of 34. */
static void on_reset(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                     struct fix_actions *ret)
{
    uint64_t new_seq = 0;
    if (is_rejected(session, now, message, ret))
        return;
    (void)fix_message_number(message, 36, &new_seq);
    if (new_seq < session->next_in) {
        reject(session, now, message, FIX_VALUE_WRONG, NULL, 0, ret); /* never lower */
        return;
    }
    if (new_seq == session->next_in)
        return;
    missed(session->next_in, new_seq - 1, ret);
    advance(session, now, new_seq, ret);
}

static void on_gap_fill(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                        struct fix_actions *ret)
{
    uint64_t new_seq = 0;
    (void)fix_message_number(message, 36, &new_seq);
    if (new_seq <= session->next_in) {
        reject_tag(session, now, message, FIX_VALUE_WRONG, 36, ret);
        return;
    }
    if (session->gap_high != 0)
        missed(session->next_in, new_seq - 1, ret);
    advance(session, now, new_seq, ret);
}

/* A Logon when logged on. Their 34 is 1 when it begins anew. */
static void on_reset_logon(struct fix_session *session, struct fix_now now, struct fix_actions *ret)
{
    if (session->phase != FIX_UP || !reset_is_followed(session, now, ret))
        return;
    uint64_t last = session->n_held > 0 ? session->held[session->n_held - 1].seq : 0;
    last = last > session->gap_high ? last : session->gap_high;
    if (last >= session->next_in)
        missed(session->next_in, last, ret); /* what waited, and what it waited for, comes no more */
    held_clear(session);
    session->gap_high = 0;
    renumber(session, 1, 1, ret);
    out_logon(session, now, NULL, true, ret);
    advance(session, now, 2, ret);
}

/* What a message asks for, apart from its number. */
static void act_on(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                   struct fix_actions *ret)
{
    if (!fix_type_is_admin(message->type) || message->type[0] == '3')
        action_add(ret, FIX_DO_DELIVER)->message = message;
    else if (message->type[0] == '1')
        answer_test(session, now, message, ret);
    else if (message->type[0] == '2')
        answer_resend(session, now, message, ret);
    else if (message->type[0] == '5')
        on_logout(session, now, message, ret);
}

/* 122 of what is said to be a duplicate. True: there is nothing wrong with it. Gap fills are not looked at: many leave
 * it out there. */
static bool dup_is_right(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                         struct fix_actions *ret)
{
    int64_t original = 0, sent = 0;
    if (!fix_message_is(message, 43, "Y") || message->type[0] == '4')
        return true;
    if (!time_of(message, 122, &original)) {
        size_t n = 0;
        bool is_there = fix_message_value(message, 122, &n) != NULL;
        reject_tag(session, now, message, is_there ? FIX_FORMAT_WRONG : FIX_TAG_MISSING, 122, ret);
        return false;
    }
    if (time_of(message, 52, &sent) && original > sent) {
        reject(session, now, message, FIX_SENDING_TIME, NULL, 0, ret);
        logout_begin(session, now, "", ret);
        return false;
    }
    return true;
}

/* The number is the one that is due. */
static void in_order(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                     struct fix_actions *ret)
{
    bool is_refused = is_rejected(session, now, message, ret) || !dup_is_right(session, now, message, ret);
    if (is_refused && !fix_type_is_admin(message->type))
        missed(message->seq, message->seq, ret);
    if (!is_refused && strcmp(message->type, "4") == 0) {
        on_gap_fill(session, now, message, ret);
        return;
    }
    if (!is_refused && strcmp(message->type, "5") == 0) {
        advance(session, now, message->seq + 1, ret); /* before END, which is the last */
        act_on(session, now, message, ret);
        return;
    }
    if (!is_refused)
        act_on(session, now, message, ret);
    if (is_refused && strcmp(message->type, "4") == 0)
        return; /* how far it would have gone is not known */
    advance(session, now, message->seq + 1, ret);
}

/* The number is above the one that is due. */
static void ahead(struct fix_session *session, struct fix_now now, const struct fix_message *message, struct fix_actions *ret)
{
    char type = message->type[1] == '\0' ? message->type[0] : '\0';
    bool is_logout = type == '5', is_resend = type == '2';
    if (is_logout) { /* what is missing is missed at the next Logon too */
        act_on(session, now, message, ret);
        return;
    }
    /* Theirs first: two sides that wait for each other never end. */
    if (is_resend && !is_rejected(session, now, message, ret))
        act_on(session, now, message, ret);
    hold(session, message, is_resend || type == 'A');
    if (session->phase == FIX_UP)
        gap_found(session, now, message->seq, ret);
}

static void behind(struct fix_session *session, struct fix_now now, const struct fix_message *message, struct fix_actions *ret)
{
    char type = message->type[1] == '\0' ? message->type[0] : '\0';
    if (fix_message_is(message, 43, "Y"))
        (void)dup_is_right(session, now, message, ret); /* it was done when it came first */
    else if ((type == '2' && !is_rejected(session, now, message, ret)) || type == '5')
        act_on(session, now, message, ret); /* an answer to them does no harm */
    else if (type != '2')
        too_low(session, now, message->seq, ret);
}

/* True: who it is from, or when it was sent, ends the session. */
static bool is_foreign(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                       struct fix_actions *ret)
{
    bool is_comp = !comps_are_right(session, message);
    if (!is_comp && time_is_right(session, now, message))
        return false;
    reject(session, now, message, is_comp ? FIX_COMP_ID : FIX_SENDING_TIME, NULL, 0, ret);
    if (message->seq == session->next_in) {
        if (!fix_type_is_admin(message->type))
            missed(message->seq, message->seq, ret);
        advance(session, now, message->seq + 1, ret);
    }
    logout_begin(session, now, "", ret);
    return true;
}

static void on_numbered(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                        struct fix_actions *ret)
{
    if (!message->has_seq) {
        say(ret, "a message of theirs has no number (34)");
        logout_begin(session, now, "Required tag missing: MsgSeqNum (34)", ret);
        return;
    }
    if (is_foreign(session, now, message, ret))
        return;
    bool is_reset = strcmp(message->type, "4") == 0 && !fix_message_is(message, 123, "Y");
    bool is_reset_logon = strcmp(message->type, "A") == 0 && message->seq == 1 && fix_message_is(message, 141, "Y") &&
                          !fix_message_is(message, 43, "Y");
    if (is_reset)
        on_reset(session, now, message, ret);
    else if (is_reset_logon)
        on_reset_logon(session, now, ret);
    else if (message->seq > session->next_in)
        ahead(session, now, message, ret);
    else if (message->seq < session->next_in)
        behind(session, now, message, ret);
    else
        in_order(session, now, message, ret);
}

/* ---- The Logon. ---- */

/* False: what they answer cannot be agreed to, and the session has ended. */
static bool logon_is_right(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                           struct fix_actions *ret)
{
    uint64_t heartbeat_s = session->options.heartbeat_s;
    size_t n = 0;
    if (!message->has_seq)
        end(session, false, "their Logon has no number (34)", ret);
    else if (!comps_are_right(session, message))
        end(session, false, "their Logon is from or for somebody else (49, 56)", ret);
    else if (!time_is_right(session, now, message))
        end(session, false, "their clock is too far from ours (52)", ret);
    else if (fix_message_value(message, 98, &n) != NULL && !fix_message_is(message, 98, "0"))
        end(session, false, "they want encryption (98), which there is none of", ret);
    else if (fix_message_value(message, 108, &n) != NULL &&
             (!fix_message_number(message, 108, &heartbeat_s) || heartbeat_s > HEARTBEAT_S_MAX))
        end(session, false, "their heartbeat interval (108) is no number of seconds, or above a day", ret);
    if (session->is_ended)
        return false;
    session->heartbeat_ns = (int64_t)heartbeat_s * TW_NS_PER_S;
    return true;
}

static void on_logon(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                     struct fix_actions *ret)
{
    if (!logon_is_right(session, now, message, ret))
        return;
    bool is_fresh = session->next_in == 1 && session->next_out == 2;
    if (fix_message_is(message, 141, "Y") && !session->is_reset_asked && !is_fresh) {
        if (!reset_is_followed(session, now, ret))
            return;
        renumber(session, 2, 1, ret); /* our Logon was number 1 of the new ones */
    }
    if (message->seq < session->next_in) {
        too_low(session, now, message->seq, ret);
        return;
    }
    session->phase = FIX_UP;
    action_add(ret, FIX_DO_UP);
    if (message->seq > session->next_in) {
        hold(session, message, true);
        gap_found(session, now, message->seq, ret);
        return;
    }
    advance(session, now, message->seq + 1, ret);
}

static void on_first(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                     struct fix_actions *ret)
{
    char text[REPLY_BYTES_MAX], type[REPLY_BYTES_MAX], why[FIX_WHY_BYTES];
    if (strcmp(message->type, "A") == 0) {
        on_logon(session, now, message, ret);
        return;
    }
    words_of(message, 58, text);
    words_of(message, 35, type);
    if (strcmp(type, "5") == 0 || strcmp(type, "3") == 0)
        snprintf(why, sizeof why, "they refuse our Logon: %s", text[0] != '\0' ? text : "no reason is given");
    else
        snprintf(why, sizeof why, "their first message is no Logon but 35=%s", type);
    if (message->has_seq && message->seq == session->next_in && strcmp(type, "5") == 0)
        advance(session, now, message->seq + 1, ret);
    end(session, says_too_low(session, text), why, ret);
}

/* ---- Life, and inputs. ---- */

static bool name_copy(char to[FIX_COMP_BYTES], const char *from)
{
    from = from != NULL ? from : "";
    if (strlen(from) >= FIX_COMP_BYTES)
        return false;
    for (const char *at = from; *at != '\0'; at++)
        if (*at < ' ' || *at > '~')
            return false;
    memcpy(to, from, strlen(from) + 1);
    return true;
}

static tw_status options_take(struct fix_session *session, const struct fix_session_options *options, struct tw_error *error)
{
    const struct {
        char *to;
        const char *from;
        const char *name;
        bool is_required;
    } names[] = {
        {session->sender, options->sender, "SenderCompID (49)", true},
        {session->target, options->target, "TargetCompID (56)", true},
        {session->sender_sub, options->sender_sub, "SenderSubID (50)", false},
        {session->target_sub, options->target_sub, "TargetSubID (57)", false},
        {session->username, options->username, "Username (553)", false},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!name_copy(names[i].to, names[i].from) || (names[i].is_required && names[i].to[0] == '\0'))
            return tw_error_set(error, TW_INVALID, "%s is \"%.80s\", expected %d to %d printable characters", names[i].name,
                                names[i].from != NULL ? names[i].from : "", names[i].is_required ? 1 : 0, FIX_COMP_BYTES - 1);
    if (options->heartbeat_s > HEARTBEAT_S_MAX)
        return tw_error_set(error, TW_INVALID, "HeartBtInt (108) is %u, expected 0..%d", options->heartbeat_s, HEARTBEAT_S_MAX);
    session->options = *options;
    session->options.logon_ms = options->logon_ms != 0 ? options->logon_ms : LOGON_MS_DEFAULT;
    session->options.logout_ms = options->logout_ms != 0 ? options->logout_ms : LOGOUT_MS_DEFAULT;
    session->options.gap_ms = options->gap_ms != 0 ? options->gap_ms : GAP_MS_DEFAULT;
    session->options.sending_time_s_max = options->sending_time_s_max != 0 ? options->sending_time_s_max : SENDING_TIME_S_DEFAULT;
    return TW_OK;
}

tw_status fix_session_new(const struct fix_session_options *options, uint64_t next_out, uint64_t next_in,
                          struct fix_session **ret, struct tw_error *error)
{
    if (next_out == 0 || next_in == 0)
        return tw_error_set(error, TW_INVALID, "numbers (34) begin at 1");
    struct fix_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for a FIX session");
    tw_status status = options_take(session, options, error);
    session->fields = calloc(FIX_FIELDS_MAX, sizeof *session->fields);
    if (status == TW_OK && session->fields == NULL)
        status = tw_error_set(error, TW_NO_MEMORY, "no memory for a FIX session");
    if (status != TW_OK) {
        fix_session_free(session);
        return status;
    }
    session->next_out = next_out;
    session->next_in = next_in;
    *ret = session;
    return TW_OK;
}

void fix_session_free(struct fix_session *session)
{
    if (session == NULL)
        return;
    held_clear(session);
    free(session->current);
    free(session->fields);
    free(session);
}

void fix_session_on_connected(struct fix_session *session, struct fix_now now, const char *password, struct fix_actions *ret)
{
    assert(session->phase == FIX_DOWN);
    actions_begin(ret);
    held_clear(session);
    session->gap_high = 0;
    session->is_tested = session->is_ended = false;
    session->is_reset_asked = session->options.resets_at_logon;
    session->heartbeat_ns = (int64_t)session->options.heartbeat_s * TW_NS_PER_S;
    session->heard_mono_ns = now.mono_ns;
    if (session->is_reset_asked)
        renumber(session, 1, 1, ret);
    session->phase = FIX_LOGON;
    session->deadline_mono_ns = now.mono_ns + (int64_t)session->options.logon_ms * TW_NS_PER_MS;
    out_logon(session, now, password, session->is_reset_asked, ret);
}

void fix_session_on_disconnected(struct fix_session *session)
{
    held_clear(session);
    session->gap_high = 0;
    session->phase = FIX_DOWN;
}

void fix_session_on_message(struct fix_session *session, struct fix_now now, const struct fix_message *message,
                            struct fix_actions *ret)
{
    actions_begin(ret);
    current_drop(session);
    if (session->phase == FIX_DOWN || session->is_ended)
        return;
    session->heard_mono_ns = now.mono_ns;
    session->is_tested = false;
    if (!message->is_44 && session->phase == FIX_LOGON) {
        end(session, false, "they do not speak FIX.4.4 (8)", ret);
    } else if (!message->is_44) {
        say(ret, "a message of theirs is not FIX.4.4 (8)");
        logout_begin(session, now, "Incorrect BeginString", ret);
    } else if (session->phase == FIX_LOGON) {
        on_first(session, now, message, ret);
    } else {
        on_numbered(session, now, message, ret);
    }
}

void fix_session_more(struct fix_session *session, struct fix_now now, struct fix_actions *ret)
{
    actions_begin(ret);
    current_drop(session);
    if (!more_is_due(session) || session->is_ended)
        return;
    struct held held = session->held[0];
    session->n_held--;
    session->held_bytes -= held.n;
    memmove(&session->held[0], &session->held[1], session->n_held * sizeof session->held[0]);
    session->current = held.bytes;
    bool is_message = fix_message_read(held.bytes, held.n, session->fields, &session->message);
    assert(is_message);
    (void)is_message;
    if (held.seq == session->next_in && !held.is_done) {
        in_order(session, now, &session->message, ret);
    } else if (held.seq == session->next_in) {
        advance(session, now, held.seq + 1, ret);
    } else {
        /* A gap fill went over it, and it is in hand all the same. */
        bool is_wanted = !held.is_done && session->message.type[0] != '4' && session->message.type[0] != '5';
        if (is_wanted && !is_rejected(session, now, &session->message, ret))
            act_on(session, now, &session->message, ret);
        advance(session, now, session->next_in, ret);
    }
}

static void tick_up(struct fix_session *session, struct fix_now now, struct fix_actions *ret)
{
    int64_t beat = session->heartbeat_ns;
    int64_t silence = now.mono_ns - session->heard_mono_ns;
    if (session->gap_high != 0 && now.mono_ns - session->gap_mono_ns >= (int64_t)session->options.gap_ms * TW_NS_PER_MS) {
        if (session->gap_tries == FIX_GAP_TRIES_MAX) {
            gap_give_up(session, now, ret);
        } else {
            session->gap_tries++;
            gap_ask(session, now, ret);
        }
    }
    if (beat == 0)
        return;
    if (silence >= beat / 5 * 12) {
        end(session, false, "nothing is heard of them, nor is a TestRequest answered", ret);
    } else if (silence >= beat / 5 * 6 && !session->is_tested) {
        session->is_tested = true;
        out_simple(session, now, "1", 112, "TEST", 4, ret);
    } else if (now.mono_ns - session->sent_mono_ns >= beat && !session->is_tested) {
        out_simple(session, now, "0", 0, NULL, 0, ret);
    }
}

void fix_session_on_tick(struct fix_session *session, struct fix_now now, struct fix_actions *ret)
{
    actions_begin(ret);
    if (session->phase == FIX_DOWN || session->is_ended)
        return;
    if (session->phase == FIX_UP)
        tick_up(session, now, ret);
    else if (now.mono_ns >= session->deadline_mono_ns)
        end(session, false, session->phase == FIX_LOGON ? "our Logon is not answered" : "they do not close after the Logout", ret);
}

void fix_session_logout(struct fix_session *session, struct fix_now now, const char *text, struct fix_actions *ret)
{
    actions_begin(ret);
    if (session->is_ended)
        return;
    if (session->phase == FIX_UP)
        logout_begin(session, now, text, ret);
    else if (session->phase == FIX_LOGON)
        end(session, false, "we leave before they have answered our Logon", ret);
}

tw_status fix_session_send(struct fix_session *session, struct fix_now now, const char *type, const char *body, size_t n,
                           struct fix_actions *ret, struct tw_error *error)
{
    struct fix_writer writer;
    actions_begin(ret);
    if (session->phase != FIX_UP || session->is_ended)
        return tw_error_set(error, TW_UNREACHABLE, "the FIX session is not logged on");
    if (fix_type_is_admin(type) || strlen(type) >= FIX_TYPE_BYTES)
        return tw_error_set(error, TW_INVALID, "MsgType (35) %.8s is none of an application", type);
    if (n > FIX_BODY_BYTES_MAX)
        return tw_error_set(error, TW_INVALID, "a message of %zu bytes, expected at most %d", n, FIX_BODY_BYTES_MAX);
    out_begin(session, now, ret, &writer, type, 0);
    fix_writer_fields(&writer, body, n);
    if (!out_end(session, now, ret, &writer, type, true))
        return tw_error_set(error, TW_INVALID, "a field of a message (35=%.8s) is empty, no field, or one of the session's", type);
    session->may_reset = false; /* until it is known again that nothing is on its way */
    return TW_OK;
}

tw_status fix_session_renumber(struct fix_session *session, struct fix_actions *ret, struct tw_error *error)
{
    actions_begin(ret);
    if (session->phase != FIX_DOWN)
        return tw_error_set(error, TW_INVALID, "numbers (34) begin anew between two connections only");
    renumber(session, 1, 1, ret);
    return TW_OK;
}

void fix_session_allow_reset(struct fix_session *session, bool is_allowed)
{
    session->may_reset = is_allowed;
}

/* ---- What it knows. ---- */

enum fix_phase fix_session_phase(const struct fix_session *session)
{
    return session->phase;
}

bool fix_session_is_synced(const struct fix_session *session)
{
    return session->phase == FIX_UP && session->gap_high == 0;
}

uint64_t fix_session_next_out(const struct fix_session *session)
{
    return session->next_out;
}

uint64_t fix_session_next_in(const struct fix_session *session)
{
    return session->next_in;
}

int64_t fix_session_due_mono_ns(const struct fix_session *session)
{
    if (session->phase == FIX_DOWN || session->is_ended)
        return INT64_MAX;
    if (session->phase != FIX_UP)
        return session->deadline_mono_ns;
    int64_t due = INT64_MAX, beat = session->heartbeat_ns;
    if (session->gap_high != 0)
        due = session->gap_mono_ns + (int64_t)session->options.gap_ms * TW_NS_PER_MS;
    if (beat == 0)
        return due;
    int64_t silence = session->heard_mono_ns + beat / 5 * (session->is_tested ? 12 : 6);
    int64_t quiet = session->is_tested ? INT64_MAX : session->sent_mono_ns + beat;
    due = silence < due ? silence : due;
    return quiet < due ? quiet : due;
}
