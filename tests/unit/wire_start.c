/* A server that cannot have its threads leaves nothing behind. */
#include "wire_support.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

static unsigned fails_at, calls;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    if (++calls == fails_at)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, run, arg);
}

Test(wire_start, the_nth_thread_missing_is_said_and_cleaned_up, .timeout = 30)
{
    struct tw_wire_options options = {.listen = "127.0.0.1:0", .rpc_threads = 2};
    struct tw_wire_server *server = NULL;
    tw_status status;
    do {
        struct tw_error error = {0};
        fails_at++;
        calls = 0;
        status = tw_wire_server_start(&options, test_methods, &server, &error);
        if (status != TW_OK) {
            cr_expect_eq(status, TW_LIMIT);
            cr_expect_not_null(strstr(error.text, "no thread"), "thread %u: %s", fails_at,
                               error.text);
            cr_expect_null(server);
        }
    } while (status != TW_OK);

    cr_expect_eq(fails_at, 4, "two rpc threads and the stream thread may fail");
    tw_wire_server_stop(server, 1000);
}
