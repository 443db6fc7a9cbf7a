/* The server's question to its own port, on a clock of the test's. */
#include "listener.h"

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

struct place {
    int fd;
    struct listener listener;
    int64_t now_mono_ns;
};

static struct place place_make(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct place place = {.fd = socket(AF_INET, SOCK_STREAM, 0), .now_mono_ns = 1000 * TW_NS_PER_S};
    char listen_text[32];
    cr_assert_eq(bind(place.fd, (const struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(place.fd, 64), 0);
    cr_assert_eq(getsockname(place.fd, (struct sockaddr *)&address, &size), 0);
    snprintf(listen_text, sizeof listen_text, "127.0.0.1:%d", ntohs(address.sin_port));
    listener_init(&place.listener, listen_text, ntohs(address.sin_port), false);
    return place;
}

static int64_t look_after(struct place *place, int64_t seconds)
{
    place->now_mono_ns += seconds * TW_NS_PER_S;
    return listener_look(&place->listener, place->now_mono_ns);
}

/* A question is out, and the connection has come about. */
static void ask(struct place *place)
{
    cr_expect_eq(look_after(place, 3), 0);
    cr_assert_geq(place->listener.question, 0);
    struct pollfd waits = {.fd = place->listener.question, .events = POLLOUT};
    cr_assert_eq(poll(&waits, 1, 10000), 1);
    cr_expect_eq(look_after(place, 0), 0);
}

/* Takes the question and says something. */
static void answer(struct place *place)
{
    int fd = accept(place->fd, NULL, NULL);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "x", 1), 1);
    struct pollfd waits = {.fd = place->listener.question, .events = POLLIN};
    cr_assert_eq(poll(&waits, 1, 10000), 1);
    cr_expect_eq(look_after(place, 0), 0);
    cr_expect_eq(place->listener.question, -1);
    close(fd);
}

Test(listener, that_answers_is_well)
{
    struct place place = place_make();
    for (int i = 0; i < 3; i++) {
        ask(&place);
        answer(&place);
    }
    cr_expect(listener_is_answering(&place.listener));
    listener_clear(&place.listener);
}

Test(listener, that_accepts_late_is_well)
{
    struct place place = place_make();
    ask(&place);
    int fd = accept(place.fd, NULL, NULL); /* and says nothing */
    cr_expect_eq(look_after(&place, 30), 0);
    cr_expect(listener_is_answering(&place.listener));
    close(fd);
    listener_clear(&place.listener);
}

Test(listener, that_accepts_nobody_is_silent_from_five_seconds_on)
{
    struct place place = place_make();
    ask(&place);
    cr_expect_eq(look_after(&place, 4), 4 * TW_NS_PER_S);
    cr_expect(listener_is_answering(&place.listener));
    cr_expect_eq(look_after(&place, 2), 6 * TW_NS_PER_S);
    cr_expect_not(listener_is_answering(&place.listener));
    answer(&place);
    cr_expect(listener_is_answering(&place.listener), "and back when it does");
    listener_clear(&place.listener);
}

/* A refusal takes effect with the look at the latest that comes after it. */
static int64_t refused_for(struct place *place, int seconds)
{
    int64_t silent_ns = 0;
    for (int i = 0; i < seconds; i++) {
        silent_ns = look_after(place, 1);
        if (place->listener.question >= 0) {
            struct pollfd waits = {.fd = place->listener.question, .events = POLLOUT};
            (void)poll(&waits, 1, 10000);
        }
    }
    return silent_ns;
}

Test(listener, that_is_gone_is_silent_if_it_ever_answered)
{
    struct place place = place_make();
    ask(&place);
    answer(&place);
    close(place.fd);
    cr_expect_geq(refused_for(&place, 20), 15 * TW_NS_PER_S);
    cr_expect_not(listener_is_answering(&place.listener));
    listener_clear(&place.listener);
}

Test(listener, that_never_answered_may_be_hidden_from_us)
{
    struct place place = place_make();
    close(place.fd);
    cr_expect_eq(refused_for(&place, 60), 0);
    cr_expect(listener_is_answering(&place.listener));
    listener_clear(&place.listener);
}
