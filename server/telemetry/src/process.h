/* process.h - what the kernel says of this process. */
#ifndef TELEMETRY_PROCESS_H
#define TELEMETRY_PROCESS_H

#include <stdint.h>

/* 0 = the kernel does not say. */
struct process_reading {
    uint64_t resident_bytes, virtual_bytes;
    uint64_t cpu_ns; /* user and system */
    uint32_t threads, open_files, open_files_max;
};

/* Thread: any.  Blocks: for a few reads of /proc. */
void process_read(struct process_reading *ret);
uint64_t process_resident_bytes(void);

#endif
