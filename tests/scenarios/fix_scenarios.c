/* fix_scenarios.c - plays conversations against the FIX session, on a clock of its own.
 *
 *     fix_scenarios FOLDER|FILE...      prints what failed, and "N passed, N failed"
 *
 * Each file is played six times: its bytes come whole, one by one, and in sevens; and each of these once more with session
 * and store made anew from the file at every connection, as after a restart. The lines are told in README.md. */
#include <tradewake/fix/session.h>
#include <tradewake/fix/store.h>

#include <tradewake/base/clock.h>

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, EVENTS_MAX = 256, EVENT_BYTES = 2048, NAMES_MAX = 512, TICK_MS = 100 };

#define START_WALL_NS (INT64_C(1796126400) * TW_NS_PER_S) /* 2026-12-01 12:00 */

enum event_kind { SENT, DELIVERED, IS_UP, MISSED, RENUMBERED, ENDED, STOPPED };

struct event {
    enum event_kind kind;
    char text[EVENT_BYTES];
};

struct play {
    const char *path;
    int line;
    size_t split; /* bytes at once; 0 = all */
    bool restarts, has_failed;
    struct fix_now now;
    char store_path[64];
    char sender[FIX_COMP_BYTES], target[FIX_COMP_BYTES], username[FIX_COMP_BYTES], sender_sub[FIX_COMP_BYTES], target_sub[FIX_COMP_BYTES];
    char password[64];
    struct fix_session_options options;
    bool may_reset;
    struct fix_session *session;
    struct fix_store *store;
    struct fix_reader reader;
    struct fix_actions *actions;
    struct event events[EVENTS_MAX];
    size_t n_events, next_event;
};

static void fail(struct play *play, const char *format, ...) TW_PRINTF(2, 3);

static void fail(struct play *play, const char *format, ...)
{
    va_list list;
    if (play->has_failed)
        return;
    play->has_failed = true;
    printf("FAIL %s:%d (bytes at once: %zu, restarts: %d): ", play->path, play->line, play->split, play->restarts);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

static void check(struct play *play, tw_status status, const struct tw_error *error)
{
    if (status != TW_OK)
        fail(play, "%s", error->text);
}

/* ---- What the session does. ---- */

static void event_add(struct play *play, enum event_kind kind, const char *format, ...) TW_PRINTF(3, 4);

static void event_add(struct play *play, enum event_kind kind, const char *format, ...)
{
    va_list list;
    if (play->n_events == EVENTS_MAX) {
        fail(play, "more than %d things happen", EVENTS_MAX);
        return;
    }
    struct event *event = &play->events[play->n_events++];
    event->kind = kind;
    va_start(list, format);
    vsnprintf(event->text, sizeof event->text, format, list);
    va_end(list);
}

/* "35=0|34=2|112=X": without what is the same in every message; a separator inside a value is ^. */
static void message_text(const struct fix_message *message, char *to, size_t size)
{
    size_t n = 0;
    to[0] = '\0';
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct fix_field *field = &message->fields[i];
        uint32_t tag = field->tag;
        if (tag == 8 || tag == 9 || tag == 10 || tag == 49 || tag == 52 || tag == 56 || tag == 122)
            continue;
        int length = snprintf(to + n, size - n, "%s%u=%.*s", n > 0 ? "|" : "", tag, (int)field->n, field->value);
        n += length > 0 ? (size_t)length : 0;
        if (n >= size)
            break;
    }
    for (char *at = to; *at != '\0'; at++)
        if (*at == FIX_SOH)
            *at = '^';
}

static void do_send(struct play *play, const struct fix_action *action)
{
    static struct fix_field fields[FIX_FIELDS_MAX];
    struct fix_message message;
    struct tw_error error;
    char text[EVENT_BYTES];
    check(play, fix_store_out(play->store, action->seq, play->now.wall_ns, action->bytes, action->n, &error), &error);
    if (!fix_message_read(action->bytes, action->n, fields, &message)) {
        fail(play, "what is sent is no message");
        return;
    }
    message_text(&message, text, sizeof text);
    event_add(play, SENT, "%s", text);
}

static void disconnect(struct play *play)
{
    fix_session_on_disconnected(play->session);
    fix_reader_reset(&play->reader);
}

