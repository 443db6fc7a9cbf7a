// ledger.h - what a venue saw and did, a line each, only ever added to: tests judge by it.
//
//     NANOSECONDS WHAT SESSION KEY=VALUE ...
//
// A line is in the file before the message that it tells of is sent. Messages are whole, SOH as |, passwords masked.
// Thread: any.
#pragma once

#include <string>

class Ledger {
public:
    explicit Ledger(const std::string &path); // "" = none; throws std::runtime_error
    ~Ledger();
    Ledger(const Ledger &) = delete;
    Ledger &operator=(const Ledger &) = delete;

    void write(const std::string &what, const std::string &session, const std::string &rest);
    void message(const char *way, const std::string &session, const std::string &bytes);

private:
    int fd_;
};
