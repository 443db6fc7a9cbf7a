/* journal verify, dump, tail, snapshot: what works on the files of a server, also beside it. */
#include "command.h"

#include <stdio.h>
#include <string.h>

static enum tw_cli_journal_task task_of(const char *name)
{
    static const char *const words[] = {
        [TW_CLI_JOURNAL_VERIFY] = "journal verify",
        [TW_CLI_JOURNAL_DUMP] = "journal dump",
        [TW_CLI_JOURNAL_TAIL] = "journal tail",
        [TW_CLI_JOURNAL_SNAPSHOT] = "journal snapshot",
    };
    size_t i = 0;
    while (strcmp(words[i], name) != 0)
        i++;
    return (enum tw_cli_journal_task)i;
}

static bool takes(const struct session *session, const char *flag)
{
    for (size_t i = 0; i < session->command->n_options; i++)
        if (strcmp(session->command->options[i].flag, flag) == 0)
            return true;
    return false;
}

static int64_t number(const struct session *session, const char *flag)
{
    return takes(session, flag) ? args_number(&session->args, flag) : 0;
}

int run_journal(struct session *session)
{
    char dir[2 * TW_VALUE_TEXT_BYTES];
    const char *given = args_text(&session->args, "--dir");
    if (given != NULL)
        snprintf(dir, sizeof dir, "%s", given);
    else
        snprintf(dir, sizeof dir, "%s/journal", args_text(&session->args, "--state-dir"));
    const struct tw_cli_journal wanted = {
        .task = task_of(session->command->name),
        .dir = dir,
        .is_json = session->is_json,
        .from = (uint64_t)number(session, "--from"),
        .count = (uint64_t)number(session, "--count"),
        .follow = takes(session, "--follow") &&
                  (args_has(&session->args, "--follow") || args_has(&session->args, "--for")),
        .for_ns = number(session, "--for"),
        .until = (uint32_t)number(session, "--until"),
        .copies_remembered = (uint32_t)number(session, "--copies-remembered"),
        .events_remembered = (uint32_t)number(session, "--events-remembered"),
        .events_kept_ns = number(session, "--events-kept"),
    };
    return session->host->journal(&wanted);
}
