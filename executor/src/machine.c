#include "machine.h"

#include <tradewake/base/limits.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a sleeping worker holds of the machine's memory: its kernel stack and task (about 28 KiB),
 * the touched end of its own stack (about 8 KiB), and as much again for the frames of the call it
 * makes. Its stack as reserved is no measure: it is almost all untouched. */
enum { THREAD_MEMORY_BYTES = 64 * 1024 };

#define NO_LIMIT UINT64_MAX

/* Reads a small file as one line of text. False when there is none. */
static bool file_text(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t got = read(file, text, size - 1);
    close(file);
    if (got <= 0)
        return false;
    text[got] = '\0';
    return true;
}

/* The number at the file's beginning. NO_LIMIT when there is no file, or when it says "max" or -1.
 */
static uint64_t file_number(const char *path)
{
    char text[64];
    if (!file_text(path, text, sizeof text) || !isdigit((unsigned char)text[0]))
        return NO_LIMIT;
    return strtoull(text, NULL, 10);
}

/* The number behind `name:` in a file such as /proc/meminfo. NO_LIMIT when it is not there. */
static uint64_t named_number(const char *path, const char *name)
{
    char text[4096];
    if (!file_text(path, text, sizeof text))
        return NO_LIMIT;
    size_t length = strlen(name);
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            return strtoull(line + length + 1, NULL, 10);
    }
    return NO_LIMIT;
}

/* ---- control groups ---- */

struct cgroup {
    char folder[PATH_MAX / 2];
    size_t mount_length; /* of folder, the part that is the mount point */
};

/* Does a comma-separated list hold this word? */
static bool lists(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; *at != '\0'; at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (n == length && strncmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

/* Our folder of a v1 controller ("" = the v2 hierarchy), by /proc/self/cgroup. */
static bool cgroup_find(const char *root, const char *controller, struct cgroup *ret)
{
    char path[PATH_MAX / 4], text[4096];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!file_text(path, text, sizeof text))
        return false;

    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        strsep(&line, ":");
        const char *controllers = strsep(&line, ":");
        if (controllers == NULL || line == NULL)
            continue;
        bool is_v2 = controllers[0] == '\0' && controller[0] == '\0';
        if (!is_v2 && (controller[0] == '\0' || !lists(controllers, controller)))
            continue;
        int mount = snprintf(ret->folder, sizeof ret->folder, "%s/sys/fs/cgroup%s%s", root,
                             controller[0] == '\0' ? "" : "/", controllers);
        ret->mount_length = (size_t)mount;
        if (access(ret->folder, F_OK) != 0 && controller[0] != '\0') /* "cpu,cpuacct" under "cpu" */
            ret->mount_length = (size_t)snprintf(ret->folder, sizeof ret->folder,
                                                 "%s/sys/fs/cgroup/%s", root, controller);
        int all = snprintf(ret->folder + ret->mount_length, sizeof ret->folder - ret->mount_length,
                           "%s", line);
        return ret->mount_length + (size_t)all < sizeof ret->folder;
    }
    return false;
}

/* From our own folder to the mount's: a limit of any of them holds for us. Inside a container the
 * path is often the host's and does not exist below the mount; the mount itself is ours then. */
static bool cgroup_up(struct cgroup *group)
{
    char *cut = strrchr(group->folder + group->mount_length, '/');
    if (cut == NULL)
        return false;
    *cut = '\0';
    return true;
}

typedef uint64_t cgroup_read_fn(const char *folder);

static uint64_t cgroup_least(const char *root, const char *controller, cgroup_read_fn *read_one)
{
    struct cgroup group;
    uint64_t least = NO_LIMIT;
    if (!cgroup_find(root, controller, &group))
        return least;
    do {
        uint64_t value = read_one(group.folder);
        if (value < least)
            least = value;
    } while (cgroup_up(&group));
    return least;
}

static uint64_t number_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return file_number(path);
}

/* limit - used: what is left. */
static uint64_t rest_in(const char *folder, const char *limit_name, const char *used_name)
{
    uint64_t limit = number_in(folder, limit_name), used = number_in(folder, used_name);
    if (limit == NO_LIMIT || used == NO_LIMIT)
        return limit;
    return limit > used ? limit - used : 0;
}

static uint64_t pids_left(const char *folder)
{
    return rest_in(folder, "pids.max", "pids.current");
}

/* What a control group counts as used, but would give back before it refuses any: pages of files, the journal's above all. */
static uint64_t file_pages_in(const char *folder, const char *const names[2])
{
    char path[PATH_MAX], text[4096];
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    uint64_t bytes = 0;
    char *rest = text;
    if (!file_text(path, text, sizeof text))
        return 0;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *name = strsep(&line, " ");
        if (line != NULL && (strcmp(name, names[0]) == 0 || strcmp(name, names[1]) == 0))
            bytes += strtoull(line, NULL, 10);
    }
    return bytes;
}

