/* fix log: a FIX session's file, also beside the server that writes it. */
#include "command.h"

int run_fix_log(struct session *session)
{
    return session->host->fix_log(session->args.operands[0], session->is_json);
}
