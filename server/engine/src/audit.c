#include "audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLD_EVERY_NS (60 * TW_NS_PER_S) /* how often it is written down what was left out */

/* ---- The pace ---- */

bool tw_audit_paced(struct tw_audit_pace *pace, int64_t now_mono_ns)
{
    const int64_t each_ns = TW_AUDIT_REFUSAL_EVERY_S * TW_NS_PER_S;
    if (!pace->is_begun)
        *pace = (struct tw_audit_pace){.filled_mono_ns = now_mono_ns, .left = TW_AUDIT_REFUSALS_AT_ONCE, .is_begun = true};
    int64_t more = (now_mono_ns - pace->filled_mono_ns) / each_ns;
    if (more > TW_AUDIT_REFUSALS_AT_ONCE - (int64_t)pace->left) {
        pace->left = TW_AUDIT_REFUSALS_AT_ONCE;
        pace->filled_mono_ns = now_mono_ns;
    } else if (more > 0) {
        pace->left += (uint32_t)more;
        pace->filled_mono_ns += more * each_ns;
    }
    if (pace->left == 0)
        return false;
    pace->left--;
    return true;
}

/* ---- A record's bytes ---- */

static void put_message(struct state_out *out, const struct tw_audit_message *message)
{
    bool is_there = message->type != NULL && message->type[0] != '\0';
    state_put_text(out, is_there ? message->type : "");
    state_put_bytes(out, message->bytes, is_there ? message->size : 0);
}

void state_put_audit(struct state_out *out, const struct tw_audit *audit)
{
    const char *const texts[] = {audit->who, audit->peer, audit->method, audit->master_id,
                                 audit->follower_id, audit->object_id, audit->why};
    state_put_i(out, audit->at_wall_ns);
    state_put_i(out, audit->result);
    state_put_u(out, audit->left_out);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        state_put_text(out, texts[i]);
    put_message(out, &audit->request);
    put_message(out, &audit->before);
    put_message(out, &audit->after);
}

/* Of a text that is longer than its room the rest is left out. */
static const char *get_text(struct state_in *in, char **at, size_t room)
{
    size_t size;
    char *text = *at;
    const uint8_t *bytes = state_get_bytes(in, &size);
    size_t kept = size < room - 1 ? size : room - 1;
    if (kept > 0)
        memcpy(text, bytes, kept);
    text[kept] = '\0';
    *at += kept + 1;
    return text;
}

bool tw_audit_read(const uint8_t *bytes, size_t size, char buffer[TW_AUDIT_TEXTS_BYTES], struct tw_audit *ret)
{
    struct state_in in = {bytes, bytes + size, false};
    char *at = buffer;
    enum { TEXTS = 10 };
    const size_t room = TW_AUDIT_TEXTS_BYTES / TEXTS;
    *ret = (struct tw_audit){.at_wall_ns = state_get_i(&in)};
    ret->result = (int32_t)state_get_i(&in);
    ret->left_out = state_get_u(&in);
    const char **const texts[] = {&ret->who, &ret->peer, &ret->method, &ret->master_id,
                                  &ret->follower_id, &ret->object_id, &ret->why};
    struct tw_audit_message *const messages[] = {&ret->request, &ret->before, &ret->after};
    static_assert(sizeof texts / sizeof texts[0] + sizeof messages / sizeof messages[0] == TEXTS, "room for each");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = get_text(&in, &at, room);
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        messages[i]->type = get_text(&in, &at, room);
        messages[i]->bytes = state_get_bytes(&in, &messages[i]->size);
    }
    return !in.failed && in.at == in.end;
}

/* ---- Written ---- */

static uint64_t append(struct tw_engine *engine, const struct tw_audit *audit)
{
    struct state_out out = {0};
    state_put_audit(&out, audit);
    uint64_t sequence = log_append(engine, STATE_AUDIT, &out);
    state_out_clear(&out);
    return sequence;
}

void tw_engine_audit_change(struct tw_engine *engine, const struct tw_audit *audit)
{
    if (engine->log != NULL)
        log_await(engine, append(engine, audit));
}

static void keep(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* Under audit.mutex. What is remembered of those that are not written: their number, and the last one. */
static void leave_out(struct audit_unwritten *unwritten, const struct tw_audit *audit)
{
    unwritten->n++;
    unwritten->at_wall_ns = audit->at_wall_ns;
    unwritten->result = audit->result;
    keep(unwritten->who, sizeof unwritten->who, audit->who);
    keep(unwritten->peer, sizeof unwritten->peer, audit->peer);
    keep(unwritten->method, sizeof unwritten->method, audit->method);
    keep(unwritten->why, sizeof unwritten->why, audit->why);
}

void tw_engine_audit_refusal(struct tw_engine *engine, const struct tw_audit *audit, bool is_stranger)
{
    struct audit_unwritten *unwritten = &engine->audit.unwritten[is_stranger];
    if (engine->log == NULL)
        return;
    /* What is left of a full disk is for closes and outcomes. */
    bool has_room = !is_disk_full(engine);
    pthread_mutex_lock(&engine->audit.mutex);
    bool is_written = has_room && tw_audit_paced(&unwritten->pace, tw_mono_ns());
    if (!is_written)
        leave_out(unwritten, audit);
    pthread_mutex_unlock(&engine->audit.mutex);
    if (is_written)
        append(engine, audit);
}

static void tell(struct tw_engine *engine, const struct audit_unwritten *unwritten)
{
    const struct tw_audit audit = {
        .at_wall_ns = unwritten->at_wall_ns, .who = unwritten->who, .peer = unwritten->peer,
        .method = unwritten->method, .master_id = "", .follower_id = "", .object_id = "",
        .result = unwritten->result, .why = unwritten->why, .left_out = unwritten->n,
    };
    append(engine, &audit);
}

void audit_tell(struct tw_engine *engine, bool is_last)
{
    int64_t now_ns = tw_mono_ns();
    if (engine->log == NULL || (!is_last && (now_ns < engine->audit.told_mono_ns + TOLD_EVERY_NS || is_disk_full(engine))))
        return;
    engine->audit.told_mono_ns = now_ns;
    for (size_t i = 0; i < 2; i++) {
        pthread_mutex_lock(&engine->audit.mutex);
        struct audit_unwritten taken = engine->audit.unwritten[i];
        engine->audit.unwritten[i].n = 0;
        pthread_mutex_unlock(&engine->audit.mutex);
        if (taken.n > 0)
            tell(engine, &taken);
    }
}
