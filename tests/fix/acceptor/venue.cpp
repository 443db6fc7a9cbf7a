#include "venue.h"

#include <sstream>
#include <stdexcept>

namespace {

const Units ONE = 100000000;

// What the codes of the fields are called here; the rest is FIX 4.4.
enum Tag {
    ACCOUNT = 1, AVG_PX = 6, CL_ORD_ID = 11, CUM_QTY = 14, EXEC_ID = 17, EXEC_REF_ID = 19, LAST_PX = 31, LAST_QTY = 32,
    ORDER_ID = 37, ORDER_QTY = 38, ORD_STATUS = 39, ORD_TYPE = 40, ORIG_CL_ORD_ID = 41, PRICE = 44, SYMBOL = 55, SIDE = 54,
    TEXT = 58, TIME_IN_FORCE = 59, STOP_PX = 99, CXL_REJ_REASON = 102, ORD_REJ_REASON = 103, EXPIRE_TIME = 126,
    EXEC_TYPE = 150, LEAVES_QTY = 151, REF_MSG_TYPE = 372, BUSINESS_REASON = 380, CXL_REJ_RESPONSE_TO = 434, DESIGNATION = 494,
    MASS_STATUS_REQ_ID = 584, POS_REQ_ID = 710, NO_POSITIONS = 702, LONG_QTY = 704, SHORT_QTY = 705, POSITION_ID = 721,
    TOTAL_POSITIONS = 727, POS_RESULT = 728, SETTLE_PRICE = 730, SETTLE_PRICE_TYPE = 731, ORD_STATUS_REQ_ID = 790,
    TOTAL_REPORTS = 911, LAST_REPORT = 912,
};

std::string get(const Fields &fields, int tag)
{
    auto found = fields.find(tag);
    return found == fields.end() ? "" : found->second;
}

std::string key_of(const std::string &session, const std::string &account, const std::string &id)
{
    return session + '\001' + account + '\001' + id;
}

} // namespace

// ---- Decimals. ----

Units units_read(const std::string &text)
{
    Units whole = 0, digits = 0, scale = ONE;
    bool is_fraction = false;
    std::size_t start = !text.empty() && text[0] == '-' ? 1 : 0;
    for (std::size_t i = start; i < text.size(); i++) {
        char c = text[i];
        if (c == '.' && !is_fraction) {
            is_fraction = true;
        } else if (c >= '0' && c <= '9' && whole < 90000000000 && (!is_fraction || scale > 1)) {
            digits++;
            if (is_fraction)
                whole = whole * 10 + (c - '0'), scale /= 10;
            else
                whole = whole * 10 + (c - '0');
        } else if (!(is_fraction && c == '0')) {
            throw std::runtime_error("\"" + text + "\" is no number");
        }
    }
    if (digits == 0)
        throw std::runtime_error("\"" + text + "\" is no number");
    return (start == 1 ? -1 : 1) * whole * scale;
}

std::string units_text(Units units)
{
    std::string sign = units < 0 ? "-" : "", digits = std::to_string(units < 0 ? -units : units);
    if (digits.size() < 9)
        digits.insert(0, 9 - digits.size(), '0');
    std::string whole = digits.substr(0, digits.size() - 8), rest = digits.substr(digits.size() - 8);
    rest.erase(rest.find_last_not_of('0') + 1);
    return sign + whole + (rest.empty() ? "" : "." + rest);
}

// ---- The desk. ----

Venue::Venue(const VenueOptions &options, Rules &rules, Ledger &ledger, Wire &wire)
    : options_(options), rules_(rules), ledger_(ledger), wire_(wire),
      run_(std::to_string(std::chrono::system_clock::now().time_since_epoch() / std::chrono::milliseconds(1) % 1000000000)),
      delay_ms_(options.delay_ms), desk_([this] { desk(); })
{
}

Venue::~Venue()
{
    {
        std::lock_guard<std::mutex> guard(lock_);
        is_ending_ = true;
    }
    due_.notify_all();
    desk_.join();
}

