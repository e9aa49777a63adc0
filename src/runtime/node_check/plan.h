// Which nodes test the connection to each other in which round of a node check.
//
// The pairs of all rounds form a random regular graph: every node is in one pair of each round, and
// no two nodes are paired twice. With an odd number of nodes, one is left out of each round, each
// time another one. Four independent results for each node identify a faulty node even when one of
// its peers is faulty too. Above 1,000 nodes there are six, because among so many pairs two faulty
// neighbours of one healthy node are no longer rare. Up to eight nodes all pairs are planned.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

namespace longhaul::runtime::node_check {

constexpr uint32_t kMostNodes = 4096;  // of one check

struct Pair {
  uint32_t first = 0;  // below `second`
  uint32_t second = 0;

  friend auto operator<=>(const Pair&, const Pair&) = default;
};
// Requires two different nodes.
Pair MakePair(uint32_t a, uint32_t b);

// Returns how many rounds PlanRounds makes.
uint32_t RoundsFor(uint32_t nodes);

// Returns the pairs of each round. Equal arguments give equal rounds. Requires nodes <= kMostNodes.
std::vector<std::vector<Pair>> PlanRounds(uint32_t nodes, uint64_t seed);

}  // namespace longhaul::runtime::node_check
