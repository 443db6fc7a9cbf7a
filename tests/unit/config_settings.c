/* config_settings.c - the settings table: where values come from, and what is said when they are
 * wrong. */
#include <tradewake/config/settings.h>

#include <tradewake/base/clock.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tw_settings settings;
static struct tw_config_report report;

static void apply(const char *text)
{
    report = (struct tw_config_report){0};
    tw_settings_defaults(false, &settings);
    tw_settings_apply_yaml("F", text, strlen(text), &settings, &report);
}

/* clang-format off */
static const struct {
    const char *name, *text, *expected; /* the first problem, from its beginning */
} bad[] = {
    {"unknown key", "lisen: 1.2.3.4:5\n", "F:1:1: unknown setting \"lisen\"; did you mean listen?"},
    {"unknown key in a section", "log:\n  levle: info\n", "F:2:3: unknown setting \"log.levle\"; did you mean log.level?"},
    {"a key outside its section", "threads_max: 5\n", "F:1:1: unknown setting \"threads_max\"; did you mean executor.threads_max?"},
    {"nothing near", "zzz: 1\n", "F:1:1: unknown setting \"zzz\""},
    {"a number that is none", "executor:\n  threads: many\n", "F:2:12: executor.threads: found \"many\", expected a whole number from 0 to 65536"},
    {"a number too large", "executor:\n  threads: 65537\n", "F:2:12: executor.threads: found \"65537\""},
    {"a duration without unit", "metrics:\n  warm_up: 10\n", "F:2:12: metrics.warm_up: found \"10\", expected a duration"},
    {"a word that is no choice", "log:\n  level: verbose\n", "F:2:10: log.level: found \"verbose\", expected debug, info, warn, error or none"},
    {"an address without port", "listen: 127.0.0.1\n", "F:1:9: listen: found \"127.0.0.1\", expected an address"},
    {"nothing behind a key", "listen:\n", "F:1:8: listen: found nothing, expected an address"},
    {"a list", "listen: [a, b]\n", "F:1:9: listen: found a list, expected an address"},
    {"a value for a section", "log: info\n", "F:1:6: log: found a value, expected a mapping with level, format"},
    {"a mapping for a value", "listen:\n  host: a\n", "F:2:3: listen: found a mapping, expected an address"},
    {"twice", "listen: 1.2.3.4:5\nlisten: 1.2.3.4:6\n", "F:2:1: listen is given twice, first at 1:9; keep one"},
    {"twice, once dotted", "log.level: info\nlog:\n  level: warn\n", "F:3:3: log.level is given twice, first at 1:12"},
    {"not YAML", "listen: [\n", "F:2:1: not YAML: "},
    {"a tab", "log:\n\tlevel: info\n", "F:2:1: not YAML: "},
    {"not UTF-8", "listen: \xff\n", "F:1:9: not YAML: "},
    {"a list at the top", "- a\n", "F:1:1: found a list, expected \"name: value\" lines"},
    {"a key that is a list", "[a]: b\n", "F:1:1: found a list as a key"},
    {"two documents", "listen: 1.2.3.4:5\n---\nlisten: 1.2.3.4:5\n", "F:3:1: found a second document"},
    {"plugins that are no mapping", "plugins: [a]\n", "F:1:10: plugins: found a list, expected a mapping"},
    {"a plugin's name", "plugins:\n  A B: {library: /a, in_process: true}\n", "F:2:3: plugins: found \"A B\", expected a name"},
    {"a plugin that is a path", "plugins:\n  a: /a.so\n", "F:2:3: plugins: found \"a\", expected a mapping with library"},
    {"a plugin without a library", "plugins:\n  a: {in_process: true}\n", "F:2:3: plugins.a has no library"},
    {"a library that is looked for", "plugins:\n  a: {library: a.so, in_process: true}\n", "F:2:16: plugins.a.library: found \"a.so\", expected a path from the root"},
    {"a plugin's wrong key", "plugins:\n  a: {library: /a.so, in_process: true, inprocess: yes}\n", "F:2:52: plugins.a.inprocess: unknown"},
    {"a plugin twice", "plugins:\n  a: {library: /a.so, in_process: true}\n  a: {library: /a.so, in_process: true}\n", "F:3:3: plugins: found \"a\", expected each plugin once"},
    {"a bridge in plain text to elsewhere", "bridges: {a: {address: '10.0.0.1:5'}}\n", "F:1:14: bridges.a: found 10.0.0.1:5 without ca"},
    {"a bridge without an address", "bridges: {a: {ca: x.pem}}\n", "F:1:14: bridges.a: address is missing"},
    {"a bridge's unknown setting", "bridges:\n  a: {address: 'unix:/x', adress: y}\n", "F:2:35: bridges.a: unknown setting \"adress\" of a bridge"},
    {"a bridge's name that is none", "bridges: {'a b': {address: 'unix:/x'}}\n", "F:1:11: bridges.a b: found \"a b\" as a bridge's name"},
    {"a bridge twice", "bridges:\n  a: {address: 'unix:/x'}\n  a: {address: 'unix:/y'}\n", "F:3:3: bridges.a: bridge a is given twice"},
    {"an alias that is a ring", "log: &a\n  log: *a\n", "F:2:3: unknown setting \"log.log\""},
};
/* clang-format on */