void Venue::desk()
{
    std::unique_lock<std::mutex> guard(lock_);
    while (!is_ending_) {
        if (tasks_.empty()) {
            due_.wait(guard);
        } else if (tasks_.begin()->first > std::chrono::steady_clock::now()) {
            due_.wait_until(guard, tasks_.begin()->first);
        } else {
            std::function<void()> task = tasks_.begin()->second;
            tasks_.erase(tasks_.begin());
            task();
        }
    }
}

void Venue::later(int ms, std::function<void()> what)
{
    if (ms <= 0) {
        what();
        return;
    }
    tasks_.emplace(std::chrono::steady_clock::now() + std::chrono::milliseconds(ms), std::move(what));
    due_.notify_one();
}

// ---- What it knows. ----

std::string Venue::next_id(const char *prefix)
{
    std::string number = std::to_string(++ids_);
    return prefix + run_ + std::string(number.size() < 6 ? 6 - number.size() : 0, '0') + number;
}

Venue::OrderRef Venue::find(const std::string &session, const std::string &account, const std::string &id) const
{
    auto found = by_id_.find(key_of(session, account, id));
    return found == by_id_.end() ? nullptr : found->second;
}

Venue::OrderRef Venue::find_any(const std::string &id) const
{
    for (const OrderRef &order : orders_)
        if (order->ids.count(id) > 0)
            return order;
    throw std::runtime_error("no order " + id);
}

Units Venue::price_of(const std::string &symbol) const
{
    auto found = prices_.find(symbol);
    return found == prices_.end() ? 110000000 : found->second;
}

void Venue::note(const char *what, const Order &order, const std::string &rest)
{
    ledger_.write(what, order.session,
                  "id=" + order.id + " order=" + order.order_id + " symbol=" + order.symbol + " side=" + order.side +
                      (order.account.empty() ? "" : " account=" + order.account) +
                      (order.position.empty() ? "" : " position=" + order.position) + " qty=" + units_text(order.quantity) +
                      " cum=" + units_text(order.cum) + (rest.empty() ? "" : " " + rest));
}

// ---- Reports. ----

Fields Venue::state_of(const Order &order) const
{
    Fields fields = {
        {ORDER_ID, order.order_id.empty() ? "NONE" : order.order_id},
        {CL_ORD_ID, order.id},
        {ORD_STATUS, std::string(1, order.status)},
        {SYMBOL, order.symbol},
        {SIDE, std::string(1, order.side)},
        {ORDER_QTY, units_text(order.quantity)},
        {ORD_TYPE, std::string(1, order.type)},
        {TIME_IN_FORCE, std::string(1, order.tif)},
        {CUM_QTY, units_text(order.cum)},
        {LEAVES_QTY, units_text(order.leaves())},
        {AVG_PX, order.cum > 0 ? units_text(static_cast<Units>(order.value / order.cum)) : "0"},
    };
    const std::pair<int, const std::string &> optional[] = {
        {ACCOUNT, order.account}, {PRICE, order.price},           {STOP_PX, order.stop_price},
        {EXPIRE_TIME, order.expires}, {DESIGNATION, order.label},
    };
    for (const auto &field : optional)
        if (!field.second.empty())
            fields[field.first] = field.second;
    if (options_.is_hedging && !order.position.empty())
        fields[POSITION_ID] = order.position;
    return fields;
}

Fields Venue::report_of(const Order &order, char exec_type)
{
    Fields fields = state_of(order);
    fields[EXEC_TYPE] = std::string(1, exec_type);
    fields[EXEC_ID] = exec_type == 'I' ? "0" : next_id("E");
    return fields;
}

void Venue::report(const OrderRef &order, Fields fields)
{
    if (order->rule.silent || order->rule.lost)
        return;
    wire_.send(order->session, "8", fields);
    if (order->rule.twice)
        wire_.send(order->session, "8", fields);
}

