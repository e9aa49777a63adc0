#include "scheduler/internal/takeover/extension.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "scheduler/internal/takeover/renumbering.h"

namespace longhaul::scheduler::internal {

namespace {

bool Equal(const auto& a, const auto& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool HaveSameNames(const auto& a, const auto& b, const auto& name_of) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const auto& x, const auto& y) { return name_of(x) == name_of(y); });
}

// Whether requests mean the same in both: they name models, labels, taints and levels by number.
bool ReadRequestsAlike(const spec::Topology& before, const spec::Topology& now) {
  return Equal(before.models(), now.models()) && Equal(before.classes(), now.classes()) &&
         Equal(before.counted(), now.counted()) &&
         HaveSameNames(before.levels(), now.levels(),
                       [](const spec::Level& level) { return level.name; }) &&
         HaveSameNames(before.groupings(), now.groupings(),
                       [](const spec::Grouping& grouping) { return grouping.level.name; });
}

// The device models of all nodes, as a mask.
uint64_t DeviceModels(const spec::Topology& topology) {
  uint64_t models = 0;
  for (NodeIndex node = 0; node < topology.size(); ++node) {
    const spec::NodeKind& kind = topology.kind_of(node);
    if (!kind.devices.empty()) models |= uint64_t{1} << kind.model;
  }
  return models;
}

class Extension {
 public:
  Extension(SchedulerCore& core, std::shared_ptr<const spec::Topology> topology)
      : core_(core),
        state_(core.state),
        topology_(std::move(topology)),
        tree_(std::make_shared<const DomainTree>(TreeOf(*topology_))),
        numbers_(*state_.topology, *state_.tree, *topology_, *tree_),
        dimensions_(*topology_, state_.queues.models()) {}

  bool IsPossible() const {
    const spec::Topology& before = *state_.topology;
    return state_.resources.shape_count() <= kMaxShapes / 2 &&
           ReadRequestsAlike(before, *topology_) &&
           DeviceModels(*topology_) == state_.device_models && AllNodesStay() && KindsStay() &&
           HasAtLeastTheCapacity();
  }

  void Run() {
    MoveResources();
    MoveNodes();
    MoveDomains();
    MoveReservations();
    state_.topology = topology_;
    state_.tree = tree_;
    MoveJobs();
    state_.tables = SlotTables(*state_.tree);
    state_.model_dimensions = dimensions_;
    state_.most_when_empty.clear();
    core_.placer.Restart();
    core_.unfinished = false;
    SetCapacity();
    NoteLimits();
    TryAnew();
    state_.input_hash = Hash64(std::string_view("extended"), state_.input_hash);
  }

