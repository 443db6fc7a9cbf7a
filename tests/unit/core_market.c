/* core_market.c - what an account can trade: as told, with the corrections by hand on top. */
#include "core_support.h"

Test(core_market, corrections_stay_on_top_of_whatever_the_broker_tells)
{
    const struct tw_instrument_override by_hand[] = {
        {.symbol = "EURUSD",
         .volume_min = dec("0.1"),
         .volume_max = TW_DECIMAL_UNSET,
         .volume_step = dec("0.1"),
         .contract_size = TW_DECIMAL_UNSET,
         .tick_size = TW_DECIMAL_UNSET,
         .min_notional = dec("10")},
    };
    struct fixture f;
    fixture_open(&f, NULL, NULL);
    f.follower.instruments = by_hand;
    f.follower.n_instruments = 1;
    struct tw_listing *listing = tw_market_find(&f.market, "EURUSD");

    tw_market_correct(&f.market, &f.follower);
    cr_expect_eq(listing->instrument.volume_min, dec("0.1"));
    cr_expect_eq(listing->instrument.volume_step, dec("0.1"));
    cr_expect_eq(listing->instrument.volume_max, dec("100"));
    cr_expect_eq(listing->instrument.min_notional, dec("10"));
    cr_expect_eq(listing->told.volume_min, dec("0.01"));

    struct tw_instrument again = instrument_of("EURUSD");
    again.volume_max = dec("50");
    tell(&f, &again);
    cr_expect_eq(listing->instrument.volume_max, dec("50"), "news of the broker");
    cr_expect_eq(listing->instrument.volume_min, dec("0.1"), "corrected all the same");

    f.follower.n_instruments = 0;
    tw_market_correct(&f.market, &f.follower);
    cr_expect_eq(listing->instrument.volume_min, dec("0.01"), "the correction is taken back");
    fixture_close(&f);
}

Test(core_market, a_listing_stays_where_it_is_while_others_come)
{
    struct fixture f;
    fixture_open(&f, NULL, NULL);
    struct tw_listing *listing = tw_market_find(&f.market, "EURUSD");
    for (int i = 0; i < 1000; i++) {
        char symbol[16];
        snprintf(symbol, sizeof symbol, "S%d", i);
        struct tw_instrument instrument = instrument_of(symbol);
        tell(&f, &instrument);
    }
    cr_expect_eq(tw_market_find(&f.market, "EURUSD"), listing);
    cr_expect_not_null(tw_market_find(&f.market, "S999"));
    cr_expect_null(tw_market_find(&f.market, "S1000"));
    fixture_close(&f);
}

Test(core_market, a_quote_may_come_before_the_instrument)
{
    struct fixture f;
    fixture_open(&f, NULL, NULL);
    quote(&f, "GBPUSD", "1.3", "1.3001");
    f.event.symbol = "GBPUSD";

    cr_expect_eq(plan_now(&f).reason, REASON(MISSING_SPEC), "its step is not known");

    struct tw_instrument gbpusd = instrument_of("GBPUSD");
    tell(&f, &gbpusd);
    cr_expect_eq(plan_now(&f).reason, REASON(UNSPECIFIED));
    cr_expect_eq(tw_market_find(&f.market, "GBPUSD")->bid, dec("1.3"), "the quote is still there");
    fixture_close(&f);
}

Test(core_market, what_is_ours_survives_news_of_the_instrument)
{
    struct fixture f;
    fixture_open(&f, NULL, NULL);
    tw_market_find(&f.market, "EURUSD")->open_volume = dec("3");
    struct tw_instrument eurusd = instrument_of("EURUSD");
    tell(&f, &eurusd);
    cr_expect_eq(tw_market_find(&f.market, "EURUSD")->open_volume, dec("3"));
    fixture_close(&f);
}

