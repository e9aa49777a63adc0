// The real controller in a process of its own, killed at any moment, before a real agent's core.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "io/clock.h"
#include "io/fd.h"
#include "io/process/process.h"
#include "runtime/agent/agent_core.h"
#include "service/client/rest_client.h"
#include "service/controller/agents/scripted_agent.h"
#include "service/controller/log/event_log.h"

namespace longhaul::bin {
namespace {

using service::Json;

// A child `longhaul controller`. Its output comes through a pipe.
class ControllerProcess {
 public:
  explicit ControllerProcess(const std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    output_ = io::Fd(ends[0]);
    const io::Fd theirs(ends[1]);
    io::ProcessOptions options;
    options.argv = {*io::ProgramDirectory() + "/longhaul", "controller"};
    options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
    options.environment = io::CurrentEnvironment();
    options.stdout_fd = theirs.get();
    options.stderr_fd = theirs.get();
    options.signal_on_parent_death = SIGKILL;
    auto process = io::Start(options);
    EXPECT_TRUE(process.ok()) << process.status();
    if (process.ok()) process_ = *std::move(process);
  }
  ~ControllerProcess() { Kill(); }
  ControllerProcess(const ControllerProcess&) = delete;
  ControllerProcess& operator=(const ControllerProcess&) = delete;

