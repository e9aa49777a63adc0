// The machines that a run holds on Slurm, as Slurm tells: which are lost, and what is asked for to
// replace them. Pure: the time is an argument.
//
// A run has one first job, whose batch step is the controller, and further jobs of agents alone.
// With --no-kill a job continues without a node that fails, but never gets another one: so each
// lost node is replaced by a further job.
//
// A node that has left a job is fenced: Slurm may give it to somebody else, while processes of ours
// still run there (a node whose slurmd has died is DOWN for Slurm, but not dead).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "engines/slurm/slurm_text.h"

namespace longhaul::engines::slurm {

struct AllocationOptions {
  uint32_t nodes = 1;  // that the run wants
  // After a further job that ended without giving a node, the next one waits for so long, twice as
  // long after each, at most kMaxPause.
  Duration first_pause = std::chrono::seconds(5);
};
inline constexpr Duration kMaxPause = std::chrono::minutes(10);

// A node in a Slurm job.
struct Place {
  std::string node;
  std::string job;
  bool operator==(const Place&) const = default;
};

class Allocation {
 public:
  struct Orders {
    std::vector<Place> added;   // that are new
    std::vector<Place> fenced;  // that have left: the node may be back in another job
    uint32_t missing = 0;       // ask for a further job of so many nodes
  };

  Allocation(const AllocationOptions& options, std::string first_job);

  // What squeue told of all jobs(): one that it did not name has ended.
  Orders Observe(const std::vector<JobNow>& jobs, Instant now);
  // The further job that Orders::missing asked for exists.
  void Asked(const std::string& job, uint32_t nodes);
  // It could not be submitted.
  void Refused(Instant now);

  std::vector<std::string> jobs() const;     // that live, the first one included
  std::vector<std::string> further() const;  // those that have to be cancelled at the end
  std::vector<std::string> held() const;     // nodes

 private:
  void Pause(Instant now);

  const AllocationOptions options_;
  const std::string first_job_;
  std::map<std::string, uint32_t> asked_;    // further jobs that live: the nodes of each
  std::map<std::string, std::string> held_;  // node -> job
  std::set<std::string> gave_;               // further jobs that have given a node
  Duration pause_;
  Instant not_before_{};
};

}  // namespace longhaul::engines::slurm
