// Thousands of agents for a running controller, in one process. Each has a TCP connection and a
// gRPC stream of its own and decides by runtime::AgentCore; its workers are no processes, but
// answers that come at once. bench/service/fleet.py starts it and measures the controller.
//
//   fleet_bench ENDPOINT.json SLOTS
//
// Lines of standard input: "connect FIRST LAST" connects agents of these numbers, "break NUMBER"
// ends a connection, and "step PERIOD" lets the workers of all agents do a step now and every so
// many milliseconds. Lines of standard output, each with seconds since the Unix epoch:
//   connected COUNT AT      so many agents have been welcomed
//   started ATTEMPT N AT    so many agents have been ordered to start workers of the attempt
//   told ATTEMPT N AT       so many have been ordered to end them, or to start those of a later one
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/clock.h"
#include "proto/commands.grpc.pb.h"
#include "runtime/agent/agent_core.h"
#include "service/client/endpoint.h"

namespace longhaul::service {
namespace {

double Seconds() { return static_cast<double>(ToNanoseconds(io::Now())) * 1e-9; }

// Counts what the agents have been told, and prints each new count.
class Counts {
 public:
  void Connected() {
    const std::lock_guard lock(mutex_);
    std::printf("connected %zu %.6f\n", ++connected_, Seconds());
  }
  void Started(uint32_t agent, uint64_t attempt) {
    const std::lock_guard lock(mutex_);
    Add("started", started_[attempt], agent, attempt);
    for (auto& [lower, agents] : started_) {
      if (lower < attempt && agents.contains(agent)) Add("told", told_[lower], agent, lower);
    }
  }
  void Told(uint32_t agent, uint64_t attempt) {
    const std::lock_guard lock(mutex_);
    Add("told", told_[attempt], agent, attempt);
  }

 private:
  void Add(const char* what, std::set<uint32_t>& agents, uint32_t agent, uint64_t attempt) {
    if (!agents.insert(agent).second) return;
    std::printf("%s %lu %zu %.6f\n", what, static_cast<unsigned long>(attempt), agents.size(),
                Seconds());
  }

  std::mutex mutex_;
  size_t connected_ = 0;
  std::map<uint64_t, std::set<uint32_t>> started_, told_;  // by attempt
};

class FleetAgent final : public grpc::ClientBidiReactor<proto::FromAgent, proto::ToAgent> {
 public:
  FleetAgent(const Endpoint& endpoint, uint32_t number, uint32_t slots, Counts& counts)
      : number_(number),
        counts_(counts),
        core_(NodeId("node-" + std::to_string(number)),
              static_cast<uint64_t>(ToNanoseconds(io::Now())),
              {.slots = slots,
               .cores = slots,
               .memory_bytes = uint64_t{1} << 36,
               .address = "127.0.0.1",
               .host = "host-" + std::to_string(number)}) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    stub_ = proto::Controller::NewStub(
        grpc::CreateCustomChannel(endpoint.agents, grpc::InsecureChannelCredentials(), arguments));
    stub_->async()->Connect(&context_, this);
    proto::FromAgent hello;
    hello.mutable_hello()->set_token(endpoint.token);
    hello.mutable_hello()->set_node("node-" + std::to_string(number));
    hello.mutable_hello()->set_incarnation(static_cast<uint64_t>(ToNanoseconds(io::Now())));
    unsent_.push_back(std::move(hello));
    {
      const std::lock_guard lock(mutex_);
      WriteNext();
    }
    StartRead(&received_);
    StartCall();
  }

