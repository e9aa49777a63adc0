#include "runtime/node_check/node_check.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime::node_check {
namespace {

constexpr std::array<const char*, 3> kSelfTestNames = {"matrix product", "memory copy",
                                                       "disk write"};
// Disks of one cluster differ more than its processors, and their caches more still.
constexpr std::array<double, 3> kSelfTestFactors = {2, 2, 8};
constexpr size_t kPartners = 2;  // further pairs of a suspect, with good nodes

std::string Format(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

Verdict VerdictOf(const Fault& fault) {
  if (!fault.decided()) return Verdict::kUndecided;
  return fault.state == State::kBad ? Verdict::kBad : Verdict::kSlow;
}

template <typename Values>
void KeepBetter(Values& known, const Values& other) {
  if (!known || (other && *other < *known)) known = other;
}

// Adds a verdict that follows from a node's own test.
void AddOwn(NodeVerdict& verdict, Verdict found, const std::string& evidence) {
  if (found > verdict.verdict) verdict.margin = 0;
  verdict.verdict = std::max(verdict.verdict, found);
  verdict.evidence = evidence + (verdict.evidence.empty() ? "" : "; ") + verdict.evidence;
}

}  // namespace

std::string_view ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kUndecided:
      return "undecided";
    case Verdict::kSlow:
      return "slow";
    case Verdict::kBad:
      return "bad";
  }
  return "unknown";
}

Verdict Verdicts::Worst() const {
  Verdict worst = Verdict::kGood;
  for (const NodeVerdict& each : nodes) worst = std::max(worst, each.verdict);
  for (const LinkVerdict& each : links) worst = std::max(worst, each.verdict);
  for (const SwitchVerdict& each : switches) worst = std::max(worst, each.verdict);
  return worst;
}

NodeCheck::NodeCheck(uint32_t nodes, std::vector<uint32_t> switch_of, uint64_t seed)
    : nodes_(nodes),
      switch_of_(std::move(switch_of)),
      random_(seed),
      plan_(PlanRounds(nodes, seed)),
      self_tests_(nodes),
      first_tests_(nodes),
      devices_(nodes),
      first_devices_(nodes),
      silent_devices_(nodes, false) {
  CHECK(nodes >= 1);
  CHECK(switch_of_.empty() || switch_of_.size() == nodes);
}

void NodeCheck::TakeSelfTest(uint32_t node, const std::optional<SelfTest>& test) {
  std::optional<SelfTest>& known = self_tests_[node];
  if (!known || !test) {
    if (!known) known = first_tests_[node] = test;
    return;
  }
  if (known->failure.empty()) known->failure = test->failure;
  KeepBetter(known->compute_seconds, test->compute_seconds);
  KeepBetter(known->memory_seconds, test->memory_seconds);
  KeepBetter(known->disk_seconds, test->disk_seconds);
}

void NodeCheck::TakeDeviceTest(uint32_t node, const std::optional<DeviceTest>& test) {
  if (devices_[node]) {
    if (test) AddDeviceTest(*devices_[node], *test);
    return;
  }
  devices_[node] = first_devices_[node] = test;
  silent_devices_[node] = !test.has_value();
}

std::vector<DeviceJudgement> NodeCheck::DeviceJudgements() const {
  return JudgeDevices(devices_, first_devices_);
}

std::vector<uint32_t> NodeCheck::NodesWithSlowDevices() const {
  const std::vector<DeviceJudgement> judgements = DeviceJudgements();
  std::vector<uint32_t> slow;
  for (uint32_t node = 0; node < nodes_; ++node) {
    if (judgements[node].verdict == Verdict::kSlow) slow.push_back(node);
  }
  return slow;
}

void NodeCheck::TakePair(const PairMeasurement& measurement) {
  CHECK(measurement.failed || measurement.seconds > 0);
  measurements_.push_back(measurement);
}

Evidence NodeCheck::MakeEvidence() const {
  Evidence evidence;
  evidence.nodes = nodes_;
  evidence.switch_of = switch_of_;
  for (const auto& test : self_tests_) evidence.silent.push_back(!test.has_value());
  return evidence;
}

// The node that answered its self test connects to the other: a node that does nothing would not
// report a result.
PairTest NodeCheck::Direct(const Pair& pair) {
  const bool first_answers = self_tests_[pair.first].has_value();
  const bool second_answers = self_tests_[pair.second].has_value();
  const bool first_connects =
      first_answers == second_answers ? random_.Below(2) == 0 : first_answers;
  return first_connects ? PairTest{pair.first, pair.second} : PairTest{pair.second, pair.first};
}

