#include "scheduler/gang/unlike_tasks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/check.h"
#include "scheduler/gang/equal_tasks.h"
#include "scheduler/gang/internal/shape_tables.h"

namespace longhaul::scheduler {

namespace {

using internal::GroupOrder;
using internal::JoinTables;
using internal::kCannot;
using internal::LeafTables;
using internal::SliceEntries;
using Counts = std::array<int32_t, kMaxTiers>;

// The exact tables: entries of slices for each number of domains.
class UnlikeSearch {
 public:
  UnlikeSearch(const DomainTree& tree, std::span<const FreeHost> hosts,
               const UnlikeTasksRequest& request)
      : tree_(tree),
        hosts_(hosts),
        request_(request),
        order_(request.groups),
        entries_(order_),
        parts_(order_.slice_entries) {
    for (size_t entry = 0; entry < order_.slice_entries; ++entry) {
      for (size_t part = 0; part <= entry; ++part) {
        if (entries_.Part(part, entry)) parts_[entry].push_back(part);
      }
    }
  }

  // False when the steps don't suffice; then nothing is known.
  bool Solve(UnlikeTasksAnswer& answer);

 private:
  enum class Kind : uint8_t { kEnter, kItem, kExit };
  struct Event {
    Kind kind;
    Tier tier;
    int32_t domain;
    std::vector<int32_t> decisions;  // [state][entry]
  };

  bool FillItems();
  bool Fill(Tier lowest, const Counts& limits);
  void FillDomain(Tier tier, int32_t domain);
  void FillItem(int32_t item);
  bool Enough(size_t state) const {
    const TaskGroup& last = order_.Last(request_.groups);
    return table_.back()[state * width() + width() - 1] >= last.tasks / last.slice;
  }
  bool FewestOf(Tier tier, Counts& counts, size_t& state);
  bool Write(size_t state, UnlikeTasksAnswer& answer);
  void Append(int32_t leaf, size_t entry, int32_t last, UnlikeTasksAnswer& answer);
  size_t width() const { return order_.slice_entries; }

  const DomainTree& tree_;
  std::span<const FreeHost> hosts_;
  const UnlikeTasksRequest& request_;
  GroupOrder order_;
  SliceEntries entries_;
  std::vector<std::vector<size_t>> parts_;                // [entry]
  int64_t steps_ = 0;                                     // left
  std::vector<std::vector<std::vector<int32_t>>> items_;  // [tier][domain]: table in slices

