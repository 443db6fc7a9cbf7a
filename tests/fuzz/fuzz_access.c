/* fuzz_access.c
 * Targets:  policy_parse, keys_parse, token_verify (the first byte chooses)
 * Property: what is refused says why, with the place; a token that nobody signed is never good. */
#include <access.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct keys one_key(void)
{
    /* The public key of RFC 8037 appendix A.2; its private one has signed nothing that is good here. */
    static const char set[] = "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k\","
                              "\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
    struct keys keys;
    struct tw_error error;
    tw_status status = keys_parse("K", set, sizeof set - 1, &keys, &error);
    assert(status == TW_OK && keys.n == 1);
    return keys;
}

static void policy_try(const char *text, size_t size)
{
    struct policy *policy = NULL;
    struct tw_error error = {0};
    if (policy_parse("P", text, size, &policy, &error) != TW_OK) {
        assert(strncmp(error.text, "P:", 2) == 0);
        return;
    }
    for (size_t i = 0; i < policy->n_identities; i++) {
        const struct tw_identity *identity = &policy->identities[i];
        assert(policy_by_name(policy, identity->name) == identity);
        assert(identity->roles != 0 && (identity->takes_tokens || identity->n_certificates > 0));
    }
    policy_free(policy);
}

static void keys_try(const char *text, size_t size)
{
    struct keys keys;
    struct tw_error error = {0};
    if (keys_parse("K", text, size, &keys, &error) != TW_OK)
        assert(strncmp(error.text, "K:", 2) == 0 && keys.n == 0);
    keys_clear(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct keys keys;
    struct token token;
    if (keys.n == 0)
        keys = one_key();
    if (size == 0)
        return 0;
    char *text = malloc(size);
    assert(text != NULL);
    memcpy(text, bytes + 1, size - 1);
    text[size - 1] = '\0';
    if (bytes[0] % 3 == 0)
        policy_try(text, size - 1);
    else if (bytes[0] % 3 == 1)
        keys_try(text, size - 1);
    else
        assert(token_verify(&keys, "tradewake", text, &token) != NULL);
    free(text);
    return 0;
}