Test(config_settings, plugins_are_taken_from_the_file)
{
    apply("plugins:\n  mt4-a: {library: /opt/a.so, in_process: true}\n  b: {library: /opt/b.so}\n");

    cr_expect_eq(report.n, 0, "%s", report.problems[0].text);
    cr_assert_eq(settings.n_plugins, 2);
    cr_expect_str_eq(settings.plugins[0].name, "mt4-a");
    cr_expect_str_eq(settings.plugins[0].library, "/opt/a.so");
    cr_expect(settings.plugins[0].in_process);
    cr_expect_not(settings.plugins[1].in_process, "a process of its own, unless somebody says otherwise");
    cr_expect_eq(settings.plugins[1].line, 3);
    cr_expect_str_eq(settings.plugins[1].library, "/opt/b.so");
}

Test(config_settings, what_is_wrong_in_the_file_is_named_with_line_and_column)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        apply(bad[i].text);

        cr_expect_gt(report.n_errors, 0, "%s was accepted", bad[i].name);
        cr_expect_eq(strncmp(report.problems[0].text, bad[i].expected, strlen(bad[i].expected)), 0,
                     "%s: \"%s\", expected \"%s\"", bad[i].name, report.problems[0].text,
                     bad[i].expected);
    }
}

Test(config_settings, every_problem_is_reported_at_once)
{
    apply("listen: x\nexecutor:\n  threads: -1\n  pined: true\nlog:\n  level: loud\n");

    cr_expect_eq(report.n_errors, 4);
}

Test(config_settings, more_problems_than_are_kept_are_still_counted)
{
    char text[4096] = "";
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "wrong%d: 1\n", i);

    apply(text);

    cr_expect_eq(report.n, 40);
    cr_expect_eq(report.n_errors, 40);
}

Test(config_settings, nested_maps_are_dotted_names)
{
    apply("# a comment\nlisten: \"0.0.0.0:50051\"\nlog: {level: warn, format: json}\nexecutor:\n  "
          "pinned: no\n"
          "drain:\n  lame_duck: 1.5s\ncopies.remembered: 1000\n");

    cr_assert_eq(report.n, 0, "%s", report.problems[0].text);
    cr_expect_str_eq(settings.listen, "0.0.0.0:50051");
    cr_expect_eq(settings.log_level, TW_LOG_WARN);
    cr_expect_eq(settings.log_format, TW_LOG_FORMAT_JSON);
    cr_expect_not(settings.executor_pinned);
    cr_expect_eq(settings.drain_lame_duck_ns, 1500 * TW_NS_PER_MS);
    cr_expect_eq(settings.copies_remembered, 1000);
    cr_expect_eq(settings.executor_threads_max, 4096, "what is not in the file keeps its default");
}

Test(config_settings, an_empty_file_and_one_of_comments_are_good)
{
    apply("");
    cr_expect_eq(report.n, 0);
    apply("# nothing\n\n");
    cr_expect_eq(report.n, 0);
}

static char path[] = "/tmp/config_settings_XXXXXX";