static uint64_t memory_left_in(const char *folder, uint64_t limit, uint64_t used, const char *const names[2])
{
    if (limit == NO_LIMIT || used == NO_LIMIT)
        return limit;
    uint64_t files = file_pages_in(folder, names);
    used = used > files ? used - files : 0;
    return limit > used ? limit - used : 0;
}

static uint64_t memory_left_v2(const char *folder)
{
    static const char *const names[2] = {"inactive_file", "active_file"};
    return memory_left_in(folder, number_in(folder, "memory.max"), number_in(folder, "memory.current"), names);
}

static uint64_t memory_left_v1(const char *folder)
{
    static const char *const names[2] = {"total_inactive_file", "total_active_file"};
    uint64_t limit = number_in(folder, "memory.limit_in_bytes");
    if (limit > (uint64_t)INT64_MAX / 2) /* v1 writes "no limit" as a huge number */
        return NO_LIMIT;
    return memory_left_in(folder, limit, number_in(folder, "memory.usage_in_bytes"), names);
}

static uint64_t whole_cores(uint64_t quota_us, uint64_t period_us)
{
    if (quota_us == NO_LIMIT || period_us == NO_LIMIT || period_us == 0)
        return NO_LIMIT;
    uint64_t cores = (quota_us + period_us - 1) / period_us;
    return cores == 0 ? 1 : cores;
}

static uint64_t quota_v1(const char *folder)
{
    return whole_cores(number_in(folder, "cpu.cfs_quota_us"),
                       number_in(folder, "cpu.cfs_period_us"));
}

static uint64_t quota_v2(const char *folder)
{
    char path[PATH_MAX], text[64];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!file_text(path, text, sizeof text) || !isdigit((unsigned char)text[0]))
        return NO_LIMIT; /* none, or "max 100000" */
    char *rest;
    uint64_t quota_us = strtoull(text, &rest, 10);
    return whole_cores(quota_us, strtoull(rest, NULL, 10));
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- cores ---- */

uint32_t machine_cores(const char *root, int *cores, uint32_t cores_max)
{
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (sched_getaffinity(0, sizeof usable, &usable) != 0)
        CPU_SET(0, &usable);

    uint64_t most = least_of(cgroup_least(root, "", quota_v2), cgroup_least(root, "cpu", quota_v1));
    most = least_of(most, cores_max);
    uint32_t found = 0;
    for (int core = 0; core < CPU_SETSIZE && found < most; core++)
        if (CPU_ISSET((size_t)core, &usable))
            cores[found++] = core;
    return found;
}

/* ---- threads ---- */

/* Threads of this user, as RLIMIT_NPROC counts them. */
static uint64_t threads_of_user(const char *root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc", root);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return 0;

    uint64_t threads = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%s/proc/%s/status", root, entry->d_name);
        struct stat about;
        if (stat(path, &about) != 0 || about.st_uid != getuid())
            continue;
        uint64_t of_process = named_number(path, "Threads");
        threads += of_process == NO_LIMIT ? 0 : of_process;
    }
    closedir(folder);
    return threads;
}

static uint64_t room_by_nproc(const char *root)
{
    struct rlimit limit;
    if (getuid() == 0) /* the kernel does not hold root to it */
        return NO_LIMIT;
    if (getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return NO_LIMIT;
    uint64_t used = threads_of_user(root);
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

static uint64_t room_by_pids(const char *root)
{
    return least_of(cgroup_least(root, "", pids_left), cgroup_least(root, "pids", pids_left));
}

static uint64_t address_space_left(const char *root)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return NO_LIMIT;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/status", root);
    uint64_t used_kib = named_number(path, "VmSize");
    uint64_t used = used_kib == NO_LIMIT ? 0 : used_kib * 1024;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

static uint64_t resident_left(const char *root)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    uint64_t available_kib = named_number(path, "MemAvailable");
    uint64_t bytes = available_kib == NO_LIMIT ? NO_LIMIT : available_kib * 1024;
    bytes = least_of(bytes, cgroup_least(root, "", memory_left_v2));
    return least_of(bytes, cgroup_least(root, "memory", memory_left_v1));
}

uint64_t machine_memory_left(const char *root)
{
    return least_of(resident_left(root), address_space_left(root));
}

static uint64_t threads_in(uint64_t bytes, size_t bytes_each)
{
    return bytes == NO_LIMIT ? NO_LIMIT : bytes / bytes_each;
}

static uint64_t room_by_memory(const char *root, size_t stack_bytes)
{
    return least_of(threads_in(resident_left(root), THREAD_MEMORY_BYTES), threads_in(address_space_left(root), stack_bytes));
}

struct machine_room machine_thread_room(const char *root, size_t stack_bytes)
{
    const struct machine_room limits[] = {
        {room_by_nproc(root), "RLIMIT_NPROC"},
        {room_by_pids(root), "cgroup pids.max"},
        {room_by_memory(root, stack_bytes), "memory"},
    };
    struct machine_room least = limits[0];
    for (size_t i = 1; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].threads < least.threads)
            least = limits[i];
    return least;
}
