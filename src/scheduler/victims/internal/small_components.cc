#include "scheduler/victims/internal/small_components.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace longhaul::scheduler::internal {

namespace {

constexpr size_t kMaxDecisions = 10;  // enumerated: 2^10 sets at most

}  // namespace

// Components with one slot and a finite cost are not joined by the knapsack: of n such components
// the cheapest k are the best choice for k slots, so one sort replaces n joins. This matters,
// because most components of a cluster of small jobs are of this kind.
SmallComponents::SmallComponents(const Cover& cover, const std::vector<Component>& components,
                                 int64_t max_steps, int64_t& steps)
    : cover_(cover) {
  std::vector<std::pair<int64_t, Choice>> singles;
  std::vector<Function> several;
  for (size_t i = 0; i < components.size(); ++i) {
    Function function;
    const bool solved = steps < max_steps && (OneJob(components[i], function, steps) ||
                                              Enumerate(components[i], function, steps));
    if (!solved) {
      large_.push_back(i);
    } else if (function.cost.size() == 2 && function.cost[1] < kNoCost) {
      singles.emplace_back(function.cost[1], std::move(function.choices[1]));
    } else {
      several.push_back(std::move(function));
    }
  }
  AddSingles(std::move(singles));
  for (Function& function : several) Join(std::move(function), steps);
}

// Each piece has its own slots: x of them are freed by the whole job, or by at most max_shrunk
// pieces that hold x together.
bool SmallComponents::OneJob(const Component& component, Function& function, int64_t& steps) const {
  if (component.jobs.size() != 1) return false;
  const int32_t job = component.jobs.front();
  const Cover::CoverJob& of = cover_.jobs[static_cast<size_t>(job)];
  if (!of.may_stop) return false;
  std::vector<int32_t> held(of.pieces.size());
  for (const int32_t slot : component.hosts) {
    const Cover::Host& host = cover_.hosts[static_cast<size_t>(slot)];
    const std::span<const int32_t> holders = cover_.Holders(static_cast<size_t>(host.first_unit));
    if (!cover_.Plain(host) || holders.size() != 1) return false;
    const auto piece = std::find(of.pieces.begin(), of.pieces.end(), holders.front());
    ++held[static_cast<size_t>(piece - of.pieces.begin())];
  }
  const auto slots = static_cast<int32_t>(component.hosts.size());
  function.cost.assign(static_cast<size_t>(slots) + 1, of.cost);
  function.choices.assign(static_cast<size_t>(slots) + 1, {job});
  // From here on cost[x] is the least known cost of at least x slots. The whole job frees all of
  // them at once, so its cost is the first value of every entry.
  function.cost[0] = 0;
  function.choices[0].clear();
  const auto limit =
      static_cast<size_t>(std::min<int64_t>(of.max_shrunk, static_cast<int64_t>(of.pieces.size())));
  if (limit == 0) return true;
  if (std::all_of(held.begin(), held.end(), [&](int32_t n) { return n == held.front(); })) {
    EqualPieces(of, held.front(), function);
    return true;
  }
  const auto width = static_cast<size_t>(slots) + 1;
  // Pieces of unequal size make a two-dimensional knapsack of pieces x limit x slots steps. Beyond
  // the limit the component is left to branch and bound.
  if (static_cast<int64_t>(of.pieces.size() * limit * width) > 4'000'000) return false;
  steps += static_cast<int64_t>(of.pieces.size() * limit * width);
  // best[pieces][slots] after each piece, with what was taken, to walk back.
  std::vector<int64_t> best((limit + 1) * width, kNoCost);
  std::vector<std::vector<uint8_t>> took(of.pieces.size());
  best[0] = 0;
  for (size_t p = 0; p < of.pieces.size(); ++p) {
    const int64_t cost = cover_.pieces[static_cast<size_t>(of.pieces[p])].shrink_cost;
    took[p].assign(best.size(), 0);
    if (cost < 0 || held[p] == 0) continue;
    for (size_t n = limit; n >= 1; --n) {
      for (size_t x = width - 1; x >= static_cast<size_t>(held[p]); --x) {
        const int64_t with = best[(n - 1) * width + x - static_cast<size_t>(held[p])] + cost;
        if (with >= best[n * width + x]) continue;
        best[n * width + x] = with;
        took[p][n * width + x] = 1;
      }
    }
  }
  // The table holds exact numbers of slots. To free more than x serves x as well, so the cost at x
  // is the least of all entries from x on; hence the walk from the end.
  for (size_t x = width - 1; x >= 1; --x) {
    if (x + 1 < width && function.cost[x + 1] <= function.cost[x]) {
      function.cost[x] = function.cost[x + 1];
      function.choices[x] = function.choices[x + 1];
    }
    for (size_t n = 1; n <= limit; ++n) {
      if (best[n * width + x] >= function.cost[x]) continue;
      function.cost[x] = best[n * width + x];
      function.choices[x].clear();
      size_t at = n * width + x;
      for (size_t p = of.pieces.size(); p-- > 0;) {
        if (took[p][at] == 0) continue;
        function.choices[x].push_back(~of.pieces[p]);
        at -= width + static_cast<size_t>(held[p]);
      }
    }
  }
  return true;
}

