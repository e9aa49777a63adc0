// Finds the most likely faults that explain the results of pair tests.
//
// Each node, each tested link (the connection of two nodes) and each switch is good, slow or bad. A
// pair test passes through its two nodes, their switches and the link; its result depends on the
// worst of them. The decoder minimises
//
//   cost(state) = sum over parts of -log prior(state of the part)
//               + sum over results of -log P(result | worst state on the path)
//
// Only parts on the path of a result that is not OK can be faulty. The best state of a link follows
// from those of its nodes and switches, so the search is over these alone. Parts that share no
// result are independent; such a component is searched exactly if it is small, and otherwise by
// coordinate descent from several starts. The margin of a fault is the cost of the best state that
// clears the part, minus the lowest cost: a difference of log likelihoods, in nats. A margin below
// kDecidedNats means that the results do not decide.
//
// The priors and probabilities below are assumptions. A pair test on a good path that fails, or is
// slow by chance, is rare; a fault may be missed by one test (a flapping link).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/node_check/plan.h"

namespace longhaul::runtime::node_check {

enum class State : uint8_t { kGood, kSlow, kBad };
std::string_view ToString(State state);

enum class Outcome : uint8_t { kOk, kSlow, kFailed };

constexpr double kDecidedNats = 3;  // the explanation is 20 times as likely as the next one
constexpr double kClearedNats = 6;  // a link with a result that is not OK is cleared by so much
constexpr uint32_t kNoSwitch = UINT32_MAX;

struct PairResult {
  Pair pair;
  Outcome outcome = Outcome::kOk;
};

struct Evidence {
  uint32_t nodes = 0;
  std::vector<uint32_t> switch_of;  // by node, kNoSwitch if unknown; empty: none is known
  std::vector<bool> silent;         // by node: it did not answer the self test; empty: all did
  std::vector<PairResult> results;  // of nodes below `nodes`
};

enum class Part : uint8_t { kNode, kLink, kSwitch };

struct Fault {
  Part part = Part::kNode;
  uint32_t node = 0;  // the node or the switch
  Pair link;          // of a link
  State state = State::kBad;
  double margin = 0;  // nats
  // If it is not decided: the nodes that are faulty instead in the best state that clears the part.
  std::vector<uint32_t> nodes_instead;

  bool decided() const { return margin >= kDecidedNats; }
};

// A link with results that are not OK, which the explanation attributes to chance.
struct Doubt {
  Pair link;
  double margin = 0;  // of that over a fault of the link; below kClearedNats

  friend auto operator<=>(const Doubt&, const Doubt&) = default;
};

struct Diagnosis {
  std::vector<Fault> faults;  // nodes, links, switches; each in order
  std::vector<Doubt> doubts;
};

// Requires results of nodes below `evidence.nodes`. A switch is only considered if at least two of
// the nodes, but not all of them, are connected to it.
Diagnosis Decode(const Evidence& evidence);

}  // namespace longhaul::runtime::node_check
