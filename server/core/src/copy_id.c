#include <tradewake/core/copy_id.h>

#include <openssl/sha.h>
#include <stdio.h>

enum { BASE32_CHARS = 18, BASE32_BITS = 5 };

void tw_copy_id(const struct tw_copy_id_input *input, char ret[TW_COPY_ID_BYTES])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    char text[512]; /* four ids of at most 64 characters, an action, two numbers */
    int length = snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s\n%u\n%u\n", input->master_id,
                          input->event_id, input->follower_id, input->subject_id, input->action,
                          input->leg, input->attempt);
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)text, (size_t)length, digest);

    ret[0] = 'T';
    ret[1] = '1';
    for (unsigned i = 0; i < BASE32_CHARS; i++) {
        unsigned bit = i * BASE32_BITS, byte = bit / 8, shift = bit % 8;
        unsigned pair = (unsigned)digest[byte] << 8 | digest[byte + 1];
        ret[2 + i] = alphabet[pair >> (11 - shift) & 31u];
    }
    ret[TW_COPY_ID_CHARS] = '\0';
}
