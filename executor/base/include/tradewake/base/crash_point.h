/* crash_point.h - named places to die at, and switches for faults; in test builds only.
 *
 * With the CMake option TW_CRASH_POINTS (preset `faults`) the environment says where the process ends,
 * by SIGKILL, and what goes wrong before. In every other build all of this compiles to nothing.
 *
 *   TW_CRASH_LIST=1           prints the name of every point in the program, and ends
 *   TW_CRASH_AT=NAME:N        dies at the N-th passage of that point
 *   TW_CRASH_WAITS=1          passages count from SIGUSR2 on
 *   TW_CRASH_POWER=SEED       dies as in a power cut: what the journal has not synced is lost in part
 *   TW_FAULT_...=TEXT         tw_fault(): a switch where it is read
 *
 * A point that a test names and never reaches proves nothing: hence the line `crash.point` on stderr. */
#ifndef TW_BASE_CRASH_POINT_H
#define TW_BASE_CRASH_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef TW_CRASH_POINTS

struct tw_crash_point {
    const char *name;
    uint64_t passages; /* atomic */
};

/* Whether this passage is the one. Thread: any. */
bool tw_crash_is_due(struct tw_crash_point *point);

/* The end. Thread: any. */
_Noreturn void tw_crash(const struct tw_crash_point *point);

/* What a power cut takes with it; called once, by who dies. */
void tw_crash_power_set(void (*cut)(uint64_t seed));

/* The switch TW_FAULT_NAME; NULL = not set. */
const char *tw_fault(const char *name);
int64_t tw_fault_number(const char *name, int64_t otherwise);

#define TW_CRASH_POINT(NAME)                                                                        \
    static struct tw_crash_point crash_point_here __attribute__((section("tw_crash_points"), used)) = \
        {NAME, 0}

/* A place to die at. Thread: any. */
#define tw_crash_point(NAME)                                                                        \
    do {                                                                                            \
        TW_CRASH_POINT(NAME);                                                                       \
        if (tw_crash_is_due(&crash_point_here))                                                     \
            tw_crash(&crash_point_here);                                                            \
    } while (0)

/* Counted only where the condition holds. */
#define tw_crash_point_if(CONDITION, NAME)                                                          \
    do {                                                                                            \
        TW_CRASH_POINT(NAME);                                                                       \
        if ((CONDITION) && tw_crash_is_due(&crash_point_here))                                      \
            tw_crash(&crash_point_here);                                                            \
    } while (0)

#else

#define tw_crash_point(NAME) ((void)0)
#define tw_crash_point_if(CONDITION, NAME) ((void)0)

static inline const char *tw_fault(const char *name)
{
    (void)name;
    return NULL;
}

static inline int64_t tw_fault_number(const char *name, int64_t otherwise)
{
    (void)name;
    return otherwise;
}

#endif
#endif
