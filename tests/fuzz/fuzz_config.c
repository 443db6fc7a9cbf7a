/* fuzz_config.c
 * Targets:  tw_settings_apply_yaml, tw_value_parse
 * Property: a file that was accepted, written out again setting by setting, is accepted and means
 * the same; a file that was refused says where. */
#include <tradewake/config/settings.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void write_back(const struct tw_settings *settings, char *text, size_t size)
{
    size_t n, used = 0;
    const struct tw_setting *table = tw_settings_table(&n);
    for (size_t i = 0; i < n; i++) {
        char value[TW_VALUE_TEXT_BYTES];
        used += (size_t)snprintf(text + used, size - used, "%s: '", table[i].name);
        for (const char *at = tw_setting_text(settings, &table[i], value); *at != '\0'; at++)
            used += (size_t)snprintf(text + used, size - used, "%s%c", *at == '\'' ? "'" : "", *at);
        used += (size_t)snprintf(text + used, size - used, "'\n");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct tw_settings first, second;
    static struct tw_config_report report;
    static char text[TW_SETTINGS_MAX * 2 * TW_VALUE_TEXT_BYTES];

    report = (struct tw_config_report){0};
    tw_settings_defaults(false, &first);
    tw_settings_apply_yaml("F", (const char *)bytes, size, &first, &report);
    if (report.n_errors > 0) {
        assert(strncmp(report.problems[0].text, "F:", 2) == 0);
        return 0;
    }
    write_back(&first, text, sizeof text);
    tw_settings_defaults(false, &second);
    tw_settings_apply_yaml("G", text, strlen(text), &second, &report);
    if (report.n_errors > 0) {
        fprintf(stderr, "%s\nin\n%s\n", report.problems[0].text, text);
        abort();
    }
    size_t n;
    const struct tw_setting *table = tw_settings_table(&n);
    for (size_t i = 0; i < n; i++) {
        char a[TW_VALUE_TEXT_BYTES], b[TW_VALUE_TEXT_BYTES];
        if (strcmp(tw_setting_text(&first, &table[i], a), tw_setting_text(&second, &table[i], b)) !=
            0) {
            fprintf(stderr, "%s: %s became %s\n", table[i].name, a, b);
            abort();
        }
    }
    return 0;
}