static void perform(struct play *play)
{
    struct tw_error error;
    char text[EVENT_BYTES];
    for (size_t i = 0; i < play->actions->n; i++) {
        const struct fix_action *action = &play->actions->list[i];
        switch (action->what) {
        case FIX_DO_RENUMBER:
            check(play, fix_store_renumber(play->store, action->next_out, action->next_in, play->now.wall_ns, &error), &error);
            event_add(play, RENUMBERED, "%llu %llu", (unsigned long long)action->next_out, (unsigned long long)action->next_in);
            break;
        case FIX_DO_SEND:
            do_send(play, action);
            break;
        case FIX_DO_DELIVER:
            message_text(action->message, text, sizeof text);
            event_add(play, DELIVERED, "%s", text);
            break;
        case FIX_DO_EXPECT:
            check(play, fix_store_expect(play->store, action->next_in, &error), &error);
            break;
        case FIX_DO_UP:
            event_add(play, IS_UP, "%s", "");
            break;
        case FIX_DO_MISSED:
            event_add(play, MISSED, "%llu..%llu", (unsigned long long)action->from, (unsigned long long)action->to);
            break;
        case FIX_DO_SAY:
            break;
        case FIX_DO_END:
            event_add(play, action->is_fatal ? STOPPED : ENDED, "%s", action->why);
            if (i + 1 != play->actions->n)
                fail(play, "something comes after the end");
            disconnect(play);
            return;
        }
    }
    while (play->actions->has_more && fix_session_phase(play->session) != FIX_DOWN) {
        fix_session_more(play->session, play->now, play->actions);
        perform(play);
    }
}

static void receive(struct play *play, const char *bytes, size_t n)
{
    struct fix_message message;
    size_t at = 0;
    while (at < n) {
        size_t piece = play->split == 0 || play->split > n - at ? n - at : play->split;
        size_t taken = fix_reader_feed(&play->reader, bytes + at, piece);
        at += taken;
        while (fix_reader_next(&play->reader, &message)) {
            fix_session_on_message(play->session, play->now, &message, play->actions);
            perform(play);
        }
        if (taken == 0) {
            fail(play, "the reader takes nothing and gives nothing");
            return;
        }
    }
}

/* ---- Lines. ---- */

static bool begins(const char *text, const char *with, const char **ret_rest)
{
    size_t n = strlen(with);
    if (strncmp(text, with, n) != 0)
        return false;
    *ret_rest = text + n;
    return true;
}

/* A value: "-121s" and "+3s" of 52 and 122 is so far from now; "NxC" is N times the letter C. */
static void put_value(struct play *play, struct fix_writer *writer, uint32_t tag, const char *value)
{
    static char filled[FIX_MESSAGE_BYTES_DEFAULT];
    char *letter;
    if ((tag == 52 || tag == 122) && (value[0] == '-' || value[0] == '+')) {
        fix_writer_time(writer, tag, play->now.wall_ns + strtoll(value, NULL, 10) * TW_NS_PER_S);
        return;
    }
    unsigned long n = strtoul(value, &letter, 10);
    if (letter[0] == 'x' && letter[1] != '\0' && letter[2] == '\0' && n < sizeof filled) {
        memset(filled, letter[1], n);
        fix_writer_bytes(writer, tag, filled, n);
        return;
    }
    fix_writer_text(writer, tag, value);
}

/* "35=0|34=2" with what else a message of theirs needs; a header field that is given is not added, and "49=-" is left out. */
static void on_line_in(struct play *play, char *fields)
{
    static char bytes[FIX_MESSAGE_BYTES_DEFAULT * 2];
    struct fix_writer writer;
    const char *type = "", *begin = "FIX.4.4", *rest;
    bool has_sender = strstr(fields, "|49=") != NULL, has_target = strstr(fields, "|56=") != NULL, has_time = strstr(fields, "|52=") != NULL;
    char *save = NULL, *field = strtok_r(fields, "|", &save);
    if (field != NULL && begins(field, "8=", &begin))
        field = strtok_r(NULL, "|", &save);
    if (field == NULL || !begins(field, "35=", &type)) {
        fail(play, "a message begins with 35=");
        return;
    }
    fix_writer_begin(&writer, bytes, sizeof bytes, begin, type);
    if (!has_sender)
        fix_writer_text(&writer, 49, play->target);
    if (!has_time)
        fix_writer_time(&writer, 52, play->now.wall_ns);
    if (!has_target)
        fix_writer_text(&writer, 56, play->sender);
    for (field = strtok_r(NULL, "|", &save); field != NULL; field = strtok_r(NULL, "|", &save)) {
        char *equals = strchr(field, '=');
        uint64_t tag = 0;
        if (equals == NULL || !fix_number_read(field, (size_t)(equals - field), &tag)) {
            fail(play, "%s is no field", field);
            return;
        }
        if (!begins(equals, "=-", &rest) || rest[0] != '\0')
            put_value(play, &writer, (uint32_t)tag, equals + 1);
    }
    size_t n = fix_writer_end(&writer);
    if (n == 0)
        fail(play, "this cannot be written");
    else
        receive(play, bytes, n);
}

