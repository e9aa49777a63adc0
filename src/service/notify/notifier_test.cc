#include "service/notify/notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "base/temporary_folder.h"

namespace longhaul::service {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Duration kLong = std::chrono::seconds(60);

proto::Notification Warning(const std::string& text) {
  proto::Notification notification;
  notification.set_job_id("a-1");
  notification.mutable_message()->set_severity(proto::MessageNotification::WARNING);
  notification.mutable_message()->set_text(text);
  return notification;
}

spec::HookSpec Command(const std::string& script) {
  spec::HookSpec hook;
  hook.command = {"/bin/sh", "-c", script};
  hook.events = {spec::HookEvent::kWarning};
  hook.timeout = kLong;
  return hook;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

NotifierOptions Options(const std::string& run_directory, size_t queue_limit = 64,
                        std::vector<std::string>* lines = nullptr) {
  NotifierOptions options;
  options.run_directory = run_directory;
  options.queue_limit = queue_limit;
  options.retry_pause = std::chrono::milliseconds(1);
  if (lines != nullptr) {
    options.on_first_failure = [lines](const std::string& line) { lines->push_back(line); };
  }
  return options;
}

class NotifierTest : public testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.path() + "/" + name; }

  const TemporaryFolder folder_{testing::TempDir()};
};

TEST_F(NotifierTest, ACommandGetsTheMessageAndItsVariables) {
  const std::string out = File("out");
  Notifier notifier({Command("cat > " + out +
                             "; echo \"$LONGHAUL_EVENT $LONGHAUL_JOB "
                             "$LONGHAUL_RUN_DIRECTORY $LONGHAUL_TEXT\" >> " +
                             out)},
                    Options("/runs/a"));
  notifier.Take(Warning("the disk is full"));
  const auto results = notifier.Finish(kLong);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].delivered, 1U) << results[0].last_error;
  EXPECT_THAT(Contents(out), HasSubstr(R"({"event":"warning")"));
  EXPECT_THAT(Contents(out), HasSubstr("warning a-1 /runs/a a-1: the disk is full"));
}

TEST_F(NotifierTest, AHookGetsOnlyItsEvents) {
  spec::HookSpec hook = Command("echo x >> " + File("out"));
  hook.events = {spec::HookEvent::kEnd};
  Notifier notifier({hook}, {});
  notifier.Take(Warning("w"));
  EXPECT_EQ(notifier.Finish(kLong)[0].delivered, 0U);
}

TEST_F(NotifierTest, FailuresAreReportedOnceAndCounted) {
  std::vector<std::string> lines;
  Notifier notifier({Command("echo no pager >&2; exit 3")}, Options("", 64, &lines));
  for (int i = 0; i < 3; ++i) notifier.Take(Warning("w"));
  const auto results = notifier.Finish(kLong);
  EXPECT_EQ(results[0].failed, 3U);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("the hook 'command sh' failed: it exited with code 3: no pager"));
}

TEST_F(NotifierTest, AProgramThatDoesNotExistIsAFailure) {
  spec::HookSpec hook = Command("");
  hook.command = {"/nowhere/page.sh"};
  Notifier notifier({hook}, {});
  notifier.Take(Warning("w"));
  const auto results = notifier.Finish(kLong);
  EXPECT_EQ(results[0].failed, 1U);
  EXPECT_THAT(results[0].last_error, HasSubstr("/nowhere/page.sh"));
}

// The shell and the child that it waits for: neither is left.
TEST_F(NotifierTest, AHangingCommandIsKilledWithItsGroupAndDelaysNoOtherHook) {
  const std::string fifo = File("fifo");
  const std::string other = File("other");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(other.c_str(), 0600), 0);
  spec::HookSpec hangs = Command("exec 3> " + fifo + "; echo $$ >&3; sleep 1000 & wait");
  spec::HookSpec writes = Command("test $LONGHAUL_EVENT = warning || echo done > " + other);
  writes.events = {spec::HookEvent::kWarning, spec::HookEvent::kState};
  Notifier notifier({hangs, writes}, {});
  notifier.Take(Warning("w"));
  proto::Notification state;
  state.mutable_state()->set_state(proto::RUNNING);
  notifier.Take(state);
  pid_t shell = 0;
  std::ifstream held(fifo);
  held >> shell;  // blocks until the command runs
  EXPECT_TRUE(notifier.Owns(shell));
  std::string done;
  std::ifstream(other) >> done;  // blocks until the second command runs
  EXPECT_EQ(done, "done");
  const auto results = notifier.Finish(Duration::zero());
  EXPECT_EQ(results[0].failed, 1U);
  EXPECT_THAT(results[0].last_error, HasSubstr("was killed because it did not end"));
  EXPECT_GE(results[1].delivered, 1U);
  EXPECT_FALSE(notifier.Owns(shell));
  // Blocks until nobody holds the other end: the shell and its child have ended.
  std::string rest;
  EXPECT_FALSE(held >> rest);
}