  Tier lowest_ = 0;
  Counts limits_{};
  size_t states_ = 0;
  std::array<size_t, kMaxTiers> stride_{};
  std::vector<std::vector<int32_t>> table_;  // [open tier or tiers]: [state][entry]
  std::vector<Event> events_;
};

// Computes items_[tier][domain]: for each entry (a number of slices of every group but the last)
// the most slices of the last group beside them. A slice lies in one leaf, so the tables of leaves
// are converted to slices, and the tables of higher tiers are joined from those.
bool UnlikeSearch::FillItems() {
  items_.resize(static_cast<size_t>(tree_.tiers()));
  // Leaves with the same hosts have the same table.
  std::map<std::vector<std::pair<ResourceVector, uint8_t>>, std::vector<int32_t>> known;
  LeafTables leaf_tables(request_.groups, order_);
  for (int32_t leaf = 0; leaf < tree_.leaves(); ++leaf) {
    const auto hosts = hosts_.subspan(
        static_cast<size_t>(tree_.First(kLeafTier, leaf)),
        static_cast<size_t>(tree_.Last(kLeafTier, leaf) - tree_.First(kLeafTier, leaf)));
    std::vector<std::pair<ResourceVector, uint8_t>> key;
    for (const FreeHost& host : hosts) key.emplace_back(host.free, host.host_class);
    std::sort(key.begin(), key.end());
    auto found = known.find(key);
    if (found == known.end()) {
      if (!leaf_tables.Fill(hosts, steps_, false)) return false;
      found = known.emplace(std::move(key), leaf_tables.Slices()).first;
    }
    items_[0].push_back(found->second);
  }
  for (Tier tier = 1; tier < tree_.tiers(); ++tier) {
    const auto t = static_cast<size_t>(tier);
    for (int32_t domain = 0; domain < tree_.domains(tier); ++domain) {
      std::vector<int32_t> sum = items_[t - 1][static_cast<size_t>(tree_.First(tier, domain))];
      for (int32_t child = tree_.First(tier, domain) + 1; child < tree_.Last(tier, domain);
           ++child) {
        sum = JoinTables(sum, items_[t - 1][static_cast<size_t>(child)], order_, steps_);
        if (steps_ < 0) return false;
      }
      items_[t].push_back(std::move(sum));
    }
  }
  return true;
}

// Fills the table over the domains of `lowest` in their order. A state is a number of domains for
// each tier from `lowest` up, at most `limits`; table_[tiers] is the table with no domain open, and
// table_[tier] the one with a domain of `tier` open. Every step is stored as an event with its
// decisions, from which Write walks back. Steps are counted before the work, so a request beyond
// the limit costs nothing.
bool UnlikeSearch::Fill(Tier lowest, const Counts& limits) {
  lowest_ = lowest;
  limits_ = limits;
  states_ = 1;
  for (Tier tier = lowest; tier < tree_.tiers(); ++tier) {
    const auto t = static_cast<size_t>(tier);
    stride_[t] = states_;
    states_ *= static_cast<size_t>(limits[t]) + 1;
  }
  size_t parts = 0;
  for (const auto& of_entry : parts_) parts += of_entry.size();
  steps_ -= static_cast<int64_t>(states_ * parts) * tree_.domains(lowest);
  if (steps_ < 0) return false;
  table_.assign(static_cast<size_t>(tree_.tiers()) + 1,
                std::vector<int32_t>(states_ * width(), kCannot));
  table_.back()[0] = 0;
  events_.clear();
  const Tier top = tree_.tiers() - 1;
  for (int32_t domain = 0; domain < tree_.domains(top); ++domain) {
    if (top == lowest) {
      FillItem(domain);
    } else {
      FillDomain(top, domain);
    }
  }
  return true;
}

// Opens the domain (its count rises by one, which is paid once for all items inside), fills the
// items below it, and closes it again. Closing keeps the better of the two tables at each entry:
// not to use the domain, or to use it.
void UnlikeSearch::FillDomain(Tier tier, int32_t domain) {
  const auto t = static_cast<size_t>(tier);
  table_[t].assign(states_ * width(), kCannot);
  for (size_t state = 0; state < states_; ++state) {
    const size_t count = state / stride_[t] % (static_cast<size_t>(limits_[t]) + 1);
    if (count == 0) continue;
    std::copy_n(table_[t + 1].begin() + static_cast<ptrdiff_t>((state - stride_[t]) * width()),
                width(), table_[t].begin() + static_cast<ptrdiff_t>(state * width()));
  }
  events_.push_back({Kind::kEnter, tier, domain, {}});
  for (int32_t child = tree_.First(tier, domain); child < tree_.Last(tier, domain); ++child) {
    if (tier - 1 == lowest_) {
      FillItem(child);
    } else {
      FillDomain(tier - 1, child);
    }
  }
  std::vector<int32_t> decisions(table_[t].size(), 0);
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (table_[t][i] <= table_[t + 1][i]) continue;
    table_[t + 1][i] = table_[t][i];
    decisions[i] = 1;
  }
  events_.push_back({Kind::kExit, tier, domain, std::move(decisions)});
}

void UnlikeSearch::FillItem(int32_t item) {
  const auto t = static_cast<size_t>(lowest_);
  const std::vector<int32_t>& size = items_[t][static_cast<size_t>(item)];
  std::vector<int32_t>& open = table_[t + 1];
  std::vector<int32_t> decisions(open.size(), -1);
  // States descend, so that `before` is still the table without this item and an item is used at
  // most once.
  for (size_t state = states_; state-- > 0;) {
    if (state % (static_cast<size_t>(limits_[t]) + 1) == 0) continue;  // its count is lowest
    const int32_t* before = open.data() + (state - 1) * width();
    for (size_t entry = 0; entry < width(); ++entry) {
      for (const size_t part : parts_[entry]) {
        if (size[part] < 0 || before[entry - part] < 0) continue;
        const int32_t sum = before[entry - part] + size[part];
        if (sum <= open[state * width() + entry]) continue;
        open[state * width() + entry] = sum;
        decisions[state * width() + entry] = static_cast<int32_t>(part);
      }
    }
  }
  events_.push_back({Kind::kItem, lowest_, item, std::move(decisions)});
}

// Doubles the limit of the tier until the tasks fit, then reads the least count.
bool UnlikeSearch::FewestOf(Tier tier, Counts& counts, size_t& state) {
  const auto t = static_cast<size_t>(tier);
  const int32_t most = tier >= request_.required_tier ? 1 : tree_.domains(tier);
  for (int32_t limit = 1;; limit = std::min(most, limit * 2)) {
    Counts limits = counts;
    limits[t] = limit;
    if (!Fill(tier, limits)) return false;
    // The counts of the tiers above are already the least ones and are kept fixed.
    size_t above = 0;
    for (Tier up = tier + 1; up < tree_.tiers(); ++up) {
      above +=
          stride_[static_cast<size_t>(up)] * static_cast<size_t>(counts[static_cast<size_t>(up)]);
    }
    for (int32_t count = 1; count <= limit; ++count) {
      state = above + static_cast<size_t>(count);
      if (!Enough(state)) continue;
      counts[t] = count;
      return true;
    }
    if (limit == most) {
      counts[t] = 0;
      return true;
    }
  }
}

// From the top tier downwards, so that the counts are the least in lexicographic order. Where one
// tier admits no count, no placement exists at all, and that is proven.
bool UnlikeSearch::Solve(UnlikeTasksAnswer& answer) {
  steps_ = request_.max_steps;
  if (!FillItems()) return false;
  Counts counts{};
  size_t state = 0;
  for (Tier tier = tree_.tiers() - 1; tier >= kLeafTier; --tier) {
    if (!FewestOf(tier, counts, state)) return false;
    if (counts[static_cast<size_t>(tier)] == 0) {
      answer.placed = false;
      answer.proven = true;
      return true;
    }
  }
  answer.domains = counts;
  answer.bound = counts;
  answer.placed = Write(state, answer);
  answer.proven = true;
  return answer.placed;
}

// Walks the events of the last table (that of the leaves) backwards from `state` and the full
// entry, and gives each chosen leaf its part. `level` is the table that the walk is in: a domain is
// entered through its exit event and left through its enter event.
bool UnlikeSearch::Write(size_t state, UnlikeTasksAnswer& answer) {
  size_t entry = width() - 1;
  const TaskGroup& last = order_.Last(request_.groups);
  int32_t wanted = last.tasks / last.slice;
  Tier level = tree_.tiers();
  for (size_t i = events_.size(); i-- > 0;) {
    const Event& event = events_[i];
    const size_t at = state * width() + entry;
    if (event.kind == Kind::kExit) {
      if (level == event.tier + 1 && event.decisions[at] != 0) level = event.tier;
    } else if (event.kind == Kind::kEnter) {
      if (level != event.tier) continue;
      level = event.tier + 1;
      state -= stride_[static_cast<size_t>(event.tier)];
    } else if (level == lowest_ + 1 && event.decisions[at] >= 0) {
      const auto part = static_cast<size_t>(event.decisions[at]);
      const int32_t taken = std::min(wanted, items_[0][static_cast<size_t>(event.domain)][part]);
      Append(event.domain, part, taken, answer);
      wanted -= taken;
      entry -= part;
      --state;
    }
  }
  CHECK(wanted == 0 && entry == 0);
  std::sort(answer.tasks.begin(), answer.tasks.end(),
            [](const GroupTasks& a, const GroupTasks& b) { return a.host < b.host; });
  return true;
}

// Fills the table of the leaf a second time, now with the decisions of each host. The tables of all
// leaves with decisions would take far more memory, and only the chosen leaves need them.
void UnlikeSearch::Append(int32_t leaf, size_t entry, int32_t last, UnlikeTasksAnswer& answer) {
  const int32_t first = tree_.First(kLeafTier, leaf);
  LeafTables tables(request_.groups, order_);
  int64_t steps = std::numeric_limits<int64_t>::max() / 2;  // filled before within the limit
  CHECK(tables.Fill(hosts_.subspan(static_cast<size_t>(first),
                                   static_cast<size_t>(tree_.Last(kLeafTier, leaf) - first)),
                    steps, true));
  const auto tasks = tables.Walk(entry, last);
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (std::accumulate(tasks[i].begin(), tasks[i].end(), 0) == 0) continue;
    answer.tasks.push_back({first + static_cast<int32_t>(i), tasks[i]});
  }
}