/* Exactly these bytes, "|" for the separator; %SUM is the checksum so far, %TIME the time. */
static void on_line_raw(struct play *play, const char *text)
{
    char bytes[LINE_BYTES + 256], time[FIX_UTC_BYTES];
    size_t n = 0;
    const char *rest;
    for (; *text != '\0' && n + 32 < sizeof bytes; text++) {
        if (begins(text, "%TIME", &rest)) {
            n += (size_t)snprintf(bytes + n, sizeof bytes - n, "%s", fix_time_text(play->now.wall_ns, time));
            text = rest - 1;
        } else if (begins(text, "%SUM", &rest)) {
            unsigned sum = 0;
            for (size_t i = 0; i + 3 < n; i++) /* without "10=" */
                sum += (unsigned char)bytes[i];
            n += (size_t)snprintf(bytes + n, sizeof bytes - n, "%03u", sum % 256);
            text = rest - 1;
        } else {
            bytes[n++] = *text == '|' ? FIX_SOH : *text;
        }
    }
    receive(play, bytes, n);
}

static void store_open(struct play *play)
{
    struct tw_error error = {{0}};
    const struct fix_store_options options = {.path = play->store_path};
    fix_store_close(play->store);
    play->store = NULL;
    check(play, fix_store_open(&options, play->now.wall_ns, &play->store, &error), &error);
}

static void session_make(struct play *play)
{
    struct tw_error error = {{0}};
    struct fix_store_numbers numbers = fix_store_numbers(play->store);
    fix_session_free(play->session);
    play->session = NULL;
    check(play, fix_session_new(&play->options, numbers.next_out, numbers.next_in, &play->session, &error), &error);
    if (play->session != NULL)
        fix_session_allow_reset(play->session, play->may_reset);
}

static void on_line_connect(struct play *play)
{
    if (play->restarts && play->session != NULL) {
        uint64_t out = fix_session_next_out(play->session), in = fix_session_next_in(play->session);
        store_open(play);
        if (play->store != NULL)
            session_make(play);
        if (play->session != NULL && (fix_session_next_out(play->session) != out || fix_session_next_in(play->session) != in))
            fail(play, "after a restart the numbers are others");
    }
    if (play->session == NULL) {
        store_open(play);
        if (play->store != NULL)
            session_make(play);
    }
    if (play->session == NULL)
        return;
    fix_session_on_connected(play->session, play->now, play->password, play->actions);
    perform(play);
}

/* session KEY=VALUE...: what the session is made with, and from which numbers it starts. */
static void on_line_session(struct play *play, char *words)
{
    uint64_t next_out = 1, next_in = 1;
    char *save = NULL;
    for (char *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        const char *value;
        if (begins(word, "sender=", &value))
            snprintf(play->sender, sizeof play->sender, "%s", value);
        else if (begins(word, "target=", &value))
            snprintf(play->target, sizeof play->target, "%s", value);
        else if (begins(word, "sender_sub=", &value))
            snprintf(play->sender_sub, sizeof play->sender_sub, "%s", value);
        else if (begins(word, "target_sub=", &value))
            snprintf(play->target_sub, sizeof play->target_sub, "%s", value);
        else if (begins(word, "username=", &value))
            snprintf(play->username, sizeof play->username, "%s", value);
        else if (begins(word, "password=", &value))
            snprintf(play->password, sizeof play->password, "%s", value);
        else if (begins(word, "heartbeat=", &value))
            play->options.heartbeat_s = (uint32_t)strtoul(value, NULL, 10);
        else if (begins(word, "chunk=", &value))
            play->options.resend_chunk = (uint32_t)strtoul(value, NULL, 10);
        else if (begins(word, "out=", &value))
            next_out = strtoull(value, NULL, 10);
        else if (begins(word, "in=", &value))
            next_in = strtoull(value, NULL, 10);
        else if (strcmp(word, "resets") == 0)
            play->options.resets_at_logon = true;
        else if (strcmp(word, "user_tags") == 0)
            play->options.takes_user_tags = true;
        else if (strcmp(word, "plain_gap_fill") == 0)
            play->options.plain_gap_fill = true;
        else
            fail(play, "%s is no word of session", word);
    }
    store_open(play);
    struct tw_error error = {{0}};
    if (play->store == NULL)
        return;
    check(play, fix_store_renumber(play->store, next_out, next_in, play->now.wall_ns, &error), &error);
    session_make(play);
}

