#include "library.h"

#include "border.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/limits.h>
#include <tradewake/base/log.h>

#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS_MAX_DEFAULT = 32, CALL_TIMEOUT_MS_DEFAULT = 2000, SETTLE_MS_DEFAULT = 60000, TIMES_MS_MAX = 600000 };

/* ---- Is it one of ours? ---- */

/* Sizes as they were in 1.0, of which nothing is ever taken away. */
static const struct {
    const char *name;
    size_t at;
    uint32_t first, ours;
} layouts[] = {
#define LAYOUT(what, first) {"twp_" #what, offsetof(struct twp_plugin, sizeof_##what), first##_BYTES_FIRST, sizeof(struct twp_##what)}
    LAYOUT(caps, CAPS),         LAYOUT(order, ORDER),       LAYOUT(result, RESULT),   LAYOUT(account, ACCOUNT),
    LAYOUT(instrument, INSTRUMENT), LAYOUT(quote, QUOTE),   LAYOUT(position, POSITION), LAYOUT(pending, PENDING),
    LAYOUT(event, EVENT),       LAYOUT(open, OPEN),
#undef LAYOUT
};

static tw_status layout_check(const struct twp_plugin *about, struct tw_error *error)
{
    int32_t minor = (int32_t)(about->abi & 0xffff), our_minor = (int32_t)TWP_ABI_MINOR;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        uint32_t theirs;
        memcpy(&theirs, (const char *)about + layouts[i].at, sizeof theirs);
        bool fits = theirs >= layouts[i].first && (minor > our_minor ? theirs >= layouts[i].ours
                                                   : minor < our_minor ? theirs <= layouts[i].ours
                                                                           : theirs == layouts[i].ours);
        if (!fits)
            return tw_error_set(error, TW_INVALID,
                                "struct %s has %u bytes there and %u here: it was built with another header, packing or "
                                "word size",
                                layouts[i].name, theirs, layouts[i].ours);
    }
    return TW_OK;
}

static tw_status version_check(const struct twp_plugin *about, struct tw_error *error)
{
    if (about->magic != TWP_MAGIC)
        return tw_error_set(error, TW_INVALID, "its descriptor begins with %08x, expected %08x", about->magic, TWP_MAGIC);
    if (about->abi >> 16 != TWP_ABI_MAJOR)
        return tw_error_set(error, TW_INVALID, "it was built for ABI %u.%u, this host speaks %u.%u", about->abi >> 16,
                            about->abi & 0xffff, TWP_ABI_MAJOR, TWP_ABI_MINOR);
    if (about->size < PLUGIN_BYTES_FIRST)
        return tw_error_set(error, TW_INVALID, "its descriptor has %u bytes, expected at least %u", about->size,
                            PLUGIN_BYTES_FIRST);
    return layout_check(about, error);
}

static tw_status functions_check(const struct twp_api *api, uint32_t can, struct tw_error *error)
{
    const char *missing = api->session_open == NULL    ? "session_open"
                          : api->session_close == NULL ? "session_close"
                          : api->account == NULL       ? "account"
                          : api->instruments == NULL   ? "instruments"
                          : api->positions == NULL     ? "positions"
                          : api->orders == NULL        ? "orders"
                          : api->execute == NULL       ? "execute"
                          : (can & TWP_CAN_LOOKUP) != 0 && api->lookup == NULL ? "lookup, which it can"
                                                                               : NULL;
    return missing == NULL ? TW_OK : tw_error_set(error, TW_INVALID, "it has no %s", missing);
}

static const char *const models[] = {
    [TWP_THREADS_GLOBAL] = "GLOBAL (one call at a time in the whole library)",
    [TWP_THREADS_SESSION] = "SESSION",
    [TWP_THREADS_AFFINE] = "AFFINE (always the same thread for a session)",
    [TWP_THREADS_FREE] = "FREE",
};