// Beyond the step limit: bounds from each group alone, and a packing of leaves in order.
class UnlikePacking {
 public:
  UnlikePacking(const DomainTree& tree, std::span<const FreeHost> hosts,
                const UnlikeTasksRequest& request)
      : tree_(tree), hosts_(hosts), request_(request) {}

  void Solve(UnlikeTasksAnswer& answer) {
    answer = UnlikeTasksAnswer{};
    answer.proven = false;
    if (!Bound(answer)) return;
    const Tier tier = std::min(request_.required_tier, tree_.tiers());
    const int32_t domains = tier >= tree_.tiers() ? 1 : tree_.domains(tier);
    for (int32_t domain = 0; domain < domains; ++domain) TryDomain(tier, domain, answer);
    answer.proven = answer.placed && answer.domains == answer.bound;
  }

 private:
  static bool Before(const Counts& a, const Counts& b) {  // from the top tier downwards
    return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
  }

  int32_t Fits(const TaskGroup& group, const FreeHost& host, const ResourceVector& left) const {
    if ((group.host_classes >> host.host_class & 1) == 0) return 0;
    int64_t most = group.tasks;
    for (size_t r = 0; r < left.size(); ++r) {
      if (group.demand[r] > 0) most = std::min(most, left[r] / group.demand[r]);
    }
    return static_cast<int32_t>(most);
  }

