/* The command line, read by the table. */
#include "command.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct command_option server_options[] = {
    {.flag = "--server",
     .value = "ADDR:PORT",
     .rule = {.type = TW_VALUE_ADDRESS},
     .default_text = "127.0.0.1:50051",
     .variable = "TRADEWAKE_SERVER",
     .help = "the server to ask"},
    {.flag = "--timeout",
     .value = "TIME",
     .rule = {.type = TW_VALUE_DURATION, .min = 1000000, .max = INT64_C(86400000000000)},
     .default_text = "40s",
     .help = "how long to wait for an answer"},
    {.flag = "--ca",
     .value = "FILE",
     .rule = {.type = TW_VALUE_PATH},
     .variable = "TRADEWAKE_SERVER_CA",
     .help = "speak TLS, and trust a server whose certificate this PEM file's signed"},
    {.flag = "--server-name",
     .value = "NAME",
     .rule = {.type = TW_VALUE_TEXT},
     .variable = "TRADEWAKE_SERVER_NAME",
     .help = "the name expected in its certificate; left out: that of --server"},
    {.flag = "--certificate",
     .value = "FILE",
     .rule = {.type = TW_VALUE_PATH},
     .variable = "TRADEWAKE_CLIENT_CERTIFICATE",
     .help = "show this certificate (PEM); with --key"},
    {.flag = "--key",
     .value = "FILE",
     .rule = {.type = TW_VALUE_PATH},
     .variable = "TRADEWAKE_CLIENT_KEY",
     .help = "the certificate's private key (PEM)"},
    {.flag = "--token-file",
     .value = "FILE",
     .rule = {.type = TW_VALUE_PATH},
     .variable = "TRADEWAKE_TOKEN_FILE",
     .help = "send the token in this file with each call"},
};
static const struct command_option output_options[] = {
    {.flag = "-o",
     .also = "--output",
     .value = "FORMAT",
     .rule = {.type = TW_VALUE_ENUM, .choices = "table|json"},
     .default_text = "table",
     .help = "table or json"},
};
static const struct command_option stream_options[] = {
    {.flag = "--count",
     .value = "N",
     .rule = {.type = TW_VALUE_INT, .min = 1, .max = INT64_MAX},
     .help = "end after so many"},
    {.flag = "--for",
     .value = "TIME",
     .rule = {.type = TW_VALUE_DURATION, .min = 1000000, .max = INT64_C(31536000000000000)},
     .help = "end after so long"},
};
static const struct command_option settings_options[] = {
    {.flag = "--config",
     .value = "FILE",
     .rule = {.type = TW_VALUE_PATH},
     .variable = "TRADEWAKE_CONFIG",
     .help = "the configuration file (YAML)"},
};
static const struct command_option help_option = {
    .flag = "-h",
    .also = "--help",
    .help = "this text",
};

static const struct {
    unsigned shared;
    const struct command_option *options;
    size_t n;
} shared_tables[] = {
    {TAKES_SETTINGS, settings_options, COUNT(settings_options)},
    {TAKES_STREAM, stream_options, COUNT(stream_options)},
    {TAKES_OUTPUT, output_options, COUNT(output_options)},
    {TAKES_SERVER, server_options, COUNT(server_options)},
};

size_t command_options(const struct command *command, const struct command_option *ret[OPTIONS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < command->n_options; i++)
        ret[n++] = &command->options[i];
    for (size_t t = 0; t < COUNT(shared_tables); t++)
        for (size_t i = 0;
             i < shared_tables[t].n && (command->shared & shared_tables[t].shared) != 0; i++)
            ret[n++] = &shared_tables[t].options[i];
    ret[n++] = &help_option;
    assert(n <= OPTIONS_MAX);
    return n;
}

int usage_error(const struct command *command, const char *format, ...)
{
    va_list values;
    fprintf(stderr, "tradewake%s%s: ", command != NULL ? " " : "",
            command != NULL ? command->name : "");
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fprintf(stderr, "\nSee `tradewake %s%s--help`.\n", command != NULL ? command->name : "",
            command != NULL ? " " : "");
    return TW_EXIT_USAGE;
}

