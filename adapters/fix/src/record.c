#include "record.h"

#include <string.h>

static void put_u32(char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(value >> (8 * i) & 0xff);
}

static uint32_t get_u32(const char *from)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)(unsigned char)from[i] << (8 * i);
    return value;
}

void put_u64(char *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

uint64_t get_u64(const char *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

/* CRC-32C, four bits at a time: a message is a few hundred bytes. */
static uint32_t sum(uint32_t crc, const char *bytes, size_t n)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

void fix_record_head(char head[RECORD_HEAD_BYTES], const struct record *record)
{
    put_u32(head, (uint32_t)record->n);
    head[8] = (char)record->kind;
    put_u64(head + 9, (uint64_t)record->wall_ns);
    put_u32(head + 4, sum(sum(0, head + 8, 9), record->payload, record->n));
}

bool fix_record_next(const char *bytes, size_t n, size_t *at, struct record *ret)
{
    if (n - *at < RECORD_HEAD_BYTES)
        return false;
    const char *head = bytes + *at;
    size_t size = get_u32(head);
    if (size > RECORD_PAYLOAD_MAX || size > n - *at - RECORD_HEAD_BYTES || head[8] < RECORD_NUMBERS || head[8] > RECORD_NOTE)
        return false;
    if (sum(sum(0, head + 8, 9), head + RECORD_HEAD_BYTES, size) != get_u32(head + 4))
        return false;
    *ret = (struct record){.kind = (enum record_kind)head[8],
                           .wall_ns = (int64_t)get_u64(head + 9),
                           .payload = head + RECORD_HEAD_BYTES,
                           .n = size};
    if ((ret->kind == RECORD_NUMBERS && size != NUMBERS_BYTES) || (ret->kind == RECORD_EXPECT && size != 8) ||
        (ret->kind == RECORD_OUT && size < 8))
        return false;
    *at += RECORD_HEAD_BYTES + size;
    return true;
}
