// The workers of a command that show no activity, and those that are stopped, in the present
// attempt, as their agents report them.
//
// Pure. A worker's idle time is the one of its last report, never extrapolated: an agent that is
// disconnected must not make its workers look idle for longer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/time.h"

namespace longhaul::runtime::controller {

class IdleWorkers {
 public:
  struct Idle {
    Duration silent{};
    Duration stopped{};  // zero: it is not stopped, or not beyond its limit
    std::string evidence;
  };
  enum class StopAction { kContinue, kWait, kRestart };

  void BeginAttempt();
  // Returns whether the worker was not idle before.
  bool Note(uint32_t rank, Idle idle);
  void Forget(uint32_t rank) { idle_.erase(rank); }
  // What to do about a worker that was just noted as stopped: the first stop is ended by SIGCONT. A
  // worker that is stopped once more, or for `limit` longer, cannot be helped by this.
  StopAction TakeStop(uint32_t rank, Duration limit);

  // The time for which all of `alive` workers have been idle; zero when one is active.
  Duration AllIdle(uint64_t alive) const;
  // The reported stop; zero when there is none.
  Duration StoppedFor(uint32_t rank) const;
  // What was measured of the worker that has been idle for the longest time; empty: none is.
  std::string Evidence() const;
  size_t size() const { return idle_.size(); }

 private:
  std::map<uint32_t, Idle> idle_;           // by rank
  std::map<uint32_t, Duration> continued_;  // by rank: the stop when SIGCONT was ordered
};

}  // namespace longhaul::runtime::controller
