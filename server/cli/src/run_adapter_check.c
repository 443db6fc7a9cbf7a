/* adapter-check: what a bridge promises, tried out. */
#include "command.h"

int run_adapter_check(struct session *session)
{
    const char *credentials = args_text(&session->args, "--credentials");
    const struct tw_cli_adapter_check wanted = {
        .address = args_text(&session->args, "--address"),
        .account = args_text(&session->args, "--account"),
        .credentials_ref = credentials != NULL ? credentials : "",
        .symbol = args_text(&session->args, "--symbol"),
        .volume = args_text(&session->args, "--volume"),
        .part = args_text(&session->args, "--part"),
    };
    return session->host->adapter_check(&wanted);
}
