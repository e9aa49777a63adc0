// Named deadlines of a state machine. Each name has at most one; the earliest one is cheap to find.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace longhaul::runtime::controller {

// The kind of a deadline; together with the id of a job or node it is the deadline's name.
enum class DeadlineKind {
  kNodeGrace,  // a disconnected agent counts as lost
  kDecide,     // the wait for more evidence is over
  kStart,      // workers should have made their first step
  kProgress,   // the next step is overdue
  kSuspicion,  // a hang should be named, long before its workers are restarted
  kSlowness,   // a look at what workers do should have ended
  kStacks,     // the stacks of workers that hang should have arrived
  kNodeCheck,  // workers should have ended before a check of their nodes, or the check itself
  kStop,       // workers should have ended
  kClose,      // the last checkpoint should be on disk
  kVacate,     // a stage of leaving the nodes has taken long enough
  kRunTime,    // the job has run for as long as its queue lets it
  kSchedule,   // the next round of the scheduler
  kReserved,   // a reservation of nodes begins or ends
};

class Deadlines {
 public:
  using Name = std::pair<DeadlineKind, std::string>;

  void Set(DeadlineKind kind, const std::string& id, Instant at) {
    const Name name(kind, id);
    Clear(name);
    by_name_[name] = at;
    by_time_.insert({at, name});
  }
  void Clear(DeadlineKind kind, const std::string& id) { Clear(Name(kind, id)); }

  std::optional<Instant> Next() const {
    if (by_time_.empty()) return std::nullopt;
    return by_time_.begin()->first;
  }

  // Removes and returns the earliest deadline if it has passed.
  std::optional<Name> TakeDue(Instant now) {
    if (by_time_.empty() || by_time_.begin()->first > now) return std::nullopt;
    const Name name = by_time_.begin()->second;
    Clear(name);
    return name;
  }

  const std::map<Name, Instant>& all() const { return by_name_; }

 private:
  void Clear(const Name& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return;
    by_time_.erase({found->second, name});
    by_name_.erase(found);
  }

  std::map<Name, Instant> by_name_;
  std::set<std::pair<Instant, Name>> by_time_;
};

}  // namespace longhaul::runtime::controller