// Where all pieces hold the same number of slots, the cheapest pieces are the best choice for any
// number of them. A decision is a job, or the complement (~) of a piece that is given up alone. The
// sort is stable, so equal costs give up the pieces in their order.
void SmallComponents::EqualPieces(const Cover::CoverJob& job, int32_t held,
                                  Function& function) const {
  std::vector<int32_t> order;
  for (const int32_t piece : job.pieces) {
    if (cover_.pieces[static_cast<size_t>(piece)].shrink_cost >= 0) order.push_back(piece);
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return cover_.pieces[static_cast<size_t>(a)].shrink_cost <
           cover_.pieces[static_cast<size_t>(b)].shrink_cost;
  });
  if (order.size() > static_cast<size_t>(job.max_shrunk)) {
    order.resize(static_cast<size_t>(job.max_shrunk));
  }
  int64_t cost = 0;
  Choice choice;
  size_t x = 1;
  for (const int32_t piece : order) {
    cost += cover_.pieces[static_cast<size_t>(piece)].shrink_cost;
    choice.push_back(~piece);
    for (int32_t n = 0; n < held; ++n, ++x) {
      if (cost >= function.cost[x]) continue;
      function.cost[x] = cost;
      function.choices[x] = choice;
    }
  }
}

// `units`: of each unit of the component's hosts, what of `set` frees each of its holders.
size_t SmallComponents::FreedBy(const Component& component,
                                const std::vector<std::vector<uint32_t>>& units,
                                uint32_t set) const {
  size_t freed = 0;
  size_t at = 0;
  for (const int32_t h : component.hosts) {
    const Cover::Host& host = cover_.hosts[static_cast<size_t>(h)];
    int64_t gone = 0;
    for (int32_t unit = host.first_unit; unit < host.last_unit; ++unit, ++at) {
      const bool free = std::all_of(units[at].begin(), units[at].end(),
                                    [&](uint32_t any) { return (set & any) != 0; });
      gone += free ? cover_.weights[static_cast<size_t>(unit)] : 0;
    }
    freed += static_cast<size_t>(cover_.SlotsOf(host, gone));
  }
  return freed;
}