  // The next line it prints; empty at the end of its output.
  std::string ReadLine() {
    std::string line;
    char c = 0;
    while (::read(output_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  bool AwaitReady() { return ReadLine().starts_with("controller ready: "); }

  void Kill() {
    if (!process_.pidfd.valid()) return;
    EXPECT_TRUE(io::Signal(process_.pidfd, SIGKILL).ok());
    (void)Await();
  }
  io::ExitStatus Await() {
    const auto status = io::Reap(process_.pidfd);
    EXPECT_TRUE(status.ok()) << status.status();
    process_.pidfd.Reset();
    return status.ok() ? *status : io::ExitStatus();
  }

 private:
  io::Process process_;
  io::Fd output_;
};

// An agent whose workers are on paper: the real core, its orders answered at once.
class PaperAgent {
 public:
  static constexpr const char* kNode = "node-1";

  PaperAgent() : core_(NodeId(kNode), 7, runtime::AgentFacts{1, 1, 1 << 30, "127.0.0.1", "host"}) {}

  // Returns what the controller says it has logged.
  uint64_t Connect(const service::Endpoint& endpoint) {
    stream_ = std::make_unique<service::ScriptedAgent>(endpoint);
    stream_->Hello(endpoint.token, kNode, 7);
    const auto welcome = stream_->Read();
    EXPECT_TRUE(welcome.has_value() && welcome->has_welcome());
    const uint64_t logged = welcome.has_value() ? welcome->welcome().acknowledged() : 0;
    EXPECT_GE(logged, acknowledged_) << "an acknowledged event is lost";
    EXPECT_LE(logged, sent_.empty() ? 0 : sent_.rbegin()->first);
    acknowledged_ = logged;
    Give(runtime::Connected{logged});
    return logged;
  }

  // The controller was killed: hears what it had still said.
  void Disconnect() {
    while (TakeOne()) {
    }
    stream_.reset();
    Give(runtime::Disconnected{});
  }

  bool TakeOne() {
    const auto message = stream_->Read();
    if (!message.has_value()) return false;
    if (message->has_acknowledged()) {
      acknowledged_ = std::max(acknowledged_, message->acknowledged());
      Give(runtime::EventsAcknowledged{message->acknowledged()});
    } else if (message->has_command()) {
      Give(runtime::CommandReceived{message->command()});
    }
    return true;
  }
  bool TakeUpTo(uint64_t sequence) {
    while (acknowledged_ < sequence) {
      if (!TakeOne()) return false;
    }
    return true;
  }

  void ReportStep() {
    if (!worker_.has_value()) return;
    runtime::WorkerStep step;
    step.worker = *worker_;
    step.step = ++steps_;
    step.at = io::Now();
    step.loss = 1.0 / static_cast<double>(steps_);
    Give(step);
  }
  void Finish() {
    if (worker_.has_value()) Give(runtime::WorkerGone{*worker_, 0, 0, "", 0});
  }

  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t last_sent() const { return sent_.empty() ? 0 : sent_.rbegin()->first; }
  bool running() const { return worker_.has_value(); }
  uint64_t steps() const { return steps_; }
  const std::map<uint64_t, proto::Event>& sent() const { return sent_; }

  // The last step among the first events up to an acknowledged one.
  uint64_t StepOf(uint64_t sequence) const {
    uint64_t step = 0;
    for (const auto& [number, event] : sent_) {
      if (number <= sequence && event.has_step_reported()) step = event.step_reported().last_step();
    }
    return step;
  }

 private:
  void Give(const runtime::AgentInput& input) {
    for (const runtime::AgentEffect& effect : core_.Step(input, io::Now())) {
      std::visit([this](const auto& order) { Do(order); }, effect);
    }
    const Status invariants = core_.CheckInvariants();
    EXPECT_TRUE(invariants.ok()) << invariants;
  }

  void Do(const runtime::Send& order) {
    const proto::Event& event = order.message.event();
    const auto [known, fresh] = sent_.emplace(event.sequence(), event);
    if (!fresh) {
      EXPECT_EQ(known->second.SerializeAsString(), event.SerializeAsString());
    }
    stream_->Send(order.message);
  }
  void Do(const runtime::FindTorch& order) { Give(runtime::TorchFound{order.job, ""}); }
  void Do(const runtime::OpenStoreAt& order) {
    Give(runtime::StoreListening{order.job, order.attempt, 29500, ""});
  }
  void Do(const runtime::SpawnWorker& order) {
    worker_ = order.worker;
    Give(runtime::WorkerForked{order.worker, 4711, "", false});
    Give(runtime::WorkerPhase{order.worker, proto::PhaseEntered::STEPPING, io::Now()});
  }
  template <typename Order>
  void Do(const Order&) {}

  runtime::AgentCore core_;
  std::unique_ptr<service::ScriptedAgent> stream_;
  std::optional<runtime::WorkerId> worker_;
  uint64_t steps_ = 0;
  uint64_t acknowledged_ = 0;
  std::map<uint64_t, proto::Event> sent_;  // by sequence: all there ever were
};

class ControllerProcessTest : public testing::Test {
 protected:
  ControllerProcessTest() {
    std::string pattern = testing::TempDir() + "/controller_process_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ControllerProcessTest() override { std::filesystem::remove_all(directory_); }

  std::string state() const { return directory_ + "/state"; }
  std::vector<std::string> Arguments() const { return {"--state-dir", state()}; }

  service::Endpoint ReadEndpoint() const {
    const auto endpoint = service::ReadEndpoint(state() + "/endpoint.json");
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    return endpoint.ok() ? *endpoint : service::Endpoint();
  }

  // One life of the controller: what it knew before is right, and then it works until it is killed.
  void Live(PaperAgent& agent, Random& random) {
    ControllerProcess controller(Arguments());
    ASSERT_TRUE(controller.AwaitReady());
    const service::Endpoint endpoint = ReadEndpoint();
    if (!job_.empty()) ExpectStatus(endpoint, agent.StepOf(agent.acknowledged()));
    agent.Connect(endpoint);
    if (job_.empty()) Submit(endpoint, agent);
    const uint64_t bursts = random.Below(4);
    for (uint64_t i = 0; i < bursts; ++i) {
      for (uint64_t steps = random.Below(40); steps > 0; --steps) agent.ReportStep();
      const uint64_t waiting = agent.last_sent() - agent.acknowledged();
      ASSERT_TRUE(agent.TakeUpTo(agent.acknowledged() + random.Below(waiting + 1)));
    }
    for (uint64_t steps = random.Below(40); steps > 0; --steps) agent.ReportStep();
    controller.Kill();
    agent.Disconnect();
  }

  void Submit(const service::Endpoint& endpoint, PaperAgent& agent) {
    ASSERT_TRUE(agent.TakeUpTo(agent.last_sent()));
    service::RestClient client(endpoint);
    const auto answer =
        client.Post("/v1/jobs", {{"job", {{"name", "kept"}, {"command", {"true"}}}}});
    ASSERT_TRUE(answer.ok()) << answer.status();
    job_ = (*answer)["id"];
    while (!agent.running()) ASSERT_TRUE(agent.TakeOne());
    ASSERT_TRUE(agent.TakeUpTo(agent.last_sent()));
  }

  void ExpectStatus(const service::Endpoint& endpoint, uint64_t at_least) {
    service::RestClient client(endpoint);
    const auto status = client.Get("/v1/jobs/" + job_);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ((*status)["state"], "running");
    EXPECT_EQ((*status)["attempt"], 1);
    EXPECT_EQ((*status)["restarts"], 0);
    EXPECT_GE((*status)["step"].get<uint64_t>(), at_least);
  }

  std::string directory_;
  std::string job_;
};

TEST_F(ControllerProcessTest, KilledTenTimesItLosesNothingThatItAcknowledged) {
  Random random(20);
  PaperAgent agent;
  for (int life = 0; life < 10; ++life) {
    SCOPED_TRACE("life " + std::to_string(life));
    Live(agent, random);
    ASSERT_FALSE(HasFatalFailure());
  }
  EXPECT_GT(agent.steps(), 100u) << "events did flow";
  {
    ControllerProcess controller(Arguments());
    ASSERT_TRUE(controller.AwaitReady());
    const service::Endpoint endpoint = ReadEndpoint();
    agent.Connect(endpoint);
    ASSERT_TRUE(agent.TakeUpTo(agent.last_sent()));
    ExpectStatus(endpoint, agent.steps());
    agent.Finish();
    ASSERT_TRUE(agent.TakeUpTo(agent.last_sent()));
    service::RestClient client(endpoint);
    const auto status = client.Get("/v1/jobs/" + job_);
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ((*status)["state"], "succeeded");
    EXPECT_EQ((*status)["highest_step"], agent.steps());
  }
  // The log holds each event of the agent once, in order, as it was sent.
  const auto log = service::EventLog::Open(state() + "/events.db");
  ASSERT_TRUE(log.ok()) << log.status();
  uint64_t expected = 0;
  const Status replayed = (*log)->Replay([&](uint64_t, Instant, const proto::Event& event) {
    if (event.sequence() == 0) return Status();
    EXPECT_EQ(event.sequence(), ++expected);
    proto::Event sent = agent.sent().at(event.sequence());
    sent.set_node(event.node());
    sent.set_incarnation(event.incarnation());
    EXPECT_EQ(event.SerializeAsString(), sent.SerializeAsString());
    return Status();
  });
  EXPECT_TRUE(replayed.ok()) << replayed;
  EXPECT_EQ(expected, agent.last_sent());
}

TEST_F(ControllerProcessTest, SaysWhichPortIsInUseAndWhatToDo) {
  ControllerProcess first(Arguments());
  ASSERT_TRUE(first.AwaitReady());
  const service::Endpoint endpoint = ReadEndpoint();
  for (const auto& [option, address] :
       {std::pair<std::string, std::string>("--rest", endpoint.rest.substr(7)),
        std::pair<std::string, std::string>("--agents", endpoint.agents)}) {
    ControllerProcess second({"--state-dir", directory_ + "/other", option, address});
    const std::string said = second.ReadLine();
    EXPECT_TRUE(said.starts_with("longhaul: cannot listen")) << said;
    EXPECT_NE(said.find(address), std::string::npos) << said;
    EXPECT_NE(said.find("choose another with " + option), std::string::npos) << said;
    EXPECT_EQ(second.ReadLine(), "") << "one line says it all";
    EXPECT_EQ(second.Await().exit_code, 1);
  }
}

TEST_F(ControllerProcessTest, RefusesAStateDirectoryThatIsInUse) {
  ControllerProcess first(Arguments());
  ASSERT_TRUE(first.AwaitReady());
  ControllerProcess second(Arguments());
  const std::string said = second.ReadLine();
  EXPECT_NE(said.find("another controller uses the event log"), std::string::npos) << said;
  EXPECT_EQ(second.Await().exit_code, 1);
}

}  // namespace
}  // namespace longhaul::bin