Round NodeCheck::NextRound() {
  Round round;
  std::vector<Pair> pairs;
  const size_t planned = plan_.size();
  if (rounds_ < planned) {
    pairs = WithoutBad(plan_[rounds_], /*only_silent=*/true);
  } else if (rounds_ < 2 * planned) {
    pairs = WithoutBad(plan_[rounds_ - planned], /*only_silent=*/false);
  } else if (rounds_ < 2 * planned + kMostFurtherRounds) {
    Evidence evidence = MakeEvidence();
    evidence.results = JudgePairs(nodes_, switch_of_, measurements_).results;
    pairs = Doubts(Decode(evidence));
  }
  ++rounds_;
  for (const Pair& pair : pairs) {
    // Between two silent nodes nobody would report a result.
    if (self_tests_[pair.first] || self_tests_[pair.second]) {
      round.pair_tests.push_back(Direct(pair));
    }
  }
  if (self_test_rounds_ < kSelfTests) {
    ++self_test_rounds_;
    const Ratios ratios = SelfRatios();
    for (uint32_t node = 0; node < nodes_; ++node) {
      if (SlowAlone(ratios[node])) round.self_tests.push_back(node);
    }
  }
  return round;
}

// The pairs without nodes that are certain to be bad, or are connected to a bad switch.
std::vector<Pair> NodeCheck::WithoutBad(const std::vector<Pair>& planned, bool only_silent) const {
  Evidence evidence = MakeEvidence();
  evidence.results = JudgePairs(nodes_, switch_of_, measurements_).results;
  std::vector<bool> bad(nodes_, false);
  for (const Fault& fault : Decode(evidence).faults) {
    if (fault.state != State::kBad || !fault.decided() || fault.part == Part::kLink) continue;
    for (uint32_t node = 0; node < nodes_; ++node) {
      const bool same =
          fault.part == Part::kNode ? node == fault.node : switch_of_[node] == fault.node;
      if (same && (!only_silent || !self_tests_[node])) bad[node] = true;
    }
  }
  std::vector<Pair> pairs;
  for (const Pair& pair : planned) {
    if (!bad[pair.first] && !bad[pair.second]) pairs.push_back(pair);
  }
  return pairs;
}

// Returns the pairs that would decide what is undecided, as many as fit into one round.
std::vector<Pair> NodeCheck::Doubts(const Diagnosis& diagnosis) {
  std::set<Pair> wanted;
  for (const Doubt& doubt : diagnosis.doubts) wanted.insert(doubt.link);
  const JudgedPairs judged = JudgePairs(nodes_, switch_of_, measurements_);
  for (const Fault& fault : diagnosis.faults) {
    if (fault.decided()) continue;
    for (const uint32_t node : fault.nodes_instead) AddGoodPartners(node, diagnosis, wanted);
    if (fault.part == Part::kLink) {
      wanted.insert(fault.link);
      continue;
    }
    for (const PairResult& result : judged.results) {
      if (result.outcome == Outcome::kOk) continue;
      const auto touches = [&](uint32_t node) {
        return fault.part == Part::kNode ? node == fault.node : switch_of_[node] == fault.node;
      };
      if (touches(result.pair.first) || touches(result.pair.second)) wanted.insert(result.pair);
    }
  }
  std::vector<bool> busy(nodes_, false);
  std::vector<Pair> round;
  const std::vector<Pair> all(wanted.begin(), wanted.end());
  for (const Pair& pair : InOrder(WithoutBad(all, /*only_silent=*/false))) {
    if (busy[pair.first] || busy[pair.second]) continue;
    busy[pair.first] = busy[pair.second] = true;
    round.push_back(pair);
  }
  return round;
}

// Those with the fewest tests first, because one more of these shows most; else in random order.
std::vector<Pair> NodeCheck::InOrder(std::vector<Pair> pairs) {
  std::map<Pair, size_t> tests;
  for (const PairMeasurement& each : measurements_) ++tests[each.pair];
  for (size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[random_.Below(i)]);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const Pair& a, const Pair& b) { return tests[a] < tests[b]; });
  return pairs;
}

// Adds pairs of `node` with nodes that are not suspected.
void NodeCheck::AddGoodPartners(uint32_t node, const Diagnosis& diagnosis, std::set<Pair>& wanted) {
  std::set<uint32_t> suspected = {node};
  for (const Fault& fault : diagnosis.faults) {
    if (fault.part == Part::kNode) suspected.insert(fault.node);
    if (fault.part == Part::kLink) suspected.insert({fault.link.first, fault.link.second});
  }
  for (const Doubt& doubt : diagnosis.doubts) {
    suspected.insert({doubt.link.first, doubt.link.second});
  }
  size_t added = 0;
  for (uint32_t tries = 0; tries < 4 * kPartners && added < kPartners; ++tries) {
    const auto partner = static_cast<uint32_t>(random_.Below(nodes_));
    if (suspected.contains(partner) || !self_tests_[partner]) continue;
    added += wanted.insert(MakePair(node, partner)).second ? 1 : 0;
  }
}

NodeCheck::Ratios NodeCheck::SelfRatios() const {
  Ratios ratios(nodes_, {1, 1, 1});
  const std::array<std::optional<double> SelfTest::*, 3> fields = {
      &SelfTest::compute_seconds, &SelfTest::memory_seconds, &SelfTest::disk_seconds};
  for (size_t field = 0; field < fields.size(); ++field) {
    const auto values_of = [&](const std::vector<std::optional<SelfTest>>& tests) {
      std::vector<std::optional<double>> values;
      for (const auto& test : tests) {
        values.push_back(test ? (*test).*fields[field] : std::nullopt);
      }
      return values;
    };
    const std::vector<double> of_field =
        RatiosToMedian(values_of(self_tests_), values_of(first_tests_));
    for (uint32_t node = 0; node < nodes_; ++node) ratios[node][field] = of_field[node];
  }
  return ratios;
}

