/* audit: who changed what, and who was refused; from the files of a server, also beside it. */
#include "command.h"

#include <tradewake/base/clock.h>

static const char *text(const struct session *session, const char *flag)
{
    const char *given = args_text(&session->args, flag);
    return given != NULL ? given : "";
}

int run_audit(struct session *session)
{
    int64_t since_ns = args_number(&session->args, "--since");
    const struct tw_cli_audit wanted = {
        .state_dir = text(session, "--state-dir"),
        .who = text(session, "--who"),
        .method = text(session, "--method"),
        .follower_id = text(session, "--follower"),
        .from_wall_ns = since_ns > 0 ? tw_wall_ns() - since_ns : 0,
        .refused = args_has(&session->args, "--refused"),
        .is_json = session->is_json,
    };
    return session->host->audit(&wanted);
}
