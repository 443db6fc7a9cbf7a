/* fuzz_fix_codec.c
 * Targets:  fix_reader, fix_message_read, fix_message_write, fix_mask
 * Property: bytes give the same messages and the same amount of garbage however they are cut; a message without a defect,
 * written from its fields, is the very bytes it was read from; every value lies inside its message; what is masked has
 * no password in it. The first byte says how the bytes are cut, and whether they are the body of a message whose length
 * and checksum are right. */
#include <tradewake/fix/codec.h>
#include <tradewake/fix/store.h>

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

struct seen {
    uint64_t messages, sum, skipped;
};

static void values_check(const struct fix_message *message)
{
    require(message->n_fields >= 4 && message->fields[0].tag == 8 && message->fields[1].tag == 9 &&
            message->fields[2].tag == 35 && message->fields[message->n_fields - 1].tag == 10);
    for (size_t i = 0; i < message->n_fields; i++) {
        const struct fix_field *field = &message->fields[i];
        require(field->value > message->bytes && field->value + field->n < message->bytes + message->n);
        require(field->value[field->n] == FIX_SOH);
    }
}

static void round_trip(const struct fix_message *message)
{
    static char bytes[ROOM * 2];
    const struct fix_field *length = &message->fields[1];
    size_t n = fix_message_write(message, bytes, sizeof bytes);
    if (message->defect != FIX_NO_DEFECT || length->value[0] == '0')
        return; /* what is no field cannot be written; a length with zeros before it is written without */
    require(n == message->n && memcmp(bytes, message->bytes, n) == 0);
}

static void mask_check(const struct fix_message *message)
{
    static char masked[ROOM * 2];
    size_t n = fix_mask(message->bytes, message->n, masked, sizeof masked), password_n = 0;
    const char *password = fix_message_value(message, 554, &password_n);
    if (password == NULL || password_n < 8)
        return;
    const char *at = memmem(masked, n, "\001554=", 5);
    require(at != NULL && memcmp(at + 5, "***", 3) == 0);
}

static void message_check(const struct fix_message *message, struct seen *seen)
{
    values_check(message);
    round_trip(message);
    mask_check(message);
    seen->messages++;
    for (size_t i = 0; i < message->n; i++)
        seen->sum = seen->sum * 31 + (unsigned char)message->bytes[i];
}

static struct seen read_all(const char *bytes, size_t n, size_t piece)
{
    static struct fix_reader reader;
    struct fix_message message;
    struct seen seen = {0};
    if (reader.bytes == NULL)
        require(fix_reader_init(&reader, 4096) == TW_OK);
    fix_reader_reset(&reader);
    reader.skipped_bytes = 0;
    for (size_t at = 0; at < n;) {
        size_t take = fix_reader_feed(&reader, bytes + at, piece < n - at ? piece : n - at);
        require(take > 0);
        at += take;
        while (fix_reader_next(&reader, &message))
            message_check(&message, &seen);
    }
    seen.skipped = reader.skipped_bytes + (reader.end - reader.begin);
    return seen;
}

/* A message around a body. */
static size_t wrap(const char *body, size_t n, char *ret)
{
    int head = snprintf(ret, 64, "8=FIX.4.4\0019=%zu\00135=", n + 4);
    memcpy(ret + head, body, n);
    ret[(size_t)head + n] = FIX_SOH;
    size_t size = (size_t)head + n + 1;
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += (unsigned char)ret[i];
    return size + (size_t)snprintf(ret + size, 16, "10=%03u\001", sum % 256);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char wrapped[ROOM];
    if (size == 0 || size > ROOM / 2)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t n = size - 1;
    if ((data[0] & 1) != 0) {
        n = wrap(bytes, n, wrapped);
        bytes = wrapped;
    }
    struct seen whole = read_all(bytes, n, ROOM);
    struct seen pieces = read_all(bytes, n, (size_t)(data[0] >> 1) % 29 + 1);
    require(whole.messages == pieces.messages && whole.sum == pieces.sum && whole.skipped == pieces.skipped);
    return 0;
}
