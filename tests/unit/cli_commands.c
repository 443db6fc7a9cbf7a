/* cli_commands.c - the command line: what is refused and how it is said, help, and what works
 * without a server. */
#include <tradewake/cli/cli.h>

#include "command.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tw_settings served;
static int served_times, served_dev;

static int fake_serve(const struct tw_cli_serving *serving)
{
    served = *serving->settings;
    served_dev = serving->is_dev;
    served_times++;
    return 0;
}

static struct tw_cli_journal asked;
static char asked_dir[256];

static int fake_journal(const struct tw_cli_journal *wanted)
{
    asked = *wanted;
    snprintf(asked_dir, sizeof asked_dir, "%s", wanted->dir);
    return 1;
}

static struct tw_cli_audit asked_audit;
static int fake_adapter_check(const struct tw_cli_adapter_check *wanted)
{
    (void)wanted;
    return TW_EXIT_DONE;
}

static int fake_audit(const struct tw_cli_audit *wanted)
{
    asked_audit = *wanted;
    cr_expect_str_eq(wanted->who, "ops");
    cr_expect_str_eq(wanted->method, "Halt");
    cr_expect_str_eq(wanted->state_dir, "/s");
    return 0;
}

struct outcome {
    int code;
    char out[16384], err[16384];
};

static void read_back(FILE *file, char *text, size_t size)
{
    rewind(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* Runs a command line, words separated by single blanks, and keeps what it printed. */
static struct outcome run(const char *line)
{
    static struct outcome outcome;
    char words[512], *argv[32] = {(char[]){"tradewake"}}, *rest = words;
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " "))
        if (*word != '\0')
            argv[argc++] = word;
    argv[argc] = NULL;

    FILE *out = tmpfile(), *err = tmpfile();
    fflush(NULL);
    int old_out = dup(STDOUT_FILENO), old_err = dup(STDERR_FILENO);
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    outcome.code = tw_cli_run(&(struct tw_cli_host){"9.9.9", fake_serve, fake_journal, fake_audit, NULL, fake_adapter_check, NULL}, argc, argv);
    fflush(NULL);
    dup2(old_out, STDOUT_FILENO);
    dup2(old_err, STDERR_FILENO);
    close(old_out);
    close(old_err);
    read_back(out, outcome.out, sizeof outcome.out);
    read_back(err, outcome.err, sizeof outcome.err);
    return outcome;
}

