#include "apart.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The number behind "Name:" in /proc/self/status; 0 when it is not there. */
static uint32_t own_status(const char *name)
{
    char line[256];
    uint32_t value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = (uint32_t)strtoul(line + strlen(name), NULL, 10);
    fclose(file);
    return value;
}

uint32_t apart_threads(void)
{
    return own_status("Threads:");
}

static double cpu_ms_now(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

bool apart_run(void (*measure)(const void *arg, struct apart *ret), const void *arg, struct apart *ret)
{
    struct apart *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        double cpu_ms = cpu_ms_now();
        uint32_t before_kib = own_status("VmRSS:");
        measure(arg, shared);
        shared->cpu_ms = cpu_ms_now() - cpu_ms;
        shared->memory_mib = ((double)own_status("VmHWM:") - before_kib) / 1024;
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
    *ret = *shared;
    munmap(shared, sizeof *shared);
    if (!ret->is_good)
        fprintf(stderr, "a measurement in a process of its own failed\n");
    return ret->is_good;
}

struct apart apart_median(const struct apart *all, uint32_t n)
{
    double *values = calloc(n, sizeof *values);
    struct apart ret = {.is_good = true};
#define MEDIAN_OF(member)                                                                           \
    for (uint32_t i = 0; i < n; i++)                                                                \
        values[i] = (double)all[i].member;                                                          \
    double median_##member = figure_median(values, n)
    MEDIAN_OF(start_ms);
    MEDIAN_OF(all_ms);
    MEDIAN_OF(cpu_ms);
    MEDIAN_OF(memory_mib);
    MEDIAN_OF(threads);
#undef MEDIAN_OF
    free(values);
    ret.start_ms = median_start_ms;
    ret.all_ms = median_all_ms;
    ret.cpu_ms = median_cpu_ms;
    ret.memory_mib = median_memory_mib;
    ret.threads = (uint32_t)median_threads;
    return ret;
}
