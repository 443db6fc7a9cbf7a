/* settings.h - adapter_config of a follower at a bridge. */
#ifndef REMOTE_SETTINGS_H
#define REMOTE_SETTINGS_H

#include <tradewake/adapters/adapter.h>

enum { SETTING_KEY_BYTES = 65, SYMBOLS_MAX = 512, VENDOR_SETTINGS_MAX = 32 };

/* Points into the options. */
struct settings {
    const char *bridge;
    const char *account; /* "" = the follower's id */
    const char *symbols; /* "EURUSD,XAUUSD"; "" = those that the bridge names */
    bool is_netting;
    int64_t call_timeout_ns;
    struct tw_adapter_setting vendor[VENDOR_SETTINGS_MAX]; /* "vendor.KEY", without the prefix */
    size_t n_vendor;
};

/* Fails: TW_INVALID, with the key in ret_key. */
TW_MUST_CHECK tw_status remote_settings_read(const struct tw_session_options *options, struct settings *ret,
                                      char ret_key[SETTING_KEY_BYTES], struct tw_error *error);

#endif