/* clang-format off */
static const struct {
    const char *line, *expected; /* the beginning of standard error */
} wrong[] = {
    {"submt open", "tradewake: unknown command \"submt open\"; did you mean submit open?"},
    {"subimt", "tradewake: unknown command \"subimt\"; did you mean submit?"},
    {"halp", "tradewake: unknown command \"halp\"; did you mean help?"},
    {"hlep submit", "tradewake: unknown command \"hlep\"; did you mean help?"},
    {"follower", "tradewake: unknown command \"follower\"; did you mean followers?"},
    {"submit", "tradewake: \"submit\" needs one more word"},
    {"journal", "tradewake: \"journal\" needs one more word"},
    {"journal tial", "tradewake: unknown command \"journal tial\"; did you mean journal tail?"},
    {"journal dump --from 0", "tradewake journal dump: flag --from: found \"0\""},
    {"journal snapshot", "tradewake journal snapshot: expected --until SEGMENT"},
    {"config", "tradewake: \"config\" needs one more word"},
    {"zzz", "tradewake: unknown command \"zzz\"\n"},
    {"submit open --master M1", "tradewake submit open: expected --position ID"},
    {"submit close --master", "tradewake submit close: --master needs a value: ID"},
    {"submit close --mastr M1", "tradewake submit close: unknown flag --mastr; did you mean --master?"},
    {"submit close --master M1 --position 1 extra", "tradewake submit close: unexpected \"extra\""},
    {"submit close --master M1 --position 1 --position 2", "tradewake submit close: --position is given twice"},
    {"submit close --master M1 --position 1 --wait long", "tradewake submit close: flag --wait: found \"long\", expected done, sent or accepted"},
    {"submit open --master M1 --position 1 --symbol A --side up --volume 1", "tradewake submit open: flag --side: event.open.side: found \"up\", expected one of BUY, SELL"},
    {"submit open --master M1 --position 1 --symbol A --side buy --volume 1 --magic x", "tradewake submit open: flag --magic: event.open.magic: found \"x\""},
    {"submit close --master M1 --position 1 --field account=1", "tradewake submit close: flag --field: event.account: TradeEvent has no field \"account\""},
    {"submit close --master M1 --position 1 --field nothing", "tradewake submit close: flag --field: found \"nothing\", expected PATH=VALUE"},
    {"submit open --increase=yes", "tradewake submit open: --increase takes no value"},
    {"copies get", "tradewake copies get: expected COPY_ID"},
    {"copies --state lost", "tradewake copies: flag --state: filter.states: found \"lost\""},
    {"copies -o xml", "tradewake copies: flag -o: found \"xml\", expected table or json"},
    {"copies --watch --slowest", "tradewake copies: --slowest goes without --watch"},
    {"dev --dashboard-listen 127.0.0.1:0", "tradewake dev: --dashboard-listen goes with --dashboard"},
    {"dev --dashbord", "tradewake dev: unknown flag --dashbord; did you mean --dashboard?"},
    {"copies --count 0", "tradewake copies: flag --count: found \"0\""},
    {"watch --window 5s", "tradewake watch: --window goes with --summary"},
    {"followers mode F1", "tradewake followers mode: expected FOLLOWER_ID MODE"},
    {"health --server nowhere", "tradewake health: flag --server: found \"nowhere\", expected an address"},
    {"serve --executor-threads many", "tradewake: flag --executor-threads: found \"many\", expected a whole number"},
    {"serve --executor-thread 5", "tradewake serve: unknown flag --executor-thread; did you mean --executor-threads?"},
    {"serve --config /nonexistent.yaml", "tradewake: /nonexistent.yaml: cannot read the configuration"},
    {"check --config /nonexistent.yaml", "tradewake: /nonexistent.yaml: cannot read the configuration"},
    {"explain", "tradewake: \"explain\" needs one more word"},
    {"explain open --master M1", "tradewake explain open: expected --position ID"},
    {"explain close --master M1 --position 1 --wait done", "tradewake explain close: unknown flag --wait"},
    {"sync", "tradewake sync: expected --master ID"},
    {"sync --master M1", "tradewake sync: names neither a position nor an order, which closes everything: --empty"},
    {"sync --master M1 --empty --position position_id=1", "tradewake sync: --empty does not go with positions"},
    {"sync --master M1 --position side=up", "tradewake sync: flag --position: positions: found \"up\""},
    {"sync --master M1 --position 1", "tradewake sync: flag --position: positions: found \"1\", expected NAME=VALUE"},
    {"sync --master M1 --file /dev/null", "tradewake sync: /dev/null:1:1: the text ends, expected an object"},
    {"replay", "tradewake replay: expected FILE"},
    {"replay /nonexistent.csv --master M1", "tradewake: cannot read /nonexistent.csv: No such file or directory"},
    {"replay /dev/null --master M1", "tradewake: /dev/null:1:1: the file is empty"},
};
/* clang-format on */

Test(cli_commands, a_wrong_command_line_ends_with_two_and_says_what_was_meant)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct outcome outcome = run(wrong[i].line);

        cr_expect_eq(outcome.code, TW_EXIT_USAGE, "%s ended with %d", wrong[i].line, outcome.code);
        cr_expect_eq(strncmp(outcome.err, wrong[i].expected, strlen(wrong[i].expected)), 0,
                     "%s: \"%s\", expected \"%s\"", wrong[i].line, outcome.err, wrong[i].expected);
        cr_expect_str_eq(outcome.out, "", "%s printed to standard output", wrong[i].line);
    }
    cr_expect_eq(served_times, 0);
}