  // False when a group alone doesn't fit: then nothing does, and that is proven.
  bool Bound(UnlikeTasksAnswer& answer) {
    weight_.assign(static_cast<size_t>(tree_.leaves()), 0);
    int64_t tightest = -1;
    for (const TaskGroup& group : request_.groups) {
      // Each group alone is a relaxation: the other groups only take room away. So the domains of
      // the gang are at least those of each group, and a group that does not fit proves that the
      // gang does not.
      SlotTable slots(tree_, 1024);
      for (int32_t h = 0; h < tree_.hosts(); ++h) {
        const FreeHost& host = hosts_[static_cast<size_t>(h)];
        slots.Set(h, std::min(1024, Fits(group, host, host.free)));
      }
      EqualTasksRequest alone;
      alone.tasks = group.tasks;
      alone.slice = group.slice;
      alone.required_tier = request_.required_tier;
      // Only the domains are read, which the table gives exactly without any search.
      alone.max_steps = 0;
      EqualTasksSolver solver;
      EqualTasksAnswer of_group;
      solver.Solve(slots, alone, of_group);
      if (!of_group.placed) {
        answer.proven = true;
        return false;
      }
      if (Before(answer.bound, of_group.domains)) answer.bound = of_group.domains;
      // The group that uses the largest share of the cluster's room (in millionths) decides which
      // leaves are large. A placed group has at least one slot, so the total is not zero.
      const int64_t tightness = int64_t{group.tasks} * 1'000'000 / slots.total();
      if (tightness <= tightest) continue;
      tightest = tightness;
      for (int32_t leaf = 0; leaf < tree_.leaves(); ++leaf) {
        weight_[static_cast<size_t>(leaf)] = slots.InLeaf(leaf);
      }
    }
    return true;
  }

  // Leaves of the domain, those of large blocks first and large ones first, until all tasks fit.
  void TryDomain(Tier tier, int32_t domain, UnlikeTasksAnswer& answer) {
    std::vector<int32_t> leaves(
        static_cast<size_t>(tree_.LastLeaf(tier, domain) - tree_.FirstLeaf(tier, domain)));
    std::iota(leaves.begin(), leaves.end(), tree_.FirstLeaf(tier, domain));
    // The key of a leaf lists, from the top tier down, the negated weight and the number of its
    // domain. So leaves of one domain stay adjacent, and the order is total.
    std::vector<std::vector<int64_t>> keys;
    for (const int32_t leaf : leaves) {
      std::vector<int64_t> key;
      for (Tier up = tree_.tiers() - 1; up >= kLeafTier; --up) {
        const int32_t above = tree_.DomainOf(up, tree_.First(kLeafTier, leaf));
        int64_t sum = 0;
        for (int32_t l = tree_.FirstLeaf(up, above); l < tree_.LastLeaf(up, above); ++l) {
          sum += weight_[static_cast<size_t>(l)];
        }
        key.push_back(-sum);
        key.push_back(above);
      }
      keys.push_back(std::move(key));
    }
    const int32_t first = leaves.empty() ? 0 : leaves.front();
    std::sort(leaves.begin(), leaves.end(), [&](int32_t a, int32_t b) {
      return keys[static_cast<size_t>(a - first)] < keys[static_cast<size_t>(b - first)];
    });
    Pack(leaves, answer);
  }

