/* TLS on both sides of proto/wire: who gets in, as whom, and what a certificate must be. */
#include "tls_files.h"
#include "wire_support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { DAY_S = 86400 };
#define SERVER_NAMES "DNS:localhost,IP:127.0.0.1"

static char dir[64];

static const char *path(const char *name)
{
    return tls_path(dir, name);
}

static struct tls_pair ours, others;

static void files_make(void)
{
    tls_dir_make(dir);
    ours = tls_authority("ours");
    others = tls_authority("others");
    struct tls_pair server = tls_signed(&ours, SERVER_NAMES, -60, DAY_S);
    struct tls_pair client = tls_signed(&ours, "URI:spiffe://example/web,DNS:web.example", -60, DAY_S);
    struct tls_pair stranger = tls_signed(&others, "URI:spiffe://example/web", -60, DAY_S);
    tls_write(dir, "ours", &ours);
    tls_write(dir, "others", &others);
    tls_write(dir, "server", &server);
    tls_write(dir, "client", &client);
    tls_write(dir, "stranger", &stranger);
    tls_pair_free(&server);
    tls_pair_free(&client);
    tls_pair_free(&stranger);
}

static void files_remove(void)
{
    tls_pair_free(&ours);
    tls_pair_free(&others);
    tls_dir_remove(dir);
}

/* ---- A server, and one call to it ---- */

static char seen_names[256];
static bool seen_digest;

static bool look(void *context, struct tw_call *call, struct tw_refusal *ret)
{
    size_t n;
    uint8_t digest[32];
    (void)context, (void)ret;
    seen_names[0] = '\0';
    const char *const *names = tw_call_certificate_names(call, &n);
    cr_assert_eq(tw_call_certificate_names(call, &n), names, "a stream asks with each message, out of one arena");
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(seen_names);
        snprintf(seen_names + used, sizeof seen_names - used, "%s ", names[i]);
    }
    seen_digest = tw_call_certificate_sha256(call, digest);
    return true;
}

static void server_start(struct pair *pair, bool asks, bool wants)
{
    const struct tw_wire_server_tls tls = {
        .certificate = path("server.pem"),
        .key = path("server.key"),
        .client_ca = asks ? path("ours.pem") : "",
        .wants_certificate = wants,
    };
    const struct tw_wire_options options = {.tls = &tls, .authorize = look};
    pair_start(pair, &options);
}

/* What a call ends with; NULL: without that. */
static tw_status call_with(struct pair *pair, const char *ca, const char *client)
{
    char certificate[32] = "", key[32] = "";
    struct tw_error error = {0};
    Tradewake__V1__SubmitEventResponse *response;
    if (client != NULL) {
        snprintf(certificate, sizeof certificate, "%s.pem", client);
        snprintf(key, sizeof key, "%s.key", client);
    }
    const struct tw_wire_client_tls tls = {
        .ca = path(ca != NULL ? ca : "ours.pem"),
        .certificate = client != NULL ? path(certificate) : "",
        .key = client != NULL ? path(key) : "",
        .server_name = "",
    };
    const struct tw_wire_client_options options = {.address = pair->address, .tls = ca != NULL ? &tls : NULL};
    tw_wire_client_close(pair->client);
    pair->client = NULL;
    tw_status status = tw_wire_client_open(&options, &pair->client, &error);
    cr_assert_eq(status, TW_OK, "%s", error.text);
    return submit(pair, "echo", NULL, 20000, &response, NULL);
}

Test(wire_tls, only_who_trusts_the_certificate_speaks, .init = files_make, .fini = files_remove, .timeout = 90)
{
    struct pair pair;
    server_start(&pair, false, false);
    cr_expect_eq(call_with(&pair, "ours.pem", NULL), TW_OK);
    cr_expect_str_eq(seen_names, "");
    cr_expect_not(seen_digest);
    cr_expect_eq(call_with(&pair, "others.pem", NULL), TW_UNREACHABLE, "signed by somebody else");
    cr_expect_eq(call_with(&pair, NULL, NULL), TW_UNREACHABLE, "plain text");
    cr_expect_eq(call_with(&pair, "ours.pem", "client"), TW_OK, "a certificate that nobody asked for");
    cr_expect_str_eq(seen_names, "");
    pair_stop(&pair);
}

Test(wire_tls, a_client_is_who_its_certificate_names, .init = files_make, .fini = files_remove, .timeout = 90)
{
    struct pair pair;
    server_start(&pair, true, true);
    cr_expect_eq(call_with(&pair, "ours.pem", "client"), TW_OK);
    cr_expect_str_eq(seen_names, "uri:spiffe://example/web dns:web.example ");
    cr_expect(seen_digest);
    cr_expect_eq(call_with(&pair, "ours.pem", NULL), TW_UNREACHABLE, "without a certificate");
    cr_expect_eq(call_with(&pair, "ours.pem", "stranger"), TW_UNREACHABLE, "the same name, another authority");
    struct tls_pair over = tls_signed(&ours, "URI:spiffe://example/web", -DAY_S, -60);
    tls_write(dir, "client", &over);
    tls_pair_free(&over);
    struct tw_error error = {0};
    struct tw_wire_client *client = NULL;
    const struct tw_wire_client_tls tls = {
        .ca = path("ours.pem"), .certificate = path("client.pem"), .key = path("client.key"), .server_name = ""};
    const struct tw_wire_client_options options = {.address = pair.address, .tls = &tls};
    cr_expect_eq(tw_wire_client_open(&options, &client, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "has expired"), "%s", error.text);
    pair_stop(&pair);
}

