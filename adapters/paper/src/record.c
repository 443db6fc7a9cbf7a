#include "record.h"

#include <pthread.h>
#include <string.h>

/* ---- CRC-32C (Castagnoli), a byte at a time: a record is some 150 bytes. ---- */

static uint32_t crc_table[256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_table_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        crc_table[i] = crc;
    }
}

static uint32_t crc32c(const uint8_t *bytes, size_t size)
{
    pthread_once(&crc_once, crc_table_make);
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ crc_table[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}

/* ---- Heads. ---- */

static void word_write(uint8_t *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t word_read(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

enum { AT_SIZE = 4, AT_CRC = 8, AT_ACCOUNT = 12, AT_TYPE = 16 };

void record_begin(struct record_writer *writer, void *bytes, size_t cap)
{
    *writer = (struct record_writer){.bytes = bytes, .n = RECORD_HEAD_BYTES, .cap = cap};
}

bool record_end(struct record_writer *writer, uint32_t account, uint8_t type)
{
    if (writer->is_full)
        return false;
    word_write(writer->bytes, RECORD_MAGIC);
    word_write(writer->bytes + AT_SIZE, (uint32_t)(writer->n - RECORD_HEAD_BYTES));
    word_write(writer->bytes + AT_ACCOUNT, account);
    writer->bytes[AT_TYPE] = type;
    word_write(writer->bytes + AT_CRC, crc32c(writer->bytes + AT_ACCOUNT, writer->n - AT_ACCOUNT));
    return true;
}

bool record_next(const uint8_t **at, const uint8_t *end, struct record *ret)
{
    const uint8_t *head = *at;
    if ((size_t)(end - head) < RECORD_HEAD_BYTES || word_read(head) != RECORD_MAGIC)
        return false;
    uint32_t size = word_read(head + AT_SIZE);
    if (size > RECORD_BODY_BYTES_MAX || size > (size_t)(end - head) - RECORD_HEAD_BYTES)
        return false;
    const uint8_t *behind = head + RECORD_HEAD_BYTES + size;
    if (crc32c(head + AT_ACCOUNT, (size_t)(behind - head) - AT_ACCOUNT) != word_read(head + AT_CRC))
        return false;
    *ret = (struct record){.account = word_read(head + AT_ACCOUNT),
                           .type = head[AT_TYPE],
                           .body = {head + RECORD_HEAD_BYTES, behind, false}};
    *at = behind;
    return true;
}

/* ---- Fields. ---- */

static void put_byte(struct record_writer *writer, uint8_t byte)
{
    if (writer->n == writer->cap)
        writer->is_full = true;
    else
        writer->bytes[writer->n++] = byte;
}

static uint8_t get_byte(struct record_reader *reader)
{
    if (reader->at == reader->end) {
        reader->is_bad = true;
        return 0;
    }
    return *reader->at++;
}

void put_number(struct record_writer *writer, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(writer, (uint8_t)(value | 0x80));
    put_byte(writer, (uint8_t)value);
}

uint64_t get_number(struct record_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = get_byte(reader);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    reader->is_bad = true;
    return 0;
}

void put_signed(struct record_writer *writer, int64_t value)
{
    put_number(writer, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

int64_t get_signed(struct record_reader *reader)
{
    uint64_t value = get_number(reader);
    return (int64_t)(value >> 1 ^ ((value & 1) != 0 ? UINT64_MAX : 0));
}

void put_text(struct record_writer *writer, const char *text)
{
    size_t size = strlen(text);
    put_number(writer, size);
    if (size > writer->cap - writer->n) {
        writer->is_full = true;
        return;
    }
    memcpy(writer->bytes + writer->n, text, size);
    writer->n += size;
}

void get_text(struct record_reader *reader, char *text, size_t size_bytes)
{
    uint64_t size = get_number(reader);
    text[0] = '\0';
    if (size >= size_bytes || size > (size_t)(reader->end - reader->at)) {
        reader->is_bad = true;
        return;
    }
    memcpy(text, reader->at, size);
    text[size] = '\0';
    reader->at += size;
}
