/* accept4() as every library of the process gets it, once it is bounded. */
#include <tradewake/base/accept.h>

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HELD_MAX = 512 };

static struct sockaddr_in address;

/* The bound is a number of a descriptor: below it there must be no holes that somebody left, and what runs the tests
 * leaves some now and then. */
static void holes_fill(void)
{
    enum { ABOVE_ALL = 200 };
    int highest = 0;
    for (int fd = 0; fd < ABOVE_ALL; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            highest = fd;
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) < highest)
        continue;
}

static int listener_make(void)
{
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fd, 64), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    return fd;
}

static int client_make(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* The other side has closed. */
static void expect_end(int client)
{
    char byte;
    cr_expect_leq(read(client, &byte, 1), 0);
}

static int accepted(int listener)
{
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    int fd = accept4(listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
    if (fd >= 0)
        cr_expect_eq(ntohl(from.sin_addr.s_addr), INADDR_LOOPBACK);
    return fd;
}

Test(accept, takes_everybody_until_it_is_bounded)
{
    int listener = listener_make(), client = client_make();
    cr_expect_geq(accepted(listener), 0);
    cr_expect_eq(accepted(listener), -1);
    cr_expect_eq(errno, EAGAIN);
    cr_expect_eq(tw_accept_turned_away(), 0);
    close(client);
}

Test(accept, who_is_too_many_sees_an_end_at_once_and_the_next_is_taken_when_there_is_room)
{
    int listener = listener_make(), clients[5];
    for (int i = 0; i < 5; i++)
        clients[i] = client_make();
    holes_fill();
    cr_assert_eq(tw_accept_bound(2), 2);
    int first = accepted(listener), second = accepted(listener);
    cr_expect_geq(first, 0);
    cr_expect_geq(second, 0);

    cr_expect_eq(accepted(listener), -1);
    cr_expect_eq(errno, EAGAIN);
    cr_expect_eq(tw_accept_turned_away(), 3);
    for (int i = 2; i < 5; i++)
        expect_end(clients[i]);

    close(second);
    (void)client_make(); /* takes the number that became free */
    close(clients[4]);
    int third = accepted(listener);
    cr_expect_geq(third, 0);
    cr_expect_eq(tw_accept_turned_away(), 3);
}

Test(accept, one_listener_is_always_served)
{
    int listener = listener_make(), client = client_make();
    cr_assert_eq(tw_accept_bound(0), 0);
    tw_accept_always(listener);
    cr_expect_geq(accepted(listener), 0);
    close(client);
}

Test(accept, descriptors_that_others_took_are_a_shortage_and_no_failure)
{
    const struct rlimit few = {.rlim_cur = 64, .rlim_max = 64};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    int listener = listener_make(), client = client_make(), held[HELD_MAX], count = 0;
    cr_expect_lt(tw_accept_bound(4096), 64 - 8);
    while ((held[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;

    cr_expect_eq(accepted(listener), -1);
    cr_expect_eq(errno, EAGAIN);
    while (count > 0)
        close(held[--count]);
    cr_expect_geq(accepted(listener), 0, "it waited meanwhile");
    close(client);
}

Test(accept, what_is_no_listener_is_a_failure_all_the_same)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void)tw_accept_bound(16);
    cr_expect_eq(accept4(fd, NULL, NULL, 0), -1);
    cr_expect_eq(errno, EINVAL);
}
