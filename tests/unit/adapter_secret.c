/* Secrets: what is one, what names one, and how one is read and gone. */
#include <tradewake/adapters/secret.h>

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    char key[40], value[64];
    bool is_refused;
} rows[] = {
    {"latency", "constant:130ms", false},
    {"account_mode", "hedging", false},
    {"server", "broker.example:443", false},
    {"sender_comp_id", "TW1", false},
    {"pinned", "true", false},
    {"monkey", "banana", false},
    {"password", "hunter2", true},
    {"Password", "hunter2", true},
    {"fix_password", "hunter2", true},
    {"pass", "hunter2", true},
    {"user_pwd", "hunter2", true},
    {"api_key", "hunter2", true},
    {"api-key", "hunter2", true},
    {"apiKey", "hunter2", true},
    {"ACCESS_TOKEN", "hunter2", true},
    {"client_secret", "hunter2", true},
    {"key", "hunter2", true},
    {"credentials", "hunter2", true},
    {"password", "secret:acct-12", false},
    {"password", "secret:", true},
    {"password", "secret:../../etc/shadow", true},
    {"latency", "secret:../x", true},
    {"certificate", "-----BEGIN PRIVATE KEY-----", true},
    {"session", "eyJhbGciOiJFZERTQSJ9.e30.x", true},
};

Test(adapter_secret, what_is_kept_in_the_open_is_no_secret)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *why = tw_secret_in_the_open(rows[i].key, rows[i].value);
        cr_expect_eq(why != NULL, rows[i].is_refused, "%s=%s", rows[i].key, rows[i].value);
        cr_expect(why == NULL || strstr(why, rows[i].value) == NULL, "the value is not said again");
    }
}

static char folder[] = "/tmp/tradewake-secret-XXXXXX";

static void put(const char *name, const char *text, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fwrite(text, 1, size, file) == size);
    fclose(file);
}

/* Whether the mapping with this address is left out of core files: "dd" among its flags. */
static bool is_left_out(const void *address)
{
    char line[512];
    bool is_there = false, is_out = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            is_there = (unsigned long)address >= from && (unsigned long)address < to;
        else if (is_there && strncmp(line, "VmFlags:", 8) == 0)
            is_out |= strstr(line, " dd") != NULL;
    }
    if (maps != NULL)
        fclose(maps);
    return is_out;
}

Test(adapter_secret, a_secret_is_read_without_its_lines_end_and_is_in_no_core_file)
{
    struct tw_secret secret = {0};
    struct tw_error error = {{0}};
    cr_assert(mkdtemp(folder) != NULL);
    put("acct-12", "hunter2\r\n", 9);

    cr_assert_eq(tw_secret_read(folder, tw_secret_name("secret:acct-12"), &secret, &error), TW_OK, "%s", error.text);
    cr_expect_str_eq(secret.text, "hunter2");
    cr_expect_eq(secret.size, 7u);
    cr_expect(is_left_out(secret.text));

    tw_secret_wipe(&secret);
    cr_expect_null(secret.text);
    tw_secret_wipe(&secret); /* once more does nothing */
}

Test(adapter_secret, what_is_no_secret_is_said_by_its_file_never_by_what_it_holds)
{
    static char large[TW_SECRET_BYTES_MAX + 1];
    struct tw_secret secret = {0};
    cr_assert(mkdtemp(folder) != NULL);
    memset(large, 'x', sizeof large);
    put("empty", "", 0);
    put("line", "\n\n", 2);
    put("large", large, sizeof large);
    const char *const names[] = {"nowhere", "empty", "line", "large", "../x", ".hidden", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tw_error error = {{0}};
        cr_expect_neq(tw_secret_read(folder, names[i], &secret, &error), TW_OK, "%s", names[i]);
        cr_expect_neq(error.text[0], '\0');
        cr_expect_null(strstr(error.text, "xxxx"));
        cr_expect_null(secret.text);
    }
}
