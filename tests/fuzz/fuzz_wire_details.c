/* fuzz_wire_details.c
 * Targets:  wire_details_unpack (grpc-status-details-bin of a server we do not trust)
 * Property: what was read is text within its bounds, and packed and read again is the same. */
#include "details.h"

#include <tradewake/wire/message.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_text(const char *text, size_t size)
{
    require(memchr(text, '\0', size) != NULL);
    require(tw_text_is_valid(text, strlen(text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tw_refusal refusal = {0}, again = {0};
    if (!wire_details_unpack(data, size, &refusal))
        return 0;

    require_text(refusal.field, sizeof refusal.field);
    require_text(refusal.text, sizeof refusal.text);
    require(refusal.n_facts <= TW_REFUSAL_FACTS_MAX);
    require(refusal.retry_after_ns >= 0);
    for (uint32_t i = 0; i < refusal.n_facts; i++) {
        require_text(refusal.facts[i].key, sizeof refusal.facts[i].key);
        require_text(refusal.facts[i].value, sizeof refusal.facts[i].value);
    }

    char message[WIRE_MESSAGE_BYTES];
    uint8_t bytes[TW_ERROR_DETAILS_BYTES_MAX];
    tw_refusal_message(&refusal, message, sizeof message);
    size_t packed = wire_details_pack(&refusal, message, bytes);
    require(wire_details_unpack(bytes, packed, &again));
    require(again.reason == refusal.reason && again.n_facts == refusal.n_facts &&
            again.retry_after_ns == refusal.retry_after_ns);
    require(strcmp(again.field, refusal.field) == 0 && strcmp(again.text, refusal.text) == 0);
    return 0;
}
