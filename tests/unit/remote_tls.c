/* A bridge on another machine is spoken to over TLS, or not at all: the right authority, a wrong one, another name; a bridge
 * that wants to see our certificate; and plain text to one that speaks TLS. */
#include "tls_files.h"

#include <tradewake/adapters/remote.h>
#include <tradewake/base/clock.h>
#include <tradewake/wire/server.h>

#include <tradewake/adapter/v1/broker_adapter.pb-c.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { DAY_S = 86400, PARALLEL = 7 };
#define METHOD(name) "/tradewake.adapter.v1.BrokerAdapterService/" name

/* ---- A bridge that says what it can, and nothing more ---- */

static atomic_int asked;

static void on_capabilities(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid)
{
    Tradewake__Adapter__V1__GetCapabilitiesResponse response;
    (void)request, (void)invalid;
    tradewake__adapter__v1__get_capabilities_response__init(&response);
    response.adapter = response.version = (char *)(uintptr_t)"test";
    response.hedging = true;
    response.max_parallel = PARALLEL;
    atomic_fetch_add(&asked, 1);
    tw_call_answer(call, &response.base);
}

static void on_other(struct tw_call *call, const ProtobufCMessage *request, const struct tw_refusal *invalid)
{
    struct tw_refusal refusal;
    (void)request, (void)invalid;
    tw_refuse(&refusal, TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_NOT_FOUND, NULL, "nothing is here");
    tw_call_refuse(call, &refusal);
}

static const struct tw_wire_method methods[] = {
    {.path = METHOD("GetCapabilities"), .on_request = on_capabilities},
    {.path = METHOD("OpenSession"), .on_request = on_other},
    {.path = METHOD("CloseSession"), .on_request = on_other},
    {.path = METHOD("GetInstrument"), .on_request = on_other},
    {.path = METHOD("CheckConfig"), .on_request = on_other},
    {.path = METHOD("Execute"), .on_request = on_other},
    {.path = METHOD("Lookup"), .on_request = on_other},
    {.path = METHOD("Snapshot"), .on_request = on_other},
    {.path = METHOD("WatchAccount"), .watches = true, .on_request = on_other},
    {0},
};

/* ---- Certificates ---- */

static char dir[64];

static const char *path(const char *name)
{
    return tls_path(dir, name);
}

static void files_make(void)
{
    tls_dir_make(dir);
    struct tls_pair ours = tls_authority("ours"), others = tls_authority("others");
    struct tls_pair bridge = tls_signed(&ours, "DNS:bridge.example", -60, DAY_S);
    struct tls_pair client = tls_signed(&ours, "DNS:server.example", -60, DAY_S);
    tls_write(dir, "ours", &ours);
    tls_write(dir, "others", &others);
    tls_write(dir, "bridge", &bridge);
    tls_write(dir, "client", &client);
    tls_pair_free(&ours);
    tls_pair_free(&others);
    tls_pair_free(&bridge);
    tls_pair_free(&client);
}

static void files_remove(void)
{
    tls_dir_remove(dir);
}

/* ---- Our side ---- */

struct heard {
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool is_told, is_connected;
    char why[256];
};

static void on_connection(void *context, bool is_connected, const char *why)
{
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    heard->is_told = true;
    heard->is_connected = is_connected;
    snprintf(heard->why, sizeof heard->why, "%s", why);
    pthread_cond_broadcast(&heard->news);
    pthread_mutex_unlock(&heard->lock);
}

struct outcome {
    uint32_t max_parallel; /* PARALLEL: it has been asked; 1: nobody answered */
    char why[256];         /* an account there is told */
};

