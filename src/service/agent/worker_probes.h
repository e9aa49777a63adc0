// Finds out in which state the workers are that the controller suspects of a hang, gathers their
// stacks, and looks for a while at what they do.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "io/event_loop.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/activity/stack_reader.h"
#include "service/agent/activity/state_sampler.h"
#include "service/agent/worker_launcher.h"

namespace longhaul::service {

class WorkerProbes {
 public:
  using Done = std::function<void(runtime::ProbedWorkers)>;

  // Requires that `loop` and `launcher` outlive this. `node` is this node's name.
  WorkerProbes(io::EventLoop& loop, WorkerLauncher& launcher, std::string node,
               NativeStackOptions native)
      : launcher_(launcher),
        node_(std::move(node)),
        sampler_(loop),
        stacks_(loop, std::move(native),
                [&launcher](const std::string& path) { return launcher.ReadStack(path); }) {}

  // Calls `done` at once, or with stacks once they are there. The whole stacks are written to a
  // file below `run_directory`; if that is empty, to none.
  void Probe(const runtime::ProbeWorkersNow& order, const std::string& run_directory, Done done);
  // Calls `done` after the order's period.
  void Sample(const runtime::SampleWorkersNow& order,
              std::function<void(runtime::SampledWorkers)> done);

 private:
  void AddStacks(const std::string& run_directory, const std::vector<StackOfWorker>& stacks,
                 runtime::ProbedWorkers& answer);

  WorkerLauncher& launcher_;
  const std::string node_;
  StateSampler sampler_;
  StackReader stacks_;
};

}  // namespace longhaul::service
