#include <tradewake/telemetry/telemetry.h>

#include "process.h"
#include "telemetry_inside.h"

#include <tradewake/base/clock.h>
#include <tradewake/executor/reactor.h>

#include <stdlib.h>

tw_status tw_telemetry_start(const struct tw_telemetry_options *options,
                             struct tw_telemetry **ret_telemetry, struct tw_error *error)
{
    struct tw_telemetry *telemetry = calloc(1, sizeof *telemetry);
    if (telemetry == NULL)
        return tw_error_set(error, TW_NO_MEMORY, "no memory for telemetry");
    telemetry->options = *options;
    telemetry->start_wall_ns = tw_wall_ns();
    telemetry->warm_mono_ns = tw_mono_ns() + options->warm_up_ms * TW_NS_PER_MS;
    telemetry->house = options->house;

    const char *listen =
        options->admin_listen != NULL ? options->admin_listen : TW_TELEMETRY_ADMIN_LISTEN;
    const struct tw_sampler_options sampler = {.subjects = options->subjects,
                                               .warm_mono_ns = telemetry->warm_mono_ns};
    tw_status status = tw_sampler_start(&sampler, &telemetry->sampler, error);
    if (status == TW_OK && telemetry->house == NULL) {
        status = tw_reactor_start("house", &telemetry->house, error);
        telemetry->owns_house = status == TW_OK;
    }
    if (status == TW_OK && listen[0] != '\0')
        status = admin_open(telemetry, listen, &telemetry->admin, error);
    if (status != TW_OK) {
        tw_telemetry_stop(telemetry);
        return status;
    }
    *ret_telemetry = telemetry;
    return TW_OK;
}

void tw_telemetry_admin_close(struct tw_telemetry *telemetry)
{
    if (telemetry == NULL)
        return;
    admin_close(telemetry->admin);
    telemetry->admin = NULL;
}

void tw_telemetry_stop(struct tw_telemetry *telemetry)
{
    if (telemetry == NULL)
        return;
    tw_telemetry_admin_close(telemetry); /* before the sampler: a page may wait for its answer */
    if (telemetry->owns_house)
        tw_reactor_stop(telemetry->house);
    tw_sampler_stop(telemetry->sampler);
    free(telemetry);
}

struct tw_sampler *tw_telemetry_sampler(struct tw_telemetry *telemetry)
{
    return telemetry->sampler;
}

struct tw_reactor *tw_telemetry_house(struct tw_telemetry *telemetry)
{
    return telemetry->house;
}

int tw_telemetry_admin_port(const struct tw_telemetry *telemetry)
{
    return telemetry->admin == NULL ? 0 : admin_port(telemetry->admin);
}

const char *tw_telemetry_instance_id(const struct tw_telemetry *telemetry)
{
    return telemetry->options.instance_id;
}

void tw_telemetry_executor_get(struct tw_telemetry *telemetry, struct tw_telemetry_executor *ret)
{
    const struct tw_telemetry_callbacks *callbacks = &telemetry->options.callbacks;
    int64_t warm_up_ns = telemetry->options.warm_up_ms * TW_NS_PER_MS;

    *ret = (struct tw_telemetry_executor){.resident_bytes = process_resident_bytes()};
    callbacks->executor(callbacks->context, &ret->status, &ret->threads_needed);
    if (tw_mono_ns() >= telemetry->warm_mono_ns)
        ret->warm_since_wall_ns = telemetry->start_wall_ns + warm_up_ns;
}
