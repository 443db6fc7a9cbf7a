#include "bench.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void figures_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
}

double figure_at(const double *sorted, size_t n, unsigned per_mille)
{
    size_t at = n * per_mille / 1000;
    return sorted[at < n ? at : n - 1];
}

double figure_median(double *values, size_t n)
{
    figures_sort(values, n);
    return figure_at(values, n, 500);
}

struct times times_of(double *values_ms, size_t n)
{
    figures_sort(values_ms, n);
    return (struct times){figure_at(values_ms, n, 500), figure_at(values_ms, n, 950),
                          figure_at(values_ms, n, 990), values_ms[n - 1]};
}

void times_json(FILE *to, const char *name, const struct times *times)
{
    fprintf(to, "\"%s\":{\"p50\":%.4f,\"p95\":%.4f,\"p99\":%.4f,\"max\":%.4f}", name, times->p50,
            times->p95, times->p99, times->max);
}

void bench_job_cancelled(struct tw_job *job)
{
    (void)job;
    abort();
}

/* ---- the machine ---- */

/* The value behind "name   : " in /proc/cpuinfo. */
static void cpu_fact(const char *name, char *text, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(text, size, "unknown");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, name, strlen(name)) != 0)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(text, size, "%s", colon + (colon[1] == ' ' ? 2 : 1));
        break;
    }
    fclose(file);
}

static bool realtime_is_allowed(void)
{
    struct sched_param lowest = {.sched_priority = 1}, none = {0};
    if (sched_setscheduler(0, SCHED_FIFO, &lowest) != 0)
        return false;
    sched_setscheduler(0, SCHED_OTHER, &none);
    return true;
}

void machine_look(struct machine *ret)
{
    struct utsname names;
    struct sysinfo memory;
    struct rlimit limit;
    cpu_set_t usable;
    char mhz[32];
    *ret = (struct machine){0};
    uname(&names);
    sysinfo(&memory);
    sched_getaffinity(0, sizeof usable, &usable);
    cpu_fact("model name", ret->model, sizeof ret->model);
    cpu_fact("cpu MHz", mhz, sizeof mhz);
    snprintf(ret->kernel, sizeof ret->kernel, "%s", names.release);
    ret->cores = (uint32_t)CPU_COUNT(&usable);
    ret->mhz = (uint32_t)strtoul(mhz, NULL, 10);
    ret->memory_mib = (uint64_t)memory.totalram * memory.mem_unit >> 20;
    ret->realtime_allowed = realtime_is_allowed();
    if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        ret->threads_limit = limit.rlim_cur;
}

void machine_json(FILE *to, const struct machine *machine)
{
    fprintf(to,
            "\"machine\":{\"model\":\"%s\",\"mhz\":%u,\"cores\":%u,\"memory_mib\":%llu,\"kernel\":\"%s\","
            "\"realtime_allowed\":%s,\"threads_limit\":%llu}",
            machine->model, machine->mhz, machine->cores, (unsigned long long)machine->memory_mib,
            machine->kernel, machine->realtime_allowed ? "true" : "false",
            (unsigned long long)machine->threads_limit);
}

void machine_print(FILE *to, const struct machine *machine)
{
    fprintf(to, "%u cores of %s (%u MHz), %llu MiB, Linux %s, real-time priority %s\n", machine->cores,
            machine->model, machine->mhz, (unsigned long long)machine->memory_mib, machine->kernel,
            machine->realtime_allowed ? "allowed" : "not allowed");
}

void machine_words(const struct machine *machine, char *words, size_t size)
{
    snprintf(words, size, "%u cores of %s, Linux %s, real-time priority %s", machine->cores, machine->model,
             machine->kernel, machine->realtime_allowed ? "allowed" : "not allowed");
}

void progress(const char *what, uint32_t done, uint32_t all)
{
    enum { WIDTH = 30 };
    if (!isatty(STDERR_FILENO))
        return;
    char bar[WIDTH + 1];
    uint32_t full = all == 0 ? WIDTH : done * WIDTH / all;
    for (uint32_t i = 0; i < WIDTH; i++)
        bar[i] = i < full ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, done < all ? "\r%s [%s] %u of %u" : "\r\033[K", what, bar, done, all);
}
