#include "runtime/node_check/simulated_cluster.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime::node_check {
namespace {

constexpr double kPairSeconds = 0.02;
constexpr double kComputeSeconds = 0.1;
constexpr double kBetweenSwitches = 1.3;  // a path through two switches takes longer
constexpr double kNoTime = 3600;          // reported by a node whose group failed

bool IsSlow(FaultKind kind) {
  return kind == FaultKind::kSlowNode || kind == FaultKind::kSlowCompute ||
         kind == FaultKind::kSlowLink || kind == FaultKind::kSlowSwitch;
}
Part PartOf(FaultKind kind) {
  if (kind == FaultKind::kBadLink || kind == FaultKind::kSlowLink) return Part::kLink;
  const bool at_switch = kind == FaultKind::kBadSwitch || kind == FaultKind::kSlowSwitch;
  return at_switch ? Part::kSwitch : Part::kNode;
}

double MedianTime(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::string_view ToString(FaultKind kind) {
  switch (kind) {
    case FaultKind::kBadNode:
      return "bad node";
    case FaultKind::kSlowNode:
      return "slow node";
    case FaultKind::kSlowCompute:
      return "slow processor";
    case FaultKind::kBadLink:
      return "bad link";
    case FaultKind::kSlowLink:
      return "slow link";
    case FaultKind::kBadSwitch:
      return "bad switch";
    case FaultKind::kSlowSwitch:
      return "slow switch";
  }
  return "unknown";
}

Noise HarshNoise() {
  Noise noise;
  noise.failure *= 3;
  noise.outlier *= 3;
  noise.missed *= 3;
  noise.spread *= 2;
  return noise;
}

SimulatedCluster::SimulatedCluster(uint32_t nodes, uint32_t nodes_per_switch, const Noise& noise,
                                   uint64_t seed, const std::vector<FaultKind>& kinds)
    : nodes_(nodes),
      nodes_per_switch_(nodes_per_switch),
      noise_(noise),
      seed_(seed),
      random_(~seed) {
  for (const FaultKind kind : kinds) {
    constexpr int kTries = 10'000;
    bool drawn = false;
    for (int i = 0; i < kTries && !drawn; ++i) {
      const InjectedFault fault = Draw(kind);
      const auto hides = [&](const InjectedFault& other) { return Hides(fault, other); };
      if (std::any_of(faults_.begin(), faults_.end(), hides)) continue;
      faults_.push_back(fault);
      drawn = true;
    }
    CHECK(drawn) << "no room for a " << ToString(kind) << " among " << nodes << " nodes";
  }
}

InjectedFault SimulatedCluster::Draw(FaultKind kind) {
  InjectedFault fault;
  fault.kind = kind;
  fault.factor = 3 + 3 * random_.Uniform();
  fault.silent = kind == FaultKind::kBadNode && random_.Uniform() < 0.3;
  switch (PartOf(kind)) {
    case Part::kNode:
      fault.node = static_cast<uint32_t>(random_.Below(nodes_));
      break;
    case Part::kSwitch:
      CHECK(nodes_per_switch_ > 0);
      fault.node = static_cast<uint32_t>(random_.Below(nodes_ / nodes_per_switch_));
      break;
    case Part::kLink: {
      const auto plan = PlanRounds(nodes_, seed_);
      const auto& round = plan[random_.Below(plan.size())];
      fault.link = round[random_.Below(round.size())];
      break;
    }
  }
  return fault;
}

std::vector<uint32_t> SimulatedCluster::NodesOf(const InjectedFault& fault) const {
  if (PartOf(fault.kind) == Part::kNode) return {fault.node};
  if (PartOf(fault.kind) == Part::kLink) return {fault.link.first, fault.link.second};
  std::vector<uint32_t> nodes;
  for (uint32_t node = 0; node < nodes_; ++node) {
    if (SwitchOf(node) == fault.node) nodes.push_back(node);
  }
  return nodes;
}

// Two faults that share a node can look like one of them.
bool SimulatedCluster::Hides(const InjectedFault& a, const InjectedFault& b) const {
  for (const uint32_t first : NodesOf(a)) {
    for (const uint32_t second : NodesOf(b)) {
      if (first == second) return true;
    }
  }
  return false;
}

uint32_t SimulatedCluster::SwitchOf(uint32_t node) const {
  return nodes_per_switch_ == 0 ? kNoSwitch : node / nodes_per_switch_;
}

bool SimulatedCluster::OnPath(const InjectedFault& fault, const Pair& pair) const {
  if (fault.kind == FaultKind::kSlowCompute) return false;
  if (PartOf(fault.kind) == Part::kLink) return fault.link == pair;
  for (const uint32_t node : {pair.first, pair.second}) {
    if (PartOf(fault.kind) == Part::kNode ? node == fault.node : SwitchOf(node) == fault.node) {
      return true;
    }
  }
  return false;
}

// Log-normal by the Box-Muller transform, with outliers.
double SimulatedCluster::Vary(double seconds) {
  const double u = 1 - random_.Uniform();
  const double v = random_.Uniform();
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  const double outlier = random_.Uniform() < noise_.outlier ? 2 + 2 * random_.Uniform() : 1;
  return seconds * std::exp(noise_.spread * normal) * outlier;
}

std::optional<SelfTest> SimulatedCluster::MeasureSelf(uint32_t node) {
  double factor = 1;
  for (const InjectedFault& fault : faults_) {
    if (PartOf(fault.kind) != Part::kNode || fault.node != node) continue;
    if (fault.silent) return std::nullopt;
    if (fault.kind == FaultKind::kSlowCompute) factor = fault.factor;
  }
  SelfTest test;
  test.compute_seconds = Vary(factor * kComputeSeconds);
  test.memory_seconds = Vary(kComputeSeconds);
  test.disk_seconds = Vary(kComputeSeconds);
  return test;
}

PairMeasurement SimulatedCluster::MeasurePair(const Pair& pair) {
  const bool crosses = SwitchOf(pair.first) != SwitchOf(pair.second);
  double seconds = kPairSeconds * (crosses ? kBetweenSwitches : 1);
  bool failed = random_.Uniform() < noise_.failure;
  double factor = 1;
  for (const InjectedFault& fault : faults_) {
    if (!OnPath(fault, pair) || random_.Uniform() < noise_.missed) continue;
    if (IsSlow(fault.kind)) {
      factor = std::max(factor, fault.factor);
    } else {
      failed = true;
    }
  }
  return {pair, failed, Vary(factor * seconds)};
}

Verdicts SimulatedCluster::RunNodeCheck() {
  std::vector<uint32_t> switch_of;
  for (uint32_t node = 0; node < nodes_ && nodes_per_switch_ > 0; ++node) {
    switch_of.push_back(SwitchOf(node));
  }
  NodeCheck check(nodes_, switch_of, seed_);
  for (uint32_t node = 0; node < nodes_; ++node) check.TakeSelfTest(node, MeasureSelf(node));
  for (Round round = check.NextRound(); !round.pair_tests.empty() || !round.self_tests.empty();
       round = check.NextRound()) {
    for (const uint32_t node : round.self_tests) check.TakeSelfTest(node, MeasureSelf(node));
    for (const PairTest& test : round.pair_tests) {
      check.TakePair(MeasurePair(MakePair(test.client, test.server)));
    }
  }
  pair_tests_ += check.pair_tests();
  return check.Conclude();
}

// A group fails as a whole, and all of its nodes measure the time of its slowest one.
void SimulatedCluster::RunGroup(const std::vector<uint32_t>& group, std::vector<double>& seconds,
                                std::vector<bool>& ok) {
  bool failed = false;
  double slowest = 0;
  for (const uint32_t node : group) {
    const auto self = MeasureSelf(node);
    failed |= !self.has_value();
    if (self) slowest = std::max(slowest, *self->compute_seconds);
  }
  double transfer = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    for (size_t j = i + 1; j < group.size(); ++j) {
      const PairMeasurement pair = MeasurePair(MakePair(group[i], group[j]));
      failed |= pair.failed;
      transfer = std::max(transfer, pair.seconds * kComputeSeconds / kPairSeconds);
    }
  }
  for (const uint32_t node : group) {
    ok[node] = ok[node] || !failed;
    seconds[node] = std::min(seconds[node], failed ? kNoTime : slowest + transfer);
  }
}

SimulatedCluster::PairsCheck SimulatedCluster::RunPairsCheck() {
  std::vector<double> seconds(nodes_, kNoTime);
  std::vector<bool> ok(nodes_, false);
  const auto run = [&](const std::vector<uint32_t>& order) {
    for (uint32_t i = 0; i + 1 < nodes_; i += 2) {
      std::vector<uint32_t> group = {order[i], order[i + 1]};
      if (i + 3 == nodes_) group.push_back(order[i + 2]);
      RunGroup(group, seconds, ok);
    }
  };
  std::vector<uint32_t> order(nodes_);
  std::iota(order.begin(), order.end(), 0u);
  run(order);
  const auto straggles = [&] {
    const double limit = 2 * MedianTime(seconds);
    std::vector<bool> slow;
    for (const double each : seconds) slow.push_back(each > limit && each < kNoTime);
    return slow;
  };
  const std::vector<bool> slow = straggles();
  const bool all_ok = std::find(ok.begin(), ok.end(), false) == ok.end();
  if (!all_ok && nodes_ <= 3) return {std::vector<bool>(nodes_, true), slow};
  if (!all_ok || std::find(slow.begin(), slow.end(), true) != slow.end()) {
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return seconds[a] < seconds[b]; });
    std::vector<uint32_t> mixed;
    for (uint32_t i = 0; i < nodes_; ++i) {
      mixed.push_back(i % 2 == 0 ? order[i / 2] : order[nodes_ - 1 - i / 2]);
    }
    run(mixed);
  }
  PairsCheck result;
  for (const bool each : ok) result.faulty.push_back(!each);
  result.straggler = straggles();
  return result;
}

