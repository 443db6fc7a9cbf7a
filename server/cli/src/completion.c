/* completion: what a shell offers after `tradewake`, written from the table of commands. */
#include "command.h"

#include <stdio.h>
#include <string.h>

/* One flag of a command, whichever table it is from. */
struct offered {
    const char *flag, *also, *help;
    const char *choices; /* "table|json"; NULL = none */
    bool takes_value, is_file;
};

typedef void each_flag(void *context, const struct offered *offered);

static bool is_file_name(const char *value)
{
    return value != NULL && (strcmp(value, "FILE") == 0 || strcmp(value, "DIR") == 0 ||
                             strcmp(value, "FOLDER") == 0);
}

static void option_offer(const struct command_option *option, each_flag *each, void *context)
{
    const struct offered offered = {
        .flag = option->flag,
        .also = option->also,
        .help = option->help,
        .choices = option->rule.type == TW_VALUE_ENUM ? option->rule.choices : NULL,
        .takes_value = option->value != NULL,
        .is_file = option->rule.type == TW_VALUE_PATH || is_file_name(option->value),
    };
    each(context, &offered);
}

static void setting_offer(const struct tw_setting *setting, each_flag *each, void *context)
{
    char flag[TW_SETTING_NAME_BYTES];
    const struct offered offered = {
        .flag = tw_setting_flag(setting, flag),
        .help = setting->help,
        .choices = setting->rule.type == TW_VALUE_ENUM   ? setting->rule.choices
                   : setting->rule.type == TW_VALUE_BOOL ? "true|false"
                                                         : NULL,
        .takes_value = true,
        .is_file = setting->rule.type == TW_VALUE_PATH,
    };
    each(context, &offered);
}

static void flags_each(const struct command *command, each_flag *each, void *context)
{
    const struct command_option *options[OPTIONS_MAX];
    size_t n_settings, n = command_options(command, options);
    const struct tw_setting *settings = tw_settings_table(&n_settings);
    for (size_t i = 0; i < n; i++)
        option_offer(options[i], each, context);
    if ((command->shared & TAKES_SETTINGS) == 0)
        return;
    for (size_t i = 0; i < n_settings; i++)
        setting_offer(&settings[i], each, context);
}

static void put_choices(const char *choices)
{
    for (; *choices != '\0'; choices++)
        putchar(*choices == '|' ? ' ' : *choices);
}

/* The first words of all names, or the second words of those that begin with `group`. */
static void put_words(const char *group)
{
    size_t n, length = group != NULL ? strlen(group) : 0;
    const struct command *table = commands_table(&n);
    const char *last = "";
    for (size_t i = 0; i < n; i++) {
        const char *word = table[i].name;
        if (group != NULL && (strncmp(word, group, length) != 0 || word[length] != ' '))
            continue;
        word += group != NULL ? length + 1 : 0;
        size_t size = strcspn(word, " ");
        if (strcspn(last, " ") == size && strncmp(last, word, size) == 0)
            continue; /* names with the same first word stand together */
        printf("%.*s ", (int)size, word);
        last = word;
    }
}

/* Calls each once for every first word that has second words. */
static void groups_each(void (*each)(const char *group))
{
    size_t n;
    const struct command *table = commands_table(&n);
    char done[64] = "";
    for (size_t i = 0; i < n; i++) {
        size_t size = strcspn(table[i].name, " ");
        if (table[i].name[size] == '\0' || size >= sizeof done ||
            (strlen(done) == size && strncmp(done, table[i].name, size) == 0))
            continue;
        snprintf(done, sizeof done, "%.*s", (int)size, table[i].name);
        each(done);
    }
}

/* ---- bash, and zsh, which can read it ---- */

static void bash_flag(void *context, const struct offered *offered)
{
    (void)context;
    printf("%s %s%s", offered->flag, offered->also != NULL ? offered->also : "",
           offered->also != NULL ? " " : "");
}

static void bash_value(void *context, const struct offered *offered)
{
    const char *name = context;
    if (!offered->takes_value)
        return;
    printf("        '%s %s'", name, offered->flag);
    if (offered->also != NULL)
        printf(" | '%s %s'", name, offered->also);
    printf(") ");
    if (offered->choices != NULL) {
        printf("values='");
        put_choices(offered->choices);
        printf("' ;;\n");
    } else {
        printf("values=%s ;;\n", offered->is_file ? "FILES" : "ANY");
    }
}

static void bash_group(const char *group)
{
    printf("        '%s') seconds='", group);
    put_words(group);
    printf("' ;;\n");
}

