// Workers' log files, followed as they are written (inotify), for the steps that they show.
//
// On the loop's thread. A file is read from where it stood when its worker was started; at most
// 256 KiB at a time, so that a worker that writes without end doesn't hold up the agent.
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
  // `tell` hears WorkerOutputStep. `loop` must outlive this.
  OutputFollower(io::EventLoop& loop, std::function<void(runtime::AgentInput)> tell);
  ~OutputFollower();
  OutputFollower(const OutputFollower&) = delete;
  OutputFollower& operator=(const OutputFollower&) = delete;

  // Follows the file from its byte `begin` on. Requires a pattern that StepPattern::Parse takes, as
  // the job's has been when it was submitted, or says what is wrong with it.
  Status Follow(const runtime::WorkerId& worker, const std::string& path, uint64_t begin,
                const std::string& pattern);
  // The worker has ended: tells the rest of its file. One that isn't followed: nothing happens.
  void Finish(const runtime::WorkerId& worker);

 private:
  struct Followed {
    io::Fd file;
    uint64_t offset = 0;
    StepReader reader;
    int watch = 0;
  };

  Status Open();  // inotify, at the first file
  void OnModified();
  // Returns whether there may be more.
  bool Read(const runtime::WorkerId& worker, Followed& followed);
  void ReadSoon(const runtime::WorkerId& worker);
  void Tell(const runtime::WorkerId& worker, const std::vector<OutputStep>& steps);

  io::EventLoop& loop_;
  const std::function<void(runtime::AgentInput)> tell_;
  io::Fd inotify_;
  std::map<runtime::WorkerId, Followed> followed_;
  std::map<int, runtime::WorkerId> by_watch_;
  std::map<runtime::WorkerId, io::EventLoop::TimerId> reading_on_;  // has more than one turn takes
};

}  // namespace longhaul::service
