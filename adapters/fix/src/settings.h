/* settings.h - adapter_config of a follower at a FIX session. */
#ifndef FIX_SETTINGS_H
#define FIX_SETTINGS_H

#include "venues.h"

enum { FIX_SETTING_KEY_BYTES = 65 };

struct fix_settings {
    const struct fix_venue *venue;
    char account[FIX_ID_BYTES]; /* 1, or what {account} stands for; the follower's id if not given */
    char currency[8];
    int64_t call_timeout_ns;
};

/* Fails: TW_INVALID, with the key in ret_key ("" = the adapter's name itself). */
TW_MUST_CHECK tw_status fix_settings_read(const struct fix_venues *venues, const struct tw_session_options *options,
                                          struct fix_settings *ret, char ret_key[FIX_SETTING_KEY_BYTES],
                                          struct tw_error *error);
/* By the profile, and what its section says instead. */
void fix_settings_capabilities(const struct fix_settings *settings, struct tw_capabilities *ret);

#endif
