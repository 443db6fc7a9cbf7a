/* print.c - a record of the journal, for people: what it is called and what it says, on one line. */
#include "recover.h"

#include <tradewake/engine/records.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct printing {
    FILE *out;
    bool is_json, is_first; /* first: of an object or list */
    struct state_in in;
    struct recovery r; /* for what copies are read into */
};

static void put_string(struct printing *p, const char *text)
{
    fputc('"', p->out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', p->out);
        if ((unsigned char)*text < 0x20)
            fprintf(p->out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, p->out);
    }
    fputc('"', p->out);
}

static void put_name(struct printing *p, const char *name)
{
    if (!p->is_first)
        fputc(p->is_json ? ',' : ' ', p->out);
    p->is_first = false;
    if (name != NULL)
        fprintf(p->out, p->is_json ? "\"%s\":" : "%s=", name);
}

static void put_text(struct printing *p, const char *name, const char *text)
{
    put_name(p, name);
    if (p->is_json || text[0] == '\0' || strchr(text, ' ') != NULL)
        put_string(p, text);
    else
        fputs(text, p->out);
}

static void put_number(struct printing *p, const char *name, uint64_t number)
{
    put_name(p, name);
    fprintf(p->out, "%" PRIu64, number);
}

static void put_flag(struct printing *p, const char *name, bool flag)
{
    put_name(p, name);
    fputs(flag ? "true" : "false", p->out);
}

static void put_decimal(struct printing *p, const char *name, tw_decimal value)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    if (value == TW_DECIMAL_UNSET)
        return;
    tw_decimal_text(value, text);
    put_text(p, name, text);
}

static void begin(struct printing *p, const char *name, char bracket)
{
    put_name(p, name);
    fputc(bracket, p->out);
    p->is_first = true;
}

static void end(struct printing *p, char bracket)
{
    fputc(bracket, p->out);
    p->is_first = false;
}

static void put_enum(struct printing *p, const char *name, const ProtobufCEnumDescriptor *words, int value,
                     const char *prefix)
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(words, value);
    size_t skip = found != NULL && strncmp(found->name, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    put_text(p, name, found != NULL ? found->name + skip : "?");
}

/* ---- Parts ---- */

static void print_copy(struct printing *p)
{
    struct copy_names names = state_get_copy_names(&p->in);
    struct tw_record record = {0};
    struct tw_copy copy = {.subscription = &p->r.nobodys, .record = &record};
    p->r.nobodys.slot = &p->r.nobody;
    state_get_copy(&p->in, &copy);
    put_number(p, "place", names.index);
    put_number(p, "follower", names.slot_number);
    if (names.leg_number != 0)
        put_number(p, "leg", names.leg_number);
    put_enum(p, "action", &tradewake__v1__copy_action__descriptor, copy.action, "COPY_ACTION_");
    put_enum(p, "state", &tradewake__v1__copy_state__descriptor, copy.state, "COPY_STATE_");
    if (copy.reason != REASON(UNSPECIFIED))
        put_enum(p, "reason", &tradewake__v1__reason__descriptor, copy.reason, "REASON_");
    put_text(p, "symbol", copy.symbol);
    put_decimal(p, "volume", copy.volume);
    put_decimal(p, "filled", copy.filled);
    put_number(p, "calls", copy.calls);
    free(copy.told);
}

static void print_leg(struct printing *p)
{
    struct leg_names names = state_get_leg_names(&p->in);
    struct tw_leg leg = {0};
    state_get_leg(&p->in, &leg);
    leg_tickets_clear(&leg);
    put_number(p, "leg", names.number);
    put_number(p, "position", names.position_number);
    put_number(p, "follower", names.slot_number);
    put_text(p, "symbol", names.symbol);
    put_decimal(p, "held", leg.held);
    put_decimal(p, "filled", leg.filled);
    put_flag(p, "closed", leg.is_closed);
    put_text(p, "ticket", leg.ticket);
    uint64_t n_applied = state_get_u(&p->in);
    if (n_applied > 0)
        begin(p, "changed_by", '[');
    for (uint64_t i = 0; i < n_applied && !p->in.failed; i++) {
        begin(p, NULL, '{');
        put_number(p, "event", state_get_u(&p->in));
        print_copy(p);
        end(p, '}');
    }
    if (n_applied > 0)
        end(p, ']');
}

static void print_copy_and_leg(struct printing *p)
{
    print_copy(p);
    if (state_get_u(&p->in) == 0)
        return;
    begin(p, "share", '{');
    print_leg(p);
    end(p, '}');
}

