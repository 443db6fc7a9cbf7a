// fix_acceptor - a FIX 4.4 venue for tests, on QuickFIX. tests/fix/README.md has its options and commands.
//
// It listens on a free port, says "ready port=N sessions=N" on stdout, takes commands on
// stdin (each is answered by one line), and ends with it.
#include "venue.h"

#include <quickfix/Application.h>
#include <quickfix/FileStore.h>
#include <quickfix/Log.h>
#include <quickfix/MessageStore.h>
#include <quickfix/Session.h>
#include <quickfix/SessionSettings.h>
#include <quickfix/ThreadedSocketAcceptor.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <mutex>
#include <netinet/in.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace {

struct Options {
    int port = 0, sessions = 1;
    std::string comp_id = "VENUE", prefix = "CLIENT", ledger, store;
    std::vector<std::string> names;
    std::vector<std::pair<std::string, std::string>> rules;
    VenueOptions venue;
};

[[noreturn]] void usage(const std::string &why)
{
    std::cerr << "fix_acceptor: " << why << "\n"
              << "usage: fix_acceptor [--port N] [--comp-id VENUE] [--sessions N] [--prefix CLIENT] [--session NAME]...\n"
                 "                    [--mode netting|hedging] [--delay MS] [--duplicates refuse|execute]\n"
                 "                    [--rule KEY:WORDS]... [--ledger FILE] [--store FOLDER]\n";
    std::exit(2);
}

Options options_read(int argc, char **argv)
{
    Options options;
    for (int i = 1; i < argc; i += 2) {
        std::string name = argv[i];
        if (i + 1 >= argc)
            usage(name + " wants a value");
        std::string value = argv[i + 1];
        if (name == "--port")
            options.port = std::stoi(value);
        else if (name == "--comp-id")
            options.comp_id = value;
        else if (name == "--sessions")
            options.sessions = std::stoi(value);
        else if (name == "--prefix")
            options.prefix = value;
        else if (name == "--session")
            options.names.push_back(value);
        else if (name == "--mode" && (value == "netting" || value == "hedging"))
            options.venue.is_hedging = value == "hedging";
        else if (name == "--delay")
            options.venue.delay_ms = std::stoi(value);
        else if (name == "--duplicates" && (value == "refuse" || value == "execute"))
            options.venue.refuses_duplicates = value == "refuse";
        else if (name == "--rule" && value.find(':') != std::string::npos)
            options.rules.emplace_back(value.substr(0, value.find(':')), value.substr(value.find(':') + 1));
        else if (name == "--ledger")
            options.ledger = value;
        else if (name == "--store")
            options.store = value;
        else
            usage("what is " + name + " " + value + "?");
    }
    int numbered = options.names.empty() ? options.sessions : 0;
    for (int i = 1; i <= numbered; i++)
        options.names.push_back(options.prefix + std::to_string(i));
    return options;
}

// Hours that end twelve hours from now: no session ends in a test.
std::string hour(int from_now_s)
{
    std::time_t at = std::time(nullptr) + from_now_s;
    struct tm utc;
    char text[16];
    gmtime_r(&at, &utc);
    std::strftime(text, sizeof text, "%H:%M:%S", &utc);
    return text;
}

std::string config_of(const Options &options)
{
    std::ostringstream text;
    text << "[DEFAULT]\nConnectionType=acceptor\nSocketAcceptPort=" << options.port
         << "\nSocketReuseAddress=Y\nSocketNodelay=Y\nStartTime=" << hour(-12 * 3600) << "\nEndTime=" << hour(-12 * 3600 - 2)
         << "\nUseDataDictionary=N\nMillisecondsInTimeStamp=Y\nLogoutTimeout=2\nHeartBtInt=30\nBeginString=FIX.4.4\nSenderCompID="
         << options.comp_id << "\n";
    if (!options.store.empty())
        text << "FileStorePath=" << options.store << "\n";
    for (const std::string &name : options.names)
        text << "[SESSION]\nTargetCompID=" << name << "\n";
    return text.str();
}

class SessionLog : public FIX::Log {
public:
    SessionLog(Ledger &ledger, const std::string &session) : ledger_(ledger), session_(session) {}
    void clear() override {}
    void backup() override {}
    void onIncoming(const std::string &bytes) override { ledger_.message("in", session_, bytes); }
    void onOutgoing(const std::string &bytes) override { ledger_.message("out", session_, bytes); }
    void onEvent(const std::string &text) override { ledger_.message("event", session_, text); }

private:
    Ledger &ledger_;
    std::string session_;
};

class SessionLogs : public FIX::LogFactory {
public:
    explicit SessionLogs(Ledger &ledger) : ledger_(ledger) {}
    FIX::Log *create() override { return new SessionLog(ledger_, "-"); }
    FIX::Log *create(const FIX::SessionID &id) override
    {
        return new SessionLog(ledger_, id.getTargetCompID().getValue());
    }
    void destroy(FIX::Log *log) override { delete log; }

private:
    Ledger &ledger_;
};

class Gateway : public FIX::Application, public Wire {
public:
    Gateway(const Options &options, Ledger &ledger) : options_(options), ledger_(ledger) {}
    Venue *venue = nullptr; // set before the first session

    void send(const std::string &session, const std::string &type, const Fields &fields) override
    {
        FIX::Message message;
        message.getHeader().setField(35, type);
        for (const auto &field : fields)
            message.setField(field.first, field.second);
        if (type == "8" || type == "9")
            message.setField(60, now());
        FIX::Session::sendToTarget(message, id_of(session));
    }

