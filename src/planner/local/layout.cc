#include "planner/local/layout.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "planner/local/explain.h"
#include "spec/model/parameters.h"

namespace longhaul::planner {

namespace {

using local::kTie;

// Leaves memory for the page cache, the system and the uses that the model does not count.
constexpr double kMemoryShare = 0.8;
constexpr size_t kMaxAlternatives = 12;
constexpr uint64_t kMostRanks = 1 << 20;
constexpr int64_t kTokenBytes = 2;  // docs/token-file.md; a byte of text is a token

// Slots of each node, most first: `nodes` nodes with `processes` slots each exist exactly when
// slots[nodes - 1] >= processes.
std::vector<uint32_t> SortedSlots(const spec::ClusterSpec& cluster) {
  std::vector<uint32_t> slots;
  for (const spec::NodeSpec& node : cluster.nodes) slots.push_back(node.slots);
  std::sort(slots.begin(), slots.end(), std::greater<>());
  return slots;
}

std::vector<uint32_t> Divisors(uint32_t number) {
  std::vector<uint32_t> divisors;
  for (uint32_t i = 1; uint64_t{i} * i <= number; ++i) {
    if (number % i != 0) continue;
    divisors.push_back(i);
    if (i != number / i) divisors.push_back(number / i);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

// "nearest that work are 2, 4", of the divisors of `number`.
std::string NearestDivisors(uint32_t number, uint64_t wanted) {
  const std::vector<uint32_t> divisors = Divisors(number);
  const auto above = std::upper_bound(divisors.begin(), divisors.end(), wanted);
  if (above == divisors.begin()) return "nearest that works is " + std::to_string(*above);
  const std::string below = std::to_string(*(above - 1));
  if (above == divisors.end()) return "nearest that works is " + below;
  return "nearest that work are " + below + ", " + std::to_string(*above);
}

// What the job fixes must be there.
Status CheckSize(const spec::ResourceSpec& fixed, const std::vector<uint32_t>& slots) {
  const size_t nodes = slots.size();
  if (fixed.nodes && *fixed.nodes > nodes) {
    return FailedPrecondition("the job wants " + Counted(*fixed.nodes, "node") +
                              ", the cluster has " + Counted(nodes, "node") +
                              ": the largest that fits is " + Counted(nodes, "node"));
  }
  const uint32_t on_each = slots[fixed.nodes.value_or(1) - 1];
  if (fixed.processes_per_node && *fixed.processes_per_node > on_each) {
    return FailedPrecondition("the job wants " + Counted(*fixed.processes_per_node, "process") +
                              " on each of " + Counted(fixed.nodes.value_or(1), "node") +
                              ", the cluster has " + Counted(on_each, "slot") +
                              " there: the largest that fits is " + std::to_string(on_each));
  }
  if (on_each == 0) return FailedPrecondition("no node of the cluster has a slot for a worker");
  return {};
}

// The widest shape for a number of ranks: the most nodes first. Absent when there is none.
std::optional<Alternative> ShapeOf(uint32_t ranks, const spec::ResourceSpec& fixed,
                                   const std::vector<uint32_t>& slots) {
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(slots.size(), ranks));
  // From the most nodes downwards, so that the first shape that fits is the widest.
  for (uint32_t nodes = fixed.nodes.value_or(most); nodes >= 1; --nodes) {
    const uint32_t processes = ranks / nodes;
    const bool divides = ranks % nodes == 0 && processes >= 1;
    const bool wanted = !fixed.processes_per_node || *fixed.processes_per_node == processes;
    if (divides && wanted && slots[nodes - 1] >= processes) {
      Alternative shape;
      shape.nodes = nodes;
      shape.processes_per_node = processes;
      return shape;
    }
    if (fixed.nodes) break;
  }
  return std::nullopt;
}

class Search {
 public:
  Search(const spec::JobSpec& job, const std::vector<uint32_t>& slots, const MachineFacts& facts)
      : job_(job), slots_(slots), facts_(facts), cost_(facts) {}

  RankMemory Memory(const LocalLayout& layout, uint32_t micro_batch) const {
    constexpr uint64_t kMost = uint64_t{1} << 50;
    const Bytes data(kTokenBytes * static_cast<int64_t>(std::min(kMost, job_.data.max_bytes)));
    return cost_.Memory(job_.model, job_.train, layout, micro_batch, data);
  }

  // The best micro-batch of each layout; fastest first.
  Result<std::vector<Alternative>> Run() {
    const spec::LayoutSpec& fixed = job_.layout;
    ConsiderParts(fixed.tensor.value_or(1), fixed.pipeline.value_or(1));
    const auto fits = [](const Alternative& row) { return row.verdict.empty(); };
    if (!found_.empty() && (!fixed.tensor || !fixed.pipeline)) {
      // What is cut needs more workers to agree on more: it has to be worth it.
      const std::vector<Alternative> plain = std::exchange(found_, {});
      enough_ = (1 - kTie) * Best(plain);
      ConsiderOtherParts();
      std::vector<Alternative> cut = std::exchange(found_, plain);
      std::erase_if(cut, [&](const Alternative& row) {
        return !fits(row) || row.step.total().count() >= enough_;
      });
      found_.insert(found_.end(), cut.begin(), cut.end());
    }
    if (least_ranks_ == 0) return WhyNoShape();
    if (found_.empty()) return WhyNoMicroBatch();
    if (std::none_of(found_.begin(), found_.end(), fits)) return WhyNoMemory();
    // What doesn't fit comes last.
    std::stable_sort(found_.begin(), found_.end(), [&](const auto& a, const auto& b) {
      return fits(a) != fits(b) ? fits(a) : a.step.total() < b.step.total();
    });
    return found_;
  }

 private:
  // All ranks share the machine's memory, so their sum decides.
  bool Fits(const LocalLayout& layout, const RankMemory& rank) const {
    const auto all = static_cast<double>(MachineMemory(rank, layout.ranks()).count());
    return all <= kMemoryShare * static_cast<double>(facts_.memory.count());
  }

  // Of the fastest that fits; infinite when none does.
  static double Best(const std::vector<Alternative>& rows) {
    double best = std::numeric_limits<double>::infinity();
    for (const Alternative& row : rows) {
      if (row.verdict.empty()) best = std::min(best, row.step.total().count());
    }
    return best;
  }

  void ConsiderOtherParts() {
    const spec::LayoutSpec& fixed = job_.layout;
    uint64_t most = 0;  // workers
    for (const uint32_t slots : slots_) most += slots;
    for (uint32_t tensor = 1; tensor <= std::min<uint64_t>(job_.model.heads, most); ++tensor) {
      if (fixed.tensor.value_or(tensor) != tensor) continue;
      for (uint32_t pipeline = 1; pipeline <= std::min<uint64_t>(job_.model.layers, most / tensor);
           ++pipeline) {
        if (fixed.pipeline.value_or(pipeline) != pipeline) continue;
        const bool seen =
            tensor == fixed.tensor.value_or(1) && pipeline == fixed.pipeline.value_or(1);
        if (!seen) ConsiderParts(tensor, pipeline);
      }
    }
  }

  void ConsiderParts(uint32_t tensor, uint32_t pipeline) {
    if (!spec::WhyNoLayout(job_.model, tensor, pipeline).empty()) return;
    for (const uint32_t data : Divisors(job_.train.global_batch)) {
      if (job_.layout.data.value_or(data) != data) continue;
      const uint64_t ranks = uint64_t{data} * tensor * pipeline;
      // The divisors ascend, so all later layouts are larger too.
      if (ranks > kMostRanks) break;
      const LocalLayout layout{data, tensor, pipeline};
      if (auto shape = ShapeOf(layout.ranks(), job_.resources, slots_)) Consider(layout, *shape);
    }
  }

  double LeastStep(const LocalLayout& layout, uint32_t micro_batch) {
    const auto [place, fresh] = parts_.try_emplace({layout.tensor, micro_batch});
    if (fresh) place->second = cost_.MicroBatch(job_.model, layout.tensor, micro_batch);
    return cost_.LeastStep(job_.model, job_.train.global_batch, layout, micro_batch, place->second)
        .count();
  }

  void Consider(const LocalLayout& layout, const Alternative& shape) {
    if (least_ranks_ == 0) {  // divisors come in order
      least_ranks_ = layout.ranks();
      least_data_ = layout.data;
    }
    const uint32_t share = job_.train.global_batch / layout.data;
    std::optional<Alternative> best;
    for (const uint32_t micro_batch : Divisors(share)) {
      if (job_.resources.micro_batch.value_or(micro_batch) != micro_batch) continue;
      // A cheap lower bound first: most layouts with parts lose against the best plain one.
      if (std::isfinite(enough_) && LeastStep(layout, micro_batch) >= enough_) continue;
      Alternative row = shape;
      row.layout = layout;
      row.micro_batch = micro_batch;
      row.micro_batches = share / micro_batch;
      row.step = cost_.Step(job_.model, job_.train.global_batch, layout, micro_batch);
      const RankMemory memory = Memory(layout, micro_batch);
      row.rank_memory = memory.total();
      row.machine_memory = MachineMemory(memory, layout.ranks());
      if (!Fits(layout, memory)) row.verdict = "does not fit in memory";
      const bool fits = row.verdict.empty();
      // The first that doesn't fit stands for all of this layout until one does.
      if (!best || (fits && (!best->verdict.empty() || row.step.total() < best->step.total()))) {
        best = row;
      }
    }
    if (!best) return;
    found_.push_back(*best);
    if (std::isfinite(enough_) && best->verdict.empty()) {
      enough_ = std::min(enough_, (1 + kTie) * best->step.total().count());
    }
  }

  Status WhyNoLayout() const {
    const spec::LayoutSpec& layout = job_.layout;
    const auto text = [](const std::optional<uint32_t>& size) {
      return size ? std::to_string(*size) : "auto";
    };
    uint64_t slots = 0;
    for (const uint32_t count : slots_) slots += count;
    return FailedPrecondition(
        "layout " + text(layout.data) + " x " + text(layout.tensor) + " x " +
        text(layout.pipeline) + " (data x tensor x pipeline) has no place: the workers must be " +
        "their product, as many on each node, of " + Counted(slots, "slot") + " on " +
        Counted(slots_.size(), "node") +
        (job_.resources.nodes || job_.resources.processes_per_node ? ", and what resources say"
                                                                   : ""));
  }

  Status WhyNoShape() const {
    if (job_.layout != spec::LayoutSpec()) return WhyNoLayout();
    const spec::ResourceSpec& fixed = job_.resources;
    const uint64_t ranks =
        uint64_t{fixed.nodes.value_or(1)} * uint64_t{fixed.processes_per_node.value_or(1)};
    return InvalidArgument("global batch " + std::to_string(job_.train.global_batch) +
                           " is not divisible by " + Counted(ranks, "rank") + ": " +
                           NearestDivisors(job_.train.global_batch, ranks));
  }

  Status WhyNoMicroBatch() const {
    const uint32_t batch = job_.train.global_batch;
    const uint32_t micro_batch = job_.resources.micro_batch.value_or(0);
    const uint32_t share = batch / least_data_;
    return InvalidArgument("micro-batch " + std::to_string(micro_batch) + " does not divide the " +
                           Counted(share, "sequence") + " of a rank (global batch " +
                           std::to_string(batch) + " over " + Counted(least_ranks_, "rank") +
                           "): " + NearestDivisors(share, micro_batch));
  }

  Status WhyNoMemory() const {
    Bytes least = found_.front().machine_memory;
    for (const Alternative& row : found_) least = std::min(least, row.machine_memory);
    return FailedPrecondition("the job needs " + ToString(least) +
                              " in its smallest layout; the machine has " +
                              ToString(facts_.memory) + ", of which 80 % may be planned");
  }

  const spec::JobSpec& job_;
  const std::vector<uint32_t>& slots_;
  const MachineFacts& facts_;
  const LocalCost cost_;
  uint32_t least_ranks_ = 0;  // of the layouts that fit the cluster; 0: there is none
  uint32_t least_data_ = 1;
  // The seconds per step below which a layout is reported; infinite: any is.
  double enough_ = std::numeric_limits<double>::infinity();
  std::map<std::pair<uint32_t, uint32_t>, PartTime> parts_;  // by tensor and micro-batch
  std::vector<Alternative> found_;
};

uint64_t Ranks(const Alternative& row) { return row.layout.ranks(); }

// Among those that are as good as equal to the fastest: most nodes, then most ranks.
size_t Choose(const std::vector<Alternative>& rows) {
  size_t chosen = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const bool equal =
        rows[i].verdict.empty() && rows[i].step.total() <= (1 + kTie) * rows.front().step.total();
    if (!equal) continue;
    const Alternative& best = rows[chosen];
    if (rows[i].nodes != best.nodes ? rows[i].nodes > best.nodes : Ranks(rows[i]) > Ranks(best)) {
      chosen = i;
    }
  }
  return chosen;
}

void WriteVerdicts(std::vector<Alternative>& rows, size_t chosen) {
  const double base = rows[chosen].step.total().count();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].verdict.empty()) continue;
    rows[i].chosen = i == chosen;
    rows[i].verdict = i == chosen ? "chosen" : local::Compared(rows[i].step.total().count(), base);
  }
}

