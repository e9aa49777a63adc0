// Cordons nodes while there is evidence that they are unhealthy, and uncordons what it cordoned.
//
//   evidence for `confirm`       the node is cordoned, and gets the record (observed_node.h), the
//                                condition longhaul.dev/Healthy = False and an event
//   no evidence for `release`    the node is uncordoned, and the condition becomes True
//
// Rules:
// - Who cordoned a node before, or cordons it later, uncordons it: such a node gets the condition
//   and the event only.
// - A node that somebody uncordons is not cordoned again for evidence that its record has. Other
//   evidence cordons it again.
// - At most `most_cordoned` nodes are cordoned at a time, so that a wrong detector cannot take a
//   whole cluster. The nodes whose evidence is oldest come first; the others get the condition.
// - A node without evidence that never had any is not written to.
//
// All of it is in the API objects, except since when evidence exists and is gone: after a restart
// both times begin again. A write of a node has the version that was observed, so a write decided
// on an old state is refused. A write without an answer counts towards the limit until the node is
// seen in another version.
//
// Pure: time is an argument, there is no input or output, and equal calls give equal actions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engines/kubernetes/health/evidence.h"
#include "engines/kubernetes/health/node_actions.h"
#include "engines/kubernetes/health/observed_node.h"

namespace longhaul::engines::kubernetes {

// "5" or "10%" of all nodes, rounded down and at least 1.
struct NodeLimit {
  uint32_t number = 10;
  bool is_percent = true;

  size_t Of(size_t nodes) const;
};
// kInvalidArgument for another form, 0, or more than 100 %.
Result<NodeLimit> ParseNodeLimit(std::string_view text);
std::string ToString(const NodeLimit& limit);

struct NodeHealthSettings {
  std::vector<ConditionRule> conditions = DefaultConditionRules();
  Duration confirm = std::chrono::seconds(30);
  Duration release = std::chrono::minutes(5);
  NodeLimit most_cordoned;
  std::string taint;  // the effect of a taint that cordoned nodes get; empty: none
  Duration first_retry = std::chrono::seconds(1);  // after a refusal; then doubled
  Duration longest_retry = std::chrono::minutes(1);
  // After a write the node is expected in another version within this time.
  Duration observe_patience = std::chrono::seconds(10);
  // A message alone is written again after this time.
  Duration message_period = std::chrono::seconds(15);
};

class NodeHealth {
 public:
  explicit NodeHealth(NodeHealthSettings settings) : settings_(std::move(settings)) {}

  // --- What is observed. A node that cannot be read is as if it did not exist.
  Status OnNode(const JobJson& object);
  void OnNodeGone(const std::string& name);
  // `key`: "namespace/name". A pod without evidence may be reported as gone.
  void OnPod(const std::string& key, const JobJson& object);
  void OnPodGone(const std::string& key);
  void OnSlice(const std::string& name, const JobJson& object);
  void OnSliceGone(const std::string& name);
  void OnTaintRule(const std::string& name, const JobJson& object);
  void OnTaintRuleGone(const std::string& name);
  void OnReply(const NodeAction& action, PatchResult result, Instant now);

  // Decides. Call it first when all objects that exist have been reported, and then after each
  // change and at NextDeadline. `wall`: the time of day, for what is written.
  std::vector<NodeAction> Advance(Instant now, Instant wall);
  std::optional<Instant> NextDeadline() const { return next_; }

  size_t nodes() const { return nodes_.size(); }
  // Those that this program has cordoned, or may have.
  size_t cordoned() const;

 private:
  struct Work {
    ObservedNode node;
    std::map<std::string, Instant> since;  // of the present evidence, by key
    Evidence evidence;
    std::optional<Instant> gone_since;
    bool sent = false;             // a write is on its way
    std::string cordoned_version;  // the version for which a cordon was sent; empty: none
    bool cordon_unknown = false;   // it got no answer
    std::string answered_version;  // nothing is sent for this version before `again_at`
    std::optional<Instant> again_at;
    std::optional<Instant> retry_at;
    int failures = 0;
    std::optional<Instant> condition_at;  // of the last write of the condition
  };
  struct Candidate {
    Instant since;
    std::string name;
    Evidence confirmed;
  };
  // One pass over the nodes.
  struct Pass {
    Instant now;
    Instant wall;
    std::vector<NodeAction> actions;
    std::vector<Candidate> candidates;
    std::optional<Instant> next;

    void AgainAt(Instant at) { next = next ? std::min(*next, at) : at; }
  };

  void SetObject(const std::string& object, const EvidenceOfNodes& evidence);
  void SetDevices(const std::string& slice);
  static bool IsCordoned(const Work& work);
  static bool IsActive(const Work& work);
  void Recompute(const std::string& name, Instant now);
  bool MayWrite(Pass& pass, const Work& work) const;
  // The evidence that has lasted, and since when the oldest of it exists.
  Candidate Confirmed(Pass& pass, const Work& work) const;
  void Decide(Pass& pass, Work& work);
  void DecideUnhealthy(Pass& pass, Work& work, Candidate confirmed);
  void Release(Pass& pass, Work& work);
  void Cordon(Pass& pass, Work& work, const Candidate& candidate);
  void Report(Pass& pass, Work& work, HealthCondition condition);
  static void Send(Pass& pass, Work& work, NodeAction action);

  NodeHealthSettings settings_;
  std::map<std::string, Work> nodes_;
  EvidenceTable table_;
  std::map<std::string, std::vector<TaintedDevice>> devices_;  // by slice
  std::map<std::string, DeviceTaintRule> rules_;
  std::set<std::string> dirty_;   // nodes whose evidence may have changed
  std::set<std::string> active_;  // nodes for which something may have to be done
  std::optional<Instant> next_;
};

}  // namespace longhaul::engines::kubernetes
