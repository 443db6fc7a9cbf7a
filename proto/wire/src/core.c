#include "core.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/log.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/log.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static _Thread_local bool is_quiet;
static _Thread_local char quiet_reason[128];

/* The core's errors nest; the innermost names what the system said: os_error:"...". */
static void quiet_keep(const char *message)
{
    static const char key[] = "os_error:\"";
    const char *at = strstr(message, key);
    if (at == NULL)
        return;
    at += sizeof key - 1;
    snprintf(quiet_reason, sizeof quiet_reason, "%.*s", (int)strcspn(at, "\""), at);
}

/* The core calls ERROR what a peer did wrong, too: nothing an operator is woken for. */
static void log_line(gpr_log_func_args *args)
{
    if (is_quiet) {
        quiet_keep(args->message);
        return;
    }
    static struct tw_log_pace pace; /* a peer can make the core write a line per call */
    if (!tw_log_paced(&pace, "grpc.core"))
        return;
    enum tw_log_level level = args->severity == GPR_LOG_SEVERITY_ERROR  ? TW_LOG_WARN
                              : args->severity == GPR_LOG_SEVERITY_INFO ? TW_LOG_INFO
                                                                        : TW_LOG_DEBUG;
    const char *slash = strrchr(args->file, '/');
    tw_log(level, "grpc.core", "at=%s:%d message=\"%s\"", slash == NULL ? args->file : slash + 1,
           args->line, args->message);
}

static void log_install(void)
{
    gpr_set_log_function(log_line);
}

void wire_core_init(void)
{
    pthread_once(&log_once, log_install);
    grpc_init();
}

void wire_core_exit(void)
{
    grpc_shutdown();
}

void wire_core_quiet_begin(void)
{
    is_quiet = true;
    quiet_reason[0] = '\0';
}

const char *wire_core_quiet_end(void)
{
    is_quiet = false;
    return quiet_reason;
}

gpr_timespec wire_timespec(int64_t mono_ns)
{
    if (mono_ns == INT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){.tv_sec = mono_ns / TW_NS_PER_S,
                          .tv_nsec = (int32_t)(mono_ns % TW_NS_PER_S),
                          .clock_type = GPR_CLOCK_MONOTONIC};
}

int64_t wire_mono_ns(gpr_timespec time)
{
    if (gpr_time_cmp(time, gpr_inf_future(time.clock_type)) == 0)
        return INT64_MAX;
    time = gpr_convert_clock_type(time, GPR_CLOCK_MONOTONIC);
    if (time.tv_sec >= INT64_MAX / TW_NS_PER_S)
        return INT64_MAX;
    return time.tv_sec * TW_NS_PER_S + time.tv_nsec;
}

grpc_byte_buffer *wire_buffer_pack(const ProtobufCMessage *message, size_t packed_size)
{
    grpc_slice slice = grpc_slice_malloc(packed_size);
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice); /* the buffer has its own reference */
    return buffer;
}

bool wire_buffer_bytes(const grpc_byte_buffer *buffer, struct tw_arena *arena,
                       const uint8_t **ret_bytes, size_t *ret_size)
{
    const grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
    *ret_size = slices->length;
    if (slices->count == 1) {
        *ret_bytes = GRPC_SLICE_START_PTR(slices->slices[0]);
        return true;
    }

    uint8_t *copy = tw_arena_take(arena, slices->length);
    if (copy == NULL)
        return false;
    *ret_bytes = copy;
    for (size_t i = 0; i < slices->count; i++) {
        memcpy(copy, GRPC_SLICE_START_PTR(slices->slices[i]), GRPC_SLICE_LENGTH(slices->slices[i]));
        copy += GRPC_SLICE_LENGTH(slices->slices[i]);
    }
    return true;
}

bool wire_slice_is(grpc_slice slice, const char *text, size_t length)
{
    return GRPC_SLICE_LENGTH(slice) == length &&
           memcmp(GRPC_SLICE_START_PTR(slice), text, length) == 0;
}