Test(cli_commands, nobody_there_is_three)
{
    /* A port that was free a moment ago; nothing of ours listens on it. */
    struct outcome outcome = run("health --server 127.0.0.1:1 --timeout 5s");
    cr_expect_eq(outcome.code, TW_EXIT_UNREACHABLE);
    cr_expect_not_null(strstr(outcome.err, "nobody answers at 127.0.0.1:1"), "%s", outcome.err);

    outcome = run("followers -o json --server 127.0.0.1:1");
    cr_expect_eq(outcome.code, TW_EXIT_UNREACHABLE);
    cr_expect_str_eq(outcome.out, "", "half a document: %s", outcome.out);
    cr_expect_eq(strncmp(outcome.err, "{\"error\":{\"code\":\"UNAVAILABLE\",", 31), 0, "%s",
                 outcome.err);
}

Test(cli_commands, serve_and_dev_get_the_settings_of_their_flags)
{
    struct outcome outcome =
        run("serve --listen 127.0.0.1:5 --reflection=false --executor-pinned false --paper-control");
    cr_expect_eq(outcome.code, TW_EXIT_DONE, "%s", outcome.err);
    cr_expect_eq(served_times, 1);
    cr_expect_not(served_dev);
    cr_expect_str_eq(served.listen, "127.0.0.1:5");
    cr_expect_not(served.reflection);
    cr_expect_not(served.executor_pinned);
    cr_expect(served.paper_control, "a bare flag of yes and no means yes");

    outcome = run("dev --admin off");
    cr_expect_eq(outcome.code, TW_EXIT_DONE, "%s", outcome.err);
    cr_expect(served_dev);
    cr_expect_str_eq(served.admin, "off");
    cr_expect_eq(served.metrics_warm_up_ns, 0);
}

Test(cli_commands, every_command_has_help_and_every_flag_is_in_it)
{
    size_t n;
    const struct command *table = commands_table(&n);
    for (size_t i = 0; i < n; i++) {
        char line[128];
        snprintf(line, sizeof line, "%s --help", table[i].name);
        struct outcome outcome = run(line);

        cr_expect_eq(outcome.code, TW_EXIT_DONE, "%s", line);
        cr_expect_not_null(strstr(outcome.out, table[i].summary), "%s", line);
        cr_expect_null(strstr(table[i].summary, "The same"), "%s: the same as what?", line);
        for (size_t option = 0; option < table[i].n_options; option++)
            cr_expect_not_null(strstr(outcome.out, table[i].options[option].flag), "%s: %s", line,
                               table[i].options[option].flag);
        cr_expect_str_eq(outcome.err, "", "%s", line);
        cr_expect_not_null(table[i].examples, "%s has no example", table[i].name);
        snprintf(line, sizeof line, "  tradewake %s", table[i].name);
        cr_expect(table[i].examples == NULL || strstr(table[i].examples, line) != NULL || table[i].run == run_completion,
                  "%s: examples of something else", table[i].name);
        char json[512];
        if ((table[i].shared & TAKES_OUTPUT) != 0)
            cr_expect_neq(help_json(&table[i], json, sizeof json)[0], '\0', "%s: what does -o json print?", table[i].name);
    }
    struct outcome overview = run("--help");
    for (size_t i = 0; i < n; i++)
        cr_expect_not_null(strstr(overview.out, table[i].name), "%s is not in the overview",
                           table[i].name);
    cr_expect_eq(run("").code, TW_EXIT_USAGE);
    cr_expect_eq(run("submit --help").code, TW_EXIT_DONE);
    cr_expect_not_null(strstr(run("help submit").out, "submit trigger"));
    cr_expect_eq(run("help followers create").code, TW_EXIT_DONE);
}