  void Break() { context_.TryCancel(); }
  // All workers have done their next step, in which each has worked for another part of `period`.
  void DoStep(Duration period) {
    const std::lock_guard lock(mutex_);
    const Instant now = io::Now();
    ++step_;
    for (const runtime::WorkerId& worker : workers_) {
      if (step_ == 1) {
        inputs_.push_back(runtime::WorkerPhase{worker, proto::PhaseEntered::STEPPING, now});
      }
      runtime::WorkerStep done;
      done.worker = worker;
      done.step = step_;
      done.at = now;
      done.communication = period * ((worker.rank * 7 + step_) % 30) / 100;
      done.loss = 2 + 8 / static_cast<double>(step_ + 1);
      done.tokens = 4'096;
      done.flops = 1e13;
      inputs_.push_back(std::move(done));
    }
    Work();
    WriteNext();
  }
  // Sends a heartbeat if it is due.
  void Beat(Instant now) {
    const std::lock_guard lock(mutex_);
    if (!welcomed_ || !unsent_.empty() || now < next_beat_) return;
    next_beat_ = now + period_;
    unsent_.emplace_back().mutable_heartbeat();
    WriteNext();
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      const std::lock_guard lock(mutex_);
      Take(received_);
    }
    StartRead(&received_);
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!unsent_.empty()) unsent_.pop_front();
    if (ok) WriteNext();
  }
  void OnDone(const grpc::Status& status) override {
    if (status.error_code() != grpc::StatusCode::CANCELLED) {
      std::fprintf(stderr, "node-%u: %s\n", number_, status.error_message().c_str());
    }
  }

  void WriteNext() {
    if (writing_ || unsent_.empty()) return;
    writing_ = true;
    StartWrite(&unsent_.front());
  }
  void Take(const proto::ToAgent& message) {
    if (message.has_welcome()) {
      welcomed_ = true;
      period_ = Duration(message.welcome().heartbeat_period_ns());
      counts_.Connected();
      inputs_.push_back(runtime::Connected{message.welcome().acknowledged()});
    } else if (message.has_command()) {
      const proto::Command& command = message.command();
      if (command.has_start_workers()) {
        counts_.Started(number_, command.start_workers().attempt());
      } else if (command.has_kill_workers()) {
        counts_.Told(number_, command.kill_workers().attempt());
      }
      inputs_.push_back(runtime::CommandReceived{command});
    } else if (message.kind_case() == proto::ToAgent::kHeartbeatPeriodNs) {
      period_ = Duration(message.heartbeat_period_ns());
    } else {
      inputs_.push_back(runtime::EventsAcknowledged{message.acknowledged()});
    }
    Work();
    WriteNext();
  }
  void Work() {
    while (!inputs_.empty()) {
      const runtime::AgentInput input = std::move(inputs_.front());
      inputs_.pop_front();
      for (const runtime::AgentEffect& effect : core_.Step(input, io::Now())) Do(effect);
    }
  }
  void Do(const runtime::AgentEffect& effect) {
    if (const auto* send = std::get_if<runtime::Send>(&effect)) {
      unsent_.push_back(send->message);
    } else if (const auto* torch = std::get_if<runtime::FindTorch>(&effect)) {
      inputs_.push_back(runtime::TorchFound{torch->job, "2.9.0"});
    } else if (const auto* store = std::get_if<runtime::OpenStoreAt>(&effect)) {
      inputs_.push_back(runtime::StoreListening{store->job, store->attempt, 29'500, ""});
    } else if (const auto* spawn = std::get_if<runtime::SpawnWorker>(&effect)) {
      if (workers_.empty() || workers_.front().attempt != spawn->worker.attempt) workers_.clear();
      workers_.push_back(spawn->worker);
      inputs_.push_back(
          runtime::WorkerForked{spawn->worker, 1'000 + spawn->worker.rank, "", false});
    } else if (const auto* signal = std::get_if<runtime::SignalWorker>(&effect)) {
      inputs_.push_back(runtime::WorkerGone{signal->worker, -1, signal->signal, "", 0});
    }
  }

  const uint32_t number_;
  Counts& counts_;
  std::unique_ptr<proto::Controller::Stub> stub_;
  grpc::ClientContext context_;
  proto::ToAgent received_;
  std::mutex mutex_;  // guards all below
  bool welcomed_ = false;
  bool writing_ = false;
  Duration period_ = std::chrono::milliseconds(250);
  Instant next_beat_{};
  std::deque<proto::FromAgent> unsent_;  // the one in front is being written
  std::deque<runtime::AgentInput> inputs_;
  std::vector<runtime::WorkerId> workers_;  // of the newest attempt
  uint64_t step_ = 0;
  runtime::AgentCore core_;
};

int Run(const std::string& endpoint_file, uint32_t slots) {
  const Result<Endpoint> endpoint = ReadEndpoint(endpoint_file);
  if (!endpoint.ok()) {
    std::fprintf(stderr, "fleet_bench: %s\n", endpoint.status().message().c_str());
    return 1;
  }
  Counts counts;
  std::mutex mutex;
  std::map<uint32_t, std::unique_ptr<FleetAgent>> agents;
  std::atomic<int64_t> step_ms = 0;  // 0: no steps
  std::jthread steps([&](const std::stop_token& stop) {
    Instant next = io::MonotonicNow();
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const Duration period = std::chrono::milliseconds(step_ms.load());
      if (period == Duration() || io::MonotonicNow() < next) continue;
      next = std::max(next + period, io::MonotonicNow());
      const std::lock_guard lock(mutex);
      for (const auto& [number, agent] : agents) agent->DoStep(period);
    }
  });
  std::jthread beats([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::lock_guard lock(mutex);
      for (const auto& [number, agent] : agents) agent->Beat(io::MonotonicNow());
    }
  });
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what;
    uint32_t first = 0, last = 0;
    words >> what >> first >> last;
    if (what == "connect") {
      for (uint32_t number = first; number <= last; ++number) {
        const std::lock_guard lock(mutex);  // heartbeats of the others go on in between
        agents[number] = std::make_unique<FleetAgent>(*endpoint, number, slots, counts);
      }
    } else if (what == "step") {
      step_ms = first;
    } else if (what == "break" && agents.contains(first)) {
      agents[first]->Break();
    }
  }
  std::_Exit(0);  // the connections end with the process
}

}  // namespace
}  // namespace longhaul::service

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: fleet_bench ENDPOINT.json SLOTS\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return longhaul::service::Run(argv[1], static_cast<uint32_t>(std::stoul(argv[2])));
}
