#include "service/agent/worker_probes.h"

#include <csignal>
#include <map>
#include <optional>

#include "base/utf8.h"
#include "io/process/process.h"

namespace longhaul::service {

void WorkerProbes::Probe(const runtime::ProbeWorkersNow& order, const std::string& run_directory,
                         Done done) {
  runtime::ProbedWorkers answer{order.job, order.attempt, {}, order.with_stacks};
  std::vector<StackTarget> targets;
  std::vector<runtime::WorkerId> ids;
  for (const uint32_t rank : order.ranks) ids.push_back({order.job, order.attempt, rank});
  const std::map<runtime::WorkerId, Duration> idle = launcher_.CompareActivity(ids);
  for (const uint32_t rank : order.ranks) {
    proto::WorkersProbed::Worker& worker = answer.workers.emplace_back();
    worker.set_rank(rank);
    const runtime::WorkerId id{order.job, order.attempt, rank};
    const std::optional<pid_t> pid = launcher_.Pid(id);
    const Result<io::ProcessFacts> facts =
        pid.has_value() ? io::ReadProcessFacts(*pid) : NotFound("no process");
    if (!facts.ok()) {
      worker.set_process_state("gone");
      continue;
    }
    worker.set_process_state(std::string(1, facts->state));
    worker.set_cpu_ns(facts->cpu_ns);
    if (const auto found = idle.find(id); found != idle.end()) {
      worker.set_idle_ns(found->second.count());
    }
    if (order.resume_stopped && facts->state == 'T') {
      launcher_.Signal(id, SIGCONT);
      worker.set_resumed(true);
    }
    targets.push_back({rank, *pid, launcher_.StackFile(id)});
  }
  if (!order.with_stacks) return done(std::move(answer));
  stacks_.Read(std::move(targets), [this, answer, run_directory,
                                    done](const std::vector<StackOfWorker>& stacks) mutable {
    AddStacks(run_directory, stacks, answer);
    done(std::move(answer));
  });
}

void WorkerProbes::Sample(const runtime::SampleWorkersNow& order,
                          std::function<void(runtime::SampledWorkers)> done) {
  std::vector<SampleTarget> targets;
  for (const uint32_t rank : order.ranks) {
    const std::optional<pid_t> pid = launcher_.Pid({order.job, order.attempt, rank});
    if (pid.has_value()) targets.push_back({rank, *pid});
  }
  sampler_.Sample(std::move(targets), order.period,
                  [job = order.job, attempt = order.attempt,
                   done = std::move(done)](proto::WorkersSampled found) {
                    done({job, attempt, std::move(found)});
                  });
}

// The whole stacks go into a file of the run, and the calls of the main threads to the controller.
void WorkerProbes::AddStacks(const std::string& run_directory,
                             const std::vector<StackOfWorker>& stacks,
                             runtime::ProbedWorkers& answer) {
  constexpr size_t kLongest = 4'096;
  std::string text;
  for (const StackOfWorker& stack : stacks) {
    text += "worker " + std::to_string(stack.rank) + "\n" + stack.text + "\n";
    for (proto::WorkersProbed::Worker& worker : answer.workers) {
      if (worker.rank() != stack.rank) continue;
      worker.set_stack(ToValidUtf8(stack.calls.substr(0, kLongest)));
    }
  }
  if (run_directory.empty() || text.empty()) return;
  const std::string name =
      "logs/attempt-" + std::to_string(answer.attempt) + "/stacks-" + node_ + ".txt";
  if (launcher_.WriteStacks(run_directory + "/" + name, text).ok()) answer.stacks_file = name;
}

}  // namespace longhaul::service