/* An account at the bridge, until it is told something. */
static struct outcome account_try(void *adapter)
{
    static struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
    const struct tw_session_options options = {.follower_id = "F1", .adapter = "remote:b", .credentials_ref = "",
                                               .host = {.context = &heard, .on_connection = on_connection}};
    struct outcome outcome = {0};
    struct tw_error error = {{0}};
    struct tw_capabilities can;
    void *session;
    heard.is_told = false;
    cr_assert_eq(tw_adapter_remote.session_open(adapter, &options, &session, &error), TW_OK, "%s", error.text);
    tw_adapter_remote.capabilities(session, &can);
    pthread_mutex_lock(&heard.lock);
    while (!heard.is_told)
        pthread_cond_wait(&heard.news, &heard.lock);
    cr_expect_not(heard.is_connected);
    snprintf(outcome.why, sizeof outcome.why, "%s", heard.why);
    pthread_mutex_unlock(&heard.lock);
    tw_adapter_remote.session_close(session);
    outcome.max_parallel = can.max_parallel;
    return outcome;
}

/* What becomes of a bridge that is looked for so. */
static struct outcome bridge_try(const char *ca, const char *server_name, bool wants_certificate, bool shows_one)
{
    struct tw_error error = {{0}};
    struct tw_wire_server *server;
    struct tw_reactor *reactor;
    void *adapter;
    char address[64];
    const struct tw_wire_server_tls tls = {.certificate = path("bridge.pem"), .key = path("bridge.key"),
                                           .client_ca = wants_certificate ? path("ours.pem") : "", .wants_certificate = wants_certificate};
    const struct tw_wire_options options = {.listen = "127.0.0.1:0", .tls = &tls};
    cr_assert_eq(tw_wire_server_start(&options, methods, &server, &error), TW_OK, "%s", error.text);
    cr_assert_eq(tw_reactor_start("reactor", &reactor, &error), TW_OK, "%s", error.text);
    snprintf(address, sizeof address, "127.0.0.1:%d", tw_wire_server_port(server));
    const struct tw_remote_bridge bridge = {.name = "b", .address = address, .ca = ca != NULL ? path(ca) : "",
                                            .certificate = shows_one ? path("client.pem") : "",
                                            .key = shows_one ? path("client.key") : "", .server_name = server_name};
    const struct tw_remote_bridges list = {&bridge, 1};
    const struct tw_adapter_options adapter_options = {.reactor = reactor, .own = &list};
    atomic_store(&asked, 0);
    cr_assert_eq(tw_adapter_remote.open(&adapter_options, &adapter, &error), TW_OK, "%s", error.text);
    struct outcome outcome = account_try(adapter);
    tw_remote_quiet(adapter);
    tw_reactor_stop(reactor);
    tw_adapter_remote.close(adapter);
    tw_wire_server_stop(server, 0);
    return outcome;
}

TestSuite(remote_tls, .init = files_make, .fini = files_remove, .timeout = 60);

Test(remote_tls, a_bridge_whose_certificate_is_signed_by_whom_we_trust_is_asked)
{
    struct outcome outcome = bridge_try("ours.pem", "bridge.example", false, false);

    cr_expect_eq(outcome.max_parallel, PARALLEL, "what it said is what is promised: %s", outcome.why);
    cr_expect_not_null(strstr(outcome.why, "nothing is here"), "it answered the account: \"%s\"", outcome.why);
}

Test(remote_tls, one_that_wants_to_see_our_certificate_is_shown_it)
{
    cr_expect_eq(bridge_try("ours.pem", "bridge.example", true, true).max_parallel, PARALLEL);
}

static const struct {
    const char *what, *ca, *server_name;
    bool wants_certificate;
} refused[] = {
    {"signed by whom we do not trust", "others.pem", "bridge.example", false},
    {"of another name", "ours.pem", "other.example", false},
    {"without the address in its certificate, where no name is given", "ours.pem", "", false},
    {"that wants a certificate, and is shown none", "ours.pem", "bridge.example", true},
    {"that speaks TLS, to whom we speak in plain text", NULL, "", false},
};

Test(remote_tls, any_other_is_never_asked_and_its_account_says_why)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct outcome outcome = bridge_try(refused[i].ca, refused[i].server_name, refused[i].wants_certificate, false);
        cr_expect_eq(atomic_load(&asked), 0, "%s: it was asked", refused[i].what);
        cr_expect_eq(outcome.max_parallel, 1, "%s: the least is promised", refused[i].what);
        cr_expect_not_null(strstr(outcome.why, "bridge b: "), "%s: \"%s\"", refused[i].what, outcome.why);
    }
}
