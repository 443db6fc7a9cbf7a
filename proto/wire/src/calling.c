#include "calling.h"
#include "core.h"
#include "details.h"
#include "tls.h"

#include <tradewake/base/limits.h>

#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <assert.h>
#include <stdio.h>

#define KEEPALIVE_MS         20000
#define KEEPALIVE_TIMEOUT_MS 10000

grpc_arg wire_arg_integer(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER,
                      .key = (char *)(uintptr_t)key, /* only read */
                      .value.integer = value};
}

tw_status wire_channel_new(const struct tw_wire_client_options *options, const grpc_arg *more, size_t n_more,
                           grpc_channel **ret, struct tw_error *error)
{
    const struct tw_wire_client_tls *tls = options->tls;
    grpc_arg args[] = {
        wire_arg_integer(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS),
        wire_arg_integer(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
        wire_arg_integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, TW_ANSWER_BYTES_MAX),
        /* Clients do not share a connection: what one does to it is its own. */
        wire_arg_integer(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        wire_arg_integer(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        wire_arg_integer(GRPC_ARG_ENABLE_CHANNELZ, 0),
        {0}, /* the name expected of the server, and what the caller adds */
        {0}, {0}, {0}, {0}, {0}, {0},
    };
    enum { ARGS = sizeof args / sizeof args[0] };
    grpc_channel_args list = {.num_args = ARGS - 1 - WIRE_ARGS_MORE_MAX, .args = args};
    assert(n_more <= WIRE_ARGS_MORE_MAX);
    for (size_t i = 0; i < n_more; i++)
        args[list.num_args++] = more[i];
    grpc_channel_credentials *credentials = NULL;
    if (tls == NULL) {
        credentials = grpc_insecure_credentials_create();
    } else {
        tw_status status = wire_tls_client_credentials(tls, &credentials, error);
        if (status != TW_OK)
            return status;
        if (tls->server_name[0] != '\0')
            args[list.num_args++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                               .key = (char *)(uintptr_t)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                               .value.string = (char *)(uintptr_t)tls->server_name};
    }
    *ret = grpc_channel_create(options->address, credentials, &list);
    grpc_channel_credentials_release(credentials);
    return TW_OK;
}

void wire_ending_init(struct wire_ending *ending)
{
    grpc_metadata_array_init(&ending->headers);
    grpc_metadata_array_init(&ending->trailers);
    ending->code = GRPC_STATUS_UNKNOWN;
    ending->message = grpc_empty_slice();
}

void wire_ending_clear(struct wire_ending *ending)
{
    grpc_metadata_array_destroy(&ending->headers);
    grpc_metadata_array_destroy(&ending->trailers);
    grpc_slice_unref(ending->message);
}

grpc_op wire_status_op(struct wire_ending *ending)
{
    return (grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                     .data.recv_status_on_client = {.trailing_metadata = &ending->trailers,
                                                    .status = &ending->code,
                                                    .status_details = &ending->message}};
}

grpc_op wire_headers_op(struct wire_ending *ending)
{
    return (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA,
                     .data.recv_initial_metadata.recv_initial_metadata = &ending->headers};
}

static void details_read(const struct wire_ending *ending, struct tw_refusal *ret)
{
    static const char key[] = "grpc-status-details-bin";
    for (size_t i = 0; i < ending->trailers.count; i++) {
        const grpc_metadata *trailer = &ending->trailers.metadata[i];
        if (wire_slice_is(trailer->key, key, sizeof key - 1) &&
            wire_details_unpack(GRPC_SLICE_START_PTR(trailer->value),
                                GRPC_SLICE_LENGTH(trailer->value), ret))
            return;
    }
}

void wire_answer_read(const struct wire_ending *ending, struct tw_wire_answer *ret)
{
    *ret = (struct tw_wire_answer){.code = (int32_t)ending->code};
    snprintf(ret->message, sizeof ret->message, "%.*s", (int)GRPC_SLICE_LENGTH(ending->message),
             (const char *)GRPC_SLICE_START_PTR(ending->message));
    if (ending->code != GRPC_STATUS_OK)
        details_read(ending, &ret->refusal);
}
