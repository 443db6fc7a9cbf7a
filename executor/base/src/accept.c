#include <tradewake/base/accept.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT_FREE_MIN 8u

static atomic_int descriptor_bound; /* numbers from here on are turned away; 0 = none */
static atomic_int always_listener = -1;
static atomic_ullong turned_away;

uint32_t tw_accept_bound(uint32_t connections_max)
{
    struct rlimit limit = {.rlim_cur = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    uint64_t allowed = limit.rlim_cur < INT32_MAX ? limit.rlim_cur : INT32_MAX;
    uint64_t kept_free = allowed / 8 > KEPT_FREE_MIN ? allowed / 8 : KEPT_FREE_MIN;
    uint64_t most = allowed > kept_free ? allowed - kept_free : 1;

    int lowest_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (lowest_free >= 0)
        close(lowest_free);
    uint64_t in_use = lowest_free >= 0 ? (uint64_t)lowest_free : most;
    uint64_t bound = in_use + connections_max < most ? in_use + connections_max : most;
    atomic_store(&descriptor_bound, (int)bound);
    return bound > in_use ? (uint32_t)(bound - in_use) : 0;
}

void tw_accept_always(int listener_fd)
{
    atomic_store(&always_listener, listener_fd);
}

uint64_t tw_accept_turned_away(void)
{
    return atomic_load(&turned_away);
}

/* accept(2): to be treated like "try again", and anything that says that this connection has gone. */
static bool is_about_one_connection(int error)
{
    static const int errors[] = {ECONNABORTED, EPERM,  EPROTO,       ENOPROTOOPT, ENETDOWN,  EHOSTDOWN,
                                 ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, ETIMEDOUT, ECONNRESET};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (error == errors[i])
            return true;
    return false;
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* In place of the C library's: a program's own comes before those of its libraries. */
__attribute__((visibility("default"), used)) int accept4(int listener, __SOCKADDR_ARG address,
                                                         socklen_t *size, int flags)
{
    int bound = atomic_load_explicit(&descriptor_bound, memory_order_relaxed);
    bool is_bounded = bound > 0 && listener != atomic_load_explicit(&always_listener, memory_order_relaxed);
    socklen_t room = size != NULL ? *size : 0;
    for (;;) {
        if (size != NULL)
            *size = room;
        int fd = (int)syscall(SYS_accept4, listener, address.__sockaddr__, size, flags);
        if (!is_bounded || (fd >= 0 && fd < bound))
            return fd;
        if (fd >= 0) {
            close(fd);
            atomic_fetch_add_explicit(&turned_away, 1, memory_order_relaxed);
        } else if (is_shortage(errno)) {
            errno = EAGAIN;
            return -1;
        } else if (!is_about_one_connection(errno)) {
            return -1;
        }
    }
}
