#include "scheduler/internal/room/victim_units.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace longhaul::scheduler::internal {

// Chooses the resource that is counted: devices where the shape has any, else cpu, else memory.
// `complete_` is false where another resource could be short as well; the caller then lets the
// proof choose among all holders.
VictimUnits::VictimUnits(const State& state, const GroupRequest& group, ShapeId shape,
                         int32_t tasks, Admit admit)
    : state_(state), shape_(shape), admit_(admit), need_(tasks) {
  const Shape& wanted = state.shape(shape);
  cap_ = std::numeric_limits<int32_t>::max();
  if (group.max_per_host > 0) cap_ = group.max_per_host;
  if (group.rail_aligned && tasks > 1) cap_ = 1;
  const bool counted = std::any_of(wanted.counted.begin(), wanted.counted.end(),
                                   [](int32_t amount) { return amount > 0; });
  complete_ = !counted && wanted.gpu_memory_mib == 0;
  if (wanted.gpus > 0) {
    each_ = wanted.gpus;
    complete_ = complete_ && wanted.cpu_milli == 0 && wanted.memory_mib == 0;
  } else if (wanted.share > 0) {
    measure_ = Measure::kShare;
    each_ = wanted.share;
    complete_ = complete_ && wanted.cpu_milli == 0 && wanted.memory_mib == 0;
  } else if (wanted.cpu_milli > 0) {
    measure_ = Measure::kCpu;
    each_ = wanted.cpu_milli;
    complete_ = complete_ && wanted.memory_mib == 0;
  } else {
    measure_ = Measure::kMemory;
    each_ = std::max(1, wanted.memory_mib);
  }
  if (group.slice > 1 && group.slice_tier == kHostTier && measure_ != Measure::kShare) {
    // A slot is a whole slice.
    per_slot_ = group.slice;
    each_ *= group.slice;
    need_ /= group.slice;
    if (cap_ != std::numeric_limits<int32_t>::max()) cap_ /= group.slice;
  }
}

VictimDomain VictimUnits::Start(int32_t id) const {
  VictimDomain domain;
  domain.id = id;
  domain.need = need_;
  domain.each = each_;
  domain.first_holder.push_back(0);
  return domain;
}

void VictimUnits::AddHost(NodeIndex node, std::span<const PieceTask> held, int32_t most,
                          VictimDomain& domain) {
  const NodeState& at = state_.node(node);
  if (!Admitted(state_, node, admit_) || !state_.Allows(shape_, at.group)) return;
  units_.clear();
  const int32_t cap = std::min(cap_, most / per_slot_);
  switch (measure_) {
    case Measure::kGpus:
      CollectGpus(at, held);
      Add(CountGpus(at.free_gpus), cap, domain);
      break;
    case Measure::kShare:
      for (uint32_t gpu = 0; gpu < at.devices && cap > 0; ++gpu) {
        if ((at.unhealthy >> gpu & 1) != 0) continue;
        CollectShares(held, gpu);
        Add(at.free_share[gpu], cap, domain);
      }
      break;
    case Measure::kCpu:
    case Measure::kMemory:
      for (const PieceTask& task : held) {
        const Shape& shape = state_.shape(state_.task(task.slot).shape);
        const int64_t amount = measure_ == Measure::kCpu ? shape.cpu_milli : shape.memory_mib;
        if (amount > 0) units_.push_back({{task.piece}, amount});
      }
      Add(measure_ == Measure::kCpu ? at.free_cpu_milli : at.free_memory_mib, cap, domain);
      break;
  }
}

