#include "rules.h"

#include <functional>
#include <sstream>
#include <stdexcept>

void rule_read(const std::string &words, Rule &ret)
{
    using Take = std::function<void(const std::string &)>;
    auto number = [](int &to) { return Take([&to](const std::string &value) { to = std::stoi(value); }); };
    auto flag = [](bool &to) { return Take([&to](const std::string &) { to = true; }); };
    auto words_to = [](std::string &to) { return Take([&to](const std::string &value) { to = value; }); };
    const std::map<std::string, Take> known = {
        {"delay", number(ret.delay_ms)},      {"parts", number(ret.parts)},
        {"fill", number(ret.fill_percent)},   {"rests", flag(ret.rests)},
        {"reject", number(ret.reject)},       {"unread", number(ret.business_reject)},
        {"malformed", number(ret.session_reject)}, {"unchanged", number(ret.change_reject)},
        {"text", words_to(ret.text)},         {"cut", words_to(ret.cut)},
        {"noack", flag(ret.no_ack)},          {"pending", flag(ret.pending_first)},
        {"silent", flag(ret.silent)},         {"lost", flag(ret.lost)},
        {"twice", flag(ret.twice)},           {"first", flag(ret.first)},
    };
    std::string text = words;
    for (char &c : text)
        if (c == ',')
            c = ' ';
    std::istringstream in(text);
    for (std::string word; in >> word;) {
        std::size_t equals = word.find('=');
        auto found = known.find(word.substr(0, equals));
        if (found == known.end())
            throw std::runtime_error("\"" + word + "\" is no word of a rule");
        try {
            found->second(equals == std::string::npos ? "" : word.substr(equals + 1));
        } catch (const std::logic_error &) {
            throw std::runtime_error("\"" + word + "\" wants a number");
        }
    }
}

void Rules::set(const std::string &key, const std::string &words)
{
    Rule rule;
    rule_read(words, rule);
    by_key_[key] = rule;
}

void Rules::next(const std::string &words)
{
    Rule rule;
    rule_read(words, rule);
    next_.push_back(rule);
}

static bool matches(const std::string &key, const std::string &name)
{
    if (!key.empty() && key.back() == '*')
        return name.compare(0, key.size() - 1, key, 0, key.size() - 1) == 0;
    return key == name;
}

Rule Rules::of(const std::string &symbol, const std::string &account, const std::string &session, const std::string &text)
{
    Rule rule;
    bool is_first = orders_of_[session + "/" + account]++ == 0;
    if (!next_.empty()) {
        rule = next_.front();
        next_.erase(next_.begin());
    } else {
        for (const auto &entry : by_key_)
            if ((matches(entry.first, symbol) || matches(entry.first, account) || matches(entry.first, session)) &&
                (is_first || !entry.second.first))
                rule = entry.second;
    }
    if (!text.empty()) {
        try {
            rule_read(text, rule);
        } catch (const std::runtime_error &) { // words for somebody else
        }
    }
    return rule;
}
