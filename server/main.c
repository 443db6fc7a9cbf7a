/* The program: commands, and the serving side that two of them start. */
#include <tradewake/cli/cli.h>

#include "adapter_check.h"
#include "audit_tool.h"
#include "fix_log_tool.h"
#include "journal_tool.h"
#include "plugin_host.h"
#include "serve.h"

int main(int argc, char **argv)
{
    const struct tw_cli_host host = {
        .version = TW_VERSION, .serve = tw_serve, .journal = tw_journal_command, .audit = tw_audit_command,
        .fix_log = tw_fix_log_command, .adapter_check = tw_adapter_check_command, .plugin_host = tw_plugin_host_command};
    return tw_cli_run(&host, argc, argv);
}
