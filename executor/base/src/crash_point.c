#include <tradewake/base/crash_point.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 64 };

/* Where the linker puts the points, from all over the program; weak: a program may have none. */
extern struct tw_crash_point __start_tw_crash_points[] __attribute__((weak));
extern struct tw_crash_point __stop_tw_crash_points[] __attribute__((weak));

/* Set before main(), read-only afterwards. */
static char due_name[NAME_BYTES];
static uint64_t due_passage;
static bool has_power_cut;
static uint64_t power_seed;

static volatile sig_atomic_t counts;
static void (*_Atomic power_cut)(uint64_t seed);

static void on_signal(int number)
{
    (void)number;
    counts = 1;
}

static void list(void)
{
    for (struct tw_crash_point *point = __start_tw_crash_points; point < __stop_tw_crash_points; point++)
        (void)puts(point->name);
    (void)fflush(stdout);
    _exit(0);
}

static void usage(const char *name, const char *value)
{
    (void)fprintf(stderr, "%s is \"%s\", expected NAME:N of the points that TW_CRASH_LIST=1 prints\n", name,
                  value);
    _exit(2);
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *at = getenv("TW_CRASH_AT"), *power = getenv("TW_CRASH_POWER");
    if (getenv("TW_CRASH_LIST") != NULL)
        list();
    counts = getenv("TW_CRASH_WAITS") == NULL;
    (void)signal(SIGUSR2, on_signal);
    has_power_cut = power != NULL;
    power_seed = power != NULL ? strtoull(power, NULL, 10) : 0;
    if (at == NULL)
        return;
    const char *colon = strchr(at, ':');
    if (colon == NULL || (size_t)(colon - at) >= sizeof due_name)
        usage("TW_CRASH_AT", at);
    memcpy(due_name, at, (size_t)(colon - at));
    due_passage = strtoull(colon + 1, NULL, 10);
    for (struct tw_crash_point *point = __start_tw_crash_points; point < __stop_tw_crash_points; point++)
        if (strcmp(point->name, due_name) == 0 && due_passage > 0)
            return;
    usage("TW_CRASH_AT", at);
}

bool tw_crash_is_due(struct tw_crash_point *point)
{
    if (due_passage == 0 || counts == 0 || strcmp(point->name, due_name) != 0)
        return false;
    return __atomic_add_fetch(&point->passages, 1, __ATOMIC_RELAXED) == due_passage;
}

void tw_crash(const struct tw_crash_point *point)
{
    void (*cut)(uint64_t) = atomic_load(&power_cut);
    char line[NAME_BYTES + 64];
    if (has_power_cut && cut != NULL)
        cut(power_seed);
    int size = snprintf(line, sizeof line, "crash.point name=%s passage=%llu power_cut=%s\n", point->name,
                        (unsigned long long)due_passage, has_power_cut ? "yes" : "no");
    if (size > 0)
        (void)!write(STDERR_FILENO, line, (size_t)size);
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

void tw_crash_power_set(void (*cut)(uint64_t seed))
{
    if (has_power_cut)
        atomic_store(&power_cut, cut);
}

const char *tw_fault(const char *name)
{
    char full[NAME_BYTES];
    (void)snprintf(full, sizeof full, "TW_FAULT_%s", name);
    return getenv(full);
}

int64_t tw_fault_number(const char *name, int64_t otherwise)
{
    const char *text = tw_fault(name);
    return text != NULL ? strtoll(text, NULL, 10) : otherwise;
}