void SimulatedCluster::Score::Add(const Score& other) {
  injected += other.injected;
  found += other.found;
  evicted += other.evicted;
  wrong += other.wrong;
  misnamed += other.misnamed;
  undecided += other.undecided;
}

SimulatedCluster::Score SimulatedCluster::ScoreOf(const Verdicts& verdicts) const {
  Score score;
  const auto is_fault = [](Verdict verdict) { return verdict >= Verdict::kSlow; };
  std::vector<Part> undecided;
  const auto matches = [&](const InjectedFault& fault, Part part, uint32_t node, const Pair& link) {
    if (PartOf(fault.kind) != part) return false;
    return part == Part::kLink ? fault.link == link : fault.node == node;
  };
  const auto any = [&](const auto& wanted) {
    return std::any_of(faults_.begin(), faults_.end(), wanted);
  };
  for (uint32_t node = 0; node < nodes_; ++node) {
    if (!is_fault(verdicts.nodes[node].verdict)) continue;
    ++score.evicted;
    const bool right = any([&](const InjectedFault& fault) {
      const std::vector<uint32_t> nodes = NodesOf(fault);
      return PartOf(fault.kind) != Part::kLink &&
             std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    });
    score.wrong += right ? 0 : 1;
  }
  for (const LinkVerdict& each : verdicts.links) {
    if (!is_fault(each.verdict)) continue;
    score.misnamed +=
        any([&](const auto& fault) { return matches(fault, Part::kLink, 0, each.link); }) ? 0 : 1;
  }
  for (const SwitchVerdict& each : verdicts.switches) {
    if (!is_fault(each.verdict)) continue;
    score.misnamed +=
        any([&](const auto& fault) { return matches(fault, Part::kSwitch, each.at, {}); }) ? 0 : 1;
  }
  for (const InjectedFault& fault : faults_) {
    ++score.injected;
    Verdict named = Verdict::kGood;
    if (PartOf(fault.kind) == Part::kNode) named = verdicts.nodes[fault.node].verdict;
    for (const LinkVerdict& each : verdicts.links) {
      if (matches(fault, Part::kLink, 0, each.link)) named = each.verdict;
    }
    for (const SwitchVerdict& each : verdicts.switches) {
      if (matches(fault, Part::kSwitch, each.at, {})) named = each.verdict;
    }
    score.found += named == (IsSlow(fault.kind) ? Verdict::kSlow : Verdict::kBad) ? 1 : 0;
    score.undecided += named == Verdict::kUndecided ? 1 : 0;
  }
  return score;
}

SimulatedCluster::Score SimulatedCluster::ScoreOf(const PairsCheck& check) const {
  Score score;
  const auto named = [&](uint32_t node, bool slow) {
    return slow ? check.straggler[node] : check.faulty[node];
  };
  for (const InjectedFault& fault : faults_) {
    ++score.injected;
    if (PartOf(fault.kind) == Part::kLink) continue;
    const std::vector<uint32_t> nodes = NodesOf(fault);
    score.found += std::all_of(nodes.begin(), nodes.end(),
                               [&](uint32_t node) { return named(node, IsSlow(fault.kind)); });
  }
  for (uint32_t node = 0; node < nodes_; ++node) {
    if (!check.faulty[node] && !check.straggler[node]) continue;
    ++score.evicted;
    const bool right = std::any_of(faults_.begin(), faults_.end(), [&](const auto& fault) {
      const std::vector<uint32_t> nodes = NodesOf(fault);
      return PartOf(fault.kind) != Part::kLink &&
             std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    });
    score.wrong += right ? 0 : 1;
  }
  return score;
}

}  // namespace longhaul::runtime::node_check
