/* audit.h (own) - what the rest of the engine calls of audit.c. */
#ifndef ENGINE_AUDIT_H
#define ENGINE_AUDIT_H

#include "state.h"

#include <tradewake/engine/audit.h>

void state_put_audit(struct state_out *out, const struct tw_audit *audit);

#endif
