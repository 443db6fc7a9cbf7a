/* futex.h - the two system calls that everything here sleeps and wakes with.
 *
 * The word's value says what happened, the call only moves threads: whoever waits reads the word
 * first, whoever wakes changes it first. */
#ifndef TW_EXECUTOR_FUTEX_H
#define TW_EXECUTOR_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is `seen`. Returns also for no reason: call it in a loop. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* The same, for at most timeout_ns. */
static inline void futex_wait_for(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns)
{
    const struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &timeout, NULL, 0);
}

/* Wakes at most `threads` of those that sleep on word. The word may be gone already: the kernel
 * only compares its address. */
static inline void futex_wake(_Atomic uint32_t *word, uint32_t threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads > INT32_MAX ? INT32_MAX : threads, NULL,
            NULL, 0);
}

#endif
