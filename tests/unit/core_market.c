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
