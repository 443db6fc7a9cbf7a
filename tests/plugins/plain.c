/* A plugin that behaves: the simulated broker as it is. Which one, the build says. */
#include "sim.h"

const int64_t sim_latency_ns = PLUGIN_LATENCY_MS * INT64_C(1000000);
const int sim_keeps_deadlines = PLUGIN_KEEPS_DEADLINES;
const int sim_is_one_at_a_time = PLUGIN_THREADS != TWP_THREADS_FREE;

static const struct twp_caps caps = {
    .size = sizeof caps,
    .thread_model = PLUGIN_THREADS,
    .can = TWP_CAN_HEDGING | TWP_CAN_NETTING | TWP_CAN_LOOKUP | TWP_CAN_REDUCE_ONLY,
    .id_strength = TWP_ID_JOURNAL,
    .code_table = TWP_CODES_MT4,
    .sessions_max = 8,
    .settle_ms = 1000,
};
static const struct twp_api api = SIM_API;
static const struct twp_plugin plugin = {TWP_PLUGIN_SIZES, PLUGIN_NAME, "1", &caps, &api};

const struct twp_plugin *tradewake_plugin_v1(uint32_t host_abi)
{
    return host_abi >> 16 == TWP_ABI_MAJOR ? &plugin : NULL;
}
