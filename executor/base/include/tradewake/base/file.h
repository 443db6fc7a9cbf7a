/* file.h - a small file, whole: certificates, keys, policies. */
#ifndef TW_BASE_FILE_H
#define TW_BASE_FILE_H

#include <tradewake/base/status.h>

#include <stddef.h>

/* The file's bytes, ended by a NUL that does not count. Owns: the caller, free(); what is secret is wiped first.
 * Thread: any.  Blocks: for the disk.
 * Fails: TW_IO, TW_INVALID (more than bytes_max), TW_NO_MEMORY; error names the file. */
TW_MUST_CHECK tw_status tw_file_read(const char *path, size_t bytes_max, char **ret_bytes, size_t *ret_size,
                                     struct tw_error *error);

#endif