// Whole GPUs by who has them; a shared one is free when all are gone who share it, which no one
// may be who isn't among `held`.
void VictimUnits::CollectGpus(const NodeState& node, std::span<const PieceTask> held) {
  std::array<std::vector<int32_t>, spec::kMaxDevices> sharing;
  std::array<int32_t, spec::kMaxDevices> share{};
  for (const PieceTask& task : held) {
    const TaskRecord& record = state_.task(task.slot);
    const Shape& shape = state_.shape(record.shape);
    if (shape.share > 0) {
      const auto gpu = static_cast<size_t>(std::countr_zero(record.gpus));
      sharing[gpu].push_back(task.piece);
      share[gpu] += shape.share;
      continue;
    }
    const auto healthy = static_cast<GpuMask>(record.gpus & ~node.unhealthy);
    if (healthy != 0) units_.push_back({{task.piece}, CountGpus(healthy)});
  }
  for (size_t gpu = 0; gpu < sharing.size(); ++gpu) {
    if (sharing[gpu].empty() || (node.unhealthy >> gpu & 1) != 0) continue;
    if (share[gpu] + node.free_share[gpu] < kWholeGpu) continue;
    std::sort(sharing[gpu].begin(), sharing[gpu].end());
    sharing[gpu].erase(std::unique(sharing[gpu].begin(), sharing[gpu].end()), sharing[gpu].end());
    units_.push_back({std::move(sharing[gpu]), 1});
  }
}

void VictimUnits::CollectShares(std::span<const PieceTask> held, uint32_t gpu) {
  units_.clear();
  for (const PieceTask& task : held) {
    const TaskRecord& record = state_.task(task.slot);
    if ((record.gpus >> gpu & 1) == 0) continue;
    const Shape& shape = state_.shape(record.shape);
    units_.push_back({{task.piece}, shape.share > 0 ? shape.share : kWholeGpu});
  }
}

// Units with equal holders become free together. Fewer units make the search smaller, and the sort
// makes their order independent of the order of tasks on the node.
void VictimUnits::Merge() {
  std::sort(units_.begin(), units_.end());
  size_t last = 0;
  for (size_t i = 1; i < units_.size(); ++i) {
    if (units_[i].holders == units_[last].holders) {
      units_[last].weight += units_[i].weight;
    } else if (++last != i) {
      units_[last] = std::move(units_[i]);
    }
  }
  if (!units_.empty()) units_.resize(last + 1);
}

void VictimUnits::AddUnit(const Unit& unit, int64_t weight, VictimDomain& domain) const {
  domain.holders.insert(domain.holders.end(), unit.holders.begin(), unit.holders.end());
  domain.first_holder.push_back(static_cast<int32_t>(domain.holders.size()));
  domain.weights.push_back(weight);
}

void VictimUnits::Add(int64_t free, int32_t cap, VictimDomain& domain) {
  Merge();
  const auto slots = static_cast<int32_t>(std::min<int64_t>(free / each_, cap));
  domain.need -= slots;
  // The free slots are taken off the need. Nothing can be gained from a host that is at its cap.
  if (units_.empty() || slots == cap) return;
  const int64_t loose = free - slots * each_;
  int64_t all = 0;
  bool whole_slots = true;
  for (const Unit& unit : units_) {
    all += unit.weight;
    whole_slots = whole_slots && unit.weight % each_ == 0;
  }
  const int64_t most = std::min<int64_t>(cap - slots, (loose + all) / each_);
  if (most == 0) return;
  if (whole_slots && most == all / each_) {
    // What is loose never makes a slot: each unit stands alone.
    for (const Unit& unit : units_) {
      for (int64_t weight = unit.weight; weight > 0; weight -= each_) {
        AddUnit(unit, each_, domain);
        domain.hosts.push_back({static_cast<int32_t>(domain.weights.size()), 0, 1});
      }
    }
    return;
  }
  for (const Unit& unit : units_) AddUnit(unit, unit.weight, domain);
  domain.hosts.push_back(
      {static_cast<int32_t>(domain.weights.size()), loose, static_cast<int32_t>(most)});
}

// The search has a faster way for domains without weights and hosts, so these are dropped where
// they add no information.
void VictimUnits::Finish(VictimDomain& domain) const {
  int32_t first = 0;
  for (const VictimHost& host : domain.hosts) {
    const bool plain = host.last_unit == first + 1 && host.loose == 0 && host.most == 1 &&
                       domain.weights[static_cast<size_t>(first)] == domain.each;
    if (!plain) return;
    first = host.last_unit;
  }
  domain.weights.clear();
  domain.hosts.clear();
  domain.each = 1;
}

}  // namespace longhaul::scheduler::internal