static tw_status caps_check(struct twp_caps *caps, bool in_process, struct tw_error *error)
{
    if (caps->thread_model < TWP_THREADS_GLOBAL || caps->thread_model > TWP_THREADS_FREE)
        return tw_error_set(error, TW_INVALID, "its thread_model is %d, expected 0 to 3", caps->thread_model);
    if (in_process && caps->thread_model != TWP_THREADS_SESSION && caps->thread_model != TWP_THREADS_FREE)
        return tw_error_set(error, TW_INVALID,
                            "its thread_model is %s: in_process takes SESSION and FREE only, the others need a process of "
                            "their own",
                            models[caps->thread_model]);
    if ((caps->can & (TWP_CAN_HEDGING | TWP_CAN_NETTING)) == 0)
        return tw_error_set(error, TW_INVALID, "it has neither hedging nor netting accounts");
    if (caps->id_strength < TWP_ID_NONE || caps->id_strength > TWP_ID_BROKER)
        return tw_error_set(error, TW_INVALID, "its id_strength is %d, expected 0 to 3", caps->id_strength);
    if (caps->code_table < TWP_CODES_NONE || caps->code_table > TWP_CODES_MT5)
        return tw_error_set(error, TW_INVALID, "its code_table is %d, expected 0 to 2", caps->code_table);
    if (caps->calls_max > TW_PARALLEL_MAX || caps->sessions_max > TW_PARALLEL_MAX)
        return tw_error_set(error, TW_INVALID, "its calls_max is %u and its sessions_max %u, expected at most %u",
                            caps->calls_max, caps->sessions_max, TW_PARALLEL_MAX);
    if (caps->call_timeout_ms > TIMES_MS_MAX || caps->settle_ms > TIMES_MS_MAX)
        return tw_error_set(error, TW_INVALID, "its call_timeout_ms is %u and its settle_ms %u, expected at most %u",
                            caps->call_timeout_ms, caps->settle_ms, TIMES_MS_MAX);
    caps->calls_max = caps->thread_model != TWP_THREADS_FREE ? 1 : caps->calls_max > 0 ? caps->calls_max : CALLS_MAX_DEFAULT;
    caps->sessions_max = caps->sessions_max > 0 ? caps->sessions_max : 1;
    caps->call_timeout_ms = caps->call_timeout_ms > 0 ? caps->call_timeout_ms : CALL_TIMEOUT_MS_DEFAULT;
    caps->settle_ms = caps->settle_ms > 0 ? caps->settle_ms : SETTLE_MS_DEFAULT;
    return TW_OK;
}

tw_status library_check(const struct twp_plugin *about, bool in_process, struct twp_caps *ret_caps,
                        struct twp_api *ret_api, struct tw_error *error)
{
    if (about == NULL)
        return tw_error_set(error, TW_INVALID, "it does not work with ABI %u.%u", TWP_ABI_MAJOR, TWP_ABI_MINOR);
    tw_status status = version_check(about, error);
    if (status != TW_OK)
        return status;
    if (about->caps == NULL || about->api == NULL)
        return tw_error_set(error, TW_INVALID, "its descriptor has no %s", about->caps == NULL ? "caps" : "api");
    if (about->api->size < API_BYTES_FIRST || about->caps->size != about->sizeof_caps)
        return tw_error_set(error, TW_INVALID, "the size in its %s is %u", about->api->size < API_BYTES_FIRST ? "api" : "caps",
                            about->api->size < API_BYTES_FIRST ? about->api->size : about->caps->size);
    struct twp_caps caps = {0};
    struct twp_api api = {0};
    memcpy(&caps, about->caps, about->caps->size < sizeof caps ? about->caps->size : sizeof caps);
    memcpy(&api, about->api, about->api->size < sizeof api ? about->api->size : sizeof api);
    status = functions_check(&api, caps.can, error);
    if (status == TW_OK)
        status = caps_check(&caps, in_process, error);
    if (status != TW_OK)
        return status;
    *ret_caps = caps;
    *ret_api = api;
    return TW_OK;
}

/* ---- What it says, and what is said of it ---- */

static void word_add(struct library *library, int32_t level, bool is_ours, const char *text, size_t length)
{
    pthread_mutex_lock(&library->words.lock);
    if (library->words.n < WORDS_MAX) {
        char *to = library->words.lines[library->words.n].text;
        size_t n = length < WORD_BYTES - 1 ? length : WORD_BYTES - 1;
        for (size_t i = 0; i < n; i++) /* a line of ours stays one line, whatever is in it */
            to[i] = text[i] == '"' ? '\'' : (unsigned char)text[i] < 0x20 || (unsigned char)text[i] >= 0x7f ? '?' : text[i];
        to[n] = '\0';
        library->words.lines[library->words.n].level = level;
        library->words.lines[library->words.n].is_ours = is_ours;
        library->words.n++;
    } else {
        library->words.dropped++;
    }
    pthread_mutex_unlock(&library->words.lock);
}

