#include "health.h"

#include "readers.h"

#include <tradewake/base/clock.h>

#include <grpc/health/v1/health.pb-c.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name
#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

struct name {
    char text[TW_HEALTH_NAME_BYTES];
    bool is_serving;
};

/* One Watch call. */
struct watcher {
    struct watcher *next, *previous; /* guarded by health.mutex */
    struct tw_call *call;            /* a reference */

    /* The call's thread alone. */
    char name[TW_HEALTH_NAME_BYTES + 1];
    serving_status sent;
    bool has_sent;
};

/* A queue's mailbox may be entered while the mutex is held, never the other way round. */
static struct {
    pthread_mutex_t mutex;
    struct name names[TW_HEALTH_NAMES_MAX];
    uint32_t n_names;
    bool is_draining;
    struct watcher *watchers;
} health = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Called with the mutex held. NULL = nobody has set it. */
static struct name *name_find(const char *text)
{
    for (uint32_t i = 0; i < health.n_names; i++)
        if (strcmp(health.names[i].text, text) == 0)
            return &health.names[i];
    return NULL;
}

static serving_status status_now(const char *text)
{
    pthread_mutex_lock(&health.mutex);
    const struct name *name = name_find(text);
    serving_status status = STATUS(SERVICE_UNKNOWN);
    if (name != NULL)
        status = name->is_serving && !health.is_draining ? STATUS(SERVING) : STATUS(NOT_SERVING);
    pthread_mutex_unlock(&health.mutex);
    return status;
}

/* Called with the mutex held. */
static void watchers_tell(void)
{
    for (struct watcher *watcher = health.watchers; watcher != NULL; watcher = watcher->next)
        tw_call_post(watcher->call);
}

void tw_health_set(const char *text, bool is_serving)
{
    assert(strlen(text) < TW_HEALTH_NAME_BYTES);
    pthread_mutex_lock(&health.mutex);
    struct name *name = name_find(text);
    if (name == NULL) {
        assert(health.n_names < TW_HEALTH_NAMES_MAX);
        name = &health.names[health.n_names++];
        snprintf(name->text, sizeof name->text, "%s", text);
    }
    name->is_serving = is_serving;
    watchers_tell();
    pthread_mutex_unlock(&health.mutex);
}

void tw_health_drain(void)
{
    pthread_mutex_lock(&health.mutex);
    health.is_draining = true;
    watchers_tell();
    pthread_mutex_unlock(&health.mutex);
}

void tw_health_clear(void)
{
    pthread_mutex_lock(&health.mutex);
    assert(health.watchers == NULL);
    health.n_names = 0;
    health.is_draining = false;
    pthread_mutex_unlock(&health.mutex);
}

/* ---- The methods. ---- */

void tw_health_check_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid)
{
    (void)invalid;
    const char *name = ((const Grpc__Health__V1__HealthCheckRequest *)request)->service;
    serving_status status = status_now(name);
    if (status == STATUS(SERVICE_UNKNOWN)) {
        struct tw_refusal refusal;
        tw_refuse(&refusal, REASON(NOT_FOUND), "service",
                  "\"%.64s\" is not a name this server "
                  "has; \"\", \"liveness\" and \"readiness\" are",
                  name);
        tw_call_refuse(call, &refusal);
        return;
    }
    Grpc__Health__V1__HealthCheckResponse response;
    grpc__health__v1__health_check_response__init(&response);
    response.status = status;
    tw_call_answer(call, &response.base);
}

void tw_health_watch_on_news(struct tw_call *call)
{
    struct watcher *watcher = tw_call_data(call);
    if (watcher == NULL || !tw_call_is_writable(call))
        return; /* on_writable looks again */
    serving_status status = status_now(watcher->name);
    if (watcher->has_sent && watcher->sent == status)
        return;
    Grpc__Health__V1__HealthCheckResponse response;
    grpc__health__v1__health_check_response__init(&response);
    response.status = status;
    watcher->has_sent = tw_call_write(call, &response.base, false);
    watcher->sent = status;
    tw_call_timer_set(call, tw_reader_due_mono_ns(call));
}

void tw_health_watch_on_timer(struct tw_call *call)
{
    if (!tw_reader_evict(call, tw_mono_ns()))
        tw_call_timer_set(call, tw_reader_due_mono_ns(call)); /* a later write is out */
}

void tw_health_watch_on_request(struct tw_call *call, const ProtobufCMessage *request,
                                const struct tw_refusal *invalid)
{
    (void)invalid;
    struct watcher *watcher = calloc(1, sizeof *watcher);
    if (watcher == NULL) {
        struct tw_refusal refusal;
        tw_refuse(&refusal, REASON(OVERLOADED), NULL, "no memory for a watcher");
        tw_call_refuse(call, &refusal);
        return;
    }
    /* A longer name is cut to one that is still too long to be set: as unknown as before. */
    snprintf(watcher->name, sizeof watcher->name, "%s",
             ((const Grpc__Health__V1__HealthCheckRequest *)request)->service);
    watcher->call = tw_call_ref(call);
    tw_call_data_set(call, watcher);

    pthread_mutex_lock(&health.mutex);
    watcher->next = health.watchers;
    if (watcher->next != NULL)
        watcher->next->previous = watcher;
    health.watchers = watcher;
    pthread_mutex_unlock(&health.mutex);
    tw_health_watch_on_news(call);
}

void tw_health_watch_on_finished(struct tw_call *call, bool cancelled)
{
    (void)cancelled;
    struct watcher *watcher = tw_call_data(call);
    if (watcher == NULL)
        return;
    pthread_mutex_lock(&health.mutex);
    if (watcher->previous != NULL)
        watcher->previous->next = watcher->next;
    else
        health.watchers = watcher->next;
    if (watcher->next != NULL)
        watcher->next->previous = watcher->previous;
    pthread_mutex_unlock(&health.mutex);
    tw_call_data_set(call, NULL);
    tw_call_unref(watcher->call);
    free(watcher);
}
