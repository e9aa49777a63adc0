// A simulated cluster with labelled faults, for measuring how well faults are found: by this node
// check, and by the check in pairs that other systems use. All results are simulated.
//
// The pairs check follows the published rules of DLRover's node check (mid 2026): nodes in order
// are paired (an odd last one joins the last pair); every group computes a matrix product and an
// all-reduce. If a node failed, or took more than twice the median time, a second round pairs the
// fastest node with the slowest. A node is faulty if it failed in both rounds, and a straggler if
// the lower of its times exceeds twice the median. With at most three nodes, one failure fails all.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/node_check/node_check.h"

namespace longhaul::runtime::node_check {

enum class FaultKind : uint8_t {
  kBadNode,      // transfers of the node fail, or its agent does not answer at all
  kSlowNode,     // transfers of the node take three to six times as long
  kSlowCompute,  // the node computes at a third to a sixth of the speed
  kBadLink,
  kSlowLink,
  kBadSwitch,
  kSlowSwitch,
};
std::string_view ToString(FaultKind kind);

struct InjectedFault {
  FaultKind kind = FaultKind::kBadNode;
  uint32_t node = 0;  // or the switch
  Pair link;
  double factor = 3;    // of a slow part
  bool silent = false;  // of a bad node
};

// How measurements vary without a fault. `harsh`: three times as often wrong, twice as variable.
struct Noise {
  double failure = 0.001;  // a test on a good path fails
  double outlier = 0.01;   // takes two to four times as long
  double missed = 0.03;    // a test on a faulty path is as without the fault
  double spread = 0.12;    // standard deviation of the logarithm of a time
};
Noise HarshNoise();

class SimulatedCluster {
 public:
  // Each switch has `nodes_per_switch` nodes; 0: no switches. Draws faults of these kinds, none of
  // which hides another one; links are drawn from those that the check's plan for `seed` tests.
  // Requires that the cluster has such parts.
  SimulatedCluster(uint32_t nodes, uint32_t nodes_per_switch, const Noise& noise, uint64_t seed,
                   const std::vector<FaultKind>& kinds);

  const std::vector<InjectedFault>& faults() const { return faults_; }

  // Runs a whole node check.
  Verdicts RunNodeCheck();
  size_t pair_tests() const { return pair_tests_; }

  struct PairsCheck {
    std::vector<bool> faulty;  // by node
    std::vector<bool> straggler;
  };
  PairsCheck RunPairsCheck();

  struct Score {
    uint32_t injected = 0;
    uint32_t found = 0;      // named with the right part and state
    uint32_t evicted = 0;    // nodes named bad or slow
    uint32_t wrong = 0;      // of these, those without a fault of their own or of their switch
    uint32_t misnamed = 0;   // links and switches named bad or slow that have no fault
    uint32_t undecided = 0;  // injected faults for which something was reported as undecided

    void Add(const Score& other);
  };
  Score ScoreOf(const Verdicts& verdicts) const;
  // The pairs check has no names for links and switches: a switch is found if all of its nodes are
  // named, and a link never.
  Score ScoreOf(const PairsCheck& check) const;

 private:
  InjectedFault Draw(FaultKind kind);
  bool Hides(const InjectedFault& a, const InjectedFault& b) const;
  std::vector<uint32_t> NodesOf(const InjectedFault& fault) const;
  uint32_t SwitchOf(uint32_t node) const;
  bool OnPath(const InjectedFault& fault, const Pair& pair) const;
  double Vary(double seconds);
  std::optional<SelfTest> MeasureSelf(uint32_t node);
  PairMeasurement MeasurePair(const Pair& pair);
  void RunGroup(const std::vector<uint32_t>& group, std::vector<double>& seconds,
                std::vector<bool>& ok);

  uint32_t nodes_;
  uint32_t nodes_per_switch_;
  Noise noise_;
  uint64_t seed_;
  Random random_;
  std::vector<InjectedFault> faults_;
  size_t pair_tests_ = 0;
};

}  // namespace longhaul::runtime::node_check