/* ---- Which command ---- */

/* How many words of argv are this command's name; 0 = it is another. */
static int name_words(const struct command *command, int argc, char **argv)
{
    const char *at = command->name;
    int words = 0;
    while (*at != '\0') {
        size_t size = strcspn(at, " ");
        if (words == argc || strlen(argv[words]) != size || memcmp(argv[words], at, size) != 0)
            return 0;
        words++;
        at += size + (at[size] == ' ');
    }
    return words;
}

static const struct command *find_command(int argc, char **argv, int *ret_words)
{
    size_t n;
    const struct command *table = commands_table(&n), *best = NULL;
    *ret_words = 0;
    for (size_t i = 0; i < n; i++) {
        int words = name_words(&table[i], argc, argv);
        if (words > *ret_words) {
            best = &table[i];
            *ret_words = words;
        }
    }
    return best;
}

/* "submit" of "submit open", "submit close": words that only begin a command. */
static bool is_group(const char *word)
{
    size_t n, size = strlen(word);
    const struct command *table = commands_table(&n);
    for (size_t i = 0; i < n; i++)
        if (strncmp(table[i].name, word, size) == 0 && table[i].name[size] == ' ')
            return true;
    return false;
}

enum { NAMES_MAX = 128, WORD_BYTES = 24 };

/* What a line may begin with: help, every command, and every command's first word, which may only be a
 * group's. The nearest of them, the first of those that are as near; it stays until the next call. */
static const char *nearest_name(const char *typed)
{
    static char firsts[NAMES_MAX][WORD_BYTES];
    size_t n, used = 0;
    const struct command *table = commands_table(&n);
    const char *names[1 + 2 * NAMES_MAX];
    assert(n <= NAMES_MAX);
    names[used++] = "help";
    for (size_t i = 0; i < n; i++)
        names[used++] = table[i].name;
    for (size_t i = 0; i < n; i++) {
        snprintf(firsts[i], WORD_BYTES, "%.*s", (int)strcspn(table[i].name, " "), table[i].name);
        names[used++] = firsts[i];
    }
    return tw_value_suggest(typed, names, used);
}

static bool unknown_command(int argc, char **argv)
{
    char typed[96];
    bool has_second = argc > 1 && argv[1][0] != '-';
    snprintf(typed, sizeof typed, "%.40s%s%.40s", argv[0], has_second ? " " : "",
             has_second ? argv[1] : "");
    if (!has_second && is_group(argv[0])) {
        usage_error(NULL, "\"%s\" needs one more word", typed);
        help_group(stderr, argv[0]);
        return false;
    }
    const char *near = nearest_name(typed);
    if (near == NULL) {
        snprintf(typed, sizeof typed, "%.40s", argv[0]);
        near = nearest_name(typed);
    }
    usage_error(NULL, "unknown command \"%s\"%s%s%s", typed, near != NULL ? "; did you mean " : "",
                near != NULL ? near : "", near != NULL ? "?" : "");
    return false;
}

/* ---- Flags ---- */

/* Is `word` this flag, alone or with "=value"? */
static bool flag_matches(const char *flag, const char *word, size_t size)
{
    return flag != NULL && strlen(flag) == size && memcmp(flag, word, size) == 0;
}

static const struct command_option *find_option(const struct command *command, const char *word,
                                                size_t size)
{
    const struct command_option *options[OPTIONS_MAX];
    size_t n = command_options(command, options);
    for (size_t i = 0; i < n; i++)
        if (flag_matches(options[i]->flag, word, size) ||
            flag_matches(options[i]->also, word, size))
            return options[i];
    return NULL;
}

static const struct tw_setting *find_setting(const struct command *command, const char *word,
                                             size_t size)
{
    size_t n;
    const struct tw_setting *table = tw_settings_table(&n);
    for (size_t i = 0; i < n && (command->shared & TAKES_SETTINGS) != 0; i++) {
        char flag[TW_SETTING_NAME_BYTES];
        if (flag_matches(tw_setting_flag(&table[i], flag), word, size))
            return &table[i];
    }
    return NULL;
}

