#include "runtime/node_check/plan.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace longhaul::runtime::node_check {
namespace {

constexpr uint32_t kManyNodes = 1'000;
constexpr uint32_t kAllPairs = 8;  // up to so many nodes
// Up to here the rounds come from a complete schedule. Above, repeated pairs are so rare that
// exchanging them always succeeds.
constexpr uint32_t kFewNodes = 16;

void Shuffle(std::vector<uint32_t>& items, Random& random) {
  for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.Below(i)]);
}

std::vector<uint32_t> Numbers(uint32_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

// The circle method of round-robin tournaments pairs all nodes with each other. Returns `rounds` of
// its rounds, with the nodes in random order.
std::vector<std::vector<Pair>> CircleRounds(uint32_t nodes, uint32_t rounds, Random& random) {
  std::vector<uint32_t> name = Numbers(nodes);
  Shuffle(name, random);
  const uint32_t even = nodes + nodes % 2;  // with an odd count the last place is empty
  std::vector<uint32_t> chosen = Numbers(even - 1);
  Shuffle(chosen, random);
  chosen.resize(rounds);
  std::vector<std::vector<Pair>> plan;
  for (const uint32_t round : chosen) {
    std::vector<Pair>& pairs = plan.emplace_back();
    if (even == nodes) pairs.push_back(MakePair(name[round], name[even - 1]));
    for (uint32_t i = 1; i < even / 2; ++i) {
      const uint32_t left = (round + i) % (even - 1);
      const uint32_t right = (round + even - 1 - i) % (even - 1);
      pairs.push_back(MakePair(name[left], name[right]));
    }
  }
  return plan;
}

// Pairs the nodes of `order` one after the other; a pair that `used` has already exchanges a node
// with a random other pair.
std::vector<Pair> RandomRound(std::vector<uint32_t> order, std::set<Pair>& used, Random& random) {
  const size_t pairs = order.size() / 2;
  const auto at = [&order](size_t pair) { return MakePair(order[2 * pair], order[2 * pair + 1]); };
  for (size_t i = 0; i < pairs; ++i) {
    while (used.contains(at(i))) {
      const size_t other = random.Below(pairs);
      if (other == i) continue;
      std::swap(order[2 * i + 1], order[2 * other + 1]);
      // The other pair must not become a repeated one that was looked at before.
      if (other < i && used.contains(at(other))) std::swap(order[2 * i + 1], order[2 * other + 1]);
    }
  }
  std::vector<Pair> round;
  for (size_t i = 0; i < pairs; ++i) round.push_back(at(i));
  used.insert(round.begin(), round.end());
  return round;
}

}  // namespace

Pair MakePair(uint32_t a, uint32_t b) {
  CHECK(a != b);
  return a < b ? Pair{a, b} : Pair{b, a};
}

uint32_t RoundsFor(uint32_t nodes) {
  if (nodes < 2) return 0;
  if (nodes <= kAllPairs) return nodes % 2 == 0 ? nodes - 1 : nodes;
  return nodes > kManyNodes ? 6 : 4;
}

std::vector<std::vector<Pair>> PlanRounds(uint32_t nodes, uint64_t seed) {
  CHECK(nodes <= kMostNodes);
  Random random(seed);
  const uint32_t rounds = RoundsFor(nodes);
  if (nodes <= kFewNodes) {
    return nodes < 2 ? std::vector<std::vector<Pair>>() : CircleRounds(nodes, rounds, random);
  }
  std::vector<uint32_t> left_out = Numbers(nodes);
  Shuffle(left_out, random);
  std::vector<std::vector<Pair>> plan;
  std::set<Pair> used;
  for (uint32_t round = 0; round < rounds; ++round) {
    std::vector<uint32_t> order = Numbers(nodes);
    if (nodes % 2 == 1) std::erase(order, left_out[round]);
    Shuffle(order, random);
    plan.push_back(RandomRound(std::move(order), used, random));
  }
  return plan;
}

}  // namespace longhaul::runtime::node_check
