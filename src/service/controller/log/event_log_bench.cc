// Events a second: into the log, by the size of the batch that shares one sync to disk, and through
// the whole loop (core, invariants, log, acknowledgement), by the count of nodes with a full
// window.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <semaphore>
#include <string>
#include <vector>

#include "base/check.h"
#include "service/controller/agents/agent_gateway.h"
#include "service/controller/core_loop.h"
#include "service/controller/log/event_log.h"
#include "service/controller/standby/leadership.h"
#include "service/controller/standby/postgres_fixture.h"
#include "service/controller/standby/postgres_log.h"

namespace longhaul::service {
namespace {

LogEntry StepEntry() {
  LogEntry entry;
  auto& report = *entry.event.mutable_step_reported();
  report.set_job_id("headers-gpt-1");
  report.set_last_step(100);
  report.set_loss(2.5);
  entry.notifications.resize(1);
  entry.notifications[0].mutable_step()->set_step(100);
  return entry;
}

void AppendBatches(benchmark::State& state) {
  std::string pattern = std::filesystem::current_path().string() + "/event_log_bench_XXXXXX";
  const std::string directory = ::mkdtemp(pattern.data());
  {
    auto log = *EventLog::Open(directory + "/events.db");
    const std::vector<LogEntry> batch(static_cast<size_t>(state.range(0)), StepEntry());
    for (auto _ : state) {
      const Status status = log->Append(batch);
      CHECK(status.ok()) << status.message();
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  std::filesystem::remove_all(directory);
}
BENCHMARK(AppendBatches)->Arg(1)->Arg(16)->Arg(256)->Arg(1024)->UseRealTime();

// The same into PostgreSQL on this machine, by a controller that leads.
void AppendBatchesToPostgres(benchmark::State& state) {
  if (!PostgresServer::Missing().empty()) {
    state.SkipWithError(PostgresServer::Missing().c_str());
    return;
  }
  PostgresServer server;
  LeadershipOptions options;
  options.address = server.MakeDatabase();
  {
    auto log = *PostgresLog::Open(options.address, "benchmark");
    Leadership leadership(options);
    log->Lead((*leadership.Try()).value());
    leadership.Keep([](const Status& lost) { CHECK(lost.ok()) << lost.message(); });
    const std::vector<LogEntry> batch(static_cast<size_t>(state.range(0)), StepEntry());
    for (auto _ : state) {
      const Status status = log->Append(batch);
      CHECK(status.ok()) << status.message();
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(AppendBatchesToPostgres)->Arg(1)->Arg(16)->Arg(256)->Arg(1024)->UseRealTime();

class NoAgents final : public AgentPort {
 public:
  void Deliver(const NodeId&, const proto::Command&) override {}
  void Acknowledge(const NodeId&, uint64_t, uint64_t) override {}
};

// Each node keeps as many events on their way as the gateway lets it.
void ThroughTheLoop(benchmark::State& state) {
  std::string pattern = std::filesystem::current_path().string() + "/event_log_bench_XXXXXX";
  const std::string directory = ::mkdtemp(pattern.data());
  NoAgents port;
  {
    const auto log = *EventLog::Open(directory + "/events.db");
    NotificationFeed feed(*log);
    const auto loop = *CoreLoop::Create(CoreLoopOptions(), *log, feed);
    loop->Start(port);
    const auto nodes = static_cast<uint64_t>(state.range(0));
    std::counting_semaphore<> room(static_cast<ptrdiff_t>(nodes * AgentGateway::kWindow));
    uint64_t count = 0;
    for (auto _ : state) {
      room.acquire();
      proto::Event event;
      event.set_node("node-" + std::to_string(count % nodes + 1));
      event.set_incarnation(1);
      event.set_sequence(count / nodes + 1);
      if (count < nodes) {
        event.mutable_agent_joined()->set_slots(8);
      } else {
        event.mutable_step_reported()->set_job_id("headers-gpt-1");
        event.mutable_step_reported()->set_last_step(count);
      }
      ++count;
      CHECK(loop->Push(std::move(event), [&room] { room.release(); }));
    }
    for (uint64_t i = 0; i < nodes * AgentGateway::kWindow; ++i) room.acquire();
    loop->Stop();
  }
  state.SetItemsProcessed(state.iterations());
  std::filesystem::remove_all(directory);
}
BENCHMARK(ThroughTheLoop)->Arg(1)->Arg(16)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace longhaul::service

BENCHMARK_MAIN();