static void on_line_time(struct play *play, const char *text)
{
    char *unit;
    int64_t ms = strtoll(text, &unit, 10);
    ms *= strcmp(unit, "s") == 0 ? 1000 : 1;
    for (; ms > 0; ms -= TICK_MS) {
        int64_t step = (ms < TICK_MS ? ms : TICK_MS) * TW_NS_PER_MS;
        play->now.mono_ns += step;
        play->now.wall_ns += step;
        fix_session_on_tick(play->session, play->now, play->actions);
        perform(play);
    }
}

static void on_line_send(struct play *play, char *words)
{
    struct tw_error error = {{0}};
    char type[16] = "";
    const char *rest = words;
    bool is_refused = begins(words, "refused ", &rest);
    size_t n = strcspn(rest, " ");
    snprintf(type, sizeof type, "%.*s", (int)(n < sizeof type ? n : sizeof type - 1), rest);
    char body[LINE_BYTES];
    snprintf(body, sizeof body, "%s|", rest[n] == ' ' ? rest + n + 1 : "");
    for (char *at = body; *at != '\0'; at++)
        if (*at == '|')
            *at = FIX_SOH;
    tw_status status = fix_session_send(play->session, play->now, type, body, strlen(body), play->actions, &error);
    if (is_refused == (status == TW_OK))
        fail(play, "it is %s", status == TW_OK ? "not refused" : error.text);
    perform(play);
}

/* ---- What is expected. ---- */

static const char *const kind_words[] = {
    [SENT] = "sent", [DELIVERED] = "delivered", [IS_UP] = "up", [MISSED] = "missed",
    [RENUMBERED] = "renumbered", [ENDED] = "end", [STOPPED] = "stop",
};

static void expect_event(struct play *play, enum event_kind kind, const char *text)
{
    if (play->next_event == play->n_events) {
        fail(play, "nothing happens; expected: %s %s", kind_words[kind], text);
        return;
    }
    const struct event *event = &play->events[play->next_event++];
    bool is_part = kind == ENDED || kind == STOPPED;
    bool is_same = is_part ? strstr(event->text, text) != NULL : strcmp(event->text, text) == 0;
    if (event->kind != kind || !is_same)
        fail(play, "it is: %s %s; expected: %s %s", kind_words[event->kind], event->text, kind_words[kind], text);
}

static void expect_nothing(struct play *play)
{
    if (play->next_event < play->n_events)
        fail(play, "it was not expected: %s %s", kind_words[play->events[play->next_event].kind],
             play->events[play->next_event].text);
    play->n_events = play->next_event = 0;
}

static void expect_number(struct play *play, const char *what, uint64_t is, const char *text)
{
    if (is != strtoull(text, NULL, 10))
        fail(play, "next %s is %llu, expected %s", what, (unsigned long long)is, text);
}

static bool line_expects(struct play *play, char *line)
{
    static const struct {
        const char *word;
        enum event_kind kind;
    } words[] = {{"> ", SENT}, {"deliver ", DELIVERED}, {"up", IS_UP}, {"missed ", MISSED},
                 {"renumbered ", RENUMBERED}, {"end ", ENDED}, {"stop ", STOPPED}};
    const char *rest;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (begins(line, words[i].word, &rest)) {
            expect_event(play, words[i].kind, rest);
            return true;
        }
    if (begins(line, "in ", &rest))
        expect_number(play, "in", fix_session_next_in(play->session), rest);
    else if (begins(line, "out ", &rest))
        expect_number(play, "out", fix_session_next_out(play->session), rest);
    else if (strcmp(line, "synced") == 0 || strcmp(line, "not synced") == 0) {
        if (fix_session_is_synced(play->session) != (line[0] == 's'))
            fail(play, "it is otherwise");
    } else
        return false;
    return true;
}