    void cut(const std::string &session) override
    {
        for (const std::string &name : options_.names) {
            if (session != "all" && session != name)
                continue;
            ledger_.write("disconnect", name, "");
            if (FIX::Session *found = FIX::Session::lookupSession(id_of(name)))
                found->disconnect();
        }
    }

    void onCreate(const FIX::SessionID &) override {}
    void onLogon(const FIX::SessionID &id) override { ledger_.write("logon", name_of(id), ""); }
    void onLogout(const FIX::SessionID &id) override { ledger_.write("logout", name_of(id), ""); }
    void toAdmin(FIX::Message &message, const FIX::SessionID &id) override { address(message, id); }
    void toApp(FIX::Message &message, const FIX::SessionID &id) noexcept override { address(message, id); }

    void fromAdmin(const FIX::Message &message, const FIX::SessionID &id) noexcept override
    {
        if (!message.getHeader().isSetField(50) && !message.getHeader().isSetField(57))
            return;
        std::lock_guard<std::mutex> guard(lock_);
        std::pair<std::string, std::string> &subs = subs_[name_of(id)];
        if (message.getHeader().isSetField(50))
            subs.first = message.getHeader().getField(50);
        if (message.getHeader().isSetField(57))
            subs.second = message.getHeader().getField(57);
    }

    void fromApp(const FIX::Message &message, const FIX::SessionID &id) noexcept override
    {
        Fields fields;
        std::string type = message.getHeader().getField(35);
        for (FIX::FieldMap::Fields::const_iterator i = message.begin(); i != message.end(); ++i)
            fields[i->getTag()] = i->getString();
        fields[34] = message.getHeader().getField(34);
        try {
            if (!venue->take(name_of(id), type, fields))
                send(name_of(id), "j", {{45, fields[34]}, {372, type}, {380, "3"}, {58, "unsupported"}});
        } catch (const std::exception &error) {
            send(name_of(id), "j", {{45, fields[34]}, {372, type}, {380, "5"}, {58, error.what()}});
        }
    }

private:
    static std::string name_of(const FIX::SessionID &id) { return id.getTargetCompID().getValue(); }
    FIX::SessionID id_of(const std::string &name) const { return FIX::SessionID("FIX.4.4", options_.comp_id, name); }

    static std::string now()
    {
        return FIX::UtcTimeStampConvertor::convert(FIX::UtcTimeStamp(), 3);
    }

    // Sub ids of a venue that has them come back turned round.
    void address(FIX::Message &message, const FIX::SessionID &id)
    {
        std::lock_guard<std::mutex> guard(lock_);
        auto found = subs_.find(name_of(id));
        if (found == subs_.end())
            return;
        if (!found->second.second.empty())
            message.getHeader().setField(50, found->second.second);
        if (!found->second.first.empty())
            message.getHeader().setField(57, found->second.first);
    }

    const Options &options_;
    Ledger &ledger_;
    std::mutex lock_; // guards subs_; nothing else is taken under it
    std::map<std::string, std::pair<std::string, std::string>> subs_;
};

// QuickFIX does not tell which port it got: it is that of our one socket that listens.
int port_of_listener()
{
    for (int fd = 0; fd < 256; fd++) {
        int is_listening = 0;
        socklen_t size = sizeof is_listening;
        struct sockaddr_in address;
        socklen_t address_size = sizeof address;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) == 0 && is_listening != 0 &&
            getsockname(fd, reinterpret_cast<struct sockaddr *>(&address), &address_size) == 0)
            return ntohs(address.sin_port);
    }
    throw std::runtime_error("no socket listens");
}

void commands_take(Venue &venue)
{
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream in(line);
        std::vector<std::string> words;
        for (std::string word; in >> word;)
            words.push_back(word);
        if (words.empty())
            continue;
        if (words[0] == "quit")
            return;
        try {
            venue.command(words);
            std::cout << "ok" << std::endl;
        } catch (const std::exception &error) {
            std::cout << "error " << error.what() << std::endl;
        }
    }
}

void serve(const Options &options)
{
    Ledger ledger(options.ledger);
    Rules rules;
    for (const auto &rule : options.rules)
        rules.set(rule.first, rule.second);
    Gateway gateway(options, ledger);
    Venue venue(options.venue, rules, ledger, gateway);
    gateway.venue = &venue;
    std::istringstream config(config_of(options));
    FIX::SessionSettings settings(config);
    FIX::MemoryStoreFactory memory;
    FIX::FileStoreFactory files(options.store);
    FIX::MessageStoreFactory &store = options.store.empty() ? static_cast<FIX::MessageStoreFactory &>(memory) : files;
    SessionLogs logs(ledger);
    FIX::ThreadedSocketAcceptor acceptor(gateway, store, settings, logs);
    acceptor.start();
    std::cout << "ready port=" << port_of_listener() << " sessions=" << options.names.size() << std::endl;
    commands_take(venue);
    // A proper end takes seconds and nobody waits for it: the ledger has everything.
    std::cout.flush();
    _exit(0);
}

} // namespace

int main(int argc, char **argv)
{
    std::signal(SIGPIPE, SIG_IGN);
    try {
        serve(options_read(argc, argv));
    } catch (const std::exception &error) {
        std::cerr << "fix_acceptor: " << error.what() << "\n";
        return 1;
    }
}
