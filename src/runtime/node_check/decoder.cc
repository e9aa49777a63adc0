#include "runtime/node_check/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace longhaul::runtime::node_check {
namespace {

constexpr int kStates = 3;
constexpr size_t kExactParts = 8;       // 3^8 states of a component are tried one by one
constexpr size_t kRestarts = 3;         // from this many most suspicious parts
constexpr size_t kFewForRestarts = 64;  // a margin in larger components starts from the best state

using Costs = std::array<double, kStates>;

double Cost(double probability) { return -std::log(probability); }

// A node fails or is slow more often than one link, and a link more often than a switch.
Costs PriorOf(Part part) {
  const double fault = part == Part::kNode ? 0.004 : part == Part::kLink ? 0.001 : 0.0005;
  return {Cost(1 - 2 * fault), Cost(fault), Cost(fault)};
}

// -log P(outcome | worst state on the path): rows are outcomes.
const std::array<Costs, kStates>& OutcomeCosts() {
  static const std::array<Costs, kStates> costs = {{
      {Cost(0.985), Cost(0.06), Cost(0.03)},  // OK
      {Cost(0.012), Cost(0.93), Cost(0.03)},  // slow
      {Cost(0.003), Cost(0.01), Cost(0.94)},  // failed
  }};
  return costs;
}

// -log P(no answer to the self test | state of the node).
Costs SilenceCosts() { return {Cost(0.001), Cost(0.01), Cost(0.4)}; }
Costs AnswerCosts() { return {Cost(0.999), Cost(0.99), Cost(0.6)}; }

struct Link {
  Pair pair;
  std::array<uint32_t, kStates> outcomes{};  // how often each
  std::array<size_t, 4> parts{};             // the nodes and switches on the path
  size_t part_count = 0;
  // With the link itself in a state, by the worst state of the other parts; and the cheapest state.
  std::array<Costs, kStates> cost_if{};
  std::array<int, kStates> best_if{};

  bool all_ok() const { return outcomes[1] + outcomes[2] == 0; }
  double CostIf(int own, int others) const {
    return cost_if[static_cast<size_t>(others)][static_cast<size_t>(own)];
  }
  int BestIf(int others) const { return best_if[static_cast<size_t>(others)]; }

  void SetCosts() {
    const Costs prior = PriorOf(Part::kLink);
    for (size_t others = 0; others < kStates; ++others) {
      Costs& costs = cost_if[others];
      for (size_t own = 0; own < kStates; ++own) {
        costs[own] = prior[own];
        for (size_t i = 0; i < kStates; ++i) {
          costs[own] += outcomes[i] * OutcomeCosts()[i][std::max(own, others)];
        }
      }
      best_if[others] =
          static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
    }
  }
};

// Nodes are parts [0, nodes), switches follow.
class Search {
 public:
  explicit Search(const Evidence& evidence);
  Diagnosis Run();

 private:
  using States = std::vector<int>;  // by part
  struct Component {
    std::vector<size_t> parts;
    std::vector<size_t> links;
  };
  // What must be good in a search: a part or a link.
  struct Cleared {
    std::optional<size_t> part;
    std::optional<size_t> link;
  };

  void AddLinks(const Evidence& evidence);
  std::vector<size_t> UsableSwitches(const Evidence& evidence) const;
  std::vector<Component> Components() const;
  int Others(const Link& link, const States& states) const;
  double LinkCost(size_t link, const States& states, const Cleared& cleared) const;
  double CostOf(const Component& component, const States& states, const Cleared& cleared) const;
  double Change(size_t part, int to, States& states, const Cleared& cleared) const;
  double Descend(const Component& component, States& states, const Cleared& cleared) const;
  double Enumerate(const Component& component, States& states, const Cleared& cleared) const;
  double Solve(const Component& component, States& states, const Cleared& cleared) const;
  std::vector<size_t> MostSuspicious(const Component& component) const;
  void Report(const Component& component, Diagnosis& diagnosis);

