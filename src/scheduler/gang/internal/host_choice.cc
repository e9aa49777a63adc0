#include "scheduler/gang/internal/host_choice.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace longhaul::scheduler::internal {

namespace {

constexpr int32_t kMaxExcess = 63;  // reductions are bits of a word
constexpr int32_t kNoHosts = std::numeric_limits<int32_t>::max() / 2;

}  // namespace

void HostChooser::MergeHistograms(const LeafProblem& problem, std::span<const int32_t> leaves) {
  const int32_t most = problem.Units(problem.slots->max_slots());
  merged_.assign(static_cast<size_t>(most) + 1, 0);
  for (const int32_t leaf : leaves) {
    const std::span<const int32_t> hosts = problem.slots->Histogram(leaf);
    for (size_t k = 1; k < hosts.size(); ++k) {
      merged_[static_cast<size_t>(problem.Units(static_cast<int32_t>(k)))] += hosts[k];
    }
  }
  merged_[0] = 0;
}

// The largest hosts first is optimal: hosts hold any part of their units, so the k largest hosts
// hold at least as much as any other k.
int32_t HostChooser::FewestHosts(const LeafProblem& problem, std::span<const int32_t> leaves,
                                 int32_t units) {
  MergeHistograms(problem, leaves);
  int32_t count = 0;
  for (size_t value = merged_.size() - 1; units > 0; --value) {
    if (value == 0) return -1;
    const auto each = static_cast<int32_t>(value);
    const int32_t used = std::min(merged_[value], (units + each - 1) / each);
    count += used;
    units -= used * each;
  }
  return count;
}

// A knapsack over the leaves: slices_[i][n] is the fewest hosts by which the first i leaves hold n
// slices. Leaves x wanted x slices of a leaf steps. All rows are kept, to walk back.
int32_t HostChooser::FewestHostsOfSlices(const LeafProblem& problem,
                                         std::span<const int32_t> leaves, int32_t units,
                                         std::vector<int32_t>& units_of_leaf, int64_t& steps) {
  const int32_t wanted = units / problem.slice;
  slices_.resize(std::max(slices_.size(), leaves.size() + 1));
  slices_[0].assign(static_cast<size_t>(wanted) + 1, kNoHosts);
  slices_[0][0] = 0;
  std::vector<int32_t> hosts;  // of this leaf, by its slices
  for (size_t i = 0; i < leaves.size(); ++i) {
    const int32_t most = std::min(wanted, problem.CapacityOf(kLeafTier, leaves[i]) / problem.slice);
    hosts.clear();
    for (int32_t n = 0; n <= most; ++n) {
      hosts.push_back(problem.FewestHosts(leaves[i], n * problem.slice));
    }
    const std::vector<int32_t>& before = slices_[i];
    std::vector<int32_t>& after = slices_[i + 1];
    after.assign(before.size(), kNoHosts);
    for (int32_t n = 0; n <= most; ++n) {
      for (int32_t sum = n; sum <= wanted; ++sum) {
        const int32_t with = before[static_cast<size_t>(sum - n)] + hosts[static_cast<size_t>(n)];
        after[static_cast<size_t>(sum)] = std::min(after[static_cast<size_t>(sum)], with);
      }
    }
    steps += static_cast<int64_t>(most + 1) * (wanted + 1);
  }
  const int32_t fewest = slices_[leaves.size()][static_cast<size_t>(wanted)];
  if (fewest >= kNoHosts) return -1;
  units_of_leaf.assign(leaves.size(), 0);
  int32_t left = wanted;
  for (size_t i = leaves.size(); i-- > 0;) {
    int32_t n = 0;  // later leaves get as few as possible, so that slots stay free there
    while (n > left || slices_[i][static_cast<size_t>(left - n)] +
                               problem.FewestHosts(leaves[i], n * problem.slice) !=
                           slices_[i + 1][static_cast<size_t>(left)]) {
      ++n;
    }
    units_of_leaf[i] = n * problem.slice;
    left -= n;
  }
  return fewest;
}

