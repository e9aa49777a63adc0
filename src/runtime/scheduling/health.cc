#include "runtime/scheduling/health.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "runtime/scheduling/cluster_scheduler.h"
#include "runtime/scheduling/elastic.h"

namespace longhaul::runtime::scheduling {

using spec::NodeCondition;

void Probation::Note(bool suspect, uint16_t health, Instant now) {
  if (suspect && !on_) {
    // One that has returned although it had not healed, and proved good since, is left alone.
    if (returns_ > 0 && last_fault_ <= since_) return;
    if (returns_ > 0 && last_fault_ - since_ < kGoodReturn * PauseFor(Lack::kPlace)) {
      ++bad_returns_;
    }
    on_ = true;
    since_ = now;
  } else if (health >= kTrustedHealth) {
    on_ = false;
    returns_ = bad_returns_ = 0;
  }
}

void Probation::Return(Instant now) {
  on_ = false;
  since_ = now;
  ++returns_;
}

void Probation::Trust() {
  on_ = false;
  returns_ = std::max<uint32_t>(returns_, 1);
  since_ = std::max(since_, last_fault_);
}

Duration Probation::PauseFor(Lack lack) const {
  const auto lengthened = [](Duration pause, uint32_t times) {
    return pause * (int64_t{1} << (2 * std::min(times, kMostLengthenings)));
  };
  return lack == Lack::kPlace ? lengthened(kPauseOfStanding, bad_returns_)
                              : lengthened(kPauseOfGrowing, returns_);
}

std::string Probation::Fingerprint() const {
  return (on_ ? " suspect " : " ") + std::to_string(returns_) + "," + std::to_string(bad_returns_) +
         " ";
}

void ClusterScheduler::Fault(const std::string& name, const std::string& what, Instant now) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  node.last_fault = what;
  node.probation.NoteFault(now);
  if (changed_) Rebuild(now);  // also while nobody asks for a place
  if (!scheduler_) return;
  due_ = true;
  scheduler_->Apply(scheduler::NodeFaulted{name}, now);
  NoteProbation(name, node, now);
}

// Takes down what the scheduler thinks of the node: cordons and losses hide it from there.
void ClusterScheduler::NoteProbation(const std::string& name, Node& node, Instant now) {
  if (!scheduler_) return;
  if (const auto index = scheduler_->topology().Find(name)) NoteProbation(*index, node, now);
}

// The scheduler's condition shows one state at a time; a cordon or a loss replaces `suspect`. The
// node's own record keeps it until the health has recovered.
void ClusterScheduler::NoteProbation(scheduler::NodeIndex index, Node& node, Instant now) {
  const uint16_t health = scheduler_->state().health(index);
  // No file changes the standard bound.
  const bool suspect = scheduler_->state().node(index).condition == NodeCondition::kSuspect ||
                       health < scheduler::Policy().probation_health;
  node.probation.Note(suspect, health, now);
}

void ClusterScheduler::NoteProbations(Instant now) {
  ForEachKnownNode([&](const std::string&, Node& node, scheduler::NodeIndex index) {
    NoteProbation(index, node, now);
  });
}

void ClusterScheduler::Trust(const std::string& name) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  node.probation.Trust();
  node.condition = NodeCondition::kDown;  // so that its next report counts as new
}

NodeHealth ClusterScheduler::HealthOf(const std::string& name) const {
  NodeHealth health;
  const auto found = nodes_.find(name);
  if (found != nodes_.end()) {
    health.last_fault = found->second.last_fault;
    health.last_fault_at = found->second.probation.last_fault();
  }
  if (scheduler_) {
    if (const auto node = scheduler_->topology().Find(name)) {
      health.thousandths = scheduler_->state().health(*node);
    }
  }
  return health;
}

void ClusterScheduler::Cut(const std::string& name, Instant now) {
  if (!nodes_.contains(name)) return;
  cuts_.emplace_back(now, name);
  due_ = true;
}