TEST_F(NotifierTest, ACommandIsKilledAtItsTimeOut) {
  spec::HookSpec hook = Command("sleep 1000");
  hook.timeout = std::chrono::milliseconds(100);
  Notifier notifier({hook}, {});
  notifier.Take(Warning("w"));
  const auto results = notifier.Finish(kLong);
  EXPECT_EQ(results[0].failed, 1U);
  EXPECT_EQ(results[0].dropped, 0U);
}

TEST_F(NotifierTest, TheQueueIsBoundedAndTheNewestMessagesStay) {
  const std::string fifo = File("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const std::string script = "if [ \"$LONGHAUL_TEXT\" = 'a-1: first' ]; then read line < " + fifo +
                             "; fi; echo \"$LONGHAUL_TEXT\" >> " + File("out");
  Notifier notifier({Command(script)}, Options("", 2));
  notifier.Take(Warning("first"));
  // Blocks until the first command reads, so that the others find it busy.
  std::ofstream first(fifo);
  for (int i = 1; i <= 5; ++i) notifier.Take(Warning("message " + std::to_string(i)));
  first << "go\n" << std::flush;
  first.close();
  const auto results = notifier.Finish(kLong);
  EXPECT_EQ(results[0].delivered, 3U);
  EXPECT_EQ(results[0].dropped, 3U);
  EXPECT_EQ(Contents(File("out")), "a-1: first\na-1: message 4\na-1: message 5\n");
}

// A server that answers each connection with the next status. Redirections lead to `elsewhere`.
class Server {
 public:
  explicit Server(std::vector<std::string> statuses, std::string elsewhere = "")
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)), elsewhere_(std::move(elsewhere)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    socklen_t size = sizeof(address);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    requests_ = std::async(std::launch::async, [this, statuses] { return Serve(statuses); });
  }
  ~Server() {
    ::shutdown(socket_, SHUT_RDWR);  // ends an accept that nobody will call
    if (requests_.valid()) requests_.wait();
    ::close(socket_);
  }

  std::string address() const {
    return "http://user:SECRET@127.0.0.1:" + std::to_string(port_) + "/SECRET";
  }
  std::vector<std::string> requests() { return requests_.get(); }

 private:
  std::vector<std::string> Serve(const std::vector<std::string>& statuses) const {
    std::vector<std::string> requests;
    for (const std::string& status : statuses) {
      const int peer = ::accept(socket_, nullptr, nullptr);
      if (peer < 0) break;
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos || request.back() != '}') {
        const ssize_t got = ::read(peer, buffer, sizeof(buffer));
        if (got <= 0) break;
        request.append(buffer, static_cast<size_t>(got));
      }
      const std::string answer = "HTTP/1.1 " + status +
                                 " x\r\nContent-Length: 0\r\n"
                                 "Location: " +
                                 elsewhere_ + "\r\nConnection: close\r\n\r\n";
      EXPECT_EQ(::write(peer, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
      ::close(peer);
      requests.push_back(request);
    }
    return requests;
  }

  const int socket_;
  const std::string elsewhere_;
  int port_ = 0;
  std::future<std::vector<std::string>> requests_;
};

spec::HookSpec Webhook(const std::string& address) {
  spec::HookSpec hook;
  hook.webhook = address;
  hook.events = {spec::HookEvent::kWarning};
  hook.timeout = kLong;
  return hook;
}

TEST_F(NotifierTest, AWebhookIsPostedToAndTriedAgainAfterAServersError) {
  Server server({"503", "204"});
  Notifier notifier({Webhook(server.address())}, Options(""));
  notifier.Take(Warning("w"));
  const auto results = notifier.Finish(kLong);
  EXPECT_EQ(results[0].delivered, 1U) << results[0].last_error;
  const std::vector<std::string> requests = server.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_THAT(requests[1], testing::StartsWith("POST /SECRET HTTP/1.1\r\n"));
  EXPECT_THAT(requests[1], HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(requests[1], HasSubstr(R"({"event":"warning")"));
}

TEST_F(NotifierTest, ARefusalAndARedirectionAreFailuresWithoutTheAddress) {
  Server elsewhere({"204"});
  Server server({"404", "302"}, elsewhere.address());
  std::vector<std::string> lines;
  Notifier notifier({Webhook(server.address())}, Options("", 64, &lines));
  notifier.Take(Warning("a"));
  notifier.Take(Warning("b"));
  const auto results = notifier.Finish(kLong);
  EXPECT_EQ(results[0].failed, 2U);
  EXPECT_EQ(results[0].last_error, "the server answered with status 302");
  EXPECT_EQ(server.requests().size(), 2U) << "neither is tried again";
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("webhook http://127.0.0.1:"));
  EXPECT_THAT(lines[0], Not(HasSubstr("SECRET")));
}

}  // namespace
}  // namespace longhaul::service