// ---- Positions and fills. ----

void Venue::book(const OrderRef &order, Units quantity, Units price)
{
    auto &held = positions_[order->session + '\001' + order->account];
    if (!options_.is_hedging) {
        Position &position = held[order->symbol];
        bool was_empty = position.quantity == 0;
        position.id = position.symbol = order->symbol;
        if (was_empty)
            position.side = order->side, position.price = price, position.label = order->label;
        position.quantity += order->side == position.side ? quantity : -quantity;
        if (position.quantity < 0) {
            position.quantity = -position.quantity;
            position.side = order->side;
            position.price = price;
        }
        if (position.quantity == 0)
            held.erase(order->symbol);
        return;
    }
    Position &position = held[order->position];
    if (position.quantity == 0) {
        position.id = order->position;
        position.symbol = order->symbol;
        position.side = order->side;
        position.price = price;
        position.label = order->label;
    }
    position.quantity += order->side == position.side ? quantity : -quantity;
    if (position.quantity <= 0)
        held.erase(order->position);
}

void Venue::fill(const OrderRef &order, Units quantity, bool is_told)
{
    quantity = std::min(quantity, order->leaves());
    if (quantity <= 0)
        return;
    Units price = order->type == '2' || order->type == '4' ? units_read(order->price) : price_of(order->symbol);
    if (options_.is_hedging && order->position.empty())
        order->position = std::to_string(1000000 + std::stoll(run_) % 1000000 * 1000 + static_cast<long long>(++ids_));
    order->cum += quantity;
    order->value += static_cast<__int128>(price) * quantity;
    order->status = order->cum == order->quantity ? '2' : '1';
    order->last_quantity = quantity;
    book(order, quantity, price);
    Fields fields = report_of(*order, 'F');
    fields[LAST_QTY] = units_text(quantity);
    fields[LAST_PX] = units_text(price);
    order->last_exec = fields[EXEC_ID];
    note("fill", *order, "last=" + units_text(quantity) + " price=" + units_text(price) + " exec=" + order->last_exec);
    if (is_told)
        report(order, fields);
}

void Venue::end(const OrderRef &order, char status, const std::string &text, bool is_told)
{
    order->status = status;
    note(status == '4' ? "cancelled" : status == 'C' ? "expired" : "ended", *order, "");
    Fields fields = report_of(*order, status);
    if (!text.empty())
        fields[TEXT] = text;
    if (is_told)
        report(order, fields);
}

// Why the venue itself will not have it; "" = it will.
std::string Venue::refusal_of(const Order &order) const
{
    if (order.quantity <= 0)
        return "13 TRADING_BAD_VOLUME";
    if ((order.type == '2' || order.type == '4') && order.price.empty())
        return "99 TRADING_BAD_PRICES";
    if ((order.type == '3' || order.type == '4') && order.stop_price.empty())
        return "99 TRADING_BAD_PRICES";
    if (order.type < '1' || order.type > '4')
        return "11 UNSUPPORTED_ORDER_TYPE";
    if (!options_.is_hedging || order.position.empty())
        return "";
    auto held = positions_.find(order.session + '\001' + order.account);
    if (held == positions_.end() || held->second.count(order.position) == 0)
        return "99 POSITION_NOT_FOUND";
    const Position &position = held->second.at(order.position);
    return position.side != order.side && position.quantity < order.quantity ? "13 TRADING_BAD_VOLUME" : "";
}