static const char *write_file(const char *text)
{
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static const char *origin_of(const char *name)
{
    static char text[1024];
    return tw_setting_origin_text(&settings, tw_setting_find(name), text, sizeof text);
}

Test(config_settings, a_flag_wins_over_the_environment_that_over_the_file_that_over_the_default)
{
    char *environment[] = {(char[]){"TRADEWAKE_EXECUTOR_GROUPS=3"},
                           (char[]){"TRADEWAKE_RPC_THREADS=3"}, (char[]){"HOME=/"}, NULL};
    const struct tw_setting_flag flags[] = {{"rpc.threads", "4"}};
    const struct tw_settings_sources sources = {
        .config_path = write_file("executor: {groups: 2, threads_max: 2000}\nrpc: {threads: 2}\n"),
        .environment = environment,
        .flags = flags,
        .n_flags = 1,
    };
    char expected[1024];

    tw_status status = tw_settings_load(&sources, &settings, &report);
    unlink(path);

    cr_assert_eq(status, TW_OK, "%s", report.problems[0].text);
    cr_expect_eq(settings.rpc_threads, 4);
    cr_expect_eq(settings.executor_groups, 3);
    cr_expect_eq(settings.executor_threads_max, 2000);
    cr_expect_eq(settings.copies_remembered, 200000);
    cr_expect_str_eq(origin_of("rpc.threads"), "flag --rpc-threads");
    cr_expect_str_eq(origin_of("executor.groups"), "environment TRADEWAKE_EXECUTOR_GROUPS");
    snprintf(expected, sizeof expected, "file %s:1:36", path);
    cr_expect_str_eq(origin_of("executor.threads_max"), expected);
    cr_expect_str_eq(origin_of("copies.remembered"), "default");
}

/* What the flags lead to: "" where it starts, else what is said. */
static const char *said(bool is_dev, const struct tw_setting_flag *flags, size_t n_flags)
{
    const struct tw_settings_sources sources = {.is_dev = is_dev, .flags = flags, .n_flags = n_flags};
    return tw_settings_load(&sources, &settings, &report) == TW_OK ? "" : report.problems[0].text;
}

Test(config_settings, bridges_are_a_mapping_or_one_text)
{
    apply("bridges:\n  a: {address: 'unix:/x'}\n  b: {address: 'h:5', ca: c.pem, server_name: s}\n");
    cr_assert_eq(report.n, 0);
    cr_assert_eq(settings.n_bridges, 2);
    cr_expect_str_eq(settings.bridges[1].server_name, "s");
    cr_expect_str_eq(settings.bridges_text, "a=unix:/x, b=h:5");

    const struct tw_setting_flag flag = {"bridges", "c=unix:/z,d=127.0.0.1:9"}, wrong = {"bridges", "c=10.0.0.1:9"};
    struct tw_settings_sources sources = {.flags = &flag, .n_flags = 1};
    cr_assert_eq(tw_settings_load(&sources, &settings, &report), TW_OK);
    cr_assert_eq(settings.n_bridges, 2);
    cr_expect_str_eq(settings.bridges[0].address, "unix:/z");
    cr_expect_str_eq(settings.bridges[1].name, "d");
    sources.flags = &wrong;
    cr_expect_eq(tw_settings_load(&sources, &settings, &report), TW_INVALID, "plain text to elsewhere");
}

Test(config_settings, plain_text_stays_on_this_machine_unless_said_in_words)
{
    static const char *const local[] = {"127.0.0.1:1", "127.8.0.1:1", "[::1]:1", "localhost:1", "unix:/run/x.sock"};
    static const char *const open_to_others[] = {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.example:1", "localhost.example:1"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        const struct tw_setting_flag flags[] = {{"listen", local[i]}};
        cr_expect_str_eq(said(false, flags, 1), "", "%s", local[i]);
    }
    for (size_t i = 0; i < sizeof open_to_others / sizeof open_to_others[0]; i++) {
        const struct tw_setting_flag flags[] = {
            {"listen", open_to_others[i]}, {"tls.insecure", "true"}, {"tls.certificate", "c"}, {"tls.key", "k"}};
        cr_expect_not_null(strstr(said(false, flags, 1), "others could read and send orders there"), "%s",
                           open_to_others[i]);
        cr_expect_str_eq(said(true, flags, 1), "", "dev has no real orders");
        cr_expect_str_eq(said(false, flags, 2), "");
        const struct tw_setting_flag with_tls[] = {flags[0], flags[2], flags[3]};
        cr_expect_str_eq(said(false, with_tls, 3), "");
    }
}

Test(config_settings, the_files_of_tls_belong_together)
{
    const struct tw_setting_flag certificate[] = {{"tls.certificate", "c.pem"}}, key[] = {{"tls.key", "k.pem"}};
    const struct tw_setting_flag ca[] = {{"tls.client_ca", "ca.pem"}};
    cr_expect_str_eq(said(false, certificate, 1),
                     "tls.certificate is set (flag --tls-certificate), expected tls.key beside it");
    cr_expect_str_eq(said(false, key, 1), "tls.key is set (flag --tls-key), expected tls.certificate beside it");
    cr_expect_str_eq(said(false, ca, 1),
                     "tls.client_ca is set (flag --tls-client-ca), expected tls.certificate and tls.key beside it");
}

Test(config_settings, dev_has_defaults_of_its_own)
{
    const struct tw_settings_sources sources = {.is_dev = true};

    cr_assert_eq(tw_settings_load(&sources, &settings, &report), TW_OK);

    cr_expect(settings.paper_control);
    cr_expect_eq(settings.metrics_warm_up_ns, 0);
    cr_expect_str_eq(settings.state_dir, "");
    cr_expect_str_eq(origin_of("paper.control"), "default of dev");
    cr_expect_str_eq(origin_of("listen"), "default");
}

Test(config_settings, a_file_that_cannot_be_read_is_one_line_with_what_where_and_what_to_do)
{
    const struct tw_settings_sources missing = {.config_path = "/nonexistent/tradewake.yaml"};
    cr_assert_eq(tw_settings_load(&missing, &settings, &report), TW_INVALID);
    cr_expect_str_eq(
        report.problems[0].text,
        "/nonexistent/tradewake.yaml: cannot read the configuration: No such file or directory; "
        "give another --config, or none");

    const struct tw_settings_sources folder = {.config_path = "/tmp"};
    cr_assert_eq(tw_settings_load(&folder, &settings, &report), TW_INVALID);
    cr_expect_str_eq(report.problems[0].text,
                     "/tmp: cannot read the configuration: Is a directory; is it a file?");
}

static const struct {
    const char *name, *variable, *expected;
    bool is_warning;
} variables[] = {
    {"a value that does not fit", "TRADEWAKE_EXECUTOR_THREADS=x",
     "environment TRADEWAKE_EXECUTOR_THREADS: found \"x\"", false},
    {"an empty value", "TRADEWAKE_LISTEN=", "environment TRADEWAKE_LISTEN: found nothing", false},
    {"a name that is none", "TRADEWAKE_EXECUTOR_THREAD=4",
     "environment: TRADEWAKE_EXECUTOR_THREAD is not a setting; did you mean "
     "TRADEWAKE_EXECUTOR_THREADS?",
     true},
};

Test(config_settings, the_environment_is_checked_too)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "%s", variables[i].variable);
        char *environment[] = {entry, NULL};

        tw_status status = tw_settings_load(
            &(struct tw_settings_sources){.environment = environment}, &settings, &report);

        cr_expect_eq(status, variables[i].is_warning ? TW_OK : TW_INVALID, "%s", variables[i].name);
        cr_assert_eq(report.n, 1, "%s", variables[i].name);
        cr_expect_eq(report.problems[0].is_warning, variables[i].is_warning);
        cr_expect_eq(
            strncmp(report.problems[0].text, variables[i].expected, strlen(variables[i].expected)),
            0, "%s: %s", variables[i].name, report.problems[0].text);
    }
}

