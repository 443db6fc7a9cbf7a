#include "process.h"

#include <tradewake/base/clock.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Without stdio's buffers: the answer is one short line. */
static const char *proc_line(const char *path, char line[1024])
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    ssize_t size = read(file, line, 1023);
    close(file);
    if (size <= 0)
        return NULL;
    line[size] = '\0';
    return line;
}

static void memory_read(struct process_reading *ret)
{
    char line[1024];
    unsigned long pages, resident;
    if (proc_line("/proc/self/statm", line) == NULL ||
        sscanf(line, "%lu %lu", &pages, &resident) != 2)
        return;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    ret->virtual_bytes = pages * page_bytes;
    ret->resident_bytes = resident * page_bytes;
}

/* The 20th field of stat; the second is a name in brackets that may hold anything. */
static uint32_t threads_read(void)
{
    char line[1024];
    unsigned threads = 0;
    const char *at = proc_line("/proc/self/stat", line);
    if (at == NULL || (at = strrchr(at, ')')) == NULL ||
        sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u",
               &threads) != 1)
        return 0;
    return threads;
}

static uint32_t files_count(void)
{
    uint32_t files = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        files += entry->d_name[0] != '.';
    closedir(folder);
    return files - 1u; /* without the one that looks */
}

void process_read(struct process_reading *ret)
{
    *ret = (struct process_reading){.threads = threads_read(), .open_files = files_count()};
    memory_read(ret);

    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
        ret->cpu_ns = (uint64_t)used.tv_sec * (uint64_t)TW_NS_PER_S + (uint64_t)used.tv_nsec;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < UINT32_MAX)
        ret->open_files_max = (uint32_t)limit.rlim_cur;
}

uint64_t process_resident_bytes(void)
{
    struct process_reading reading = {0};
    memory_read(&reading);
    return reading.resident_bytes;
}