void library_misbehaved(struct library *library, const char *what)
{
    atomic_fetch_add(&library->misbehaved, 1);
    word_add(library, TWP_LOG_ERROR, true, what, strlen(what));
}

static void on_log(void *ctx, int32_t level, const char *text, size_t length)
{
    word_add(ctx, level, false, text != NULL ? text : "", text != NULL ? length : 0);
}

static int64_t on_mono_ns(void *ctx)
{
    (void)ctx;
    return tw_mono_ns();
}

void library_words_tell(struct library *library)
{
    static const enum tw_log_level levels[] = {TW_LOG_DEBUG, TW_LOG_INFO, TW_LOG_WARN, TW_LOG_ERROR};
    unsigned dropped = 0;
    for (bool has_more = true; has_more;) {
        char text[WORD_BYTES] = "";
        int32_t level = 0;
        bool is_ours = false;
        pthread_mutex_lock(&library->words.lock);
        has_more = library->words.n > 0;
        if (has_more) {
            level = library->words.lines[0].level;
            is_ours = library->words.lines[0].is_ours;
            memcpy(text, library->words.lines[0].text, sizeof text);
            library->words.n--;
            memmove(&library->words.lines[0], &library->words.lines[1], library->words.n * sizeof library->words.lines[0]);
        } else {
            dropped = library->words.dropped;
            library->words.dropped = 0;
        }
        pthread_mutex_unlock(&library->words.lock);
        if (has_more)
            tw_log(levels[level < 0 || level > TWP_LOG_ERROR ? TWP_LOG_INFO : level],
                   is_ours ? "adapter.misbehaved" : "plugin.log", "adapter=plugin:%s %s=\"%s\"", library->name,
                   is_ours ? "what" : "text", text);
    }
    if (dropped > 0)
        tw_log(TW_LOG_WARN, "plugin.log", "adapter=plugin:%s left_out=%u", library->name, dropped);
}

/* ---- Turns ---- */

bool library_turn_take(struct library *library, int64_t until_mono_ns, int64_t call_until_mono_ns)
{
    const struct timespec until = {until_mono_ns / TW_NS_PER_S, until_mono_ns % TW_NS_PER_S};
    if (library->caps.thread_model != TWP_THREADS_GLOBAL)
        return true;
    pthread_mutex_lock(&library->gate.lock);
    for (int status = 0; library->gate.is_taken && status == 0;)
        status = pthread_cond_clockwait(&library->gate.given, &library->gate.lock, CLOCK_MONOTONIC, &until);
    bool is_mine = !library->gate.is_taken;
    if (is_mine) {
        library->gate.is_taken = true;
        library->gate.due_mono_ns = call_until_mono_ns + LIBRARY_GRACE_NS;
    }
    pthread_mutex_unlock(&library->gate.lock);
    return is_mine;
}

void library_turn_give(struct library *library)
{
    if (library->caps.thread_model != TWP_THREADS_GLOBAL)
        return;
    pthread_mutex_lock(&library->gate.lock);
    library->gate.is_taken = false;
    pthread_cond_signal(&library->gate.given);
    pthread_mutex_unlock(&library->gate.lock);
}

void library_due_add(struct library *library, struct due *due, int64_t call_until_mono_ns)
{
    due->mono_ns = call_until_mono_ns + LIBRARY_GRACE_NS;
    pthread_mutex_lock(&library->dues.lock);
    due->next = library->dues.first;
    library->dues.first = due;
    pthread_mutex_unlock(&library->dues.lock);
}

void library_due_remove(struct library *library, struct due *due)
{
    pthread_mutex_lock(&library->dues.lock);
    struct due **at = &library->dues.first;
    while (*at != due)
        at = &(*at)->next;
    *at = due->next;
    pthread_mutex_unlock(&library->dues.lock);
}

