/* reflection.h - grpc.reflection.v1 and v1alpha: what this server speaks, for tools without files.
 *
 * Both versions have the same messages, so there is one handler. Every request gets one response,
 * in order; what cannot be found is an error_response inside a stream that goes on. A file comes
 * with everything it imports, the file itself first. */
#ifndef TW_RPC_REFLECTION_H
#define TW_RPC_REFLECTION_H

#include <tradewake/wire/server.h>

/* Names the services that are listed: those of the table. Kept by reference.
 * Thread: main, before tw_wire_server_start(). */
void tw_reflection_methods_set(const struct tw_wire_method *methods);

/* The rows for the table of methods. */
void tw_reflection_on_request(struct tw_call *call, const ProtobufCMessage *request,
                              const struct tw_refusal *invalid);
void tw_reflection_on_writable(struct tw_call *call);
void tw_reflection_on_timer(struct tw_call *call);
void tw_reflection_on_half_close(struct tw_call *call);

/* clang-format off */
#define TW_REFLECTION_METHODS                                                                       \
    {.path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",                           \
     .on_request = tw_reflection_on_request, .on_writable = tw_reflection_on_writable,              \
     .on_timer = tw_reflection_on_timer, .on_half_close = tw_reflection_on_half_close},             \
    {.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",                      \
     .on_request = tw_reflection_on_request, .on_writable = tw_reflection_on_writable,              \
     .on_timer = tw_reflection_on_timer, .on_half_close = tw_reflection_on_half_close}
/* clang-format on */

#endif