bool NodeCheck::SlowAlone(const std::array<double, 3>& ratios) const {
  for (size_t field = 0; field < ratios.size(); ++field) {
    if (ratios[field] > kSelfTestFactors[field]) return true;
  }
  return false;
}

std::string NodeCheck::PairsText(const std::vector<size_t>& results,
                                 const JudgedPairs& judged) const {
  size_t failed = 0;
  std::vector<double> slow;
  for (const size_t i : results) {
    failed += judged.results[i].outcome == Outcome::kFailed ? 1 : 0;
    if (judged.results[i].outcome == Outcome::kSlow) slow.push_back(judged.ratios[i]);
  }
  const std::string of = " of " + std::to_string(results.size()) + " pair tests";
  std::string text;
  if (failed > 0) text = std::to_string(failed) + of + " failed";
  if (!slow.empty()) {
    std::sort(slow.begin(), slow.end());
    text += (text.empty() ? "" : ", ") + std::to_string(slow.size()) + of + " slow (" +
            Format("%.1f times the median)", slow[slow.size() / 2]);
  }
  return text;
}

void NodeCheck::AddFault(const Fault& fault, const JudgedPairs& judged, Verdicts& verdicts) const {
  std::vector<size_t> results;
  for (size_t i = 0; i < judged.results.size(); ++i) {
    const Pair& pair = judged.results[i].pair;
    const auto is_at = [&](uint32_t node) {
      return fault.part == Part::kNode ? node == fault.node : switch_of_[node] == fault.node;
    };
    const bool counts =
        fault.part == Part::kLink ? pair == fault.link : is_at(pair.first) || is_at(pair.second);
    if (counts) results.push_back(i);
  }
  const std::string evidence = PairsText(results, judged);
  if (fault.part == Part::kLink) {
    verdicts.links.push_back({fault.link, VerdictOf(fault), fault.margin, evidence});
  } else if (fault.part == Part::kSwitch) {
    verdicts.switches.push_back({fault.node, VerdictOf(fault), fault.margin, evidence});
  } else {
    verdicts.nodes[fault.node] = {VerdictOf(fault), fault.margin, evidence};
  }
}

// What a node's own test shows needs no comparison of explanations.
void NodeCheck::AddSelfTests(Verdicts& verdicts) const {
  const Ratios ratios = SelfRatios();
  for (uint32_t node = 0; node < nodes_; ++node) {
    NodeVerdict& verdict = verdicts.nodes[node];
    const auto& test = self_tests_[node];
    if (!test) {
      AddOwn(verdict, Verdict::kUndecided, "did not answer the self test");
      continue;
    }
    for (size_t field = 0; field < ratios[node].size(); ++field) {
      if (ratios[node][field] <= kSelfTestFactors[field]) continue;
      AddOwn(verdict, Verdict::kSlow,
             std::string(kSelfTestNames[field]) + " took " +
                 Format("%.1f times the median", ratios[node][field]));
    }
    if (!test->failure.empty()) AddOwn(verdict, Verdict::kBad, test->failure);
  }
}

void NodeCheck::AddDevices(Verdicts& verdicts) const {
  const std::vector<DeviceJudgement> judgements = DeviceJudgements();
  for (uint32_t node = 0; node < nodes_; ++node) {
    NodeVerdict& verdict = verdicts.nodes[node];
    if (judgements[node].verdict != Verdict::kGood) {
      AddOwn(verdict, judgements[node].verdict, judgements[node].evidence);
    } else if (silent_devices_[node]) {
      AddOwn(verdict, Verdict::kUndecided, "did not answer the test of its devices");
    }
  }
}

Verdicts NodeCheck::Conclude() const {
  Verdicts verdicts;
  verdicts.nodes.resize(nodes_);
  const JudgedPairs judged = JudgePairs(nodes_, switch_of_, measurements_);
  Evidence evidence = MakeEvidence();
  evidence.results = judged.results;
  const Diagnosis diagnosis = Decode(evidence);
  for (const Fault& fault : diagnosis.faults) {
    AddFault(fault, judged, verdicts);
    for (const uint32_t node : fault.nodes_instead) {
      Fault instead;  // without a margin
      instead.node = node;
      if (verdicts.nodes[node].verdict == Verdict::kGood) AddFault(instead, judged, verdicts);
    }
  }
  for (const Doubt& doubt : diagnosis.doubts) {
    if (doubt.margin >= kDecidedNats) continue;
    Fault fault;
    fault.part = Part::kLink;
    fault.link = doubt.link;
    AddFault(fault, judged, verdicts);
  }
  AddSelfTests(verdicts);
  AddDevices(verdicts);
  return verdicts;
}

}  // namespace longhaul::runtime::node_check