static bool unknown_flag(const struct command *command, const char *word, size_t size)
{
    const struct command_option *options[OPTIONS_MAX];
    char flags[TW_SETTINGS_MAX][TW_SETTING_NAME_BYTES], typed[80];
    const char *words[OPTIONS_MAX + TW_SETTINGS_MAX];
    size_t n_settings, n = command_options(command, options), used = 0;
    for (size_t i = 0; i < n; i++)
        words[used++] = options[i]->also != NULL ? options[i]->also : options[i]->flag;
    const struct tw_setting *table = tw_settings_table(&n_settings);
    for (size_t i = 0; i < n_settings && (command->shared & TAKES_SETTINGS) != 0; i++)
        words[used++] = tw_setting_flag(&table[i], flags[i]);
    snprintf(typed, sizeof typed, "%.*s", (int)(size < 60 ? size : 60), word);
    const char *near = tw_value_suggest(typed, words, used);
    usage_error(command, "unknown flag %s%s%s%s", typed, near != NULL ? "; did you mean " : "",
                near != NULL ? near : "", near != NULL ? "?" : "");
    return false;
}

static bool is_bool_word(const char *word)
{
    int64_t ignored;
    return tw_value_parse(&(struct tw_value_rule){.type = TW_VALUE_BOOL}, word, &ignored, NULL) ==
           TW_OK;
}

struct reading {
    int argc;
    char **argv;
    int at;
    struct args *args;
};

/* The value of the flag that stands at `at`: behind "=", or the next word. NULL = there is none. */
static const char *flag_value(struct reading *reading, const char *word)
{
    const char *equals = strchr(word, '=');
    if (equals != NULL)
        return equals + 1;
    return reading->at + 1 < reading->argc ? reading->argv[++reading->at] : NULL;
}

static bool read_setting(struct reading *reading, const struct tw_setting *setting,
                         const char *word)
{
    struct args *args = reading->args;
    const char *text = "true"; /* a bare --reflection */
    bool is_bare =
        setting->rule.type == TW_VALUE_BOOL && strchr(word, '=') == NULL &&
        (reading->at + 1 >= reading->argc || !is_bool_word(reading->argv[reading->at + 1]));
    if (!is_bare)
        text = flag_value(reading, word);
    if (text == NULL) {
        usage_error(args->command, "%s needs a value", word);
        return false;
    }
    if (args->n_settings == GIVEN_MAX) {
        usage_error(args->command, "more than %d flags", GIVEN_MAX);
        return false;
    }
    args->settings[args->n_settings++] = (struct tw_setting_flag){setting->name, text};
    return true;
}

static bool read_option(struct reading *reading, const struct command_option *option,
                        const char *word)
{
    struct args *args = reading->args;
    const char *text = "true";
    struct tw_error error;
    int64_t ignored;
    if (option == &help_option) {
        args->wants_help = true;
        return true;
    }
    if (option->value == NULL && strchr(word, '=') != NULL) {
        usage_error(args->command, "%s takes no value", option->flag);
        return false;
    }
    if (option->value != NULL)
        text = flag_value(reading, word);
    if (text == NULL) {
        usage_error(args->command, "%s needs a value: %s", option->flag, option->value);
        return false;
    }
    if (option->value != NULL && tw_value_parse(&option->rule, text, &ignored, &error) != TW_OK) {
        usage_error(args->command, "flag %s: %s", option->flag, error.text);
        return false;
    }
    if (!option->is_repeated && args_has(args, option->flag)) {
        usage_error(args->command, "%s is given twice", option->flag);
        return false;
    }
    if (args->n_given == GIVEN_MAX) {
        usage_error(args->command, "more than %d flags", GIVEN_MAX);
        return false;
    }
    args->given[args->n_given++] = (struct given){option, text};
    return true;
}