Test(config_settings, what_kubernetes_sets_for_a_service_of_our_name_is_not_ours)
{
    char *environment[] = {(char[]){"TRADEWAKE_PORT=tcp://10.0.0.1:50051"},
                           (char[]){"TRADEWAKE_SERVICE_HOST=10.0.0.1"},
                           (char[]){"TRADEWAKE_PORT_50051_TCP_ADDR=10.0.0.1"},
                           (char[]){"TRADEWAKE_SERVER=127.0.0.1:1"}, NULL};

    cr_expect_eq(tw_settings_load(&(struct tw_settings_sources){.environment = environment},
                                  &settings, &report),
                 TW_OK);

    cr_expect_eq(report.n, 0, "%s", report.problems[0].text);
}

static const struct {
    const char *name;
    struct tw_setting_flag flags[2];
    const char *expected;
} relations[] = {
    {"more threads than allowed",
     {{"executor.threads", "5000"}, {"executor.threads_max", "4000"}},
     "executor.threads is 5000 (flag --executor-threads), expected at most executor.threads_max, "
     "which is 4000"},
    {"a drain shorter than its first part",
     {{"drain.lame_duck", "9s"}, {"drain.timeout", "9s"}},
     "drain.lame_duck is 9s (flag --drain-lame-duck), expected less than drain.timeout, which is "
     "9s"},
    {"two servers on one port",
     {{"listen", "1.2.3.4:5"}, {"admin", "1.2.3.4:5"}},
     "admin is 1.2.3.4:5 (flag --admin), expected another address than listen"},
};

