/* decimal_driver.c - answers arithmetic questions line by line, so that another language can check
 * them.
 *
 * A line is an operation and its arguments, parted by tabs; decimals as text. The answer is one
 * line: what came out as canonical text, or "no" where the operation says that it cannot. */
#include <tradewake/base/decimal.h>
#include <tradewake/core/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 16, LINE_BYTES = 1024 };

/* Raw units ("#123") reach what text of the wire cannot: 10 digits in front of the point. */
static tw_decimal decimal(const char *text)
{
    tw_decimal value = TW_DECIMAL_UNSET;
    if (text[0] == '#')
        return strtoll(text + 1, NULL, 10);
    if (!tw_decimal_parse(text, &value)) {
        fprintf(stderr, "\"%s\" is not a decimal\n", text);
        exit(2);
    }
    return value;
}

static enum tw_rounding rounding(const char *word)
{
    return strcmp(word, "down") == 0 ? TW_ROUND_DOWN
           : strcmp(word, "up") == 0 ? TW_ROUND_UP
                                     : TW_ROUND_NEAREST;
}

static void say(bool can, tw_decimal value)
{
    char text[TW_DECIMAL_TEXT_BYTES];
    puts(can ? tw_decimal_text(value, text) : "no");
}

static void parse(char **a)
{
    tw_decimal value = 0;
    bool can = tw_decimal_parse(a[0], &value);
    say(can, value);
}

static void add(char **a)
{
    tw_decimal value = 0;
    bool can = tw_decimal_add(decimal(a[0]), decimal(a[1]), &value);
    say(can, value);
}

static void mul(char **a)
{
    tw_decimal value = 0;
    bool can = tw_decimal_mul(decimal(a[0]), decimal(a[1]), &value);
    say(can, value);
}

static void round_to(char **a)
{
    say(true, tw_decimal_round(decimal(a[0]), decimal(a[1]), rounding(a[2])));
}

static void scale(char **a)
{
    tw_decimal value = 0;
    bool can = tw_decimal_scale(decimal(a[0]), decimal(a[1]), decimal(a[2]), decimal(a[3]),
                                rounding(a[4]), &value);
    say(can, value);
}

/* The size of an open through the rules themselves: sizing mode, then what each row below says. */
static void size(char **a)
{
    struct tw_instrument instrument = {.symbol = "XY", .profit_currency = "EUR"};
    struct tw_follower_rules follower = {.mode = TW_MODE_ACTIVE,
                                         .symbol_suffix = "",
                                         .max_order_volume = TW_DECIMAL_UNSET,
                                         .max_total_volume = TW_DECIMAL_UNSET};
    struct tw_rules rules = {.sizing = (enum tw_sizing)atoi(a[0]),
                             .multiplier = decimal(a[2]),
                             .fixed_volume = TW_DECIMAL_UNSET,
                             .risk_fraction = decimal(a[2]),
                             .min_volume = TW_DECIMAL_UNSET,
                             .max_volume = TW_DECIMAL_UNSET,
                             .max_risk_coefficient = TW_DECIMAL_UNSET,
                             .pending = TW_PENDING_COPY,
                             .allows_buy = true,
                             .open_window_ns = INT64_MAX / 4,
                             .max_price_deviation = TW_DECIMAL_UNSET,
                             .rounding = rounding(a[9])};
    struct tw_account mine = {.currency = "USD", .balance = decimal(a[3])};
    struct tw_account masters = {.currency = "EUR", .balance = decimal(a[4])};
    struct tw_event event;
    struct tw_market market = {0};
    struct tw_plan plan;

    tw_event_clear(&event, TW_EVENT_OPEN);
    event.symbol = "XY";
    event.side = TW_BUY;
    event.type = TW_ORDER_MARKET;
    event.volume = decimal(a[1]);
    event.price = decimal(a[10]);
    event.stop_loss = decimal(a[11]);
    instrument.volume_step = instrument.volume_min = decimal(a[8]);
    instrument.contract_size = decimal(a[12]);
    event.contract_size = decimal(a[13]);
    if (!tw_market_tell(&market, &instrument, 1, &follower) ||
        !tw_market_quote(&market, a[5], decimal(a[6]), decimal(a[7])))
        exit(2);
    const struct tw_follower_view view = {.follower = &follower,
                                          .rules = &rules,
                                          .market = &market,
                                          .account = &mine,
                                          .master_account = &masters};
    tw_plan_open(&event, &view, 0, &plan);
    const ProtobufCEnumValue *reason =
        protobuf_c_enum_descriptor_get_value(&tradewake__v1__reason__descriptor, (int)plan.reason);
    char text[TW_DECIMAL_TEXT_BYTES];
    puts(plan.reason == 0 ? tw_decimal_text(plan.volume, text) : reason->name);
    tw_market_clear(&market);
}

static const struct {
    const char *name;
    void (*answer)(char **arguments);
    int arguments;
} operations[] = {
    {"parse", parse, 1},    {"add", add, 2},     {"mul", mul, 2},
    {"round", round_to, 3}, {"scale", scale, 5}, {"size", size, 14},
};

int main(void)
{
    static char line[LINE_BYTES];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *words[ARGUMENTS_MAX + 1], *rest = line;
        int n = 0;
        line[strcspn(line, "\n")] = '\0';
        while (rest != NULL && n <= ARGUMENTS_MAX)
            words[n++] = strsep(&rest, "\t");
        size_t i = 0, count = sizeof operations / sizeof operations[0];
        while (i < count &&
               (strcmp(operations[i].name, words[0]) != 0 || operations[i].arguments != n - 1))
            i++;
        if (i == count) {
            fprintf(stderr, "no such question: %s with %d arguments\n", words[0], n - 1);
            return 2;
        }
        operations[i].answer(words + 1);
    }
    return 0;
}
