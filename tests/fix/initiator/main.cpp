// fix_initiator - QuickFIX's own initiator, so that the tests for ours can be tried on one that is known.
//
//     fix_initiator HOST PORT SENDER TARGET FOLDER HEARTBEAT_S
//
// FIX_DICTIONARY names FIX44.xml. Says "logon" and "logout" on stdout; ends with stdin. Takes execution reports without a
// word and knows no other application message.
#include <quickfix/Application.h>
#include <quickfix/FileStore.h>
#include <quickfix/Session.h>
#include <quickfix/SessionSettings.h>
#include <quickfix/SocketInitiator.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace {

class Client : public FIX::Application {
public:
    void onCreate(const FIX::SessionID &) override {}
    void onLogon(const FIX::SessionID &) override { std::cout << "logon" << std::endl; }
    void onLogout(const FIX::SessionID &) override { std::cout << "logout" << std::endl; }
    void toAdmin(FIX::Message &, const FIX::SessionID &) override {}
    void toApp(FIX::Message &, const FIX::SessionID &) noexcept override {}
    void fromAdmin(const FIX::Message &, const FIX::SessionID &) noexcept override {}

    void fromApp(const FIX::Message &message, const FIX::SessionID &id) noexcept override
    {
        std::string type = message.getHeader().getField(35);
        if (type == "8")
            return;
        FIX::Message answer;
        answer.getHeader().setField(35, "j");
        answer.setField(45, message.getHeader().getField(34));
        answer.setField(58, "Unsupported Message Type");
        answer.setField(372, type);
        answer.setField(380, "3");
        FIX::Session::sendToTarget(answer, id);
    }
};

std::string config_of(char **argv)
{
    const char *dictionary = std::getenv("FIX_DICTIONARY");
    std::ostringstream text;
    text << "[DEFAULT]\nConnectionType=initiator\nReconnectInterval=1\nSocketNodelay=Y\nStartTime=00:00:00\nEndTime=00:00:00\n"
         << "UseDataDictionary=" << (dictionary != nullptr ? "Y" : "N") << "\n"
         << (dictionary != nullptr ? std::string("DataDictionary=") + dictionary + "\n" : "") << "HeartBtInt=" << argv[6]
         << "\nFileStorePath=" << argv[5] << "\n[SESSION]\nBeginString=FIX.4.4\nSocketConnectHost=" << argv[1]
         << "\nSocketConnectPort=" << argv[2] << "\nSenderCompID=" << argv[3] << "\nTargetCompID=" << argv[4] << "\n";
    return text.str();
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 7) {
        std::cerr << "usage: fix_initiator HOST PORT SENDER TARGET FOLDER HEARTBEAT_S\n";
        return 2;
    }
    std::signal(SIGPIPE, SIG_IGN);
    try {
        std::istringstream config(config_of(argv));
        FIX::SessionSettings settings(config);
        Client client;
        FIX::FileStoreFactory store(settings);
        FIX::SocketInitiator initiator(client, store, settings);
        initiator.start();
        while (std::cin.get() != EOF)
            ;
        _exit(0); // its own end takes seconds
    } catch (const std::exception &error) {
        std::cerr << "fix_initiator: " << error.what() << "\n";
        return 1;
    }
}