Result<LocalPlan> PlanCommand(const spec::ResourceSpec& fixed, const std::vector<uint32_t>& slots) {
  LocalPlan plan;
  // All nodes that have a slot at all, or that have as many as are wanted.
  const uint32_t least = fixed.processes_per_node.value_or(1);
  const auto able =
      std::count_if(slots.begin(), slots.end(), [&](uint32_t count) { return count >= least; });
  plan.nodes = fixed.nodes.value_or(static_cast<uint32_t>(able));
  plan.processes_per_node = fixed.processes_per_node.value_or(slots[plan.nodes - 1]);
  if (plan.processes_per_node == 0) {
    return FailedPrecondition("not every one of " + Counted(plan.nodes, "node") + " has a slot");
  }
  plan.data_parallel = plan.nodes * plan.processes_per_node;
  plan.reason = local::ExplainCommand(plan, fixed);
  return plan;
}

}  // namespace

Bytes MachineMemory(const RankMemory& rank, uint32_t ranks) {
  constexpr int64_t kMost = int64_t{1} << 60;  // sums of a few stay in 64 bits
  const int64_t own = (rank.total() - rank.data).count();
  return own > kMost / ranks ? Bytes(kMost) : Bytes(own * ranks) + rank.data;
}

Result<LocalPlan> PlanLocal(const spec::JobSpec& job, const spec::ClusterSpec& cluster,
                            const MachineFacts& facts) {
  if (cluster.nodes.empty()) return InvalidArgument("the cluster has no nodes");
  RETURN_IF_ERROR(CheckFacts(facts));
  const std::vector<uint32_t> slots = SortedSlots(cluster);
  RETURN_IF_ERROR(CheckSize(job.resources, slots));
  if (!job.built_in()) return PlanCommand(job.resources, slots);

  Search search(job, slots, facts);
  ASSIGN_OR_RETURN(std::vector<Alternative> rows, search.Run());
  const size_t chosen = Choose(rows);
  WriteVerdicts(rows, chosen);
  const Alternative& best = rows[chosen];
  LocalPlan plan;
  plan.nodes = best.nodes;
  plan.processes_per_node = best.processes_per_node;
  plan.data_parallel = best.layout.data;
  plan.tensor_parallel = best.layout.tensor;
  plan.pipeline_parallel = best.layout.pipeline;
  plan.micro_batch = best.micro_batch;
  plan.micro_batches = best.micro_batches;
  const spec::Model model = spec::FromBuiltIn(job.model);
  plan.parameters = TrainerParameters(job.model);
  plan.step_flops = spec::ModelStepFlops(model, job.train.global_batch);
  plan.memory = search.Memory(best.layout, plan.micro_batch);
  plan.step = best.step;
  plan.reason = local::ExplainPlan(plan, rows, job, facts);
  if (rows.size() > kMaxAlternatives) {
    if (chosen >= kMaxAlternatives) std::swap(rows[kMaxAlternatives - 1], rows[chosen]);
    rows.resize(kMaxAlternatives);
  }
  plan.alternatives = std::move(rows);
  return plan;
}

}  // namespace longhaul::planner