static void bash_script(void)
{
    size_t n;
    const struct command *table = commands_table(&n);
    printf(
        "# What bash offers after `tradewake`. To use it now: source <(tradewake completion bash)\n"
        "_tradewake() {\n"
        "    local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD - 1]}\"\n"
        "    local first='' second='' name='' flags='' seconds='' values=''\n"
        "    [ \"$COMP_CWORD\" -lt 2 ] || first=\"${COMP_WORDS[1]}\"\n"
        "    [ \"$COMP_CWORD\" -lt 3 ] || second=\"${COMP_WORDS[2]}\"\n"
        "    COMPREPLY=()\n"
        "    if [ -z \"$first\" ]; then\n"
        "        COMPREPLY=($(compgen -W '");
    put_words(NULL);
    printf("help' -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    name=\"$first\"\n"
           "    case \"$first $second\" in\n");
    for (size_t i = 0; i < n; i++)
        if (strchr(table[i].name, ' ') != NULL)
            printf("        '%s') name=\"$first $second\" ;;\n", table[i].name);
    printf("    esac\n    case \"$name\" in\n");
    for (size_t i = 0; i < n; i++) {
        printf("        '%s') flags='", table[i].name);
        flags_each(&table[i], bash_flag, NULL);
        printf("' ;;\n");
    }
    printf("    esac\n    [ \"$COMP_CWORD\" -ne 2 ] || case \"$first\" in\n");
    groups_each(bash_group);
    printf("    esac\n    case \"$name $previous\" in\n");
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", table[i].name);
        flags_each(&table[i], bash_value, name);
    }
    printf("    esac\n"
           "    case \"$values\" in\n"
           "        ANY) ;;\n"
           "        FILES) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
           "        ?*) COMPREPLY=($(compgen -W \"$values\" -- \"$word\")) ;;\n"
           "        *) COMPREPLY=($(compgen -W \"$seconds $flags\" -- \"$word\")) ;;\n"
           "    esac\n"
           "}\n"
           "complete -F _tradewake tradewake\n");
}

static void zsh_script(void)
{
    printf(
        "# What zsh offers after `tradewake`. To use it now: source <(tradewake completion zsh)\n"
        "autoload -Uz compinit bashcompinit\n"
        "(( $+functions[compdef] )) || compinit\n"
        "bashcompinit\n");
    bash_script();
}

/* ---- fish ---- */

static void put_fish_text(const char *text)
{
    for (; *text != '\0'; text++)
        printf("%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
}

static void fish_flag(void *context, const struct offered *offered)
{
    const char *name = context;
    const char *const flags[] = {offered->flag, offered->also};
    printf("complete -c tradewake -n '__tradewake_is \"%s\"'", name);
    for (size_t i = 0; i < COUNT(flags); i++) {
        if (flags[i] == NULL)
            continue;
        bool is_long = flags[i][1] == '-';
        printf(" %s %s", is_long ? "-l" : "-s", flags[i] + (is_long ? 2 : 1));
    }
    if (offered->takes_value)
        printf(offered->is_file ? " -r -F" : " -x");
    if (offered->choices != NULL) {
        printf(" -a '");
        put_choices(offered->choices);
        putchar('\'');
    }
    printf(" -d '");
    put_fish_text(offered->help);
    printf("'\n");
}

static void fish_script(void)
{
    size_t n;
    const struct command *table = commands_table(&n);
    printf(
        "# What fish offers after `tradewake`. To use it now: tradewake completion fish | source\n"
        "function __tradewake_is\n"
        "    set -l words (commandline -opc)\n"
        "    set -l name \"$words[2]\"\n"
        "    contains -- \"$words[2] $words[3]\"");
    for (size_t i = 0; i < n; i++)
        if (strchr(table[i].name, ' ') != NULL)
            printf(" '%s'", table[i].name);
    printf("; and set name \"$words[2] $words[3]\"\n"
           "    test \"$name\" = \"$argv[1]\"\n"
           "end\n"
           "complete -c tradewake -f\n");
    for (size_t i = 0; i < n; i++) {
        const char *space = strchr(table[i].name, ' ');
        if (space == NULL)
            printf("complete -c tradewake -n '__tradewake_is \"\"' -a %s -d '", table[i].name);
        else
            printf("complete -c tradewake -n '__tradewake_is \"%.*s\"' -a %s -d '",
                   (int)(space - table[i].name), table[i].name, space + 1);
        put_fish_text(table[i].summary);
        printf("'\n");
        if (space != NULL) /* a group that is no command of its own is offered, too */
            printf("complete -c tradewake -n '__tradewake_is \"\"' -a %.*s\n",
                   (int)(space - table[i].name), table[i].name);
        char name[64];
        snprintf(name, sizeof name, "%s", table[i].name);
        flags_each(&table[i], fish_flag, name);
    }
}

int run_completion(struct session *session)
{
    static const struct {
        const char *shell;
        void (*write)(void);
    } shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    const char *wanted = session->args.operands[0];
    for (size_t i = 0; i < COUNT(shells); i++) {
        if (strcmp(shells[i].shell, wanted) != 0)
            continue;
        shells[i].write();
        return TW_EXIT_DONE;
    }
    return usage_error(session->command, "found shell \"%s\", expected bash, zsh or fish", wanted);
}
