/* secret.h - passwords and keys of accounts: by reference, read when they are needed, gone afterwards.
 *
 *   adapter_config  password = "secret:acct-12"      what is written down, shown and logged
 *   secrets.directory/acct-12                         a file: systemd credentials, Docker or Kubernetes secrets
 *
 * An adapter takes a secret where it connects, and wipes it when it has logged in. The memory is a page of its own,
 * which is in no core file and is overwritten before it is given back. Nobody logs, formats or copies what is in it:
 * the words in `error` name the file, never what it holds. */
#ifndef TW_ADAPTERS_SECRET_H
#define TW_ADAPTERS_SECRET_H

#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>

#define TW_SECRET_PREFIX     "secret:"
#define TW_SECRET_NAME_MAX   64u          /* letters, digits, "-", "_", "."; not first a dot */
#define TW_SECRET_BYTES_MAX  (64u * 1024u) /* a key with its chain; more is a mistake */

/* {0} = none. */
struct tw_secret {
    char *text; /* ended by a NUL; a line's end at the end of the file is not part of it */
    size_t size;
    size_t mapped; /* the secret's own */
};

/* The name in "secret:NAME"; NULL: it is no reference, or its name is none. */
const char *tw_secret_name(const char *value);

/* Fails: TW_NOT_FOUND, TW_IO, TW_INVALID (the name; empty; too large), TW_NO_MEMORY.
 * Thread: one that may block.  Owns: the caller, tw_secret_wipe(). */
TW_MUST_CHECK tw_status tw_secret_read(const char *directory, const char *name, struct tw_secret *ret,
                                       struct tw_error *error);
void tw_secret_wipe(struct tw_secret *secret); /* {0} is allowed */

/* Why this entry of adapter_config may not be there: by its key or its value it is a secret, and no reference to one.
 * NULL = it may. Words without the value; static. Thread: any. */
const char *tw_secret_in_the_open(const char *key, const char *value);

#endif