/* A field that a row of the table names and the contract does not have would only be seen in use.
 */
Test(cli_commands, every_field_in_the_table_is_in_the_contract)
{
    size_t n;
    const struct command *table = commands_table(&n);
    for (size_t i = 0; i < n; i++) {
        struct session session = {.command = &table[i]};
        ProtobufCMessage *request;
        if (table[i].method == NULL || table[i].run == run_replay)
            continue;
        tw_arena_init(&session.arena, 1 << 20);
        session.args.command = &table[i];
        for (size_t option = 0; option < table[i].n_options; option++) {
            const struct command_option *row = &table[i].options[option];
            struct tw_error error = {0};
            if (row->field == NULL || strchr(row->field, '*') != NULL)
                continue;
            cr_assert_eq(session_request(&session, table[i].method, &request), TW_EXIT_DONE);
            tw_status status = tw_fields_set(request, row->field, "1", &session.arena, &error);
            cr_expect(status == TW_OK ||
                      error.text[0] != '\0'); /* "1" is not a value for every field */
            cr_expect_null(strstr(error.text, "has no field"), "%s %s: %s", table[i].name,
                           row->flag, error.text);
        }
        for (const struct column *column = table[i].columns;
             column != NULL && column->title != NULL; column++)
            cr_expect_not_null(column->path, "%s: %s", table[i].name, column->title);
        tw_arena_clear(&session.arena);
    }
}

Test(cli_commands, an_update_names_what_its_flags_changed)
{
    size_t n;
    const struct command *table = commands_table(&n);
    char *argv[] = {(char[]){"followers"},
                    (char[]){"update"},
                    (char[]){"F1"},
                    (char[]){"--mode"},
                    (char[]){"paused"},
                    (char[]){"--field"},
                    (char[]){"risk.max_order_volume=5"},
                    (char[]){"--set"},
                    (char[]){"a=b"}};
    struct session session = {0};
    ProtobufCMessage *request;
    char text[128];
    tw_arena_init(&session.arena, 1 << 20);
    cr_assert(args_read(9, argv, &session.args));
    session.command = session.args.command;
    cr_assert_str_eq(session.command->name, "followers update");

    cr_assert_eq(session_request(&session, session.command->method, &request), TW_EXIT_DONE);

    cr_expect_str_eq(
        tw_fields_text(request, "update_mask.paths", TW_FIELD_PLAIN, text, sizeof text),
        "mode,risk.max_order_volume,adapter_config");
    cr_expect_str_eq(
        tw_fields_text(request, "follower.follower_id", TW_FIELD_PLAIN, text, sizeof text), "F1");
    cr_expect_str_eq(tw_fields_text(request, "follower.risk.max_order_volume", TW_FIELD_PLAIN, text,
                                    sizeof text),
                     "5");
    tw_arena_clear(&session.arena);
    (void)table;
}

Test(cli_commands, the_reference_is_a_configuration_that_check_accepts)
{
    char path[] = "/tmp/cli_reference_XXXXXX", line[128];
    struct outcome outcome = run("config reference");
    cr_assert_eq(outcome.code, TW_EXIT_DONE);
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, outcome.out, strlen(outcome.out)), (ssize_t)strlen(outcome.out));
    close(fd);

    snprintf(line, sizeof line, "check --config %s", path);
    outcome = run(line);

    unlink(path);
    cr_expect_eq(outcome.code, TW_EXIT_DONE, "%s", outcome.err);
    size_t n;
    tw_settings_table(&n);
    char expected[64];
    snprintf(expected, sizeof expected, "%zu of %zu settings given", n, n);
    cr_expect_not_null(strstr(outcome.out, expected), "%s", outcome.out);
}

