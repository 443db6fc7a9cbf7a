/* executor_machine.c - limits of containers and users, read from made-up /proc and /sys trees. */
#include "machine.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/tradewake-machine-XXXXXX";

static void root_make(void)
{
    cr_assert_not_null(mkdtemp(root));
}

static void root_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    cr_assert_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    cr_assert_not_null(file, "%s", full);
    fputs(text, file);
    fclose(file);
}

TestSuite(machine, .init = root_make, .fini = root_remove);

static uint32_t cores_of_mask(void)
{
    cpu_set_t usable;
    sched_getaffinity(0, sizeof usable, &usable);
    return (uint32_t)CPU_COUNT(&usable);
}

static uint32_t cores_now(void)
{
    int cores[64];
    return machine_cores(root, cores, 64);
}

Test(machine, without_control_groups_the_affinity_mask_counts)
{
    cr_expect_eq(cores_now(), cores_of_mask());
    int core;
    cr_expect_eq(machine_cores(root, &core, 1), 1, "never more than there is room for");
}

Test(machine, a_quota_of_one_core_and_a_half_rounds_up_and_of_a_tenth_is_one)
{
    static const struct {
        const char *text;
        uint32_t cores;
    } cases[] = {{"10000 100000\n", 1}, {"100000 100000\n", 1}, {"150000 100000\n", 2}};
    for (size_t i = 0; i < 3; i++) {
        put("/proc/self/cgroup", "0::/box\n");
        put("/sys/fs/cgroup/box/cpu.max", cases[i].text);
        uint32_t most = cores_of_mask() < cases[i].cores ? cores_of_mask() : cases[i].cores;
        cr_expect_eq(cores_now(), most, "%s", cases[i].text);
    }
    put("/sys/fs/cgroup/box/cpu.max", "max 100000\n");
    cr_expect_eq(cores_now(), cores_of_mask());
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    cr_expect_eq(cores_now(), 1, "the quota of a parent holds too");
}

Test(machine, version_1_quotas_count_too)
{
    put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n3:pids:/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n"); /* the container's own mount */
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(cores_now(), 1);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    cr_expect_eq(cores_now(), cores_of_mask());
}

Test(machine, the_tightest_pids_limit_on_the_way_up_counts_less_what_is_used)
{
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/pids.max", "max\n");
    put("/sys/fs/cgroup/a/b/pids.current", "10\n");
    put("/sys/fs/cgroup/a/pids.max", "100\n");
    put("/sys/fs/cgroup/a/pids.current", "30\n");
    struct machine_room room = machine_thread_room(root, 256 * 1024);
    cr_expect_eq(room.threads, 70);
    cr_expect_str_eq(room.limit, "cgroup pids.max");

    put("/sys/fs/cgroup/a/pids.current", "130\n");
    cr_expect_eq(machine_thread_room(root, 256 * 1024).threads, 0, "over its limit already");
}

Test(machine, version_1_pids_count_too)
{
    put("/proc/self/cgroup", "8:pids:/x\n0::/\n");
    put("/sys/fs/cgroup/pids/x/pids.max", "64\n");
    put("/sys/fs/cgroup/pids/x/pids.current", "4\n");
    cr_expect_eq(machine_thread_room(root, 256 * 1024).threads, 60);
}

Test(machine, memory_allows_one_thread_per_64_KiB)
{
    put("/proc/meminfo", "MemTotal: 999999 kB\nMemAvailable:    6400 kB\n");
    struct machine_room room = machine_thread_room(root, 256 * 1024);
    cr_expect_eq(room.threads, 100);
    cr_expect_str_eq(room.limit, "memory");

    put("/proc/self/cgroup", "4:memory:/job\n0::/\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4194304\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "2097152\n");
    cr_expect_eq(machine_thread_room(root, 256 * 1024).threads, 32);
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    cr_expect_eq(machine_thread_room(root, 256 * 1024).threads, 100,
                 "version 1 says \"no limit\" so");

    put("/sys/fs/cgroup/memory.max", "1048576\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    cr_expect_eq(machine_thread_room(root, 256 * 1024).threads, 16);
}

Test(machine, pages_of_files_are_memory_that_is_left)
{
    cr_expect_eq(machine_memory_left(root), UINT64_MAX, "nothing says so");
    put("/proc/meminfo", "MemTotal: 999999 kB\nMemAvailable:    8192 kB\n");
    cr_expect_eq(machine_memory_left(root), 8192 * 1024);
    put("/proc/self/cgroup", "0::/box\n");
    put("/sys/fs/cgroup/box/memory.max", "4000000\n");
    put("/sys/fs/cgroup/box/memory.current", "3900000\n");
    cr_expect_eq(machine_memory_left(root), 100000);
    put("/sys/fs/cgroup/box/memory.stat", "anon 5\nfile 2900000\ninactive_file 2000000\nactive_file 700000\nslab 9\n");
    cr_expect_eq(machine_memory_left(root), 2800000);
    put("/sys/fs/cgroup/box/memory.stat", "inactive_file 9000000\n");
    cr_expect_eq(machine_memory_left(root), 4000000, "never more than there is");
}

Test(machine, version_1_counts_pages_of_files_so_too)
{
    put("/proc/self/cgroup", "4:memory:/job\n0::/\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4000000\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "3900000\n");
    put("/sys/fs/cgroup/memory/job/memory.stat", "cache 9\ninactive_file 7\ntotal_inactive_file 1000000\n");
    cr_expect_eq(machine_memory_left(root), 1100000);
}

/* root is not held to RLIMIT_NPROC; anybody else is, with all threads of the user counted. */
Test(machine, the_process_limit_counts_for_everybody_but_root)
{
    put("/proc/4/status", "Name: x\nThreads: 7\n");
    put("/proc/99/status", "Name: y\nThreads:\t13\n");
    put("/proc/not-a-process/status", "Threads: 1000\n");
    char path[512];
    snprintf(path, sizeof path, "chmod -R a+rX %s && chown -R 65534 %s/proc", root, root);
    bool is_root = getuid() == 0;
    cr_assert_eq(is_root ? system(path) : 0, 0);
    const struct rlimit limit = {.rlim_cur = 120, .rlim_max = 120};
    cr_assert_eq(setrlimit(RLIMIT_NPROC, &limit), 0);
    if (is_root) {
        cr_expect_eq(machine_thread_room(root, 256 * 1024).threads, UINT64_MAX);
        cr_assert_eq(setresuid(65534, 65534, 0), 0);
    }
    struct machine_room room = machine_thread_room(root, 256 * 1024);
    cr_assert_eq(is_root ? setresuid(0, 0, 0) : 0, 0);
    cr_expect_eq(room.threads, 100, "%lu", room.threads);
    cr_expect_str_eq(room.limit, "RLIMIT_NPROC");
}

Test(machine, the_address_space_counts_whole_stacks)
{
    put("/proc/self/status", "VmPeak: 1 kB\nVmSize:   1048576 kB\n");
    const struct rlimit limit = {.rlim_cur = (UINT64_C(1) << 30) + 25600 * 1024,
                                 .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    getrlimit(RLIMIT_AS, &before);
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    struct machine_room room = machine_thread_room(root, 256 * 1024);
    setrlimit(RLIMIT_AS, &before);
    cr_expect_eq(room.threads, 100, "%lu", room.threads);
    cr_expect_str_eq(room.limit, "memory");
}