  uint32_t nodes_;
  std::vector<Costs> priors_;  // by part, with what is known about it alone
  std::vector<Link> links_;
  std::vector<std::vector<size_t>> links_of_;  // by part
  std::vector<bool> active_;                   // by part: may be faulty
  States best_;
};

Search::Search(const Evidence& evidence) : nodes_(evidence.nodes) {
  for (uint32_t node = 0; node < nodes_; ++node) {
    Costs costs = PriorOf(Part::kNode);
    const bool silent = node < evidence.silent.size() && evidence.silent[node];
    const Costs answer = silent ? SilenceCosts() : AnswerCosts();
    for (size_t i = 0; i < kStates; ++i) costs[i] += answer[i];
    priors_.push_back(costs);
  }
  AddLinks(evidence);
  for (uint32_t node = 0; node < evidence.silent.size(); ++node) {
    if (evidence.silent[node]) active_[node] = true;
  }
  best_.assign(priors_.size(), 0);
}

std::vector<size_t> Search::UsableSwitches(const Evidence& evidence) const {
  std::map<uint32_t, uint32_t> nodes_at;
  for (const uint32_t at : evidence.switch_of) ++nodes_at[at];
  size_t highest = 0;
  for (const auto& [at, count] : nodes_at) {
    if (at != kNoSwitch) highest = std::max<size_t>(highest, at + 1);
  }
  std::vector<size_t> usable(highest, 0);
  for (const auto& [at, count] : nodes_at) {
    if (at != kNoSwitch) usable[at] = count >= 2 && count < nodes_ ? 1 : 0;
  }
  return usable;
}

void Search::AddLinks(const Evidence& evidence) {
  const std::vector<size_t> usable = UsableSwitches(evidence);
  priors_.resize(nodes_ + usable.size(), PriorOf(Part::kSwitch));
  links_of_.resize(priors_.size());
  active_.resize(priors_.size(), false);
  std::map<Pair, size_t> index;
  for (const PairResult& result : evidence.results) {
    CHECK(result.pair.second < nodes_);
    const auto [found, is_new] = index.emplace(result.pair, links_.size());
    if (is_new) links_.emplace_back().pair = result.pair;
    ++links_[found->second].outcomes[static_cast<size_t>(result.outcome)];
  }
  for (size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    link.SetCosts();
    const auto add = [&](size_t part) {
      for (size_t k = 0; k < link.part_count; ++k) {
        if (link.parts[k] == part) return;
      }
      link.parts[link.part_count++] = part;
      links_of_[part].push_back(i);
      if (!link.all_ok()) active_[part] = true;
    };
    for (const uint32_t node : {link.pair.first, link.pair.second}) {
      add(node);
      if (evidence.switch_of.empty()) continue;
      const uint32_t at = evidence.switch_of[node];
      if (at != kNoSwitch && usable[at] != 0) add(nodes_ + at);
    }
  }
}

// Parts that may be faulty and share a result belong to one component.
std::vector<Search::Component> Search::Components() const {
  std::vector<size_t> parent(priors_.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&parent](size_t part) {
    while (parent[part] != part) part = parent[part] = parent[parent[part]];
    return part;
  };
  const auto first_active = [this](const Link& link) -> std::optional<size_t> {
    for (size_t k = 0; k < link.part_count; ++k) {
      if (active_[link.parts[k]]) return link.parts[k];
    }
    return std::nullopt;
  };
  for (const Link& link : links_) {
    const auto first = first_active(link);
    for (size_t k = 0; first && k < link.part_count; ++k) {
      if (active_[link.parts[k]]) parent[root(link.parts[k])] = root(*first);
    }
  }
  std::map<size_t, Component> by_root;
  for (size_t part = 0; part < priors_.size(); ++part) {
    if (active_[part]) by_root[root(part)].parts.push_back(part);
  }
  for (size_t i = 0; i < links_.size(); ++i) {
    if (const auto first = first_active(links_[i])) by_root[root(*first)].links.push_back(i);
  }
  std::vector<Component> components;
  for (auto& [part, component] : by_root) components.push_back(std::move(component));
  return components;
}

int Search::Others(const Link& link, const States& states) const {
  int worst = 0;
  for (size_t k = 0; k < link.part_count; ++k) worst = std::max(worst, states[link.parts[k]]);
  return worst;
}

double Search::LinkCost(size_t link, const States& states, const Cleared& cleared) const {
  const Link& at = links_[link];
  const int others = Others(at, states);
  if (cleared.link == link) return at.CostIf(0, others);
  return at.CostIf(at.BestIf(others), others);
}

double Search::CostOf(const Component& component, const States& states,
                      const Cleared& cleared) const {
  double cost = 0;
  for (const size_t part : component.parts) {
    cost += priors_[part][static_cast<size_t>(states[part])];
  }
  for (const size_t link : component.links) cost += LinkCost(link, states, cleared);
  return cost;
}

// By how much the cost grows when the part changes to `to`.
double Search::Change(size_t part, int to, States& states, const Cleared& cleared) const {
  const int from = states[part];
  double change = priors_[part][static_cast<size_t>(to)] - priors_[part][static_cast<size_t>(from)];
  for (const size_t link : links_of_[part]) change -= LinkCost(link, states, cleared);
  states[part] = to;
  for (const size_t link : links_of_[part]) change += LinkCost(link, states, cleared);
  states[part] = from;
  return change;
}

// Makes the change that lowers the cost most, until none does.
double Search::Descend(const Component& component, States& states, const Cleared& cleared) const {
  constexpr double kLeast = 1e-9;
  if (cleared.part) states[*cleared.part] = 0;
  for (;;) {
    double lowest = -kLeast;
    size_t which = 0;
    int to = -1;
    for (const size_t part : component.parts) {
      if (cleared.part == part) continue;
      for (int state = 0; state < kStates; ++state) {
        if (state == states[part]) continue;
        const double change = Change(part, state, states, cleared);
        if (change >= lowest) continue;
        lowest = change;
        which = part;
        to = state;
      }
    }
    if (to < 0) return CostOf(component, states, cleared);
    states[which] = to;
  }
}

double Search::Enumerate(const Component& component, States& states, const Cleared& cleared) const {
  for (const size_t part : component.parts) states[part] = 0;
  double cost = CostOf(component, states, cleared);
  double lowest = cost;
  States best = states;
  for (;;) {
    // Counts up in base 3: the last digit below its highest value grows, those before it restart.
    size_t digit = 0;
    for (; digit < component.parts.size(); ++digit) {
      const size_t part = component.parts[digit];
      if (cleared.part == part) continue;
      const int to = (states[part] + 1) % kStates;
      cost += Change(part, to, states, cleared);
      states[part] = to;
      if (to != 0) break;
    }
    if (digit == component.parts.size()) break;
    if (cost < lowest - 1e-9) {
      lowest = cost;
      best = states;
    }
  }
  states = best;
  return CostOf(component, states, cleared);
}

// The parts with the largest share of results that aren't OK.
std::vector<size_t> Search::MostSuspicious(const Component& component) const {
  std::vector<std::pair<double, size_t>> scores;
  for (const size_t part : component.parts) {
    double all = 1;  // so that a part with few results is less suspicious
    double wrong = 0;
    for (const size_t link : links_of_[part]) {
      const auto& outcomes = links_[link].outcomes;
      wrong += outcomes[1] + outcomes[2];
      all += outcomes[0] + outcomes[1] + outcomes[2];
    }
    scores.emplace_back(-wrong / all, part);
  }
  std::sort(scores.begin(), scores.end());
  scores.resize(std::min(scores.size(), kRestarts));
  std::vector<size_t> parts;
  for (const auto& [score, part] : scores) parts.push_back(part);
  return parts;
}

// Returns the lowest cost that was found, and its states. `states` is a start as well.
double Search::Solve(const Component& component, States& states, const Cleared& cleared) const {
  if (component.parts.size() <= kExactParts) return Enumerate(component, states, cleared);
  double lowest = Descend(component, states, cleared);
  const bool is_margin = cleared.part || cleared.link;
  if (is_margin && component.parts.size() > kFewForRestarts) return lowest;
  States good = states;
  for (const size_t part : component.parts) good[part] = 0;
  const auto attempt = [&](States start) {
    const double cost = Descend(component, start, cleared);
    if (cost >= lowest) return;
    lowest = cost;
    states = std::move(start);
  };
  attempt(good);
  for (const size_t part : MostSuspicious(component)) {
    for (int state = 1; state < kStates; ++state) {
      States start = good;
      start[part] = state;
      attempt(std::move(start));
    }
  }
  return lowest;
}

void Search::Report(const Component& component, Diagnosis& diagnosis) {
  const double lowest = Solve(component, best_, {});
  const auto add = [&](Fault fault, const Cleared& cleared) {
    States states = best_;
    fault.margin = std::max(0.0, Solve(component, states, cleared) - lowest);
    for (const size_t part : component.parts) {
      const bool instead = part < nodes_ && states[part] != 0 && best_[part] == 0;
      if (instead && !fault.decided()) fault.nodes_instead.push_back(static_cast<uint32_t>(part));
    }
    diagnosis.faults.push_back(std::move(fault));
  };
  for (const size_t part : component.parts) {
    if (best_[part] == 0) continue;
    Fault fault;
    fault.part = part < nodes_ ? Part::kNode : Part::kSwitch;
    fault.node = static_cast<uint32_t>(part < nodes_ ? part : part - nodes_);
    fault.state = static_cast<State>(best_[part]);
    add(std::move(fault), {part, std::nullopt});
  }
  for (const size_t i : component.links) {
    const Link& link = links_[i];
    if (link.all_ok()) continue;
    const int others = Others(link, best_);
    const int own = link.BestIf(others);
    if (own > others) {
      Fault fault;
      fault.part = Part::kLink;
      fault.link = link.pair;
      fault.state = static_cast<State>(own);
      add(std::move(fault), {std::nullopt, i});
    } else if (link.outcomes[2] > 0 || others == 0) {
      // The results may be worse than those of the other parts by chance.
      double next = kClearedNats;
      for (int worse = others + 1; worse < kStates; ++worse) {
        next = std::min(next, link.CostIf(worse, others) - link.CostIf(own, others));
      }
      if (next < kClearedNats) diagnosis.doubts.push_back({link.pair, next});
    }
  }
}

Diagnosis Search::Run() {
  Diagnosis diagnosis;
  for (const Component& component : Components()) Report(component, diagnosis);
  std::sort(diagnosis.faults.begin(), diagnosis.faults.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.part, a.node, a.link) < std::tie(b.part, b.node, b.link);
  });
  std::sort(diagnosis.doubts.begin(), diagnosis.doubts.end());
  return diagnosis;
}

}  // namespace

std::string_view ToString(State state) {
  switch (state) {
    case State::kGood:
      return "good";
    case State::kSlow:
      return "slow";
    case State::kBad:
      return "bad";
  }
  return "unknown";
}

Diagnosis Decode(const Evidence& evidence) { return Search(evidence).Run(); }

}  // namespace longhaul::runtime::node_check