Test(cli_commands, config_show_tells_where_each_value_came_from)
{
    struct outcome outcome = run("config show --rpc-threads 2");
    cr_expect_not_null(strstr(outcome.out, "flag --rpc-threads"), "%s", outcome.out);
    cr_expect_null(strstr(outcome.out, "listen"), "only what is not a default: %s", outcome.out);

    outcome = run("config show --effective -o json --rpc-threads 2");
    cr_expect_not_null(
        strstr(outcome.out,
               "{\"name\":\"rpc.threads\",\"value\":\"2\",\"origin\":\"flag --rpc-threads\"}"),
        "%s", outcome.out);
    cr_expect_not_null(
        strstr(outcome.out,
               "{\"name\":\"listen\",\"value\":\"127.0.0.1:50051\",\"origin\":\"default\"}"),
        "%s", outcome.out);
}

Test(cli_commands, a_dry_run_prints_the_events_and_asks_nobody)
{
    char line[512];
    snprintf(line, sizeof line,
             "replay %s/mql5_positions.csv --master M1 --run two --dry-run --server 127.0.0.1:1",
             TW_FIXTURES);

    struct outcome outcome = run(line);

    cr_expect_eq(outcome.code, TW_EXIT_DONE, "%s", outcome.err);
    cr_expect_not_null(strstr(outcome.out, "-two-4-partial-close\",\"master_id\":\"M1\""), "%s",
                       outcome.out);
    cr_expect_not_null(
        strstr(outcome.out, ".row4.two\",\"volume\":\"0.01\",\"remaining_volume\":\"0.03\""), "%s",
        outcome.out);
    size_t lines = 0;
    for (const char *at = outcome.out; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    cr_expect_eq(lines, 6);
}

/* ---- audit ---- */

Test(cli_commands, audit_asks_for_what_the_flags_say)
{
    cr_expect_eq(run("audit --state-dir /s --who ops --method Halt --since 1h --refused -o json").code, 0);

    cr_expect(asked_audit.is_json && asked_audit.refused);
    cr_expect_gt(asked_audit.from_wall_ns, 0, "an hour ago");
}

/* ---- journal ---- */

Test(cli_commands, journal_commands_ask_for_what_the_flags_say)
{
    unsetenv("TRADEWAKE_STATE_DIR");
    cr_expect_eq(run("journal verify").code, 1, "the exit code is the journal's");
    cr_expect_eq(asked.task, TW_CLI_JOURNAL_VERIFY);
    cr_expect_str_eq(asked_dir, "/var/lib/tradewake/journal");

    run("journal dump --state-dir ./state --from 100 --count 20 -o json");
    cr_expect_eq(asked.task, TW_CLI_JOURNAL_DUMP);
    cr_expect_str_eq(asked_dir, "./state/journal");
    cr_expect(asked.from == 100 && asked.count == 20 && asked.is_json);

    run("journal dump --dir /x");
    cr_expect_str_eq(asked_dir, "/x");
    cr_expect(asked.from == 0 && asked.count == 0 && !asked.is_json);

    run("journal tail --dir /x");
    cr_expect(asked.task == TW_CLI_JOURNAL_TAIL && asked.count == 10 && !asked.follow && asked.for_ns == 0);
    run("journal tail --dir /x --for 3s");
    cr_expect(asked.follow && asked.for_ns == INT64_C(3000000000));
    run("journal tail --dir /x --follow --count 5");
    cr_expect(asked.follow && asked.for_ns == 0 && asked.count == 5);

    run("journal snapshot --dir /x --until 12");
    cr_expect(asked.task == TW_CLI_JOURNAL_SNAPSHOT && asked.until == 12);
    cr_expect(asked.copies_remembered == 200000 && asked.events_remembered == 1000000, "as the settings");
    cr_expect_eq(asked.events_kept_ns, INT64_C(7) * 24 * 3600 * 1000000000);
}

Test(cli_commands, the_state_directory_may_be_a_variable)
{
    setenv("TRADEWAKE_STATE_DIR", "/srv/tw", 1);
    run("journal verify");
    cr_expect_str_eq(asked_dir, "/srv/tw/journal");
}
