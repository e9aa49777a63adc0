// A real agent with real processes, before a scripted controller, for tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "io/net/socket.h"
#include "io/process/process.h"
#include "service/agent/agent_service.h"
#include "service/agent/scripted_controller.h"
#include "worker_api/protocol.h"

namespace longhaul::service {

constexpr const char* kJob = "job-1";
constexpr Duration kPatience = std::chrono::seconds(20);  // of a test that fails

inline bool IsAlive(pid_t pid) {
  const Result<io::ProcessFacts> facts = io::ReadProcessFacts(pid);
  return facts.ok() && facts->state != 'Z';
}

inline std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class AgentServiceTest : public ::testing::Test {
 protected:
  AgentServiceTest() {
    std::string folder = "/tmp/agent_service_XXXXXX";
    folder_ = mkdtemp(folder.data());
    loop_ = *io::EventLoop::Create();
    options_.controller = controller_.address();
    options_.node = "node-1";
    options_.slots = 2;
    options_.state_directory = folder_ + "/state";
  }
  ~AgentServiceTest() override {
    agent_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Join() {
    Result<std::unique_ptr<AgentService>> agent = AgentService::Create(*loop_, options_);
    ASSERT_TRUE(agent.ok()) << agent.status();
    agent_ = *std::move(agent);
    ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_agent_joined) == 1; }));
  }

  // Turns the loop until something is so.
  template <typename Condition>
  bool Await(Condition condition) {
    const Instant end = io::MonotonicNow() + kPatience;
    while (!condition()) {
      if (io::MonotonicNow() > end) return false;
      loop_->RunOnce(std::chrono::milliseconds(2));
    }
    return true;
  }

  int Count(bool (proto::Event::*has)() const) const {
    int count = 0;
    for (const proto::Event& event : controller_.events()) count += (event.*has)() ? 1 : 0;
    return count;
  }
  // The first event of a kind. Requires one.
  proto::Event First(bool (proto::Event::*has)() const) const {
    for (const proto::Event& event : controller_.events()) {
      if ((event.*has)()) return event;
    }
    ADD_FAILURE() << "no such event";
    return {};
  }

  proto::Command Start(uint64_t attempt, std::vector<std::string> command,
                       uint32_t ranks = 1) const {
    proto::Command out;
    proto::StartWorkers& start = *out.mutable_start_workers();
    start.set_job_id(kJob);
    start.set_attempt(attempt);
    start.set_restart_count(static_cast<uint32_t>(attempt) - 1);
    start.set_nodes(1);
    start.set_local_ranks(ranks);
    start.set_world(ranks);
    start.set_master_address("127.0.0.1");
    start.set_master_port(29500);
    proto::Job& job = *start.mutable_job();
    job.set_id(kJob);
    job.set_name("test");
    job.set_run_directory(folder_ + "/run");
    job.mutable_snapshot()->set_replicated(true);
    job.mutable_snapshot()->set_keep(2);
    for (std::string& argument : command) job.mutable_workload()->add_command(std::move(argument));
    return out;
  }
  proto::Command Shell(uint64_t attempt, const std::string& script, uint32_t ranks = 1) const {
    return Start(attempt, {"/bin/sh", "-c", script}, ranks);
  }
  std::string LogOf(uint64_t attempt, uint32_t rank) const {
    return folder_ + "/run/logs/attempt-" + std::to_string(attempt) + "/rank-" +
           std::to_string(rank) + ".log";
  }
  // Starts one worker that waits forever, and returns its process.
  pid_t StartWaiting(uint64_t attempt) {
    const int before = Count(&proto::Event::has_workers_started);
    controller_.Give(Start(attempt, {"tail", "-f", "/dev/null"}));
    EXPECT_TRUE(Await([&] { return Count(&proto::Event::has_workers_started) > before; }));
    return static_cast<pid_t>(LastStarted().pids(0));
  }
  proto::WorkersStarted LastStarted() const {
    proto::WorkersStarted last;
    for (const proto::Event& event : controller_.events()) {
      if (event.has_workers_started()) last = event.workers_started();
    }
    return last;
  }

  std::string folder_;
  ScriptedController controller_;
  std::unique_ptr<io::EventLoop> loop_;
  AgentOptions options_;
  std::unique_ptr<AgentService> agent_;
};

// The worker API from a worker's side, spoken by the test itself.
class WorkerApiTest : public AgentServiceTest {
 protected:
  // `prepare` is called before the worker starts.
  void Open(uint64_t attempt, const std::function<void()>& prepare = nullptr) {
    Join();
    // The worker connects, as only it may, and gives its end to the test.
    const io::Fd relay = *io::ListenUnix(folder_ + "/relay");
    std::ofstream(folder_ + "/connect.py")
        << "import os, socket, sys, signal\n"
           "def connect(path):\n"
           "    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
           "    made.connect(path)\n"
           "    return made\n"
           "print(os.environ['LONGHAUL_AGENT_SOCKET'], flush=True)\n"
           "agent = connect(os.environ['LONGHAUL_AGENT_SOCKET'])\n"
           "socket.send_fds(connect(sys.argv[1]), [b'x'], [agent.fileno()])\n"
           "signal.pause()\n";
    if (prepare != nullptr) prepare();
    controller_.Give(
        Shell(attempt, "exec python3 -I -S " + folder_ + "/connect.py " + folder_ + "/relay"));
    io::Fd worker;
    ASSERT_TRUE(Await([&] { return Take(io::Accept(relay), worker); }));
    std::optional<io::UnixMessage> given;
    ASSERT_TRUE(Await([&] { return Take(io::ReceiveMessage(worker, 16), given); }));
    ASSERT_EQ(given->fds.size(), 1u);
    socket_ = std::move(given->fds[0]);
    ASSERT_EQ(fcntl(socket_.get(), F_SETFL, O_NONBLOCK), 0);  // the loop turns on this thread
    path_ = ReadAll(LogOf(attempt, 0));
    path_.pop_back();
  }
  // Whether there is a value; moves it to the target.
  template <typename Value, typename Target>
  static bool Take(Result<std::optional<Value>> result, Target& target) {
    if (!result.ok() || !result->has_value()) return false;
    target = **std::move(result);
    return true;
  }
  template <typename Message>
  void Send(const Message& message) {
    ASSERT_TRUE(io::SendMessage(socket_, std::as_bytes(std::span(&message, 1))).ok());
  }
  // The next message of the agent.
  io::UnixMessage Listen() {
    io::UnixMessage heard;
    EXPECT_TRUE(Await([&] {
      Result<std::optional<io::UnixMessage>> message =
          io::ReceiveMessage(socket_, worker_api::kMaxMessageBytes);
      if (!message.ok() || !message->has_value()) return false;
      heard = **std::move(message);
      return true;
    }));
    return heard;
  }
  void Greet(uint64_t attempt) {
    worker_api::Hello hello;
    hello.attempt = attempt;
    hello.pid = getpid();
    hello.started_at_ns = 5;
    Send(hello);
    const io::UnixMessage welcome = Listen();
    ASSERT_GE(welcome.bytes.size(), sizeof(worker_api::Welcome));
  }

  io::Fd socket_;
  std::string path_;  // of the agent's socket
};

}  // namespace longhaul::service