static bool read_flag(struct reading *reading)
{
    const char *word = reading->argv[reading->at];
    const struct command *command = reading->args->command;
    size_t size = strcspn(word, "=");
    const struct command_option *option = find_option(command, word, size);
    if (option != NULL)
        return read_option(reading, option, word);
    const struct tw_setting *setting = find_setting(command, word, size);
    if (setting != NULL)
        return read_setting(reading, setting, word);
    return unknown_flag(command, word, size);
}

static bool read_words(struct reading *reading)
{
    struct args *args = reading->args;
    bool flags_ended = false;
    for (; reading->at < reading->argc; reading->at++) {
        const char *word = reading->argv[reading->at];
        if (!flags_ended && strcmp(word, "--") == 0) {
            flags_ended = true;
        } else if (!flags_ended && word[0] == '-' && word[1] != '\0') {
            if (!read_flag(reading))
                return false;
        } else if (args->n_operands == args->command->n_operands_max) {
            usage_error(args->command, "unexpected \"%s\"", word);
            return false;
        } else {
            args->operands[args->n_operands++] = word;
        }
    }
    return true;
}

/* Everything that has to be there is there, and what the environment brings is good. */
static bool check_given(const struct args *args)
{
    const struct command_option *options[OPTIONS_MAX];
    size_t n = command_options(args->command, options);
    if (args->n_operands < args->command->n_operands_min) {
        usage_error(args->command, "expected %s", args->command->operands);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = args_text(args, options[i]->flag);
        struct tw_error error;
        int64_t ignored;
        if (options[i]->is_required && text == NULL) {
            usage_error(args->command, "expected %s %s", options[i]->flag, options[i]->value);
            return false;
        }
        if (options[i]->variable != NULL && text != NULL &&
            tw_value_parse(&options[i]->rule, text, &ignored, &error) != TW_OK) {
            usage_error(args->command, "environment %s: %s", options[i]->variable, error.text);
            return false;
        }
    }
    return true;
}

bool args_read(int argc, char **argv, struct args *ret)
{
    *ret = (struct args){0};
    bool asks_help = argc > 0 && (strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0 ||
                                  strcmp(argv[0], "-h") == 0);
    if (asks_help) {
        ret->wants_help = true;
        argc--;
        argv++;
    }
    if (argc == 0) {
        ret->wants_help = true;
        return true;
    }
    int words;
    ret->command = find_command(argc, argv, &words);
    /* A request for help is not refused for what else is missing or wrong on the line. */
    for (int i = words; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            ret->wants_help = true;
    if (ret->command == NULL && ret->wants_help && is_group(argv[0])) {
        ret->group = argv[0];
        return true;
    }
    if (ret->command == NULL)
        return unknown_command(argc, argv);

    struct reading reading = {argc, argv, words, ret};
    return ret->wants_help || (read_words(&reading) && check_given(ret));
}

/* ---- What was given ---- */

static const struct command_option *option_of(const struct args *args, const char *flag)
{
    const struct command_option *option = find_option(args->command, flag, strlen(flag));
    assert(option != NULL);
    return option;
}

bool args_has(const struct args *args, const char *flag)
{
    for (size_t i = 0; i < args->n_given; i++)
        if (strcmp(args->given[i].option->flag, flag) == 0)
            return true;
    return false;
}

const char *args_text(const struct args *args, const char *flag)
{
    for (size_t i = args->n_given; i > 0; i--)
        if (strcmp(args->given[i - 1].option->flag, flag) == 0)
            return args->given[i - 1].text;
    const struct command_option *option = option_of(args, flag);
    const char *variable = option->variable != NULL ? getenv(option->variable) : NULL;
    return variable != NULL ? variable : option->default_text;
}

int64_t args_number(const struct args *args, const char *flag)
{
    const char *text = args_text(args, flag);
    int64_t number = 0;
    if (text == NULL)
        return 0;
    tw_status status = tw_value_parse(&option_of(args, flag)->rule, text, &number, NULL);
    assert(status == TW_OK);
    (void)status;
    return number;
}