static void print_position(struct printing *p)
{
    static const char *const words[] = {
        [POSITION_OPEN] = "open", [POSITION_CLOSED] = "closed", [POSITION_MARK] = "mark"};
    struct position_names names = state_get_position_names(&p->in);
    struct tw_position position = {0};
    bool is_hashed = false, is_order = false;
    p->in.failed |= !state_get_position(&p->in, &position, &is_hashed, &is_order);
    free(position.pending);
    put_number(p, "position", names.number);
    put_text(p, "master", names.master_id);
    put_text(p, "id", position.id);
    put_flag(p, "order", is_order);
    put_text(p, "state", (size_t)position.state < sizeof words / sizeof words[0] ? words[position.state] : "?");
    put_decimal(p, "initial", position.initial);
    put_decimal(p, "remaining", position.remaining);
}

static void print_list(struct printing *p, const char *name, void (*print_one)(struct printing *p))
{
    uint64_t n = state_get_u(&p->in);
    begin(p, name, '[');
    for (uint64_t i = 0; i < n && !p->in.failed; i++) {
        begin(p, NULL, '{');
        print_one(p);
        end(p, '}');
    }
    end(p, ']');
}

/* ---- Records ---- */

static void print_boot(struct printing *p)
{
    char boot_id[40], journal_id[17], instance_id[17];
    state_get_text(&p->in, boot_id, sizeof boot_id);
    state_get_text(&p->in, journal_id, sizeof journal_id);
    state_get_text(&p->in, instance_id, sizeof instance_id);
    put_text(p, "machine", boot_id);
    put_text(p, "journal", journal_id);
    put_text(p, "instance", instance_id);
}

static void print_seal(struct printing *p)
{
    (void)state_get_i(&p->in);
    put_text(p, "stop", "clean");
}

static void print_follower(struct printing *p)
{
    size_t size;
    put_number(p, "follower", state_get_u(&p->in));
    const uint8_t *packed = state_get_bytes(&p->in, &size);
    Tradewake__V1__Follower *message = tradewake__v1__follower__unpack(NULL, size, packed);
    p->in.failed |= message == NULL;
    if (message == NULL)
        return;
    put_text(p, "id", message->follower_id);
    put_text(p, "adapter", message->adapter);
    put_enum(p, "mode", &tradewake__v1__follower_mode__descriptor, (int)message->mode, "FOLLOWER_MODE_");
    put_number(p, "revision", state_get_u(&p->in));
    tradewake__v1__follower__free_unpacked(message, NULL);
}

static void print_gone(struct printing *p)
{
    put_number(p, "number", state_get_u(&p->in));
}

static void print_subscription(struct printing *p)
{
    char id[TW_ID_BYTES], master_id[TW_ID_BYTES];
    put_number(p, "subscription", state_get_u(&p->in));
    state_get_text(&p->in, id, sizeof id);
    state_get_text(&p->in, master_id, sizeof master_id);
    put_text(p, "id", id);
    put_text(p, "master", master_id);
    put_number(p, "follower", state_get_u(&p->in));
}

static void print_halt(struct printing *p)
{
    char follower_id[TW_ID_BYTES], master_id[TW_ID_BYTES], note[TW_NOTE_CHARS_MAX + 1];
    state_get_text(&p->in, follower_id, sizeof follower_id);
    state_get_text(&p->in, master_id, sizeof master_id);
    bool everything = state_get_u(&p->in) != 0;
    state_get_text(&p->in, note, sizeof note);
    (void)state_get_i(&p->in);
    put_text(p, "follower", follower_id);
    put_text(p, "master", master_id);
    put_flag(p, "everything", everything);
    put_text(p, "note", note);
}

static void print_halts(struct printing *p)
{
    print_list(p, "halts", print_halt);
    while (p->in.at != p->in.end && !p->in.failed) {
        char by[TW_ID_BYTES];
        state_get_text(&p->in, by, sizeof by);
        put_text(p, "by", by);
    }
}

static void print_risk(struct printing *p)
{
    put_number(p, "follower", state_get_u(&p->in));
    (void)state_get_risk(&p->in, &p->r.nobody);
    put_flag(p, "stopped_out", p->r.nobody.stop_out.is_out);
    put_text(p, "gate_tripped_by", tw_breach_word(p->r.nobody.gate.tripped));
}

static void print_plan(struct printing *p)
{
    put_number(p, "event", state_get_u(&p->in));
    print_list(p, "copies", print_copy_and_leg);
}