// It is the venue's now: fills, rests, or both.
void Venue::execute(const OrderRef &order)
{
    const Rule &rule = order->rule;
    bool is_told = rule.cut != "after";
    order->status = '0';
    note("accepted", *order, "");
    if (!rule.no_ack && is_told) {
        if (rule.pending_first) {
            order->status = 'A';
            report(order, report_of(*order, 'A'));
            order->status = '0';
        }
        report(order, report_of(*order, '0'));
    }
    if (order->type != '1' || rule.rests) {
        if (!is_told)
            wire_.cut(order->session);
        if (order->type != '1')
            crossed(order->symbol, prices_.count(order->symbol) > 0 ? price_of(order->symbol) : 0);
        return;
    }
    Units wanted = static_cast<Units>(static_cast<__int128>(order->quantity) * rule.fill_percent / 100 / ONE * ONE);
    Units part = rule.parts > 1 ? wanted / rule.parts / ONE * ONE : wanted;
    if (rule.fill_percent >= 100)
        wanted = order->quantity;
    int delay_ms = rule.delay_ms >= 0 ? rule.delay_ms : delay_ms_;
    fill(order, rule.parts > 1 ? part : wanted, is_told);
    if (!is_told || rule.cut == "middle")
        wire_.cut(order->session);
    auto last = [this, order, wanted] {
        fill(order, wanted - order->cum, true);
        if (order->is_working())
            end(order, '4', "no more to be had", true);
    };
    for (int i = 1; i < rule.parts - 1; i++)
        later(delay_ms * i, [this, order, part] { fill(order, part, true); });
    if (order->is_working())
        later(delay_ms * (rule.parts - 1), last);
}

// A price: what rests and is crossed by it fills. 0 = there is none.
void Venue::crossed(const std::string &symbol, Units price)
{
    for (std::size_t i = 0; price > 0 && i < orders_.size(); i++) {
        OrderRef order = orders_[i];
        bool is_buy = order->side == '1', is_stop = order->type == '3' || order->type == '4';
        if (order->symbol != symbol || !order->is_working() || order->type == '1')
            continue;
        Units at = units_read(is_stop ? order->stop_price : order->price);
        if (is_buy == is_stop ? price >= at : price <= at)
            fill(order, order->leaves(), true);
    }
}

// ---- Messages. ----

bool Venue::take(const std::string &session, const std::string &type, const Fields &fields)
{
    std::lock_guard<std::mutex> guard(lock_);
    if (type == "D")
        on_new(session, fields);
    else if (type == "F" || type == "G")
        on_change(session, fields, type == "F");
    else if (type == "H")
        on_status(session, fields);
    else if (type == "AF")
        on_mass_status(session, fields);
    else if (type == "AN")
        on_positions(session, fields);
    else
        return type == "j";
    return true;
}

static void send_unread(Wire &wire, const std::string &session, const char *type, const Fields &fields, const Rule &rule)
{
    Fields answer = {{45, get(fields, 34)}, {REF_MSG_TYPE, type}, {TEXT, rule.text.empty() ? "not taken" : rule.text}};
    if (rule.business_reject >= 0) {
        answer[BUSINESS_REASON] = std::to_string(rule.business_reject);
        answer[379] = get(fields, CL_ORD_ID);
        wire.send(session, "j", answer);
    } else {
        answer[373] = std::to_string(rule.session_reject);
        wire.send(session, "3", answer);
    }
}

