#include <tradewake/core/copy_id.h>
#include <tradewake/core/digest.h>

enum { BASE32_CHARS = 18, BASE32_BITS = 5 };

void tw_copy_id(const struct tw_copy_id_input *input, char ret[TW_COPY_ID_BYTES])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    char text[512]; /* four ids of at most 64 characters, an action, two numbers */
    struct tw_lines lines = {text, text + sizeof text};
    tw_lines_put(&lines, input->master_id);
    tw_lines_put(&lines, input->event_id);
    tw_lines_put(&lines, input->follower_id);
    tw_lines_put(&lines, input->subject_id);
    tw_lines_put(&lines, input->action);
    tw_lines_put_number(&lines, input->leg);
    tw_lines_put_number(&lines, input->attempt);
    uint8_t digest[TW_SHA256_BYTES];
    tw_sha256(text, (size_t)(lines.at - text), digest);

    ret[0] = 'T';
    ret[1] = '1';
    for (unsigned i = 0; i < BASE32_CHARS; i++) {
        unsigned bit = i * BASE32_BITS, byte = bit / 8, shift = bit % 8;
        unsigned pair = (unsigned)digest[byte] << 8 | digest[byte + 1];
        ret[2 + i] = alphabet[pair >> (11 - shift) & 31u];
    }
    ret[TW_COPY_ID_CHARS] = '\0';
}
