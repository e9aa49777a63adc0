// Replays the run with one change, to compute the time that the change saves.
//
// Each rank's segments become a program (across/replay_program.h) of work, of arrivals at
// collectives, of waits for them and, where its trace shows them, of launches; an instance ends
// when its last member has arrived plus its wire time. A replay without a change gives the measured
// time; with the work of a rank or its host scaled, or the wire time of a link, it gives the time
// with all consequences for other waits. A call whose stream was busy begins earlier when the call
// before it ends earlier, but not before its launch and the end of its input's computation. The
// computation that waits for a hidden call is known only by its kind.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/across/replay_program.h"

namespace longhaul::profiler {

struct Change {
  // Multiplies the duration of work: rank, kind of work. For kHost and kInput also the host's own
  // time between launches.
  std::function<double(size_t rank, Spent spent)> work;
  // Also multiplies the work that begins at this time of the rank; for the host, its work before a
  // launch at this time.
  std::function<double(size_t rank, int64_t begin_ns)> moment;
  // Multiplies an instance's wire time.
  std::function<double(size_t instance)> wire;
};

class Replay {
 public:
  explicit Replay(const ProfiledJob& job);

  // Seconds from the first rank's begin to the last one's end. Deterministic.
  double Run(const Change& change = {}) const;

 private:
  class Runner;

  std::vector<ReplayProgram> programs_;
  std::vector<int64_t> wire_;
  std::vector<uint32_t> members_;
  std::vector<std::vector<uint32_t>> ranks_of_;  // of an instance
};

}  // namespace longhaul::profiler