void Venue::on_new(const std::string &session, const Fields &fields)
{
    auto order = std::make_shared<Order>();
    order->session = session;
    order->account = get(fields, ACCOUNT);
    order->id = get(fields, CL_ORD_ID);
    order->symbol = get(fields, SYMBOL);
    order->side = get(fields, SIDE) == "2" ? '2' : '1';
    order->type = (get(fields, ORD_TYPE) + "1")[0];
    order->tif = (get(fields, TIME_IN_FORCE) + "0")[0];
    order->price = get(fields, PRICE);
    order->stop_price = get(fields, STOP_PX);
    order->expires = get(fields, EXPIRE_TIME);
    order->label = get(fields, DESIGNATION);
    order->position = options_.is_hedging ? get(fields, POSITION_ID) : "";
    order->quantity = units_read(get(fields, ORDER_QTY));
    order->ids.insert(order->id);
    order->rule = rules_.of(order->symbol, order->account, session, get(fields, TEXT));
    const Rule rule = order->rule;
    note("new", *order, "type=" + std::string(1, order->type) + " seq=" + get(fields, 34));

    auto refuse = [this, order](int code, const std::string &text) {
        order->status = '8';
        note("rejected", *order, "code=" + std::to_string(code));
        Fields report_fields = report_of(*order, '8');
        report_fields[ORD_REJ_REASON] = std::to_string(code);
        if (!text.empty())
            report_fields[TEXT] = text;
        report(order, report_fields);
    };
    OrderRef earlier = find(session, order->account, order->id);
    if (earlier && options_.refuses_duplicates) {
        note("duplicate", *order, "");
        refuse(6, "duplicate ClOrdID");
        return;
    }
    if (rule.lost) {
        note("lost", *order, "");
        return;
    }
    if (rule.cut == "before") {
        note("cut", *order, "");
        wire_.cut(session);
        return;
    }
    if (rule.business_reject >= 0 || rule.session_reject >= 0) {
        note("unread", *order, "");
        send_unread(wire_, session, "D", fields, rule);
        return;
    }
    orders_.push_back(order);
    by_id_[key_of(session, order->account, order->id)] = order;
    order->order_id = next_id("O");
    later(rule.delay_ms >= 0 ? rule.delay_ms : delay_ms_, [this, order, refuse, rule] {
        std::string refusal = refusal_of(*order);
        if (rule.reject >= 0)
            refuse(rule.reject, rule.text);
        else if (!refusal.empty())
            refuse(std::stoi(refusal), refusal.substr(refusal.find(' ') + 1));
        else
            execute(order);
    });
}

void Venue::refuse_change(const std::string &session, const Fields &fields, const OrderRef &order, int code, bool is_cancel)
{
    Fields answer = {
        {ORDER_ID, order && !order->order_id.empty() ? order->order_id : "NONE"},
        {CL_ORD_ID, get(fields, CL_ORD_ID)},
        {ORIG_CL_ORD_ID, get(fields, ORIG_CL_ORD_ID)},
        {ORD_STATUS, std::string(1, order ? order->status : '8')},
        {CXL_REJ_RESPONSE_TO, is_cancel ? "1" : "2"},
        {CXL_REJ_REASON, std::to_string(code)},
        {TEXT, order ? "refused" : "ORDER_NOT_FOUND"},
    };
    if (!get(fields, ACCOUNT).empty())
        answer[ACCOUNT] = get(fields, ACCOUNT);
    ledger_.write("unchanged", session,
                  "id=" + get(fields, CL_ORD_ID) + " orig=" + get(fields, ORIG_CL_ORD_ID) + " code=" + std::to_string(code));
    if (!order || !order->rule.silent)
        wire_.send(session, "9", answer);
}

void Venue::accept_change(const OrderRef &order, const Fields &fields, bool is_cancel)
{
    std::string before = order->id;
    order->id = get(fields, CL_ORD_ID);
    if (is_cancel) {
        order->status = '4';
    } else {
        const std::pair<int, std::string *> changed[] = {
            {PRICE, &order->price}, {STOP_PX, &order->stop_price}, {EXPIRE_TIME, &order->expires}};
        for (const auto &field : changed)
            if (!get(fields, field.first).empty())
                *field.second = get(fields, field.first);
        order->quantity = get(fields, ORDER_QTY).empty() ? order->quantity : units_read(get(fields, ORDER_QTY));
    }
    note(is_cancel ? "cancelled" : "replaced", *order, "orig=" + before);
    Fields answer = report_of(*order, is_cancel ? '4' : '5');
    answer[ORIG_CL_ORD_ID] = before;
    report(order, answer);
    if (!is_cancel)
        crossed(order->symbol, prices_.count(order->symbol) > 0 ? price_of(order->symbol) : 0);
}

