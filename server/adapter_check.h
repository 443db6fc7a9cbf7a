/* adapter_check.h - `tradewake adapter-check`: what a bridge promises, tried out line by line. */
#ifndef TW_ADAPTER_CHECK_H
#define TW_ADAPTER_CHECK_H

#include <tradewake/cli/cli.h>

/* Opens and closes positions at the account: not for one with real money. Returns the exit code. */
int tw_adapter_check_command(const struct tw_cli_adapter_check *wanted);

#endif