Test(core_market, an_order_trades_at_the_ask_or_the_bid)
{
    const struct tw_listing listing = {.bid = dec("1.1"), .ask = dec("1.2")};
    cr_expect_eq(tw_listing_price(&listing, TW_BUY), dec("1.2"));
    cr_expect_eq(tw_listing_price(&listing, TW_SELL), dec("1.1"));
}

/* The same name, whichever way it was put together, has the same hash and text; a part of eight bytes as well. */
Test(core_market, a_name_is_the_same_whatever_it_was_put_together_of)
{
    static const char *const names[] = {"E", "EUR", "EURUSD", "EURUSD.", "EURUSD.x", "EURUSD.xy", "EURUSD.cash.of.ours",
                                        "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqr"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *name = names[i];
        size_t length = strlen(name);
        struct tw_symbol whole;
        tw_symbol_begin(&whole);
        tw_symbol_add(&whole, name);
        cr_expect_not(whole.is_too_long);
        for (size_t first = 0; first <= length; first++)
            for (size_t second = first; second <= length; second++) {
                char parts[3][80];
                struct tw_symbol symbol;
                snprintf(parts[0], sizeof parts[0], "%.*s", (int)first, name);
                snprintf(parts[1], sizeof parts[1], "%.*s", (int)(second - first), name + first);
                snprintf(parts[2], sizeof parts[2], "%s", name + second);
                tw_symbol_begin(&symbol);
                for (size_t k = 0; k < 3; k++) {
                    char eight[8] = "";
                    if (strlen(parts[k]) < sizeof eight && k < 2) {
                        memset(eight, 'x', sizeof eight); /* what is behind the end does not count */
                        memcpy(eight, parts[k], strlen(parts[k]) + 1);
                        tw_symbol_add_short(&symbol, eight);
                    } else {
                        tw_symbol_add(&symbol, parts[k]);
                    }
                }
                cr_assert_str_eq(symbol.text, name, "cut at %zu and %zu", first, second);
                cr_assert_eq(symbol.length, length);
                cr_assert_eq(tw_symbol_hash(&symbol), tw_symbol_hash(&whole), "%s cut at %zu and %zu", name, first, second);
            }
        tw_symbol_add(&whole, "and so much more that no account has a name as long as this, whatever it is");
        cr_expect(whole.is_too_long);
    }
}

Test(core_market, head_and_tail_are_the_first_and_the_last_eight)
{
    static const struct {
        const char *name, *head, *tail; /* a dot: nothing */
    } rows[] = {
        {"", "........", "........"},       {"E", "E.......", ".......E"},   {"EURUSD", "EURUSD..", "..EURUSD"},
        {"EURUSDm", "EURUSDm.", ".EURUSDm"}, {"EURUSD-x", "EURUSD-x", "EURUSD-x"}, {"EURUSD-xy", "EURUSD-x", "URUSD-xy"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t head = tw_symbol_head(rows[i].name), tail = tw_symbol_tail(rows[i].name, head);
        for (unsigned k = 0; k < 8; k++) {
            char first = (char)(head >> (8 * k)), last = (char)(tail >> (8 * k));
            cr_expect_eq(first, rows[i].head[k] == '.' ? '\0' : rows[i].head[k], "%s: head %u", rows[i].name, k);
            cr_expect_eq(last, rows[i].tail[k] == '.' ? '\0' : rows[i].tail[k], "%s: tail %u", rows[i].name, k);
        }
    }
    cr_expect(tw_symbol_is("EURUSD-xy", tw_symbol_head("EURUSD-xy"), "EURUSD-xy", tw_symbol_head("EURUSD-xy")));
    cr_expect_not(tw_symbol_is("EURUSD-xy", tw_symbol_head("EURUSD-xy"), "EURUSD-xz", tw_symbol_head("EURUSD-xz")));
    cr_expect_not(tw_symbol_is("EURUSD-x", tw_symbol_head("EURUSD-x"), "EURUSD-xz", tw_symbol_head("EURUSD-xz")));
}
