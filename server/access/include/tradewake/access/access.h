/* access.h - who is calling, and what they may.
 *
 *   certificate's names --.
 *   bearer token ---------+--> tw_access_identify() --> identity --> tw_access_may(method, objects)
 *   policy file ----------'
 *
 * A policy names identities, how each is recognised, and its roles. Default deny: who is in no policy gets
 * nothing, and a method that the table of rights does not name is nobody's. Without a policy file there is
 * no struct tw_access, and nobody is asked.
 *
 * Tokens are JSON Web Tokens (RFC 7519) signed with Ed25519 (RFC 8037, alg "EdDSA" and no other), whose keys
 * are in a JWK set (RFC 7517) by key id. Required: sub (the identity), aud, exp. A token that carries
 * cnf/x5t#S256 (RFC 8705) is good only on a connection with that certificate. */
#ifndef TW_ACCESS_ACCESS_H
#define TW_ACCESS_ACCESS_H

#include <tradewake/base/limits.h>
#include <tradewake/base/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_access;
struct tw_identity;

struct tw_access_options {
    const char *policy_path; /* YAML; see server/access/README.md */
    const char *keys_path;   /* JWK set with public keys; "" = no token is good */
    const char *audience;    /* a token must be for it */
};

/* options: copied. Thread: main.
 * Fails: TW_INVALID (error names file and place), TW_IO, TW_NO_MEMORY. */
TW_MUST_CHECK tw_status tw_access_open(const struct tw_access_options *options, struct tw_access **ret_access,
                                       struct tw_error *error);
void tw_access_close(struct tw_access *access); /* NULL is allowed */

/* Reads both files again; on failure what was there stays. Identities that were given out stay valid, with
 * the rights that they had. Thread: any. */
TW_MUST_CHECK tw_status tw_access_reload(struct tw_access *access, struct tw_error *error);

/* What a call shows of itself. */
struct tw_presented {
    const char *const *names; /* of the verified certificate: "uri:...", "dns:..." */
    size_t n_names;
    bool has_certificate;
    uint8_t certificate_sha256[32]; /* set with has_certificate */
    const char *authorization;      /* the header's value; NULL = none */
};

/* NULL: nobody that is known; *ret_why says it for the audit and the log, never for the caller. The
 * identity is valid until tw_access_close(). Thread: any.  Blocks: no; a token seen for the first time costs
 * about 0.1 ms. */
const struct tw_identity *tw_access_identify(struct tw_access *access, const struct tw_presented *presented,
                                             int64_t now_wall_ns, const char **ret_why);

const char *tw_identity_name(const struct tw_identity *identity);

/* The objects that a request names; "" = it names none of that kind. */
struct tw_access_objects {
    const char *master_id;
    const char *follower_id;
};

/* May this identity call the method at all? Thread: any. */
bool tw_access_may_call(const struct tw_identity *identity, const char *path);

/* May it, with these objects? A method that needs a master or follower to be named is refused when none is,
 * unless the identity may see all. Thread: any. */
bool tw_access_may(const struct tw_identity *identity, const char *path, const struct tw_access_objects *objects);

/* May it see what belongs to this master and follower ("" = does not matter)? For answers found by another
 * id, and for lists. Thread: any. */
bool tw_access_sees(const struct tw_identity *identity, const char *master_id, const char *follower_id);

/* ---- Tokens ---- */

struct tw_token_claims {
    const char *subject, *audience, *key_id;
    int64_t issued_wall_s, expires_wall_s;
    const uint8_t *certificate_sha256; /* 32 bytes; NULL = bound to none */
};

/* Makes an Ed25519 key: the private part as PEM (for its owner alone), the public one as a JWK set.
 * Fails: TW_IO, TW_EXISTS (neither file is overwritten). */
TW_MUST_CHECK tw_status tw_token_key_make(const char *private_path, const char *public_path, const char *key_id,
                                          struct tw_error *error);

enum { TW_TOKEN_BYTES_MAX = 4096 };

/* Fails: TW_IO, TW_INVALID (no Ed25519 key in the file), TW_LIMIT. */
TW_MUST_CHECK tw_status tw_token_issue(const char *private_path, const struct tw_token_claims *claims,
                                       char ret_token[TW_TOKEN_BYTES_MAX], struct tw_error *error);

#endif