Test(config_settings, what_must_hold_between_settings_is_checked_and_both_numbers_are_named)
{
    for (size_t i = 0; i < sizeof relations / sizeof relations[0]; i++) {
        const struct tw_settings_sources sources = {.flags = relations[i].flags, .n_flags = 2};

        cr_expect_eq(tw_settings_load(&sources, &settings, &report), TW_INVALID, "%s",
                     relations[i].name);
        cr_expect_eq(
            strncmp(report.problems[0].text, relations[i].expected, strlen(relations[i].expected)),
            0, "%s: %s", relations[i].name, report.problems[0].text);
    }
}

Test(config_settings, any_free_port_twice_is_no_clash)
{
    const struct tw_setting_flag flags[] = {{"listen", "127.0.0.1:0"}, {"admin", "127.0.0.1:0"}};

    cr_expect_eq(tw_settings_load(&(struct tw_settings_sources){.flags = flags, .n_flags = 2},
                                  &settings, &report),
                 TW_OK);
}

Test(config_settings,
     no_setting_is_mistaken_for_a_variable_of_kubernetes_and_every_value_reads_back)
{
    size_t n;
    const struct tw_setting *table = tw_settings_table(&n);
    for (size_t i = 0; i < n; i++) {
        char variable[TW_SETTING_NAME_BYTES], text[TW_VALUE_TEXT_BYTES];
        int64_t number;
        tw_setting_variable(&table[i], variable);
        cr_expect_neq(strncmp(variable, "TRADEWAKE_PORT", 14), 0, "%s", variable);
        cr_expect_neq(strncmp(variable, "TRADEWAKE_SERVICE_", 18), 0, "%s", variable);

        tw_settings_defaults(false, &settings);
        tw_setting_text(&settings, &table[i], text);
        cr_expect_str_eq(text, table[i].default_text, "%s", table[i].name);
        cr_expect_eq(tw_value_parse(&table[i].rule, text, &number, NULL), TW_OK, "%s: %s",
                     table[i].name, text);
        for (size_t other = i + 1; other < n; other++)
            cr_expect_str_neq(table[i].name, table[other].name);
    }
}

struct told {
    char name[8][TW_SETTING_NAME_BYTES];
    bool is_taken[8];
    int n;
};

static void tell(void *context, const char *name, const char *before, const char *now, bool is_taken)
{
    struct told *told = context;
    cr_assert_lt(told->n, 8);
    cr_expect_str_neq(before, now, "%s", name);
    snprintf(told->name[told->n], TW_SETTING_NAME_BYTES, "%s", name);
    told->is_taken[told->n++] = is_taken;
}

Test(config_settings, what_is_read_again_is_taken_over_where_it_can_be_and_told_where_not)
{
    static struct tw_settings live, fresh;
    static const char text[] = "log: {level: error, format: json}\nlisten: 127.0.0.1:6\ndrain.timeout: 8s\n";
    struct told told = {.n = 0};
    tw_settings_defaults(false, &live);
    tw_settings_defaults(false, &fresh);
    report = (struct tw_config_report){0};
    tw_settings_apply_yaml("f.yaml", text, sizeof text - 1, &fresh, &report);
    cr_assert_eq(report.n_errors, 0);

    tw_settings_take_over(&live, &fresh, tell, &told);

    cr_assert_eq(told.n, 4);
    static const char *const names[] = {"listen", "log.level", "log.format", "drain.timeout"};
    for (int i = 0; i < 4; i++) {
        cr_expect_str_eq(told.name[i], names[i]);
        cr_expect_eq(told.is_taken[i], i > 0, "%s", names[i]);
    }
    cr_expect_str_eq(live.listen, "127.0.0.1:50051", "not without a restart");
    cr_expect_eq(live.log_level, TW_LOG_ERROR);
    cr_expect_eq(live.log_format, TW_LOG_FORMAT_JSON);
    cr_expect_eq(live.drain_timeout_ns, 8 * TW_NS_PER_S);

    told.n = 0;
    fresh = live;
    tw_settings_take_over(&live, &fresh, tell, &told);
    cr_expect_eq(told.n, 0, "the same file again: %s", told.name[0]);
}
