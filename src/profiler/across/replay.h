// The run once more, with one thing changed: what it would be worth.
//
// Each rank's segments become a program (across/replay_program.h) of work, of arrivals at
// collectives, of waits for them and, where its trace tells of them, of launches; an instance ends
// when its last member has arrived plus its wire time. Replayed as measured it gives the measured
// time back; with a rank's work or its host's scaled, or a link's wire, it says what the change is
// worth, with all that then waits for something else. A call whose stream was busy begins earlier
// when the call before it ends earlier, down to when it was launched and its input computed. What
// computation a hidden call's end releases is known by its kind alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/across/replay_program.h"

namespace longhaul::profiler {

struct Change {
  // Multiplies work's duration: rank, what it is. Of kHost and kInput also the host's own time
  // between launches.
  std::function<double(size_t rank, Spent spent)> work;
  // Multiplies that of the work that begins at this time of the rank's, besides; of the host what
  // it does until a launch at this time.
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
