/* settings.h - what the readers of the sources share; private to this folder. */
#ifndef CONFIG_SETTINGS_PRIVATE_H
#define CONFIG_SETTINGS_PRIVATE_H

#include <tradewake/config/settings.h>

/* Adds a problem; past the last place it is only counted. */
void report_add(struct tw_config_report *report, bool is_warning, const char *format, ...)
    TW_PRINTF(3, 4);

/* Reads text into the row's field and notes the origin. False, with words in *error and nothing
 * changed, when the row's rule says no. */
bool setting_set(struct tw_settings *settings, const struct tw_setting *setting, const char *text,
                 struct tw_origin origin, struct tw_error *error);

const struct tw_origin *setting_origin(const struct tw_settings *settings,
                                       const struct tw_setting *setting);

#endif
