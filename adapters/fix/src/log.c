/* What was said, for people: masks and names. */
#include <tradewake/fix/store.h>

#include "record.h"

#include <tradewake/base/clock.h>
#include <tradewake/base/file.h>

#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES_MAX = 1 << 28 };

/* ---- Fields of what may be no message any more. ---- */

struct piece {
    uint32_t tag;
    const char *begin; /* of the tag */
    const char *value;
    size_t n; /* of the value */
};

/* The field at *at. before: the one before it, which may say how long this is; a length that does not fit says nothing. */
static bool piece_next(const char **at, const char *end, const struct piece *before, struct piece *ret)
{
    if (*at >= end)
        return false;
    const char *soh = memchr(*at, FIX_SOH, (size_t)(end - *at));
    soh = soh != NULL ? soh : end;
    const char *equals = memchr(*at, '=', (size_t)(soh - *at));
    uint64_t tag = 0, length;
    *ret = (struct piece){.begin = *at, .value = equals != NULL ? equals + 1 : *at};
    if (equals != NULL && fix_number_read(*at, (size_t)(equals - *at), &tag) && tag <= UINT32_MAX)
        ret->tag = (uint32_t)tag;
    if (ret->tag != 0 && before->tag != 0 && fix_data_tag(before->tag) == ret->tag &&
        fix_number_read(before->value, before->n, &length) && length < (uint64_t)(end - ret->value) &&
        ret->value[length] == FIX_SOH)
        soh = ret->value + length;
    ret->n = (size_t)(soh - ret->value);
    *at = soh < end ? soh + 1 : end;
    return true;
}

/* Passwords, plain and encrypted; what a Logon or a UserRequest carries as raw data. */
static bool is_secret(uint32_t tag, bool is_logon)
{
    return tag == 554 || tag == 925 || tag == 1402 || tag == 1404 || (tag == 96 && is_logon);
}

static bool type_is(const struct piece *piece, const char *type)
{
    return piece->tag == 35 && piece->n == strlen(type) && memcmp(piece->value, type, piece->n) == 0;
}

static void put(char *ret, size_t room, size_t *n, const char *bytes, size_t size)
{
    if (size > room - *n)
        size = room - *n;
    if (size > 0)
        memcpy(ret + *n, bytes, size);
    *n += size;
}

size_t fix_mask(const char *bytes, size_t n, char *ret, size_t room)
{
    const char *at = bytes, *end = bytes + n;
    struct piece piece = {0}, before = {0};
    bool is_logon = false;
    size_t size = 0;
    for (; piece_next(&at, end, &before, &piece); before = piece) {
        is_logon = is_logon || type_is(&piece, "A") || type_is(&piece, "BE");
        bool is_hidden = piece.n > 0 && is_secret(piece.tag, is_logon);
        put(ret, room, &size, piece.begin, (size_t)(piece.value - piece.begin));
        put(ret, room, &size, is_hidden ? "***" : piece.value, is_hidden ? 3 : piece.n);
        put(ret, room, &size, piece.value + piece.n, (size_t)(at - piece.value) - piece.n);
    }
    return size;
}

/* ---- Names. ---- */

static const struct {
    const char *type, *name;
} types[] = {
    {"0", "Heartbeat"},
    {"1", "TestRequest"},
    {"2", "ResendRequest"},
    {"3", "Reject"},
    {"4", "SequenceReset"},
    {"5", "Logout"},
    {"8", "ExecutionReport"},
    {"9", "OrderCancelReject"},
    {"A", "Logon"},
    {"AF", "OrderMassStatusRequest"},
    {"AN", "RequestForPositions"},
    {"AO", "RequestForPositionsAck"},
    {"AP", "PositionReport"},
    {"D", "NewOrderSingle"},
    {"F", "OrderCancelRequest"},
    {"G", "OrderCancelReplaceRequest"},
    {"H", "OrderStatusRequest"},
    {"W", "MarketDataSnapshotFullRefresh"},
    {"h", "TradingSessionStatus"},
    {"j", "BusinessMessageReject"},
    {"x", "SecurityListRequest"},
    {"y", "SecurityList"},
};