 private:
  // Whether every node is there, in the same order and in domains of the same names.
  bool AllNodesStay() const {
    const std::span<const NodeIndex> numbers = numbers_.numbers();
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] >= topology_->size() || (i > 0 && numbers[i] <= numbers[i - 1])) return false;
    }
    const spec::Topology& before = *state_.topology;
    for (size_t level = 0; level < before.levels().size(); ++level) {
      const spec::Level& old = before.levels()[level];
      const spec::Level& now = topology_->levels()[level];
      constexpr uint32_t kUnknown = ~uint32_t{0};
      std::vector<uint32_t> domains(old.domains.size(), kUnknown);
      for (NodeIndex node = 0; node < before.size(); ++node) {
        const uint32_t from = old.domain_of_node[node];
        const uint32_t to = now.domain_of_node[numbers[node]];
        if (domains[from] == kUnknown) {
          domains[from] = to;
          if (old.domains[from].name != now.domains[to].name) return false;
        }
        if (domains[from] != to) return false;
      }
    }
    return true;
  }

  // Whether every node with tasks is of the kind that it was.
  bool KindsStay() const {
    for (NodeIndex node = 0; node < state_.resources.size(); ++node) {
      if (state_.resources.newest_task(node) == kNoTask) continue;
      if (!KindStays(node)) return false;
    }
    return true;
  }

  bool KindStays(NodeIndex node) const {
    const spec::NodeKind& old = state_.topology->kind_of(node);
    const spec::NodeKind& now = topology_->kind_of(numbers_.Of(node));
    return old.model == now.model && old.devices == now.devices && old.cpu_milli == now.cpu_milli &&
           old.memory_mib == now.memory_mib && old.counted == now.counted &&
           state_.topology->node(node).node_class == topology_->node(numbers_.Of(node)).node_class;
  }

  // With less, the guarantees of the queues may be more than the cluster has.
  bool HasAtLeastTheCapacity() const {
    spec::SharedAmounts before;
    spec::SharedAmounts now;
    for (NodeIndex node = 0; node < state_.topology->size(); ++node) {
      before += state_.model_dimensions.CapacityOf(state_.topology->kind_of(node));
    }
    for (NodeIndex node = 0; node < topology_->size(); ++node) {
      now += dimensions_.CapacityOf(topology_->kind_of(node));
    }
    for (size_t r = 0; r < state_.queues.dimensions(); ++r) {
      if (now[r] < before[r]) return false;
    }
    return true;
  }

  void MoveResources() {
    std::vector<bool> as_before;
    for (NodeIndex node = 0; node < state_.resources.size(); ++node) {
      as_before.push_back(KindStays(node));
    }
    state_.resources.MoveTo(*topology_, numbers_.numbers(), as_before);
  }

  template <typename Value>
  void MoveByNode(std::vector<Value>& values) const {
    std::vector<Value> moved(topology_->size());
    for (NodeIndex node = 0; node < values.size(); ++node) {
      moved[numbers_.Of(node)] = std::move(values[node]);
    }
    values = std::move(moved);
  }

  std::set<NodeIndex> Moved(const std::set<NodeIndex>& nodes) const {
    std::set<NodeIndex> moved;
    for (const NodeIndex node : nodes) moved.insert(moved.end(), numbers_.Of(node));
    return moved;
  }

  void MoveNodes() {
    MoveByNode(state_.faulted_at);
    MoveByNode(state_.leaving_on);
    state_.unhealthy = Moved(state_.unhealthy);
  }

  void MoveJobs() {
    for (JobEntry* job : state_.jobs.InOrder()) {
      for (NodeIndex& node : job->leaving_nodes) node = numbers_.Of(node);
      job->refused_by = Moved(job->refused_by);
    }
  }

  void MoveDomains() {
    std::map<int32_t, std::vector<Instant>> losses;
    for (auto& [leaf, times] : state_.leaf_losses) {
      if (const auto now = numbers_.OfDomain(kLeafTier, leaf)) losses[*now] = std::move(times);
    }
    state_.leaf_losses = std::move(losses);
    std::map<std::pair<Tier, int32_t>, LinkHealth> links;
    for (const auto& [domain, health] : state_.links) {
      const auto now = numbers_.OfDomain(domain.first, domain.second);
      if (now) links[{domain.first, *now}] = health;
    }
    state_.links = std::move(links);
  }

  void MoveReservations() {
    std::map<JobNumber, Reservation> reservations;
    for (const auto& [number, old] : state_.reservations) {
      if (state_.queues.CheckUser(state_.MinimumOf(state_.at(number)))) continue;
      if (const auto now = numbers_.Of(old)) reservations[number] = *now;
    }
    state_.reservations = std::move(reservations);
  }

  void SetCapacity() {
    spec::SharedAmounts all;
    spec::SharedAmounts present;
    for (NodeIndex node = 0; node < topology_->size(); ++node) {
      const spec::SharedAmounts capacity = dimensions_.CapacityOf(topology_->kind_of(node));
      all += capacity;
      const bool down = state_.resources.node(node).condition == spec::NodeCondition::kDown;
      if (!down) present += capacity;
    }
    state_.idle_queues.SetCapacity(all);
    state_.queues.SetCapacity(present);
  }

  // Which queues and users hold more than their limits: they may do so until they hold less.
  void NoteLimits() {
    state_.over_limit.clear();
    state_.users_over_limit.clear();
    for (const JobNumber number : state_.placed) {
      const JobEntry& job = state_.at(number);
      for (share::QueueIndex up = job.queue; up != share::kNoQueue; up = state_.queues.parent(up)) {
        for (size_t r = 0; r < state_.queues.dimensions(); ++r) {
          if (state_.queues.usage(up)[r] > state_.queues.limit(up)[r]) state_.over_limit.insert(up);
        }
        if (state_.queues.PassesUserLimits(up, job.request->owner)) {
          state_.users_over_limit.insert({up, job.request->owner});
        }
      }
    }
  }

  // No line is parked at the new version of the quotas.
  void TryAnew() {
    for (Line& line : state_.lines) {
      line.promise.reset();
      line.promised_at = {};
    }
    while (!state_.protections.empty() && state_.protections.begin()->first <= state_.now) {
      state_.protections.erase(state_.protections.begin());
    }
    ++state_.quota_version;
  }

  SchedulerCore& core_;
  SchedulerState& state_;
  std::shared_ptr<const spec::Topology> topology_;
  std::shared_ptr<const DomainTree> tree_;
  Renumbering numbers_;
  ModelDimensions dimensions_;
};

}  // namespace

bool Extend(SchedulerCore& core, std::shared_ptr<const spec::Topology> topology) {
  Extension extension(core, std::move(topology));
  if (!extension.IsPossible()) return false;
  extension.Run();
  return true;
}

}  // namespace longhaul::scheduler::internal