  // Groups with larger demands first, since the small ones fit into what is left. The demands are
  // compared by resource in the order of the vector.
  void Pack(std::span<const int32_t> leaves, UnlikeTasksAnswer& best) {
    std::vector<size_t> order(request_.groups.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return request_.groups[a].demand > request_.groups[b].demand;
    });
    std::array<int32_t, kMaxGangShapes> wanted{};
    for (size_t g = 0; g < order.size(); ++g) wanted[g] = request_.groups[g].tasks;
    UnlikeTasksAnswer answer;
    std::array<std::vector<uint8_t>, kMaxTiers> used;
    for (Tier t = 0; t < tree_.tiers(); ++t) {
      used[static_cast<size_t>(t)].resize(static_cast<size_t>(tree_.domains(t)));
    }
    for (const int32_t leaf : leaves) {
      if (PackLeaf(leaf, order, wanted, answer) == 0) continue;
      for (Tier t = 0; t < tree_.tiers(); ++t) {
        const auto tier = static_cast<size_t>(t);
        uint8_t& mark =
            used[tier][static_cast<size_t>(tree_.DomainOf(t, tree_.First(kLeafTier, leaf)))];
        answer.domains[tier] += mark == 0 ? 1 : 0;
        mark = 1;
      }
    }
    if (std::accumulate(wanted.begin(), wanted.end(), 0) > 0) return;
    if (best.placed && !Before(answer.domains, best.domains)) return;
    best.placed = true;
    best.domains = answer.domains;
    best.tasks = std::move(answer.tasks);
    std::sort(best.tasks.begin(), best.tasks.end(),
              [](const GroupTasks& a, const GroupTasks& b) { return a.host < b.host; });
  }

  // Group by group, first fit, whole slices only; returns the tasks packed.
  int32_t PackLeaf(int32_t leaf, std::span<const size_t> order,
                   std::array<int32_t, kMaxGangShapes>& wanted, UnlikeTasksAnswer& answer) {
    const int32_t first = tree_.First(kLeafTier, leaf);
    const int32_t end = tree_.Last(kLeafTier, leaf);
    std::vector<ResourceVector> left;
    std::vector<GroupTasks> tasks;
    for (int32_t h = first; h < end; ++h) {
      left.push_back(hosts_[static_cast<size_t>(h)].free);
      tasks.push_back({h, {}});
    }
    int32_t packed = 0;
    for (const size_t g : order) {
      const TaskGroup& group = request_.groups[g];
      std::vector<int32_t> room;
      int32_t sum = 0;
      for (size_t i = 0; i < left.size(); ++i) {
        room.push_back(Fits(group, hosts_[static_cast<size_t>(first) + i], left[i]));
        sum += room.back();
      }
      int32_t take = std::min(wanted[g], sum - sum % group.slice);
      wanted[g] -= take;
      packed += take;
      for (size_t i = 0; i < left.size() && take > 0; ++i) {
        const int32_t here = std::min(take, room[i]);
        tasks[i].tasks[g] = here;
        take -= here;
        for (size_t r = 0; r < left[i].size(); ++r) left[i][r] -= here * group.demand[r];
      }
    }
    for (const GroupTasks& host : tasks) {
      if (std::accumulate(host.tasks.begin(), host.tasks.end(), 0) > 0) {
        answer.tasks.push_back(host);
      }
    }
    return packed;
  }

  const DomainTree& tree_;
  std::span<const FreeHost> hosts_;
  const UnlikeTasksRequest& request_;
  std::vector<int64_t> weight_;  // [leaf]: what it holds of the tightest group
};

}  // namespace

UnlikeTasksAnswer PlaceUnlikeTasks(const DomainTree& tree, std::span<const FreeHost> hosts,
                                   const UnlikeTasksRequest& request) {
  CHECK(hosts.size() == static_cast<size_t>(tree.hosts()));
  CHECK(!request.groups.empty() && request.groups.size() <= static_cast<size_t>(kMaxGangShapes));
  CHECK(request.required_tier >= kLeafTier) << "unlike tasks on one host are one task";
  for (const TaskGroup& group : request.groups) {
    CHECK(group.tasks >= 1 && group.tasks <= kMaxGangTasks && group.slice >= 1 &&
          group.tasks % group.slice == 0)
        << group.tasks << " tasks in slices of " << group.slice;
  }
  UnlikeTasksAnswer answer;
  size_t entries = 1;
  // UnlikeSearch compares all pairs of entries of slices before it counts any step, so these
  // entries have a stricter limit than the entries of tasks.
  const GroupOrder order(request.groups);
  entries = order.task_entries;
  if (static_cast<int64_t>(entries) <= request.max_steps &&
      static_cast<int64_t>(order.slice_entries) <= request.max_steps / 1'000) {
    UnlikeSearch search(tree, hosts, request);
    if (search.Solve(answer)) return answer;
  }
  UnlikePacking(tree, hosts, request).Solve(answer);
  return answer;
}

}  // namespace longhaul::scheduler
