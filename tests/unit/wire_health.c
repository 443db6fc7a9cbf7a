/* grpc.health.v1 through a server in this process. */
#include "health.h"
#include "wire_support.h"

#include <grpc/health/v1/health.pb-c.h>

#include <grpc/status.h>

#include <criterion/criterion.h>
#include <string.h>

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
#define REFUSED         (-1)

static const struct tw_wire_method methods[] = {TW_HEALTH_METHODS, {.path = NULL}};
static struct pair pair;

static void start(void)
{
    tw_health_set("", true);
    tw_health_set("readiness", false);
    pair_start_with(&pair, NULL, methods);
}

static void stop(void)
{
    pair_stop(&pair);
    tw_health_clear();
}

TestSuite(wire_health, .init = start, .fini = stop, .timeout = 20);

static int check(const char *name, struct tw_wire_answer *ret_answer)
{
    Grpc__Health__V1__HealthCheckRequest request;
    grpc__health__v1__health_check_request__init(&request);
    request.service = (char *)(uintptr_t)name;
    ProtobufCMessage *response = NULL;
    struct tw_error error = {0};
    tw_status status =
        tw_wire_client_call(pair.client, "/grpc.health.v1.Health/Check", &request.base, in_ms(5000),
                            &pair.arena, &response, ret_answer, &error);
    return status == TW_OK ? (int)((Grpc__Health__V1__HealthCheckResponse *)response)->status
                           : REFUSED;
}

static struct tw_wire_stream *watch(const char *name)
{
    Grpc__Health__V1__HealthCheckRequest request;
    grpc__health__v1__health_check_request__init(&request);
    request.service = (char *)(uintptr_t)name;
    struct tw_wire_stream *stream = NULL;
    struct tw_error error = {0};
    cr_assert_eq(tw_wire_stream_open(pair.client, "/grpc.health.v1.Health/Watch", &request.base,
                                     INT64_MAX, &stream, &error),
                 TW_OK);
    return stream;
}

/* The next status of a watch; REFUSED when it has ended. */
static int next(struct tw_wire_stream *stream)
{
    ProtobufCMessage *message = NULL;
    struct tw_wire_answer answer;
    struct tw_error error = {0};
    tw_status status =
        tw_wire_stream_read(stream, in_ms(5000), &pair.arena, &message, &answer, &error);
    return status == TW_OK ? (int)((Grpc__Health__V1__HealthCheckResponse *)message)->status
                           : REFUSED;
}

Test(wire_health, check_knows_what_was_set_and_refuses_the_rest)
{
    struct tw_wire_answer answer;
    cr_expect_eq(check("", &answer), (int)SERVING);
    cr_expect_eq(check("readiness", &answer), (int)NOT_SERVING);
    tw_health_set("readiness", true);
    cr_expect_eq(check("readiness", &answer), (int)SERVING);

    cr_expect_eq(check("nothing", &answer), REFUSED);
    cr_expect_eq(answer.code, GRPC_STATUS_NOT_FOUND);
    cr_expect_eq(answer.refusal.reason, REASON(NOT_FOUND));
    cr_expect_str_eq(answer.refusal.field, "service");
}

Test(wire_health, a_watcher_sees_the_status_now_and_each_change_once)
{
    struct tw_wire_stream *stream = watch("readiness");
    cr_expect_eq(next(stream), (int)NOT_SERVING);

    tw_health_set("readiness", true);
    cr_expect_eq(next(stream), (int)SERVING);
    tw_health_set("readiness", true); /* no change: nothing is sent */
    tw_health_set("readiness", false);
    cr_expect_eq(next(stream), (int)NOT_SERVING);
    tw_wire_stream_close(stream);
}

Test(wire_health, an_unknown_name_is_watched_until_it_is_known)
{
    struct tw_wire_stream *stream = watch("later.v1.Service");
    cr_expect_eq(next(stream), (int)SERVICE_UNKNOWN);

    tw_health_set("later.v1.Service", true);
    cr_expect_eq(next(stream), (int)SERVING);
    tw_wire_stream_close(stream);
}

Test(wire_health, a_name_longer_than_any_that_can_be_set_is_unknown)
{
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct tw_wire_answer answer;
    struct tw_wire_stream *stream = watch(name);
    cr_expect_eq(next(stream), (int)SERVICE_UNKNOWN);
    cr_expect_eq(check(name, &answer), REFUSED);
    tw_wire_stream_close(stream);
}

Test(wire_health, a_drain_tells_everybody_and_is_answered_to_the_end)
{
    struct tw_wire_answer answer;
    struct tw_wire_stream *stream = watch("");
    cr_expect_eq(next(stream), (int)SERVING);
    struct tw_wire_stream *other = watch("nothing"); /* behind it, the first write has completed */
    cr_expect_eq(next(other), (int)SERVICE_UNKNOWN);

    tw_health_drain();
    tw_wire_server_drain(pair.server); /* everything else is refused now */

    cr_expect_eq(next(stream), (int)NOT_SERVING);
    tw_health_set("", true); /* too late */
    cr_expect_eq(check("", &answer), (int)NOT_SERVING);
    tw_wire_server_end_streams(pair.server);
    cr_expect_eq(next(stream), REFUSED);
    tw_wire_stream_close(other);
    tw_wire_stream_close(stream);
}