// Breaks of a minute: leaves that most of them lie in have bad links; the others are the nodes'
// own.
void ClusterScheduler::SolveCuts(Instant now) {
  if (cuts_.empty() || now < cuts_.front().first + kCutWindow) return;
  const auto cuts = std::exchange(cuts_, {});
  std::map<int32_t, std::set<std::string>> by_leaf;
  const auto& levels = scheduler_->topology().levels();
  const bool leaves_known = cluster_.has_file() && levels.size() > 1;
  const auto leaf_of = [&](const std::string& name) {
    const auto node = scheduler_->topology().Find(name);
    if (!leaves_known || !node) return -1;
    for (size_t d = 0; d < levels[0].domains.size(); ++d) {
      const auto& domain = levels[0].domains[d];
      if (*node >= domain.first && *node < domain.last) return static_cast<int32_t>(d);
    }
    return -1;
  };
  std::set<std::string> all;
  for (const auto& [at, name] : cuts) {
    all.insert(name);
    if (const int32_t leaf = leaf_of(name); leaf >= 0) by_leaf[leaf].insert(name);
  }
  std::set<int32_t> blamed;
  for (const auto& [leaf, names] : by_leaf) {
    if (names.size() < kCutsALeaf || names.size() * 4 < all.size() * 3) continue;
    blamed.insert(leaf);
    scheduler_->Apply(scheduler::LinkFaulted{scheduler::kLeafTier, leaf}, now);
  }
  for (const auto& [at, name] : cuts) {
    if (blamed.contains(leaf_of(name))) continue;
    // So many at once are nobody's own fault.
    if (all.size() >= kCutsALeaf) continue;
    Node& node = nodes_.at(name);
    std::erase_if(node.cuts, [&](Instant cut) { return cut + kCutMemory < now; });
    node.cuts.push_back(at);
    if (node.cuts.size() < kCutsAFault) continue;
    node.cuts.clear();
    Fault(name, "its connection broke " + std::to_string(kCutsAFault) + " times within an hour",
          now);
  }
}

Status ClusterScheduler::CheckLink(const std::string& level, const std::string& name) const {
  if (scheduler_) {
    for (const scheduler::LinkView& link : scheduler_->Links()) {
      if (link.level == level && link.name == name) return {};
    }
  }
  return NotFound("no links of a " + Printable(level, 63) + " named " + Printable(name, 63) +
                  " that are less than good");
}

void ClusterScheduler::TrustLink(const std::string& level, const std::string& name, Instant now) {
  for (const scheduler::LinkView& link : scheduler_->Links()) {
    if (link.level != level || link.name != name) continue;
    scheduler_->Apply(scheduler::LinkChanged{link.tier, link.domain, true}, now);
  }
  due_ = true;
}

Lack ClusterScheduler::LackOf(const JobId& job, const scheduler::Scheduler& of) const {
  const auto found = requests_.find(job.value());
  if (found == requests_.end() || !found->second.aside.empty()) return Lack::kNothing;
  const scheduler::JobStage stage = of.StageOf(job);
  if (stage == scheduler::JobStage::kWaiting) return Lack::kPlace;
  if (stage == scheduler::JobStage::kLeaving || stage == scheduler::JobStage::kUnknown) {
    return Lack::kNothing;
  }
  const proto::Job& wanted = found->second.job;
  const size_t has = of.TasksOf(job).size();
  if (has >= wanted.nodes()) return Lack::kNothing;
  return has < BoundsOf(wanted).minimum ? Lack::kPlace : Lack::kGrowth;
}

// Ends the probation of nodes whose pause is over, if a waiting job could start on them.
void ClusterScheduler::Readmit(Instant now) {
  NoteProbations(now);
  readmit_at_.reset();
  for (const Lack lack : {Lack::kPlace, Lack::kGrowth}) {
    const std::optional<Instant> next = ReadmitFor(lack, now);
    if (next) readmit_at_ = readmit_at_ ? std::min(*readmit_at_, *next) : *next;
  }
}

// Returns when the next pause is over, if a job waits in this way.
std::optional<Instant> ClusterScheduler::ReadmitFor(Lack lack, Instant now) {
  std::set<std::string> candidates;
  std::optional<Instant> next;
  for (const auto& [name, node] : nodes_) {
    if (!node.probation.on() || node.condition != NodeCondition::kReady) continue;
    const Instant at = node.probation.OverAt(lack);
    if (at <= now) {
      candidates.insert(name);
    } else {
      next = next ? std::min(*next, at) : at;
    }
  }
  if (candidates.empty() && !next) return std::nullopt;
  std::vector<JobId> blocked;
  for (const auto& [id, request] : requests_) {
    if (LackOf(JobId(id), *scheduler_) == lack) blocked.emplace_back(id);
  }
  if (blocked.empty()) return std::nullopt;
  if (candidates.empty()) return next;
  // A trial with all candidates shows which of them a waiting job would use. Only those are taken
  // back; the others stay on probation, because nobody needs them.
  scheduler::Scheduler trial = scheduler_->Copy();
  for (const std::string& name : candidates) {
    trial.Apply(scheduler::NodeChanged{name, NodeCondition::kReady}, now);
  }
  trial.Decide(now);
  // Jobs grow at certain times only, of which this may have been one without the candidates.
  if (const auto round = trial.NextDeadline(); lack == Lack::kGrowth && round) {
    trial.Decide(std::max(now, *round));
  }
  for (const JobId& job : blocked) {
    const Lack left = LackOf(job, trial);
    if (left == lack) continue;
    for (const scheduler::TaskPlacement& task : trial.TasksOf(job)) {
      const std::string& name = trial.topology().node(task.node).name;
      if (candidates.erase(name) == 0) continue;
      Node& node = nodes_.at(name);
      node.probation.Return(now);
      ReportNode(name, node, now);
      due_ = true;
    }
  }
  return next;
}

}  // namespace longhaul::runtime::scheduling