Test(wire_tls, a_certificate_may_be_left_out_where_it_is_optional, .init = files_make, .fini = files_remove, .timeout = 90)
{
    struct pair pair;
    server_start(&pair, true, false);
    cr_expect_eq(call_with(&pair, "ours.pem", NULL), TW_OK);
    cr_expect_str_eq(seen_names, "");
    cr_expect_eq(call_with(&pair, "ours.pem", "client"), TW_OK);
    cr_expect_str_eq(seen_names, "uri:spiffe://example/web dns:web.example ");
    cr_expect_eq(call_with(&pair, "ours.pem", "stranger"), TW_UNREACHABLE, "a wrong one is worse than none");
    pair_stop(&pair);
}

Test(wire_tls, a_new_certificate_comes_without_a_restart, .init = files_make, .fini = files_remove, .timeout = 90)
{
    struct pair pair;
    struct tw_error error = {0};
    server_start(&pair, false, false);
    cr_expect_eq(call_with(&pair, "ours.pem", NULL), TW_OK);

    struct tls_pair next = tls_signed(&others, SERVER_NAMES, -60, DAY_S);
    tls_write(dir, "server", &next);
    cr_expect_eq(call_with(&pair, "ours.pem", NULL), TW_OK, "nobody has asked for the new one yet");
    cr_assert_eq(tw_wire_server_tls_reload(pair.server, &error), TW_OK, "%s", error.text);
    cr_expect_eq(call_with(&pair, "others.pem", NULL), TW_OK);
    cr_expect_eq(call_with(&pair, "ours.pem", NULL), TW_UNREACHABLE, "the old one is gone");

    struct tls_pair over = tls_signed(&ours, SERVER_NAMES, -DAY_S, -60);
    tls_write(dir, "server", &over);
    cr_expect_eq(tw_wire_server_tls_reload(pair.server, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "has expired"), "%s", error.text);
    cr_expect_eq(call_with(&pair, "others.pem", NULL), TW_OK, "the good one stays");
    tls_pair_free(&next);
    tls_pair_free(&over);
    pair_stop(&pair);
}

/* ---- What a server refuses to start with ---- */

static void expect_refused(const char *certificate, const char *key, const char *ca, const char *words)
{
    struct tw_error error = {0};
    struct tw_wire_server *server = NULL;
    const struct tw_wire_server_tls tls = {.certificate = certificate, .key = key, .client_ca = ca};
    const struct tw_wire_options options = {.listen = "127.0.0.1:0", .rpc_threads = 1, .tls = &tls};
    tw_status status = tw_wire_server_start(&options, test_methods, &server, &error);
    cr_expect_neq(status, TW_OK);
    cr_expect_not_null(strstr(error.text, words), "found \"%s\", expected \"%s\"", error.text, words);
    tw_wire_server_stop(server, 0);
}

Test(wire_tls, files_that_will_not_do_are_named, .init = files_make, .fini = files_remove, .timeout = 90)
{
    struct tls_pair later = tls_signed(&ours, SERVER_NAMES, 3600, DAY_S);
    tls_write(dir, "later", &later);
    tls_pair_free(&later);
    FILE *file = fopen(path("text.pem"), "w");
    fputs("no certificate\n", file);
    fclose(file);
    fclose(fopen(path("empty.pem"), "w"));

    expect_refused(path("nowhere.pem"), path("server.key"), "", "nowhere.pem cannot be read: No such file");
    expect_refused(path("text.pem"), path("server.key"), "", "text.pem holds no certificate");
    expect_refused(path("empty.pem"), path("server.key"), "", "empty.pem is no PEM file");
    expect_refused(path("server.pem"), path("text.pem"), "", "text.pem holds no private key");
    expect_refused(path("server.pem"), path("client.key"), "", "client.key is not that of the certificate in");
    expect_refused(path("later.pem"), path("later.key"), "", "is not valid yet");
    expect_refused(path("server.pem"), path("server.key"), path("text.pem"), "text.pem holds no certificate");
}

Test(wire_tls, a_token_goes_with_each_call, .timeout = 30)
{
    struct pair pair;
    struct tw_error error = {0};
    Tradewake__V1__SubmitEventResponse *response = NULL;
    pair_start(&pair, NULL);
    const struct tw_wire_client_options options = {.address = pair.address, .token = "abc.def.ghi"};
    tw_wire_client_close(pair.client);
    cr_assert_eq(tw_wire_client_open(&options, &pair.client, &error), TW_OK);
    cr_assert_eq(submit(&pair, "token", NULL, 10000, &response, NULL), TW_OK);
    cr_expect_str_eq(response->event_id, "Bearer abc.def.ghi");
    pair_stop(&pair);
}
