// What the scheduler of pods keeps of each pod and of each unit of pods.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "engines/kubernetes/scheduling/amounts.h"
#include "engines/kubernetes/scheduling/pod_actions.h"

namespace longhaul::engines::kubernetes {

struct PodRecord {
  // How the pod's needs are counted on its node.
  enum class Account : uint8_t {
    kNone,    // it has no node, or has left it, or its job is leaving
    kOthers,  // like a pod of another scheduler
    kTask,    // as a task of its unit's job
  };

  PodName name;
  std::string key;  // name.Key()
  bool ours = false;
  Amounts needs;
  std::string rules;  // key of its NodeRules
  int32_t priority = 0;
  bool preempts = true;
  std::string refusal;  // why it can never be scheduled here; empty: it can
  Instant created{};
  std::string unit;

  // As observed.
  std::string node;  // that it is bound to; never changes once it is known
  bool gated = false;
  std::string volume_wait;  // what its volumes wait for; empty: nothing
  bool deleting = false;
  bool finished = false;
  bool started = false;  // it has run

  // As planned.
  std::string planned;             // node
  bool sent = false;               // the bind: its reply has not come, or did not tell
  std::optional<Instant> read_at;  // when to read the pod, because the reply did not tell
  // Not to be placed before, or if held not to be bound: a bind was refused.
  std::optional<Instant> retry_at;
  bool held = false;  // the planned node stays its own, and the same bind is sent again
  // Since when it has a node and a claim without a volume, and which one.
  std::optional<Instant> making_since;
  std::string making;  // in words; empty: none
  int refused = 0;     // binds in a row
  std::string refused_because;
  std::optional<Instant> remove_at;  // when to ask (again) for its removal
  bool evict = true;

  Account account = Account::kNone;
  std::string counted_on;  // node
  std::string told;        // the last message of its condition

  // What was observed of it, to see whether something has changed.
  auto seen() const { return std::tuple(is_bound(), gated, deleting, finished, started); }
  bool is_bound() const { return !node.empty(); }
  // It has a node, and is not bound to it as far as is known.
  bool is_placed() const { return !planned.empty() && !is_bound(); }
  void SetBound(const std::string& to) {
    node = to;
    sent = held = false;
    read_at.reset();
    making_since.reset();
    making.clear();
    refused = 0;
  }
  void ClearPlan() {
    planned.clear();
    sent = held = false;
    read_at.reset();
    making_since.reset();
    making.clear();
  }
};

// Pods that start together: a gang, or a single pod.
struct PodUnit {
  enum class Stage : uint8_t {
    kIdle,     // the scheduler does not know it
    kWaiting,  // a job that waits
    kPlaced,   // a job with nodes; binds may be on their way, or wait until others have left
    kLeaving,  // its pods are being removed
  };
  struct Member {
    std::string pod;  // key
    int32_t group = 0;
    int32_t rank = 0;
    bool placed = false;  // not: the job has lost this task and looks for a node
    bool is_new = false;  // it has got its node, and no event reports it yet
  };
  struct Group {
    Amounts needs;
    std::string rules;
    friend bool operator==(const Group&, const Group&) = default;
  };

  std::string key;
  std::string group;  // key of the PodGroup; empty: a single pod
  int32_t least =
      0;  // pods that start together, by their own word (0: none); a PodGroup's counts first
  std::set<std::string> pods;
  Stage stage = Stage::kIdle;
  JobId job;
  uint64_t transaction = 0;
  uint64_t epoch = 0;  // of the cluster, for which its request was made
  std::vector<Member> members;
  std::vector<Group> groups;
  std::set<std::string> after;    // jobs that have to leave before its binds
  std::set<std::string> leaving;  // pods to be removed
  // Since when its pods are bound where the scheduler could not put them.
  std::optional<Instant> unmanaged_since;
  bool misses_node = false;      // one of its pods is bound to a node that does not exist
  bool confirmed = false;        // the scheduler knows that all are bound
  bool complete = false;         // enough of its pods have been bound at one time
  std::optional<Instant> since;  // when it could first be placed
  Instant created{};
  Instant started{};
  std::optional<Instant> retry_at;
  std::optional<Instant> rollback_at;  // an incomplete start is undone then
  int failures = 0;                    // starts in a row that were undone
  bool preemption_reported = false;    // an event reports why its pods are removed
  std::string refusal;
  bool dirty = false;  // it is looked at in the next turn
};

}  // namespace longhaul::engines::kubernetes
