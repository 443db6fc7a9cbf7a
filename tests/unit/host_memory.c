/* host_memory.c - which orders a host's adapter was given, and what it is asked about them. */
#include "memory.h"

#include <criterion/criterion.h>

#include <stdio.h>

static struct memory memory;

static struct memo *begin(const char *id, uint32_t attempt, int64_t limit_mono_ns)
{
    struct tw_order order = {.op = TW_OP_OPEN, .attempt = attempt};
    snprintf(order.client_order_id, sizeof order.client_order_id, "%s", id);
    struct memo *memo = memory_begin(&memory, &order, limit_mono_ns);
    cr_assert_not_null(memo);
    return memo;
}

static void end(void)
{
    memory_clear(&memory);
}

TestSuite(host_memory, .fini = end, .timeout = 10);

/* "Not found" was believed once its time was over: it went out twice when the library came back. */
Test(host_memory, what_the_adapter_has_is_out_however_late_it_is)
{
    struct memo *first = begin("a", 0, 100);
    cr_expect(memory_is_out(&memory, "a"));
    cr_expect_not(memory_is_out(&memory, "b"));
    struct memo *second = begin("a", 1, 200);
    second->is_out = false;
    cr_expect(memory_is_out(&memory, "a"), "the first attempt has not come back");
    first->is_out = false;
    cr_expect_not(memory_is_out(&memory, "a"));
}

Test(host_memory, what_does_not_come_back_is_seen)
{
    struct memo *memo = begin("a", 0, 100);
    (void)begin("b", 0, 1000);
    cr_expect_not(memory_is_overdue(&memory, 150, 50));
    cr_expect(memory_is_overdue(&memory, 151, 50));
    memo->is_out = false;
    cr_expect_not(memory_is_overdue(&memory, 151, 50));
}

Test(host_memory, one_that_hangs_does_not_keep_the_others_from_being_forgotten)
{
    char id[16];
    (void)begin("hangs", 0, 100);
    for (int i = 0; i < 2 * MEMORY_MAX; i++) {
        snprintf(id, sizeof id, "%d", i);
        begin(id, 0, 100)->is_out = false;
    }
    cr_expect_eq(memory.n, MEMORY_MAX);
    cr_expect(memory_is_out(&memory, "hangs"));
    cr_expect_null(memory_find(&memory, "0", 0));
    cr_expect_not_null(memory_find(&memory, id, 0));
}
