/* core_copy_id.c - the published name of a copy, against another computation of it. */
#include "core_support.h"

#include <tradewake/core/copy_id.h>

/* Made by Python's hashlib and base64:
 * "T1" + b32encode(sha256("".join(word + "\n" for word in words).encode()).digest())[:18] */
static const struct {
    struct tw_copy_id_input input;
    const char *id;
} vectors[] = {
    {{"M1", "e1", "F1", "p1", "OPEN", 0, 0}, "T1MD3RIUSTDQCWKXH5WS"},
    {{"M1", "e1", "F1", "p1", "OPEN", 1, 0}, "T1DEQHDC63LUXTD2VAFL"},
    {{"M1", "e1", "F1", "p1", "OPEN", 0, 1}, "T1UOHOU7DWETFUXLN3EK"},
    {{"M1", "e1", "F1", "p1", "PARTIAL_CLOSE", 0, 0}, "T1VMSRYZ3E5CDLQFRMUZ"},
    {{"M1", "e1", "F2", "p1", "OPEN", 0, 0}, "T1THJEIPGXL5AOOS4L2R"},
    {{"M1", "e2", "F1", "p1", "OPEN", 0, 0}, "T1RH2G7C32KLFF327IOE"},
    {{"M2", "e1", "F1", "p1", "OPEN", 0, 0}, "T14AMNI7BO6MAD2ZJWXF"},
    {{"M1", "e1", "F1", "p2", "OPEN", 0, 0}, "T14QYARTDB2LTQK64UTG"},
    {{"a.b:c-d_E", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
      "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
      "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "MODIFY_ORDER", 1,
      UINT32_MAX},
     "T13IMFJKSFF6J7P73PLA"},
    {{"M1", "e1F1", "", "p1", "OPEN", 0, 0},
     "T1KIKHY3U3HYTTOSAX6I"}, /* the line ends keep words apart */
    {{"M1", "e1", "F1p1", "", "OPEN", 0, 0}, "T15UHMPMZSLPZOHXASN2"},
    {{"M1", "e1", "F1", "#42 \xe2\x82\xac", "LINK", 0, 0}, "T16J7RIZDSLVHEQAO2NE"},
};

Test(core_copy_id, is_what_the_formula_says)
{
    for (size_t i = 0; i < COUNT(vectors); i++) {
        char id[TW_COPY_ID_BYTES];
        tw_copy_id(&vectors[i].input, id);
        cr_expect_str_eq(id, vectors[i].id, "row %zu: %s", i, id);
    }
}

static int compare_ids(const void *a, const void *b)
{
    return memcmp(a, b, TW_COPY_ID_BYTES);
}

Test(core_copy_id, a_million_ids_are_all_different)
{
    enum { IDS = 1000000 };
    char(*ids)[TW_COPY_ID_BYTES] = malloc(IDS * sizeof *ids);
    cr_assert_not_null(ids);
    for (uint32_t i = 0; i < IDS; i++) {
        char event_id[32];
        snprintf(event_id, sizeof event_id, "e%u", i / 100);
        const struct tw_copy_id_input input = {"M1",   event_id,     "F1",  "p1",
                                               "OPEN", i % 100 / 50, i % 50};
        tw_copy_id(&input, ids[i]);
    }
    qsort(ids, IDS, sizeof *ids, compare_ids);
    for (uint32_t i = 1; i < IDS; i++)
        cr_assert_str_neq(ids[i], ids[i - 1]);
    free(ids);
}
