/* telemetry_inside.h - what the pieces of telemetry share. */
#ifndef TELEMETRY_TELEMETRY_INSIDE_H
#define TELEMETRY_TELEMETRY_INSIDE_H

#include "admin.h"

#include <tradewake/telemetry/sampler.h>
#include <tradewake/telemetry/telemetry.h>

/* Read-only once tw_telemetry_start() has returned, but for what main closes. */
struct tw_telemetry {
    struct tw_telemetry_options options;
    int64_t start_wall_ns, warm_mono_ns;
    struct tw_sampler *sampler;
    struct tw_reactor *house;
    bool owns_house;
    struct admin *admin; /* NULL = no admin port; main's */
};

#endif
