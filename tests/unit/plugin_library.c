/* What is loaded, and what is refused with which words. */
#include "border.h"
#include "library.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct tw_error load(const char *name, bool in_process, tw_status *ret_status)
{
    char path[512];
    struct tw_error error = {{0}};
    struct library *library = NULL;
    snprintf(path, sizeof path, TW_PLUGINS "/%s.so", name);
    const struct tw_plugin_entry entry = {name, path, in_process};
    *ret_status = library_load(&entry, &library, &error);
    cr_expect_eq(library != NULL, *ret_status == TW_OK);
    return error;
}

Test(plugin_library, plugins_of_the_first_header_and_of_this_one_are_loaded)
{
    static const char *const names[] = {"good", "good_session", "slow130", "template", "frozen_1_0", "evil"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tw_status status;
        struct tw_error error = load(names[i], true, &status);
        cr_expect_eq(status, TW_OK, "%s: %s", names[i], error.text);
    }
}

Test(plugin_library, what_is_no_plugin_is_refused_with_words)
{
    static const struct {
        const char *name, *words;
        bool in_process;
    } cases[] = {
        {"no_such_file", "cannot be loaded", true},
        {"nothing", "exports no tradewake_plugin_v1", true},
        {"good_global", "thread_model is GLOBAL", true},
        {"good_affine", "thread_model is AFFINE", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tw_status status;
        struct tw_error error = load(cases[i].name, cases[i].in_process, &status);
        cr_expect_neq(status, TW_OK, "%s", cases[i].name);
        cr_expect_not_null(strstr(error.text, cases[i].words), "%s: \"%s\"", cases[i].name, error.text);
        cr_expect_not_null(strstr(error.text, cases[i].name), "the words name it: \"%s\"", error.text);
    }
}

/* ---- Descriptors that are wrong, one by one ---- */

static int32_t do_open(const struct twp_open *open, struct twp_session **ret, struct twp_words *words)
{
    (void)open, (void)ret, (void)words;
    return TWP_AMBIGUOUS;
}
static void do_close(struct twp_session *session)
{
    (void)session;
}
static int32_t do_account(struct twp_session *session, int64_t deadline_mono_ns, struct twp_account *ret)
{
    (void)session, (void)deadline_mono_ns, (void)ret;
    return TWP_AMBIGUOUS;
}
static int32_t do_list(struct twp_session *session, int64_t deadline_mono_ns, const struct twp_list *list)
{
    (void)session, (void)deadline_mono_ns, (void)list;
    return TWP_AMBIGUOUS;
}
static int32_t do_order(struct twp_session *session, const struct twp_order *order, struct twp_result *ret)
{
    (void)session, (void)order, (void)ret;
    return TWP_AMBIGUOUS;
}

/* The whole of a plugin, to be spoilt. */
static struct {
    struct twp_plugin plugin;
    struct twp_caps caps;
    struct twp_api api;
} it;

static void it_make(void)
{
    it.caps = (struct twp_caps){.size = sizeof it.caps, .thread_model = TWP_THREADS_SESSION, .can = TWP_CAN_HEDGING};
    it.api = (struct twp_api){.size = sizeof it.api, .session_open = do_open, .session_close = do_close,
                              .account = do_account, .instruments = do_list, .positions = do_list, .orders = do_list,
                              .execute = do_order};
    it.plugin = (struct twp_plugin){TWP_PLUGIN_SIZES, "it", "1", &it.caps, &it.api};
}

static void spoil_magic(void) { it.plugin.magic = 1; }
static void spoil_major(void) { it.plugin.abi = 2 << 16; }
static void spoil_size(void) { it.plugin.size = 40; }
static void spoil_order(void) { it.plugin.sizeof_order += 8; }
static void spoil_result(void) { it.plugin.sizeof_result -= 8; }
static void spoil_newer(void) { it.plugin.abi += 1; it.plugin.sizeof_position -= 8; }
static void spoil_caps(void) { it.plugin.caps = NULL; }
static void spoil_api(void) { it.plugin.api = NULL; }
static void spoil_api_size(void) { it.api.size = 16; }
static void spoil_caps_size(void) { it.caps.size = 4; }
static void spoil_execute(void) { it.api.execute = NULL; }
static void spoil_lookup(void) { it.caps.can |= TWP_CAN_LOOKUP; }
static void spoil_threads(void) { it.caps.thread_model = 9; }
static void spoil_mode(void) { it.caps.can = 0; }
static void spoil_strength(void) { it.caps.id_strength = -1; }
static void spoil_codes(void) { it.caps.code_table = 7; }
static void spoil_calls(void) { it.caps.calls_max = 100000; }
static void spoil_times(void) { it.caps.call_timeout_ms = UINT32_MAX; }
static void spoil_nothing(void) {}
static void newer_and_larger(void) { it.plugin.abi += 1; it.plugin.sizeof_position += 8; it.plugin.size += 8; }

static const struct {
    const char *name, *words; /* NULL = loaded */
    void (*spoil)(void);
} spoilt[] = {
    {"nothing is wrong", NULL, spoil_nothing},
    {"a newer minor version, with larger structs", NULL, newer_and_larger},
    {"magic", "begins with 00000001", spoil_magic},
    {"another major version", "ABI 2.0, this host speaks 1.0", spoil_major},
    {"descriptor cut", "descriptor has 40 bytes", spoil_size},
    {"order larger at the same version", "struct twp_order has 320 bytes there and 312 here", spoil_order},
    {"result smaller", "struct twp_result", spoil_result},
    {"newer, but smaller", "struct twp_position", spoil_newer},
    {"no caps", "no caps", spoil_caps},
    {"no api", "no api", spoil_api},
    {"api cut", "size in its api is 16", spoil_api_size},
    {"caps say another size than the descriptor", "size in its caps is 4", spoil_caps_size},
    {"a function is missing", "no execute", spoil_execute},
    {"says that it can, and cannot", "no lookup", spoil_lookup},
    {"thread model", "thread_model is 9", spoil_threads},
    {"no kind of account", "neither hedging nor netting", spoil_mode},
    {"id strength", "id_strength is -1", spoil_strength},
    {"code table", "code_table is 7", spoil_codes},
    {"calls", "calls_max is 100000", spoil_calls},
    {"times", "call_timeout_ms is 4294967295", spoil_times},
};

Test(plugin_library, a_descriptor_that_does_not_fit_is_refused_before_anything_is_called)
{
    for (size_t i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        struct tw_error error = {{0}};
        struct twp_caps caps;
        struct twp_api api;
        it_make();
        spoilt[i].spoil();
        tw_status status = library_check(&it.plugin, true, &caps, &api, &error);
        cr_expect_eq(status, spoilt[i].words == NULL ? TW_OK : TW_INVALID, "%s: %s", spoilt[i].name, error.text);
        if (spoilt[i].words != NULL)
            cr_expect_not_null(strstr(error.text, spoilt[i].words), "%s: \"%s\"", spoilt[i].name, error.text);
    }
    struct tw_error error = {{0}};
    cr_expect_eq(library_check(NULL, true, &it.caps, &it.api, &error), TW_INVALID);
    cr_expect_not_null(strstr(error.text, "does not work with ABI 1.0"));
}

Test(plugin_library, what_is_left_out_of_the_caps_has_a_default)
{
    struct twp_caps caps;
    struct twp_api api;
    it_make();
    cr_assert_eq(library_check(&it.plugin, true, &caps, &api, NULL), TW_OK);
    cr_expect_eq(caps.calls_max, 1, "one call at a time");
    cr_expect_eq(caps.sessions_max, 1);
    cr_expect_eq(caps.call_timeout_ms, 2000);
    cr_expect_eq(caps.settle_ms, 60000);
    it.caps.thread_model = TWP_THREADS_FREE;
    cr_assert_eq(library_check(&it.plugin, true, &caps, &api, NULL), TW_OK);
    cr_expect_eq(caps.calls_max, 32);
}

Test(plugin_library, sizes_of_the_first_version_are_those_of_its_header)
{
    cr_expect_eq(PLUGIN_BYTES_FIRST, 88);
    cr_expect_leq(API_BYTES_FIRST, sizeof(struct twp_api));
    cr_expect_leq(RESULT_BYTES_FIRST, sizeof(struct twp_result));
    cr_expect_leq(ACCOUNT_BYTES_FIRST, sizeof(struct twp_account));
    cr_expect_leq(QUOTE_BYTES_FIRST, sizeof(struct twp_quote));
    cr_expect_leq(EVENT_BYTES_FIRST, sizeof(struct twp_event));
}