void Venue::on_change(const std::string &session, const Fields &fields, bool is_cancel)
{
    enum { TOO_LATE = 0, UNKNOWN = 1, DUPLICATE = 6 };
    std::string account = get(fields, ACCOUNT), id = get(fields, CL_ORD_ID);
    OrderRef order = find(session, account, get(fields, ORIG_CL_ORD_ID));
    ledger_.write(is_cancel ? "cancel" : "replace", session,
                  "id=" + id + " orig=" + get(fields, ORIG_CL_ORD_ID) + " seq=" + get(fields, 34));
    if (find(session, account, id)) {
        ledger_.write("duplicate", session, "id=" + id);
        refuse_change(session, fields, order, DUPLICATE, is_cancel);
        return;
    }
    if (!order) {
        refuse_change(session, fields, nullptr, UNKNOWN, is_cancel);
        return;
    }
    order->ids.insert(id);
    by_id_[key_of(session, account, id)] = order;
    const Rule &rule = order->rule;
    if (rule.pending_first) {
        Fields pending = report_of(*order, is_cancel ? '6' : 'E');
        pending[ORD_STATUS] = is_cancel ? "6" : "E";
        pending[CL_ORD_ID] = id;
        pending[ORIG_CL_ORD_ID] = order->id;
        report(order, pending);
    }
    later(rule.delay_ms >= 0 ? rule.delay_ms : delay_ms_, [this, session, fields, order, is_cancel] {
        bool shrinks_too_far = !is_cancel && !get(fields, ORDER_QTY).empty() && units_read(get(fields, ORDER_QTY)) <= order->cum;
        if (order->rule.change_reject >= 0)
            refuse_change(session, fields, order, order->rule.change_reject, is_cancel);
        else if (!order->is_working() || shrinks_too_far)
            refuse_change(session, fields, order, TOO_LATE, is_cancel);
        else
            accept_change(order, fields, is_cancel);
    });
}

void Venue::on_status(const std::string &session, const Fields &fields)
{
    std::string id = get(fields, CL_ORD_ID);
    OrderRef order = find(session, get(fields, ACCOUNT), id);
    for (std::size_t i = 0; !order && i < orders_.size(); i++)
        if (orders_[i]->session == session && orders_[i]->order_id == get(fields, ORDER_ID))
            order = orders_[i];
    ledger_.write("asked", session, "id=" + id + " found=" + (order ? order->order_id : "no"));
    Fields answer;
    if (order) {
        answer = report_of(*order, 'I');
    } else {
        answer = {{ORDER_ID, "NONE"}, {CL_ORD_ID, id},   {EXEC_ID, "0"},     {EXEC_TYPE, "I"},      {ORD_STATUS, "8"},
                  {CUM_QTY, "0"},     {LEAVES_QTY, "0"}, {AVG_PX, "0"},      {ORD_REJ_REASON, "5"}, {TEXT, "ORDER_NOT_FOUND"}};
        for (int tag : {ACCOUNT, SYMBOL, SIDE})
            if (!get(fields, tag).empty())
                answer[tag] = get(fields, tag);
    }
    if (!get(fields, ORD_STATUS_REQ_ID).empty())
        answer[ORD_STATUS_REQ_ID] = get(fields, ORD_STATUS_REQ_ID);
    wire_.send(session, "8", answer);
}

void Venue::on_mass_status(const std::string &session, const Fields &fields)
{
    std::string account = get(fields, ACCOUNT);
    std::vector<OrderRef> working;
    for (const OrderRef &order : orders_)
        if (order->session == session && order->is_working() && (account.empty() || order->account == account))
            working.push_back(order);
    ledger_.write("asked_all", session, "orders=" + std::to_string(working.size()));
    for (std::size_t i = 0; i < working.size(); i++) {
        Fields answer = report_of(*working[i], 'I');
        answer[MASS_STATUS_REQ_ID] = get(fields, MASS_STATUS_REQ_ID);
        answer[TOTAL_REPORTS] = std::to_string(working.size());
        answer[LAST_REPORT] = i + 1 == working.size() ? "Y" : "N";
        wire_.send(session, "8", answer);
    }
    if (working.empty())
        wire_.send(session, "j", {{45, get(fields, 34)}, {REF_MSG_TYPE, "AF"}, {379, get(fields, MASS_STATUS_REQ_ID)},
                                  {BUSINESS_REASON, "0"}, {TEXT, "ORDER_NOT_FOUND:no orders"}});
}