bool library_is_stuck(struct library *library)
{
    int64_t now_mono_ns = tw_mono_ns();
    pthread_mutex_lock(&library->gate.lock);
    bool is_stuck = library->gate.is_taken && now_mono_ns > library->gate.due_mono_ns;
    pthread_mutex_unlock(&library->gate.lock);
    pthread_mutex_lock(&library->dues.lock);
    for (const struct due *due = library->dues.first; due != NULL && !is_stuck; due = due->next)
        is_stuck = now_mono_ns > due->mono_ns;
    pthread_mutex_unlock(&library->dues.lock);
    return is_stuck;
}

/* ---- The border ---- */

void border_enter(struct border *border)
{
    pthread_sigmask(SIG_SETMASK, NULL, &border->mask);
}

/* A signal that is let in on a worker ends the server; another locale moves the decimal point of whoever prints. */
void border_leave(struct library *library, const struct border *border)
{
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, &border->mask, &now);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigismember(&now, number) != sigismember(&border->mask, number)) {
            library_misbehaved(library, "it changed the signal mask of our thread; changed back");
            break;
        }
    static pthread_mutex_t locale_mutex = PTHREAD_MUTEX_INITIALIZER; /* its name is freed by whoever changes it */
    pthread_mutex_lock(&locale_mutex);
    const char *locale = setlocale(LC_ALL, NULL);
    bool is_changed = locale != NULL && strcmp(locale, library->locale) != 0;
    if (is_changed)
        setlocale(LC_ALL, library->locale);
    pthread_mutex_unlock(&locale_mutex);
    if (is_changed)
        library_misbehaved(library, "it called setlocale; changed back");
}

/* ---- Life ---- */

static struct library *loaded; /* Thread: main. */

static tw_status load(const struct tw_plugin_entry *entry, struct library *library, struct tw_error *error)
{
    struct border border;
    struct tw_error why = {{0}};
    void *handle = dlopen(entry->library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return tw_error_set(error, TW_IO, "plugin %s: %s cannot be loaded: %s", entry->name, entry->library, dlerror());
    twp_entry_fn *begin;
    *(void **)&begin = dlsym(handle, TWP_ENTRY);
    if (begin == NULL)
        return tw_error_set(error, TW_INVALID, "plugin %s: %s exports no %s: it is no plugin for ABI %u", entry->name,
                            entry->library, TWP_ENTRY, TWP_ABI_MAJOR);
    border_enter(&border);
    const struct twp_plugin *about = begin(TWP_ABI);
    border_leave(library, &border);
    tw_status status = library_check(about, entry->in_process, &library->caps, &library->api, &why);
    return status == TW_OK ? TW_OK
                           : tw_error_set(error, status, "plugin %s: %s is refused: %s", entry->name, entry->library, why.text);
}

tw_status library_load(const struct tw_plugin_entry *entry, struct library **ret, struct tw_error *error)
{
    struct library *library = calloc(1, sizeof *library);
    const char *locale = setlocale(LC_ALL, NULL);
    if (library != NULL)
        library->locale = strdup(locale != NULL ? locale : "C");
    if (library == NULL || library->locale == NULL) {
        free(library);
        return tw_error_set(error, TW_NO_MEMORY, "no memory for plugin %s", entry->name);
    }
    snprintf(library->name, sizeof library->name, "%s", entry->name);
    pthread_mutex_init(&library->words.lock, NULL);
    pthread_mutex_init(&library->gate.lock, NULL);
    pthread_mutex_init(&library->dues.lock, NULL);
    pthread_cond_init(&library->gate.given, NULL);
    library->host = (struct twp_host){.size = sizeof library->host, .abi = TWP_ABI, .ctx = library, .log = on_log, .mono_ns = on_mono_ns};
    tw_status status = load(entry, library, error);
    if (status != TW_OK) {
        pthread_mutex_destroy(&library->words.lock);
        pthread_mutex_destroy(&library->gate.lock);
        pthread_mutex_destroy(&library->dues.lock);
        pthread_cond_destroy(&library->gate.given);
        free(library->locale);
        free(library);
        return status;
    }
    library->next = loaded;
    loaded = library;
    *ret = library;
    return TW_OK;
}