// The greedy choice takes the largest hosts and leaves `excess` units free on them. Without another
// host, hosts of the choice can be exchanged for smaller ones. `least` is the size of the smallest
// host taken; an exchange is described relative to it: a larger host that leaves lowers the sum by
// value - least, and a smaller one that enters by least - value. layers_ holds, for each difference
// between hosts that leave and hosts that enter, the set of reductions that can be reached, as
// bits. Reductions above the excess would leave units without a host and are masked.
int32_t HostChooser::ReduceExcess(int32_t least, int32_t excess) {
  if (excess == 0 || excess > kMaxExcess) return excess;
  exchanges_.clear();
  const auto most = static_cast<int32_t>(merged_.size()) - 1;
  for (int32_t value = 1; value <= most; ++value) {
    const auto v = static_cast<size_t>(value);
    const int32_t cost = value > least ? value - least : least - value;
    if (cost == 0 || cost > excess || merged_[v] == 0) continue;
    // Hosts above the least are all taken; hosts below are all not.
    exchanges_.push_back(
        {value, cost, std::min(merged_[v], excess / cost), value > least ? 1 : -1});
  }
  const auto width = static_cast<size_t>(2 * excess + 1);
  const uint64_t mask = excess == kMaxExcess ? ~uint64_t{0} : (uint64_t{1} << (excess + 1)) - 1;
  layers_.resize(std::max(layers_.size(), exchanges_.size() + 1));
  layers_[0].assign(width, 0);
  layers_[0][static_cast<size_t>(excess)] = 1;
  for (size_t i = 0; i < exchanges_.size(); ++i) {
    const Exchange& exchange = exchanges_[i];
    const std::vector<uint64_t>& before = layers_[i];
    std::vector<uint64_t>& after = layers_[i + 1];
    after.assign(width, 0);
    for (int32_t n = 0; n <= exchange.most; ++n) {
      for (int32_t d = 0; d < static_cast<int32_t>(width); ++d) {
        const int32_t to = d + n * exchange.sign;
        if (to < 0 || to >= static_cast<int32_t>(width)) continue;
        after[static_cast<size_t>(to)] |=
            (before[static_cast<size_t>(d)] << (n * exchange.cost)) & mask;
      }
    }
  }
  const int32_t reduction = BestReduction(least, excess);
  if (reduction > 0) ApplyReduction(least, excess, reduction);
  return excess - reduction;
}

// A difference between hosts that leave and hosts that enter is made up by hosts of the least
// value: those not taken yet enter, those taken leave, at no cost.
int32_t HostChooser::BestReduction(int32_t least, int32_t excess) const {
  const auto l = static_cast<size_t>(least);
  const std::vector<uint64_t>& last = layers_[exchanges_.size()];
  for (int32_t reduction = excess; reduction > 0; --reduction) {
    for (int32_t d = -excess; d <= excess; ++d) {
      if (d > merged_[l] - taken_[l] || -d > taken_[l]) continue;
      if ((last[static_cast<size_t>(d + excess)] >> reduction & 1) != 0) return reduction;
    }
  }
  return 0;
}

// Walks the layers backwards from the smallest difference that the hosts of the least size can make
// up. A larger host that leaves and a smaller one that enters change taken_ with opposite signs.
void HostChooser::ApplyReduction(int32_t least, int32_t excess, int32_t reduction) {
  const auto l = static_cast<size_t>(least);
  const auto reachable = [&](size_t layer, int32_t d, int32_t r) {
    return d >= -excess && d <= excess && r >= 0 &&
           (layers_[layer][static_cast<size_t>(d + excess)] >> r & 1) != 0;
  };
  int32_t d = -excess;
  while (d > merged_[l] - taken_[l] || -d > taken_[l] ||
         !reachable(exchanges_.size(), d, reduction)) {
    ++d;
  }
  taken_[l] += d;
  for (size_t i = exchanges_.size(); i-- > 0;) {
    const Exchange& exchange = exchanges_[i];
    int32_t n = 0;
    while (!reachable(i, d - n * exchange.sign, reduction - n * exchange.cost)) ++n;
    taken_[static_cast<size_t>(exchange.value)] -= n * exchange.sign;
    d -= n * exchange.sign;
    reduction -= n * exchange.cost;
  }
}

// The histogram decides how many hosts of each size are taken; the walk over the leaves then takes
// the first hosts of these sizes, so that free hosts remain in the last leaves.
int32_t HostChooser::Append(const LeafProblem& problem, std::span<const int32_t> leaves,
                            int32_t units, std::vector<HostTasks>& tasks) {
  if (units == 0) return 0;
  MergeHistograms(problem, leaves);
  taken_.assign(merged_.size(), 0);
  int32_t left = units;
  auto least = static_cast<int32_t>(merged_.size());
  while (left > 0) {
    --least;
    CHECK(least > 0) << "the chosen leaves lack " << left << " of " << units << " units";
    const int32_t used = std::min(merged_[static_cast<size_t>(least)], (left + least - 1) / least);
    taken_[static_cast<size_t>(least)] = used;
    left -= used * least;
  }
  const int32_t excess = ReduceExcess(least, -left);

  size_t last = tasks.size();
  int32_t hosts_left = std::accumulate(taken_.begin(), taken_.end(), 0);
  for (const int32_t leaf : leaves) {
    const int32_t end = problem.tree->Last(kLeafTier, leaf);
    for (int32_t host = problem.tree->First(kLeafTier, leaf); host < end && hosts_left > 0;
         ++host) {
      const int32_t value = problem.Units(problem.slots->OnHost(host));
      if (value == 0 || taken_[static_cast<size_t>(value)] == 0) continue;
      --taken_[static_cast<size_t>(value)];
      --hosts_left;
      last = tasks.size();
      tasks.push_back({host, value * problem.host_slice});
    }
  }
  // The last host takes fewer tasks: all of the excess is left on one host.
  tasks[last].tasks -= excess * problem.host_slice;
  CHECK(tasks[last].tasks > 0) << "a host without a task";
  return excess * problem.host_slice;
}

}  // namespace longhaul::scheduler::internal
