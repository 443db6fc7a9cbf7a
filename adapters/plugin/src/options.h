/* options.h - adapter_config of one follower: what is ours, and what is the library's. */
#ifndef PLUGIN_OPTIONS_H
#define PLUGIN_OPTIONS_H

#include "library.h"

struct options {
    char follower_id[TW_ID_BYTES];
    char *credentials_ref;
    bool is_netting;
    uint32_t n_links; /* sessions at the vendor at once */
    int64_t call_timeout_ns, settle_ns;
    struct twp_setting *settings; /* the library's own; texts are ours */
    uint32_t n_settings;
};

/* Fails: TW_INVALID with the key's name in ret_key (65 bytes) and words; TW_NO_MEMORY. *ret is to be cleared either way.
 * Asks the library's check(). Thread: any. */
TW_MUST_CHECK tw_status options_read(struct library *library, const struct tw_session_options *from, struct options *ret,
                                     char *ret_key, struct tw_error *error);
void options_clear(struct options *options);

#endif
