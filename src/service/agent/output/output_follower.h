// Follows workers' log files as they are written (inotify) and reads their steps.
//
// Runs on the loop's thread. A file is read from its length at the worker's start, at most 256 KiB
// at a time, so that a worker that writes without end doesn't block the agent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/output/step_reader.h"

namespace longhaul::service {

class OutputFollower {
 public:
  // `report` receives WorkerOutputStep. `loop` must outlive this.
  OutputFollower(io::EventLoop& loop, std::function<void(runtime::AgentInput)> report);
  ~OutputFollower();
  OutputFollower(const OutputFollower&) = delete;
  OutputFollower& operator=(const OutputFollower&) = delete;

  // Follows the file from byte `begin` on. Requires a pattern that StepPattern::Parse accepts, as
  // checked at submission; otherwise returns its error.
  Status Follow(const runtime::WorkerId& worker, const std::string& path, uint64_t begin,
                const std::string& pattern);
  // The worker has ended: reports the steps in the rest of its file. No effect if it isn't
  // followed.
  void Finish(const runtime::WorkerId& worker);

 private:
  struct Followed {
    io::Fd file;
    uint64_t offset = 0;
    StepReader reader;
    int watch = 0;
  };

  Status Open();  // opens inotify at the first file
  void OnModified();
  // Returns whether there may be more to read.
  bool Read(const runtime::WorkerId& worker, Followed& followed);
  void ReadSoon(const runtime::WorkerId& worker);
  void ReportSteps(const runtime::WorkerId& worker, const std::vector<OutputStep>& steps);

  io::EventLoop& loop_;
  const std::function<void(runtime::AgentInput)> report_;
  io::Fd inotify_;
  std::map<runtime::WorkerId, Followed> followed_;
  std::map<int, runtime::WorkerId> by_watch_;
  // Those with more to read than one turn takes.
  std::map<runtime::WorkerId, io::EventLoop::TimerId> reading_on_;
};

}  // namespace longhaul::service
