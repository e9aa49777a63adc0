// One node check, as a state machine: which tests come next, and what their results mean.
//
//   self tests of all nodes -> planned rounds of pair tests (plan.h), twice -> Decode (decoder.h)
//        -> further rounds, while something is undecided -> verdicts
//
// The planned rounds run twice, so that a fault that one test misses is found by the other. The
// second time leaves out the nodes whose faults are certain already, and the first time those of
// them that are silent: their tests take the longest.
// Further rounds repeat the pairs in doubt and pair suspects with nodes that are good, at most
// kMostFurtherRounds times. What is still undecided then is reported as such: it is neither good
// nor a reason to remove a node. A node whose self test was slow repeats it, and is slow only if
// kSelfTests of them were slow. Leaves out how tests are run and how long they may take
// (service/controller/check).
//
// Nodes with a check command run it after the first self test, and again if a device was slow.
//
// Calls: TakeSelfTest for each node, and TakeDeviceTest and NodesWithSlowDevices for those with a
// check command, then NextRound; after each round TakePair for the pair tests
// that were run, and NextRound again until it is empty.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/node_check/decoder.h"
#include "runtime/node_check/device_judge.h"
#include "runtime/node_check/judge.h"
#include "runtime/node_check/plan.h"
#include "runtime/node_check/verdict.h"

namespace longhaul::runtime::node_check {

constexpr uint32_t kMostFurtherRounds = 12;
constexpr uint32_t kSelfTests = 4;

// What a node's self test reports for the comparison with other nodes, in seconds for a fixed
// amount of work.
struct SelfTest {
  std::string failure;  // a wrong result or an error; empty: none
  std::optional<double> compute_seconds;
  std::optional<double> memory_seconds;
  std::optional<double> disk_seconds;
};

// `client` connects to `server`.
struct PairTest {
  uint32_t client = 0;
  uint32_t server = 0;
};
struct Round {
  std::vector<PairTest> pair_tests;  // each node is in at most one
  std::vector<uint32_t> self_tests;  // to be repeated
};

struct NodeVerdict {
  Verdict verdict = Verdict::kGood;
  double margin = 0;  // nats; 0 if the verdict follows from the node's own self test
  std::string evidence;
};
struct LinkVerdict {
  Pair link;
  Verdict verdict = Verdict::kGood;
  double margin = 0;
  std::string evidence;
};
struct SwitchVerdict {
  uint32_t at = 0;  // as in `switch_of`
  Verdict verdict = Verdict::kGood;
  double margin = 0;
  std::string evidence;
};
struct Verdicts {
  std::vector<NodeVerdict> nodes;       // by node
  std::vector<LinkVerdict> links;       // that are not good
  std::vector<SwitchVerdict> switches;  // that are not good

  Verdict Worst() const;
};

class NodeCheck {
 public:
  // `switch_of` as in Evidence. Requires 1 <= nodes <= kMostNodes.
  NodeCheck(uint32_t nodes, std::vector<uint32_t> switch_of, uint64_t seed);

  // A node without an answer, for which `test` is nothing, counts as silent. For a repeated test
  // the better values count, and no answer changes nothing. All are compared with the first tests,
  // which all nodes ran at the same time.
  void TakeSelfTest(uint32_t node, const std::optional<SelfTest>& test);

  // Of a node with a check command. A node without an answer, for which `test` is nothing, is
  // undecided. For a repeated test AddDeviceTest applies, and no answer changes nothing.
  void TakeDeviceTest(uint32_t node, const std::optional<DeviceTest>& test);
  // Returns the nodes whose devices are tested again: the slow ones that are not bad.
  std::vector<uint32_t> NodesWithSlowDevices() const;
  // By node, with the values of its TakeDeviceTest.
  std::vector<DeviceJudgement> DeviceJudgements() const;
  const std::optional<DeviceTest>& device_test(uint32_t node) const { return devices_[node]; }

  // Returns the tests to run now. One that cannot be run needs no result.
  Round NextRound();
  // Requires finite seconds above zero if the test did not fail.
  void TakePair(const PairMeasurement& measurement);

  Verdicts Conclude() const;
  size_t pair_tests() const { return measurements_.size(); }

 private:
  using Ratios = std::vector<std::array<double, 3>>;  // by node: compute, memory, disk

  Evidence MakeEvidence() const;
  Ratios SelfRatios() const;
  bool SlowAlone(const std::array<double, 3>& ratios) const;
  PairTest Direct(const Pair& pair);
  std::vector<Pair> WithoutBad(const std::vector<Pair>& planned, bool only_silent) const;
  std::vector<Pair> Doubts(const Diagnosis& diagnosis);
  std::vector<Pair> InOrder(std::vector<Pair> pairs);
  void AddGoodPartners(uint32_t node, const Diagnosis& diagnosis, std::set<Pair>& wanted);
  std::string PairsText(const std::vector<size_t>& results, const JudgedPairs& judged) const;
  void AddFault(const Fault& fault, const JudgedPairs& judged, Verdicts& verdicts) const;
  void AddSelfTests(Verdicts& verdicts) const;
  void AddDevices(Verdicts& verdicts) const;

  uint32_t nodes_;
  std::vector<uint32_t> switch_of_;
  Random random_;
  std::vector<std::vector<Pair>> plan_;
  std::vector<std::optional<SelfTest>> self_tests_;
  std::vector<std::optional<SelfTest>> first_tests_;
  std::vector<std::optional<DeviceTest>> devices_;
  std::vector<std::optional<DeviceTest>> first_devices_;
  std::vector<bool> silent_devices_;
  uint32_t self_test_rounds_ = 1;
  uint32_t rounds_ = 0;
  std::vector<PairMeasurement> measurements_;
};

}  // namespace longhaul::runtime::node_check
