/* machine.h - what this machine, container and user allow us: cores and threads.
 *
 * Reads /proc and the control groups (v1 and v2) as they are at the call; root is put before every
 * path, "" outside of tests. What cannot be read does not limit. */
#ifndef TW_EXECUTOR_MACHINE_H
#define TW_EXECUTOR_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* How many more threads may be created, and the limit that says so. */
struct machine_room {
    uint64_t threads;
    const char *limit; /* "RLIMIT_NPROC", "cgroup pids.max" or "memory"; static */
};

/* The cores of the affinity mask that one may use for real: never more than the CPU quota pays for,
 * rounded up. Fills cores with their numbers, at most cores_max; returns how many, at least 1. */
uint32_t machine_cores(const char *root, int *cores, uint32_t cores_max);

/* stack_bytes: reserved per thread; counts against RLIMIT_AS alone. */
struct machine_room machine_thread_room(const char *root, size_t stack_bytes);

/* Bytes that may still be taken: of the machine, the control groups and RLIMIT_AS the least; pages of files count as
 * free. UINT64_MAX: nothing says so. */
uint64_t machine_memory_left(const char *root);

#endif