static const struct {
    uint16_t tag;
    const char *name;
} tags[] = {
    {1, "Account"},          {6, "AvgPx"},              {7, "BeginSeqNo"},         {11, "ClOrdID"},
    {14, "CumQty"},          {16, "EndSeqNo"},          {17, "ExecID"},            {19, "ExecRefID"},
    {21, "HandlInst"},       {31, "LastPx"},            {32, "LastQty"},           {36, "NewSeqNo"},
    {37, "OrderID"},         {38, "OrderQty"},          {39, "OrdStatus"},         {40, "OrdType"},
    {41, "OrigClOrdID"},     {43, "PossDupFlag"},       {44, "Price"},             {45, "RefSeqNum"},
    {54, "Side"},            {55, "Symbol"},            {58, "Text"},              {59, "TimeInForce"},
    {60, "TransactTime"},    {77, "PositionEffect"},    {95, "RawDataLength"},     {96, "RawData"},
    {97, "PossResend"},      {98, "EncryptMethod"},     {99, "StopPx"},            {102, "CxlRejReason"},
    {103, "OrdRejReason"},   {108, "HeartBtInt"},       {112, "TestReqID"},        {122, "OrigSendingTime"},
    {123, "GapFillFlag"},    {126, "ExpireTime"},       {141, "ResetSeqNumFlag"},  {150, "ExecType"},
    {151, "LeavesQty"},      {371, "RefTagID"},         {372, "RefMsgType"},       {373, "SessionRejectReason"},
    {378, "ExecRestatementReason"}, {379, "BusinessRejectRefID"}, {380, "BusinessRejectReason"}, {434, "CxlRejResponseTo"},
    {494, "Designation"},    {553, "Username"},         {554, "Password"},         {584, "MassStatusReqID"},
    {585, "MassStatusReqType"}, {702, "NoPositions"},   {704, "LongQty"},          {705, "ShortQty"},
    {710, "PosReqID"},       {721, "PosMaintRptID"},    {724, "PosReqType"},       {727, "TotalNumPosReports"},
    {728, "PosReqResult"},   {730, "SettlPrice"},       {790, "OrdStatusReqID"},   {911, "TotNumReports"},
    {912, "LastRptRequested"}, {925, "NewPassword"},
};

static const char *type_name(const char *type, size_t n)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strlen(types[i].type) == n && memcmp(types[i].type, type, n) == 0)
            return types[i].name;
    return "";
}

static const char *tag_name(uint32_t tag)
{
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (tags[i].tag == tag)
            return tags[i].name;
    return "";
}

/* ---- Lines. ---- */

/* What a terminal would obey is shown, not done. */
static void print_text(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= ' ' && c != 0x7f)
            fputc(c, out);
        else
            fprintf(out, "\\x%02x", c);
    }
}

static void print_message(FILE *out, const char *bytes, size_t n)
{
    const char *at = bytes, *end = bytes + n;
    struct piece piece = {0}, before = {0};
    bool is_logon = false;
    for (; piece_next(&at, end, &before, &piece); before = piece) {
        if (piece.tag == 8 || piece.tag == 9 || piece.tag == 10 || piece.tag == 49 || piece.tag == 52 || piece.tag == 56)
            continue; /* the same in every line */
        is_logon = is_logon || type_is(&piece, "A") || type_is(&piece, "BE");
        const char *name = tag_name(piece.tag);
        fputc(' ', out);
        if (name[0] != '\0')
            fprintf(out, "%s(%u)=", name, piece.tag);
        else
            print_text(out, piece.begin, (size_t)(piece.value - piece.begin));
        if (is_secret(piece.tag, is_logon))
            fputs("***", out);
        else
            print_text(out, piece.value, piece.n);
        if (piece.tag == 35 && type_name(piece.value, piece.n)[0] != '\0')
            fprintf(out, " %s", type_name(piece.value, piece.n));
    }
}

void fix_log_print(FILE *out, const struct fix_log_entry *entry)
{
    char time[FIX_UTC_BYTES];
    static const char *const arrows[] = {[FIX_LOG_OUT] = ">", [FIX_LOG_IN] = "<", [FIX_LOG_NOTE] = "#", [FIX_LOG_NUMBERS] = "="};
    if (entry->wall_ns > 0)
        fprintf(out, "%s %s", fix_time_text(entry->wall_ns, time), arrows[entry->kind]);
    else
        fprintf(out, "%21s %s", "", arrows[entry->kind]);
    if (entry->kind == FIX_LOG_NUMBERS) {
        fprintf(out, " next out %llu, next in %llu, since %s", (unsigned long long)entry->numbers.next_out,
                (unsigned long long)entry->numbers.next_in, fix_time_text(entry->numbers.since_wall_ns, time));
    } else if (entry->kind == FIX_LOG_NOTE) {
        fputc(' ', out);
        print_text(out, entry->bytes, entry->n);
    } else {
        print_message(out, entry->bytes, entry->n);
    }
    fputc('\n', out);
}