void Venue::on_positions(const std::string &session, const Fields &fields)
{
    const auto &held = positions_[session + '\001' + get(fields, ACCOUNT)];
    ledger_.write("asked_positions", session, "positions=" + std::to_string(held.size()));
    Fields answer = {{POS_REQ_ID, get(fields, POS_REQ_ID)}, {TOTAL_POSITIONS, std::to_string(held.size())},
                     {POS_RESULT, held.empty() ? "2" : "0"}};
    if (!get(fields, ACCOUNT).empty())
        answer[ACCOUNT] = get(fields, ACCOUNT);
    if (held.empty()) {
        wire_.send(session, "AP", answer);
        return;
    }
    for (const auto &entry : held) {
        const Position &position = entry.second;
        bool is_long = position.side == '1';
        answer[POSITION_ID] = position.id;
        answer[SYMBOL] = position.symbol;
        answer[NO_POSITIONS] = "1";
        answer[LONG_QTY] = units_text(is_long ? position.quantity : 0);
        answer[SHORT_QTY] = units_text(is_long ? 0 : position.quantity);
        answer[SETTLE_PRICE] = units_text(position.price);
        answer[SETTLE_PRICE_TYPE] = "1";
        if (!position.label.empty())
            answer[DESIGNATION] = position.label;
        wire_.send(session, "AP", answer);
    }
}

// ---- Commands. ----

std::string Venue::command(const std::vector<std::string> &words)
{
    auto word = [&words](std::size_t i) { return i < words.size() ? words[i] : std::string(); };
    std::lock_guard<std::mutex> guard(lock_);
    if (word(0) == "rule") {
        rules_.set(word(1), word(2));
    } else if (word(0) == "next") {
        rules_.next(word(1));
    } else if (word(0) == "delay") {
        delay_ms_ = std::stoi(word(1));
    } else if (word(0) == "price") {
        prices_[word(1)] = units_read(word(2));
        crossed(word(1), prices_[word(1)]);
    } else if (word(0) == "fill") {
        OrderRef order = find_any(word(1));
        fill(order, word(2).empty() ? order->leaves() : units_read(word(2)), true);
    } else if (word(0) == "cancel" || word(0) == "expire") {
        OrderRef order = find_any(word(1));
        if (!order->is_working())
            throw std::runtime_error("order " + word(1) + " does not work any more");
        end(order, word(0) == "cancel" ? '4' : 'C', "by the venue", true);
    } else if (word(0) == "bust" || word(0) == "correct") {
        OrderRef order = find_any(word(1));
        bool is_bust = word(0) == "bust";
        Units quantity = is_bust ? 0 : units_read(word(2));
        order->value = order->value / (order->cum > 0 ? order->cum : 1) * (order->cum - order->last_quantity + quantity);
        order->cum += quantity - order->last_quantity;
        Fields fields = report_of(*order, is_bust ? 'H' : 'G');
        fields[EXEC_REF_ID] = order->last_exec;
        if (!is_bust) {
            fields[LAST_QTY] = units_text(quantity);
            fields[LAST_PX] = units_text(price_of(order->symbol));
        }
        order->last_quantity = quantity;
        note(is_bust ? "busted" : "corrected", *order, "");
        report(order, fields);
    } else if (word(0) == "close") { // a position, by the venue itself: its stop, or a margin call
        for (auto &held : positions_)
            held.second.erase(word(1));
    } else if (word(0) == "cut") {
        wire_.cut(word(1));
    } else {
        throw std::runtime_error("\"" + word(0) + "\" is no command");
    }
    return "";
}
