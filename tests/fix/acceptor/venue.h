// venue.h - orders and positions of a simulated venue; knows no FIX engine. What it says goes out through Wire.
//
// Thread: any; one lock over everything. A desk thread does what is due later.
#pragma once

#include "ledger.h"
#include "rules.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

using Fields = std::map<int, std::string>; // by tag
using Units = std::int64_t;                // 1e-8

class Wire {
public:
    virtual ~Wire() = default;
    virtual void send(const std::string &session, const std::string &type, const Fields &fields) = 0;
    virtual void cut(const std::string &session) = 0;
};

struct VenueOptions {
    bool is_hedging = false;
    int delay_ms = 0;
    bool refuses_duplicates = true; // off: a second order with a known ClOrdID is executed
};

class Venue {
public:
    Venue(const VenueOptions &options, Rules &rules, Ledger &ledger, Wire &wire);
    ~Venue();
    Venue(const Venue &) = delete;
    Venue &operator=(const Venue &) = delete;

    // An application message. False: the venue does not know its type.
    bool take(const std::string &session, const std::string &type, const Fields &fields);

    // A command, a line of words; what is answered. Throws std::runtime_error.
    std::string command(const std::vector<std::string> &words);

private:
    struct Order {
        std::string session, account, id, order_id, symbol, position, label;
        std::set<std::string> ids; // the chain of ClOrdIDs
        char side = '1', type = '1', status = 'A', tif = '1';
        std::string price, stop_price, expires;
        Units quantity = 0, cum = 0;
        __int128 value = 0; // of what is filled, price x quantity
        std::string last_exec;
        Units last_quantity = 0;
        Rule rule;

        bool is_working() const { return status == '0' || status == '1' || status == 'A'; }
        Units leaves() const { return is_working() ? quantity - cum : 0; }
    };
    using OrderRef = std::shared_ptr<Order>;

    struct Position {
        std::string id, symbol, label;
        char side = '1';
        Units quantity = 0, price = 0;
    };

    void on_new(const std::string &session, const Fields &fields);
    void on_change(const std::string &session, const Fields &fields, bool is_cancel);
    void on_status(const std::string &session, const Fields &fields);
    void on_mass_status(const std::string &session, const Fields &fields);
    void on_positions(const std::string &session, const Fields &fields);

    void execute(const OrderRef &order);
    void fill(const OrderRef &order, Units quantity, bool is_told);
    void book(const OrderRef &order, Units quantity, Units price);
    void end(const OrderRef &order, char status, const std::string &text, bool is_told);
    void accept_change(const OrderRef &order, const Fields &fields, bool is_cancel);
    void refuse_change(const std::string &session, const Fields &fields, const OrderRef &order, int code, bool is_cancel);
    void crossed(const std::string &symbol, Units price);
    std::string refusal_of(const Order &order) const;

    Fields state_of(const Order &order) const;
    Fields report_of(const Order &order, char exec_type);
    void report(const OrderRef &order, Fields fields);
    void note(const char *what, const Order &order, const std::string &rest);
    OrderRef find(const std::string &session, const std::string &account, const std::string &id) const;
    OrderRef find_any(const std::string &id) const;
    Units price_of(const std::string &symbol) const;
    std::string next_id(const char *prefix);
    void later(int ms, std::function<void()> what);
    void desk();

    const VenueOptions options_;
    Rules &rules_;
    Ledger &ledger_;
    Wire &wire_;
    const std::string run_; // in all ids: two runs of a venue never give out the same
    std::mutex lock_;
    int delay_ms_;
    std::uint64_t ids_ = 0;
    std::vector<OrderRef> orders_;
    std::map<std::string, OrderRef> by_id_; // session, account and any ClOrdID of its chain
    std::map<std::string, std::map<std::string, Position>> positions_; // by session and account
    std::map<std::string, Units> prices_;

    std::condition_variable due_;
    std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> tasks_;
    bool is_ending_ = false;
    std::thread desk_;
};

// Decimals without floating point. Throws std::runtime_error.
Units units_read(const std::string &text);
std::string units_text(Units units);