static void print_event(struct printing *p)
{
    struct tw_master master = {0};
    struct tw_record record = {.master = &master};
    struct event_head head = state_get_event_head(&p->in);
    p->in.failed |= !state_get_event(&p->in, &record);
    free(record.packed);
    free(master.ahead);
    put_number(p, "event", head.number);
    put_text(p, "master", head.master_id);
    put_text(p, "id", head.event_id);
    put_enum(p, "origin", &tradewake__v1__copy_origin__descriptor, (int)record.origin, "COPY_ORIGIN_");
    put_text(p, "subject", record.subject_id);
    put_text(p, "symbol", record.symbol);
    put_number(p, "followers", head.n_copies);
    print_list(p, "positions", print_position);
    print_plan(p);
}

static void print_outcome_one(struct printing *p)
{
    put_number(p, "event", state_get_u(&p->in));
    print_copy_and_leg(p);
}

static void print_outcome(struct printing *p)
{
    print_list(p, "copies", print_outcome_one);
}

static void print_legs(struct printing *p)
{
    print_list(p, "shares", print_leg);
}

static void print_sync(struct printing *p)
{
    char master_id[TW_ID_BYTES], id[TW_ID_BYTES];
    state_get_text(&p->in, master_id, sizeof master_id);
    state_get_text(&p->in, id, sizeof id);
    put_text(p, "master", master_id);
    put_text(p, "id", id);
}

static void print_message_of(struct printing *p, const char *name, const struct tw_audit_message *message)
{
    if (message->type[0] != '\0')
        put_text(p, name, message->type);
}

/* What the messages say, `tradewake audit` tells. */
static void print_audit(struct printing *p)
{
    char texts[TW_AUDIT_TEXTS_BYTES];
    struct tw_audit audit;
    p->in.failed |= !tw_audit_read(p->in.at, (size_t)(p->in.end - p->in.at), texts, &audit);
    if (p->in.failed)
        return;
    const ProtobufCEnumValue *result =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__error_reason__descriptor, audit.result);
    put_text(p, "who", audit.who);
    put_text(p, "method", audit.method);
    put_text(p, "master", audit.master_id);
    put_text(p, "follower", audit.follower_id);
    put_text(p, "object", audit.object_id);
    put_text(p, "result", audit.result == 0 ? "DONE" : result != NULL ? result->name : "?");
    put_text(p, "why", audit.why);
    put_text(p, "peer", audit.peer);
    put_number(p, "left_out", audit.left_out);
    print_message_of(p, "request", &audit.request);
    print_message_of(p, "before", &audit.before);
    print_message_of(p, "after", &audit.after);
}

static const struct {
    const char *name;
    void (*print)(struct printing *p);
} records[] = {
    [STATE_BOOT] = {"BOOT", print_boot},
    [STATE_SEAL] = {"SEAL", print_seal},
    [STATE_FOLLOWER] = {"FOLLOWER", print_follower},
    [STATE_FOLLOWER_GONE] = {"FOLLOWER_GONE", print_gone},
    [STATE_SUBSCRIPTION] = {"SUBSCRIPTION", print_subscription},
    [STATE_SUBSCRIPTION_GONE] = {"SUBSCRIPTION_GONE", print_gone},
    [STATE_HALTS] = {"HALTS", print_halts},
    [STATE_RISK] = {"RISK", print_risk},
    [STATE_EVENT] = {"EVENT", print_event},
    [STATE_POSITION] = {"POSITION", print_position},
    [STATE_PLAN] = {"PLAN", print_plan},
    [STATE_OUTCOME] = {"OUTCOME", print_outcome},
    [STATE_LEG] = {"LEG", print_legs},
    [STATE_SYNC] = {"SYNC", print_sync},
    [STATE_AUDIT] = {"AUDIT", print_audit},
};

const char *tw_engine_record_name(uint16_t type)
{
    return type < sizeof records / sizeof records[0] ? records[type].name : NULL;
}

/* Into memory first: of what cannot be read to its end nothing is said. */
bool tw_engine_record_print(FILE *out, uint16_t type, const uint8_t *bytes, size_t size, bool is_json)
{
    char *text = NULL;
    size_t length;
    if (tw_engine_record_name(type) == NULL)
        return false;
    struct printing p = {.out = open_memstream(&text, &length), .is_json = is_json, .is_first = true,
                         .in = {bytes, bytes + size, false}};
    if (p.out == NULL)
        return false;
    if (is_json)
        begin(&p, NULL, '{');
    records[type].print(&p);
    if (is_json)
        end(&p, '}');
    fclose(p.out);
    if (!p.in.failed)
        fwrite(text, 1, length, out);
    free(text);
    tw_market_clear(&p.r.nobody.market);
    return !p.in.failed;
}
