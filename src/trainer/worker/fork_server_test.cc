// The fork server as an agent sees it: forks, descriptors, environment, parenthood, endings.
#include "trainer/worker/fork_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "io/fd.h"
#include "io/net/socket.h"
#include "worker_api/fork_server.h"

namespace longhaul::trainer {
namespace {

// What a forked worker does here: prints its environment, then exits with 7.
void PrintAndExit() {
  const char* greeting = std::getenv("GREETING");
  const char* path = std::getenv("PATH");
  std::printf("%s %s %d %d %d", greeting, path == nullptr ? "bare" : "inherited",
              static_cast<int>(getppid()), static_cast<int>(getsid(0)), static_cast<int>(getpid()));
  std::fflush(stdout);
  std::fprintf(stderr, "error");
  _exit(7);
}

class ForkServer : public testing::Test {
 protected:
  ForkServer() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    auto pair = io::UnixPair();
    agent_end_ = std::move(pair->first);
    parent_ = fork();
    if (parent_ == 0) {
      agent_end_.Reset();
      _exit(ServeForkServer(pair->second.Release(), PrintAndExit).ok() ? 0 : 1);
    }
  }
  ~ForkServer() override {
    agent_end_.Reset();
    int status = 0;
    EXPECT_EQ(waitpid(parent_, &status, 0), parent_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it ends when its agent closes";
  }

  worker_api::WarmReply Ask(std::span<const std::byte> packet, std::vector<int> fds) {
    EXPECT_TRUE(io::SendMessage(agent_end_, packet, fds).ok());
    pollfd waiting{agent_end_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 20'000), 1);
    const auto answer = io::ReceiveMessage(agent_end_, 4096);
    worker_api::WarmReply reply;
    EXPECT_TRUE(answer.ok() && answer->has_value());
    EXPECT_EQ((**answer).bytes.size(), sizeof(reply));
    std::memcpy(&reply, (**answer).bytes.data(), sizeof(reply));
    return reply;
  }

  static std::string ReadAll(int fd) {
    std::string text;
    char buffer[256];
    for (ssize_t got = 0; (got = read(fd, buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
    close(fd);
    return text;
  }

  io::Fd agent_end_;
  pid_t parent_ = 0;
};

TEST_F(ForkServer, ForksChildrenOfItsAgentWithTheirOwnEnvironmentAndOutput) {
  for (uint64_t id = 1; id <= 3; ++id) {
    int out[2];
    int err[2];
    ASSERT_EQ(pipe(out), 0);
    ASSERT_EQ(pipe(err), 0);
    const auto packet = worker_api::EncodeWarmRequest({id, {{"GREETING", "hello"}}, {}});
    ASSERT_TRUE(packet.ok());
    const worker_api::WarmReply reply = Ask(*packet, {out[1], err[1]});
    close(out[1]);
    close(err[1]);
    EXPECT_EQ(reply.id, id);
    EXPECT_EQ(reply.error_number, 0u);
    ASSERT_GT(reply.pid, 0);
    const std::string pid = std::to_string(reply.pid);
    EXPECT_EQ(ReadAll(out[0]), "hello bare " + std::to_string(getpid()) + " " + pid + " " + pid);
    EXPECT_EQ(ReadAll(err[0]), "error");
    int status = 0;
    ASSERT_EQ(waitpid(static_cast<pid_t>(reply.pid), &status, 0), reply.pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  }
}

// A signal to a process group that does not exist yet would be lost.
TEST_F(ForkServer, AWorkerCanBeSignalledAsSoonAsItIsKnown) {
  for (uint64_t id = 1; id <= 200; ++id) {
    const int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const int err = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const auto packet = worker_api::EncodeWarmRequest({id, {{"GREETING", "hello"}}, {}});
    const auto pid = static_cast<pid_t>(Ask(*packet, {out, err}).pid);
    close(out);
    close(err);
    ASSERT_GT(pid, 0);
    EXPECT_EQ(kill(-pid, SIGKILL), 0) << "worker " << id;
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
  }
}

TEST_F(ForkServer, RefusesARequestThatIsNoneAndGoesOn) {
  const auto good = worker_api::EncodeWarmRequest({5, {{"GREETING", "x"}}, {}});
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(Ask(std::span(*good).first(10), {}).error_number, static_cast<uint32_t>(EINVAL));
  EXPECT_EQ(Ask(*good, {}).error_number, static_cast<uint32_t>(EINVAL));  // no descriptors
  const worker_api::WarmReply reply = Ask(*good, {STDOUT_FILENO, STDERR_FILENO});
  ASSERT_GT(reply.pid, 0);
  EXPECT_EQ(waitpid(static_cast<pid_t>(reply.pid), nullptr, 0), reply.pid);
}

TEST(WarmRequest, ComesBackAsItWas) {
  const worker_api::WarmStart start{9, {{"A", ""}, {"B", "x=y"}}, {"one", "", "two words"}};
  const auto packet = worker_api::EncodeWarmRequest(start);
  ASSERT_TRUE(packet.ok());
  const auto parsed = worker_api::ParseWarmRequest(*packet);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, start);
  for (size_t size = 0; size < packet->size(); ++size) {
    EXPECT_FALSE(worker_api::ParseWarmRequest(std::span(*packet).first(size)).ok()) << size;
  }
}

TEST(WarmRequest, RefusesWhatCannotTravel) {
  EXPECT_FALSE(worker_api::EncodeWarmRequest({1, {{"A=B", "x"}}, {}}).ok());
  EXPECT_FALSE(worker_api::EncodeWarmRequest({1, {{"", "x"}}, {}}).ok());
  EXPECT_FALSE(worker_api::EncodeWarmRequest({1, {{"A", std::string("x\0y", 3)}}, {}}).ok());
  EXPECT_EQ(
      worker_api::EncodeWarmRequest({1, {{"A", std::string(200'000, 'x')}}, {}}).status().code(),
      Code::kResourceExhausted);
}

}  // namespace
}  // namespace longhaul::trainer