static void line_does(struct play *play, char *line)
{
    const char *rest;
    expect_nothing(play);
    if (strcmp(line, "session") == 0 || begins(line, "session ", &rest))
        on_line_session(play, line + strlen("session"));
    else if (strcmp(line, "connect") == 0)
        on_line_connect(play);
    else if (play->session == NULL)
        fail(play, "session comes first");
    else if (begins(line, "< ", &rest))
        on_line_in(play, line + (rest - line));
    else if (begins(line, "<raw ", &rest))
        on_line_raw(play, rest);
    else if (line[0] == '+')
        on_line_time(play, line + 1);
    else if (begins(line, "send ", &rest))
        on_line_send(play, line + (rest - line));
    else if (strcmp(line, "lost") == 0)
        disconnect(play);
    else if (begins(line, "logout", &rest)) {
        fix_session_logout(play->session, play->now, rest[0] == ' ' ? rest + 1 : "", play->actions);
        perform(play);
    } else if (strcmp(line, "may reset") == 0 || strcmp(line, "may not reset") == 0) {
        play->may_reset = strcmp(line, "may reset") == 0;
        fix_session_allow_reset(play->session, play->may_reset);
    } else
        fail(play, "what is \"%s\"?", line);
}

/* ---- Files. ---- */

static bool play_file(const char *path, size_t split, bool restarts)
{
    static struct play play;
    char line[LINE_BYTES];
    play = (struct play){.path = path, .split = split, .restarts = restarts,
                         .now = {.mono_ns = 1000 * TW_NS_PER_S, .wall_ns = START_WALL_NS},
                         .sender = "US", .target = "THEM", .actions = calloc(1, sizeof *play.actions)};
    play.options = (struct fix_session_options){.sender = play.sender, .target = play.target, .sender_sub = play.sender_sub,
                                                .target_sub = play.target_sub, .username = play.username, .heartbeat_s = 30};
    snprintf(play.store_path, sizeof play.store_path, "/tmp/fix_scenario.%d.store", (int)getpid());
    (void)unlink(play.store_path);
    FILE *file = fopen(path, "r");
    if (file == NULL || play.actions == NULL || fix_reader_init(&play.reader, 0) != TW_OK) {
        fail(&play, "cannot be read");
    } else {
        while (!play.has_failed && fgets(line, sizeof line, file) != NULL) {
            play.line++;
            line[strcspn(line, "\n")] = '\0';
            if (line[0] != '\0' && line[0] != '#' && !line_expects(&play, line))
                line_does(&play, line);
        }
        expect_nothing(&play);
    }
    if (file != NULL)
        fclose(file);
    fix_session_free(play.session);
    fix_store_close(play.store);
    fix_reader_clear(&play.reader);
    free(play.actions);
    (void)unlink(play.store_path);
    return !play.has_failed;
}

static bool play_six_times(const char *path)
{
    static const size_t splits[] = {0, 1, 7};
    bool is_good = true;
    for (size_t i = 0; i < 6 && is_good; i++)
        is_good = play_file(path, splits[i % 3], i >= 3);
    return is_good;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t names_of(const char *path, char *names[NAMES_MAX])
{
    size_t n = 0;
    struct stat what;
    char name[1024];
    if (stat(path, &what) == 0 && S_ISDIR(what.st_mode)) {
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL && n < NAMES_MAX;) {
            size_t length = strlen(entry->d_name);
            if (length < 5 || strcmp(entry->d_name + length - 4, ".txt") != 0)
                continue;
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            names[n++] = strdup(name);
        }
        if (folder != NULL)
            closedir(folder);
        qsort(names, n, sizeof names[0], by_name);
    } else {
        names[n++] = strdup(path);
    }
    return n;
}

int main(int argc, char **argv)
{
    unsigned passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        char *names[NAMES_MAX];
        size_t n = names_of(argv[i], names);
        for (size_t k = 0; k < n; k++) {
            *(play_six_times(names[k]) ? &passed : &failed) += 1;
            free(names[k]);
        }
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
