/* fuzz_wire_decode.c
 * Targets:  tw_message_decode, of every request type there is (chosen by the first byte)
 * Property: what was accepted, packed and decoded again, gives the same bytes again; what was
 * refused for its text is accepted once the decoder has emptied it; memory stays within the cap; a
 * refusal is text itself and names a reason of the decoder. */
#include <tradewake/base/arena.h>
#include <tradewake/wire/descriptors.h>
#include <tradewake/wire/message.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REASON(name) TRADEWAKE__V1__ERROR_REASON__ERROR_REASON_##name

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static uint8_t *pack(const ProtobufCMessage *message, size_t *ret_size)
{
    *ret_size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(*ret_size + 1);
    require(bytes != NULL);
    require(protobuf_c_message_pack(message, bytes) == *ret_size);
    return bytes;
}

/* What the decoder let through comes back as it is. */
static void round_trip(const ProtobufCMessage *message)
{
    struct tw_arena arena;
    struct tw_refusal refusal;
    ProtobufCMessage *again = NULL;
    size_t first_size, second_size;
    uint8_t *first = pack(message, &first_size);
    tw_arena_init(&arena, 64u * 1024u * 1024u);
    bool is_fine =
        tw_message_decode(message->descriptor, first, first_size, &arena, &again, &refusal);
    /* A message may be smaller on the wire than it was, and then its cap is, too. */
    if (!is_fine) {
        require(refusal.reason == REASON(TOO_LARGE));
    } else {
        uint8_t *second = pack(again, &second_size);
        require(second_size == first_size && memcmp(first, second, first_size) == 0);
        free(second);
    }
    free(first);
    tw_arena_clear(&arena);
}

static void refusal_check(const struct tw_refusal *refusal, const ProtobufCMessage *message)
{
    require(refusal->reason == REASON(INVALID_FIELD) || refusal->reason == REASON(UNDECODABLE) ||
            refusal->reason == REASON(TOO_LARGE));
    require((refusal->reason == REASON(INVALID_FIELD)) == (message != NULL));
    require((refusal->field[0] != '\0') == (message != NULL));
    require(tw_text_is_valid(refusal->field, strlen(refusal->field)));
    require(tw_text_is_valid(refusal->text, strlen(refusal->text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *type =
        tw_method_type_at(data[0] % tw_method_types_count())->input;
    struct tw_arena arena;
    struct tw_refusal refusal = {0};
    ProtobufCMessage *message = NULL;
    tw_arena_init(&arena, 64u * 1024u * 1024u);

    bool is_fine = tw_message_decode(type, data + 1, size - 1, &arena, &message, &refusal);

    require(arena.used_bytes <= 2 * tw_message_decode_bytes_max(size - 1));
    if (!is_fine)
        refusal_check(&refusal, message);
    if (message != NULL)
        round_trip(message);
    tw_arena_clear(&arena);
    return 0;
}