// Tries all sets of decisions: whole jobs and single pieces. Of sets that free equally many slots
// at equal cost the first one in the order of the bit sets is kept, so the result is deterministic.
bool SmallComponents::Enumerate(const Component& component, Function& function,
                                int64_t& steps) const {
  std::vector<int32_t> decisions = component.jobs;
  for (const int32_t job : component.jobs) {
    for (const int32_t piece : cover_.jobs[static_cast<size_t>(job)].pieces) {
      if (cover_.pieces[static_cast<size_t>(piece)].shrink_cost >= 0) decisions.push_back(~piece);
    }
    if (decisions.size() > kMaxDecisions) return false;
  }
  if (decisions.size() > kMaxDecisions) return false;
  const auto bit = [&](int32_t decision) {
    const auto at = std::find(decisions.begin(), decisions.end(), decision);
    return at == decisions.end() ? 0u : 1u << (at - decisions.begin());
  };
  // A unit's holders, each as the decisions of which one is enough.
  std::vector<std::vector<uint32_t>> units;
  size_t slots = 0;
  for (const int32_t h : component.hosts) {
    const Cover::Host& host = cover_.hosts[static_cast<size_t>(h)];
    int64_t all = 0;
    for (int32_t unit = host.first_unit; unit < host.last_unit; ++unit) {
      std::vector<uint32_t>& enough = units.emplace_back();
      for (const int32_t piece : cover_.Holders(static_cast<size_t>(unit))) {
        enough.push_back(bit(cover_.pieces[static_cast<size_t>(piece)].job) | bit(~piece));
      }
      all += cover_.weights[static_cast<size_t>(unit)];
    }
    slots += static_cast<size_t>(cover_.SlotsOf(host, all));
  }
  function.cost.assign(slots + 1, kNoCost);
  function.choices.assign(slots + 1, {});
  const uint32_t sets = 1u << decisions.size();
  steps += static_cast<int64_t>(sets) * static_cast<int64_t>(units.size());
  std::vector<uint32_t> best(slots + 1, 0);
  for (uint32_t set = 0; set < sets; ++set) {
    int64_t cost = 0;
    for (size_t d = 0; d < decisions.size(); ++d) {
      if ((set >> d & 1) == 0) continue;
      cost += decisions[d] >= 0 ? cover_.jobs[static_cast<size_t>(decisions[d])].cost
                                : cover_.pieces[static_cast<size_t>(~decisions[d])].shrink_cost;
    }
    // A set in which a job leaves as a whole and also gives up pieces is the same as the whole job
    // alone, at no lower cost; it is not allowed, and neither are more pieces than the job can
    // spare.
    bool allowed = true;
    for (const int32_t job : component.jobs) {
      int32_t shrunk = 0;
      for (const int32_t piece : cover_.jobs[static_cast<size_t>(job)].pieces) {
        shrunk += (set & bit(~piece)) != 0 ? 1 : 0;
      }
      const bool whole = (set & bit(job)) != 0;
      if (whole && !cover_.jobs[static_cast<size_t>(job)].may_stop) allowed = false;
      if (shrunk > (whole ? 0 : cover_.jobs[static_cast<size_t>(job)].max_shrunk)) allowed = false;
    }
    if (!allowed) continue;
    const size_t freed = FreedBy(component, units, set);
    if (cost >= function.cost[freed]) continue;
    function.cost[freed] = cost;
    best[freed] = set;
  }
  for (size_t x = slots; x-- > 0;) {
    if (function.cost[x + 1] > function.cost[x]) continue;
    function.cost[x] = function.cost[x + 1];
    best[x] = best[x + 1];
  }
  for (size_t x = 0; x <= slots; ++x) {
    for (size_t d = 0; d < decisions.size(); ++d) {
      if ((best[x] >> d & 1) != 0) function.choices[x].push_back(decisions[d]);
    }
  }
  return true;
}

// Fills the first row of the knapsack. Only the `need` cheapest components can ever be used.
void SmallComponents::AddSingles(std::vector<std::pair<int64_t, Choice>> singles) {
  std::stable_sort(singles.begin(), singles.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  costs_.assign(static_cast<size_t>(cover_.need) + 1, kNoCost);
  costs_[0] = 0;
  for (size_t x = 1; x < costs_.size() && x <= singles.size(); ++x) {
    costs_[x] = costs_[x - 1] + singles[x - 1].first;
    singles_.push_back(std::move(singles[x - 1].second));
  }
}

// One row of a covering knapsack: entry x is the least cost of at least x slots, so an item with
// more slots than x is taken from entry 0. `before` is a copy, because each component is used at
// most once.
void SmallComponents::Join(Function function, int64_t& steps) {
  const std::vector<int64_t> before = costs_;
  std::vector<int64_t>& after = costs_;
  std::vector<int32_t>& taken = taken_.emplace_back(before.size(), 0);
  const size_t most = std::min(function.cost.size() - 1, before.size() - 1);
  for (size_t n = 1; n < function.cost.size(); ++n) {
    if (function.cost[n] >= kNoCost) continue;
    for (size_t x = 1; x < before.size(); ++x) {
      const int64_t rest = before[x > n ? x - n : 0];
      if (rest >= kNoCost || rest + function.cost[n] >= after[x]) continue;
      after[x] = rest + function.cost[n];
      taken[x] = static_cast<int32_t>(n);
    }
    if (n >= most) break;  // costs never fall with n: more than needed adds nothing
  }
  steps += static_cast<int64_t>(most * before.size());
  functions_.push_back(std::move(function));
}

// Walks the rows backwards by the decision of each. What is left after the first row comes from the
// cheapest single slots.
void SmallComponents::Choose(int32_t slots, Selection& selection) const {
  const auto apply = [&](const Choice& choice) {
    for (const int32_t decision : choice) {
      if (decision >= 0) {
        selection.whole[static_cast<size_t>(decision)] = 1;
      } else {
        selection.shrunk[static_cast<size_t>(~decision)] = 1;
      }
    }
  };
  for (size_t i = functions_.size(); i-- > 0;) {
    const int32_t n = taken_[i][static_cast<size_t>(slots)];
    if (n == 0) continue;
    apply(functions_[i].choices[static_cast<size_t>(n)]);
    slots = std::max(0, slots - n);
  }
  for (int32_t i = 0; i < slots; ++i) apply(singles_[static_cast<size_t>(i)]);
}

}  // namespace longhaul::scheduler::internal
