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

/* ---- bridges.c: `bridges` is one text, or a mapping of the file. ---- */

/* NULL, with words: the name is none, or there already, or there are too many. */
struct tw_bridge_setting *settings_bridge_add(struct tw_settings *settings, const char *name, size_t length,
                                     struct tw_error *error);
TW_MUST_CHECK tw_status settings_bridge_field_set(struct tw_bridge_setting *bridge, const char *field, const char *text,
                                         struct tw_error *error);
TW_MUST_CHECK tw_status settings_bridge_check(const struct tw_bridge_setting *bridge, struct tw_error *error);
TW_MUST_CHECK tw_status settings_bridges_parse(struct tw_settings *settings, struct tw_error *error); /* of bridges_text */
void settings_bridges_show(struct tw_settings *settings); /* bridges_text from what is there, cut when long */

const struct tw_origin *setting_origin(const struct tw_settings *settings,
                                       const struct tw_setting *setting);

#endif
