// rules.h - how the venue treats an order: by its symbol, its account or its session, or by words in its Text (58).
#pragma once

#include <map>
#include <string>
#include <vector>

struct Rule {
    int delay_ms = -1;         // delay=MS: from its receipt to each report
    int parts = 1;             // parts=N: filled in N equal parts, a delay apart
    int fill_percent = 100;    // fill=PERCENT: no more of it fills; the rest is cancelled (rests=: works on)
    bool rests = false;        // rests: a market order is accepted, and works until a command fills it
    int reject = -1;           // reject=CODE: 39=8 with 103; text=WORDS_LIKE_THIS goes to 58
    int business_reject = -1;  // unread=CODE: answered with j, 380
    int session_reject = -1;   // malformed=CODE: answered with 3, 373
    int change_reject = -1;    // unchanged=CODE: cancels and replaces of it are answered with 9, 102
    std::string text;
    std::string cut;           // cut=before | after | middle: the connection drops before it is executed, after it (and
                               // before anything is said), or between its first fill and the rest
    bool no_ack = false;       // noack: the first report is a fill
    bool pending_first = false; // pending: 150=A, and 150=6 or E before a change
    bool silent = false;       // silent: executed, and nothing is ever said of it unasked
    bool lost = false;         // lost: neither executed nor answered, and unknown when asked for
    bool twice = false;        // twice: each report is sent two times, with one ExecID
    bool first = false;        // first: only for the first order of its account
};

// Throws std::runtime_error, with the word that is not understood.
void rule_read(const std::string &words, Rule &ret);

class Rules {
public:
    // KEY is a symbol, an account or a session's CompID; a * at its end stands for anything.
    void set(const std::string &key, const std::string &words);
    void next(const std::string &words); // only for the next order, whoever sends it
    Rule of(const std::string &symbol, const std::string &account, const std::string &session, const std::string &text);

private:
    std::map<std::string, Rule> by_key_;
    std::map<std::string, int> orders_of_;
    std::vector<Rule> next_;
};
