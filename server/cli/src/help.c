/* Help, written from the tables. */
#include "command.h"

#include <tradewake/wire/descriptors.h>

#include <stdio.h>
#include <string.h>

enum { FLAG_WIDTH = 32, LINE_WIDTH = 100 };

/* `left` in a column, `right` beside it, wrapped. */
static void entry(FILE *out, const char *left, const char *right)
{
    int used = fprintf(out, "  %s", left);
    if (used >= FLAG_WIDTH) {
        fputc('\n', out);
        used = 0;
    }
    fprintf(out, "%*s", FLAG_WIDTH - used, "");
    int column = FLAG_WIDTH;
    while (*right != '\0') {
        size_t word = strcspn(right, " ");
        if (column > FLAG_WIDTH && column + (int)word + 1 > LINE_WIDTH) {
            fprintf(out, "\n%*s", FLAG_WIDTH, "");
            column = FLAG_WIDTH;
        }
        column += fprintf(out, "%s%.*s", column > FLAG_WIDTH ? " " : "", (int)word, right);
        right += word + (right[word] == ' ');
    }
    fputc('\n', out);
}

static void option_entry(FILE *out, const struct command_option *option)
{
    char left[96], right[512], remark[160] = "";
    snprintf(left, sizeof left, "%s%s%s%s%s", option->flag, option->also != NULL ? ", " : "",
             option->also != NULL ? option->also : "", option->value != NULL ? " " : "",
             option->value != NULL ? option->value : "");
    size_t used = 0;
    if (option->is_required)
        used += (size_t)snprintf(remark + used, sizeof remark - used, " (required)");
    if (option->is_repeated)
        used += (size_t)snprintf(remark + used, sizeof remark - used, " (repeatable)");
    if (option->default_text != NULL)
        used += (size_t)snprintf(remark + used, sizeof remark - used, " (default %s)",
                                 option->default_text);
    if (option->variable != NULL)
        snprintf(remark + used, sizeof remark - used, " [%s]", option->variable);
    snprintf(right, sizeof right, "%s%s", option->help, remark);
    entry(out, left, right);
}

static void setting_entry(FILE *out, const struct tw_setting *setting, bool is_dev)
{
    static const char *const values[] = {
        [TW_VALUE_TEXT] = "TEXT", [TW_VALUE_BOOL] = "true|false",
        [TW_VALUE_INT] = "N",     [TW_VALUE_DURATION] = "TIME",
        [TW_VALUE_SIZE] = "SIZE", [TW_VALUE_ADDRESS] = "ADDR:PORT",
        [TW_VALUE_PATH] = "PATH",
    };
    char flag[TW_SETTING_NAME_BYTES], variable[TW_SETTING_NAME_BYTES], left[160], right[512];
    const char *value =
        setting->rule.type == TW_VALUE_ENUM ? setting->rule.choices : values[setting->rule.type];
    const char *preset =
        is_dev && setting->dev_text != NULL ? setting->dev_text : setting->default_text;
    snprintf(left, sizeof left, "%s %s", tw_setting_flag(setting, flag), value);
    snprintf(right, sizeof right, "%s (default %s) [%s]", setting->help,
             preset[0] != '\0' ? preset : "none", tw_setting_variable(setting, variable));
    entry(out, left, right);
}

static void command_entry(FILE *out, const struct command *command)
{
    char left[80];
    snprintf(left, sizeof left, "%s%s%s", command->name, command->operands != NULL ? " " : "",
             command->operands != NULL ? command->operands : "");
    entry(out, left, command->summary);
}

void help_group(FILE *out, const char *group)
{
    size_t n;
    const struct command *table = commands_table(&n);
    fprintf(out, "Commands:\n");
    for (size_t i = 0; i < n; i++)
        if (strncmp(table[i].name, group, strlen(group)) == 0 &&
            table[i].name[strlen(group)] == ' ')
            command_entry(out, &table[i]);
}

void help_overview(FILE *out, const char *version)
{
    size_t n;
    const struct command *table = commands_table(&n);
    fprintf(out,
            "tradewake %s: replicates the orders of a master trading account to its followers\n\n"
            "Usage: tradewake COMMAND [FLAGS]\n\nCommands:\n",
            version);
    for (size_t i = 0; i < n; i++)
        command_entry(out, &table[i]);
    fprintf(out, "\nHelp with one of them: tradewake COMMAND --help\n"
                 "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 nobody answers\n\n"
                 "Try it:\n"
                 "  tradewake dev\n"
                 "  tradewake submit open --master M1 --position 1 --symbol EURUSD --side buy "
                 "--volume 0.10\n");
}

const char *help_json(const struct command *command, char *text, size_t size)
{
    const struct tw_method_type *type = command->method != NULL ? tw_method_type_find(command->method) : NULL;
    if (command->json != NULL || type == NULL) {
        snprintf(text, size, "%s", command->json != NULL ? command->json : "");
        return text;
    }
    const char *list = command->columns != NULL ? answer_list_name(type->output) : NULL;
    const ProtobufCFieldDescriptor *field =
        list != NULL ? protobuf_c_message_descriptor_get_field_by_name(type->output, list) : NULL;
    if (field != NULL)
        snprintf(text, size, "{\"%s\": [%s, ...]}", list, ((const ProtobufCMessageDescriptor *)field->descriptor)->name);
    else
        snprintf(text, size, "one %s", type->output->name);
    return text;
}

void help_command(FILE *out, const struct command *command)
{
    char json[512];
    const struct command_option *options[OPTIONS_MAX];
    size_t n_settings, n = command_options(command, options);
    const struct tw_setting *settings = tw_settings_table(&n_settings);
    fprintf(out, "%s\n\nUsage: tradewake %s%s%s [FLAGS]\n\nFlags:\n", command->summary,
            command->name, command->operands != NULL ? " " : "",
            command->operands != NULL ? command->operands : "");
    for (size_t i = 0; i < n; i++)
        option_entry(out, options[i]);
    if ((command->shared & TAKES_SETTINGS) != 0) {
        fprintf(out, "\nSettings (a flag wins over the variable, that over the file):\n");
        for (size_t i = 0; i < n_settings; i++)
            setting_entry(out, &settings[i], strcmp(command->name, "dev") == 0);
    }
    if (command->notes != NULL)
        fprintf(out, "\n%s\n", command->notes);
    if ((command->shared & TAKES_OUTPUT) != 0)
        fprintf(out, "\nWith -o json: %s\n", help_json(command, json, sizeof json));
    if (command->examples != NULL)
        fprintf(out, "\nExamples:\n%s\n", command->examples);
}
