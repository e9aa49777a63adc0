// The machines that a run holds on Slurm, as Slurm reports them: which are lost, what is asked for,
// and what is given back. Pure: the time is an argument.
//
// A run has one first job, whose batch step is the controller, and further jobs of agents alone.
// The first job has the nodes of the first part (run_size.h), and each other part a further job.
// With --no-kill a job continues without a node that fails, but never gets another one: so the lost
// nodes of a part are replaced by a further job. An elastic run grows by further jobs of one group
// of nodes each, of which one waits at a time, and shrinks by giving back the newest of them. It
// also gives back what it does not use.
//
// A node that has left a job is fenced: Slurm may give it to somebody else, while processes of ours
// still run there (a node whose slurmd has died is DOWN for Slurm, but not dead).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "engines/slurm/run_size.h"
#include "engines/slurm/slurm_text.h"

namespace longhaul::engines::slurm {

// A job of the growth whose nodes the run has not used for so long is given back. A run uses new
// nodes within about a minute, if it can.
inline constexpr Duration kUnusedLimit = std::chrono::minutes(10);
inline constexpr Duration kMaxUnusedPause = std::chrono::hours(4);

struct AllocationOptions {
  RunSize size;
  // After a further job that ended without giving a node, the next one for its part waits for so
  // long, twice as long after each, at most kMaxPause.
  Duration first_pause = std::chrono::seconds(5);
  // After a job of the growth that was not used, the next one is asked for after the same time,
  // twice as long after each, at most kMaxUnusedPause.
  Duration unused_limit = kUnusedLimit;
};
inline constexpr Duration kMaxPause = std::chrono::minutes(10);

// A node in a Slurm job.
struct Place {
  std::string node;
  std::string job;
  bool operator==(const Place&) const = default;
};

// What a further job is for.
struct Request {
  size_t part = 0;  // RunSize::parts.size(): the growth
  uint32_t nodes = 0;
  bool spare = false;  // beyond the usual size: others go first
  bool operator==(const Request&) const = default;
};

class Allocation {
 public:
  struct Orders {
    std::vector<Place> added;          // that are new
    std::vector<Place> fenced;         // that have left: the node may be back in another job
    std::vector<Request> requests;     // further jobs to submit
    std::vector<std::string> release;  // further jobs that are given back; each is named once
    std::vector<std::string> unused;   // of these, those whose nodes the run has not used
  };

  Allocation(const AllocationOptions& options, std::string first_job);

  // The size to grow and to shrink to, within the bounds of RunSize; at first the maximum.
  void SetTarget(uint32_t nodes);

  // The agents (AgentNameOf) on which the run has work, before what is observed at the same time.
  void SetBusy(const std::set<std::string>& agents, Instant now);
  // What squeue reported of all jobs(): one that it did not name has ended.
  Orders Observe(const std::vector<JobNow>& jobs, Instant now);
  // The further job of an order exists.
  void Asked(const std::string& job, const Request& request);
  // It could not be submitted.
  void Refused(const Request& request, Instant now);

  // Whether every part has had all of its nodes at the same time.
  bool complete() const { return complete_; }
  std::vector<std::string> jobs() const;     // that live, the first one included
  std::vector<std::string> further() const;  // those that have to be cancelled at the end
  std::vector<std::string> held() const;     // nodes
  std::vector<std::string> NodesOf(const std::string& job) const;
  // The request of a further job; none of another job.
  const Request* RequestOf(const std::string& job) const;

 private:
  struct Further {
    Request request;
    uint64_t number = 0;  // in the order of the submissions
    bool gave = false;    // it has given its nodes
    bool leaves = false;
    std::optional<Instant> unused_since;
    bool unused = false;  // for unused_limit
  };
  size_t growth() const { return options_.size.parts.size(); }
  void Pause(size_t part, Instant now);
  void Forget(const std::set<std::string>& living, Instant now);
  std::vector<uint32_t> Held() const;      // nodes by part
  std::vector<uint32_t> Expected() const;  // the same with those that jobs wait for
  void AskForParts(const std::vector<uint32_t>& expected, Instant now, Orders& orders);
  void Resize(uint32_t expected, Instant now, Orders& orders);
  void GiveBackUnused(Instant now, Orders& orders);
  void Release(const std::string& job, Orders& orders);

  const AllocationOptions options_;
  const std::string first_job_;
  uint32_t target_;
  bool complete_ = false;
  uint64_t last_number_ = 0;
  std::map<std::string, Further> further_;   // that live
  std::map<std::string, std::string> held_;  // node -> job
  struct Patience {
    Duration pause;
    Instant not_before{};
  };
  std::vector<Patience> patience_;  // by part
  Duration unused_pause_;
};

}  // namespace longhaul::engines::slurm