static void print_json_text(FILE *out, const char *text, size_t n)
{
    fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == FIX_SOH)
            fputc('|', out);
        else if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c >= ' ' && c < 0x7f)
            fputc(c, out);
        else
            fprintf(out, "\\u%04x", c); /* FIX says nothing of what a byte above 127 is: Latin-1 keeps all of them */
    }
    fputc('"', out);
}

void fix_log_json(FILE *out, const struct fix_log_entry *entry)
{
    static const char *const kinds[] = {[FIX_LOG_OUT] = "OUT", [FIX_LOG_IN] = "IN", [FIX_LOG_NOTE] = "NOTE", [FIX_LOG_NUMBERS] = "NUMBERS"};
    bool is_message = entry->kind == FIX_LOG_OUT || entry->kind == FIX_LOG_IN;
    char time[FIX_UTC_BYTES];
    const char *at = entry->bytes, *end = entry->bytes + entry->n;
    struct piece piece = {0}, before = {0};
    fprintf(out, "{\"at\": \"%s\", \"kind\": \"%s\"", entry->wall_ns > 0 ? fix_time_text(entry->wall_ns, time) : "", kinds[entry->kind]);
    if (entry->kind == FIX_LOG_NUMBERS) {
        fprintf(out, ", \"next_out\": %llu, \"next_in\": %llu}\n", (unsigned long long)entry->numbers.next_out,
                (unsigned long long)entry->numbers.next_in);
        return;
    }
    for (; is_message && piece_next(&at, end, &before, &piece); before = piece)
        if (piece.tag == 35) {
            fputs(", \"type\": ", out);
            print_json_text(out, piece.value, piece.n);
            break;
        }
    fputs(", \"message\": ", out);
    /* Masked when it was written; once more for files of who knows whom. */
    char *masked = is_message ? malloc(entry->n * 2 + 16) : NULL;
    if (masked != NULL)
        print_json_text(out, masked, fix_mask(entry->bytes, entry->n, masked, entry->n * 2 + 16));
    else
        print_json_text(out, is_message ? "" : entry->bytes, is_message ? 0 : entry->n);
    free(masked);
    fputs("}\n", out);
}

/* ---- The file. ---- */

static void tell_record(const struct record *record, fix_log_fn *tell, void *context)
{
    struct fix_log_entry entry = {.wall_ns = record->wall_ns, .bytes = record->payload, .n = record->n};
    switch (record->kind) {
    case RECORD_NUMBERS:
        entry.kind = FIX_LOG_NUMBERS;
        entry.numbers = (struct fix_store_numbers){.next_out = get_u64(record->payload),
                                                   .next_in = get_u64(record->payload + 8),
                                                   .since_wall_ns = (int64_t)get_u64(record->payload + 16)};
        break;
    case RECORD_OUT:
        entry.kind = FIX_LOG_OUT;
        entry.bytes += 8;
        entry.n -= 8;
        break;
    case RECORD_IN:
        entry.kind = FIX_LOG_IN;
        break;
    case RECORD_NOTE:
        entry.kind = FIX_LOG_NOTE;
        break;
    case RECORD_EXPECT:
        return;
    }
    tell(context, &entry);
}

tw_status fix_log_read(const char *path, fix_log_fn *tell, void *context, struct tw_error *error)
{
    char *bytes = NULL;
    size_t n = 0, at = MAGIC_BYTES;
    struct record record;
    tw_status status = tw_file_read(path, LOG_BYTES_MAX, &bytes, &n, error);
    if (status != TW_OK)
        return status;
    if (n < MAGIC_BYTES || memcmp(bytes, FIX_RECORD_MAGIC, MAGIC_BYTES) != 0) {
        free(bytes);
        return tw_error_set(error, TW_INVALID, "%s is no file of a FIX session", path);
    }
    while (at < n && fix_record_next(bytes, n, &at, &record))
        tell_record(&record, tell, context);
    if (at < n)
        status = tw_error_set(error, TW_INVALID, "%s cannot be read from byte %zu of %zu on: it is being written, its end is torn, or it is damaged",
                              path, at, n);
    free(bytes);
    return status;
}
