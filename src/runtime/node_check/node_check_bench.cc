// Recall and wrong evictions of the node check over labelled faults in simulated clusters, beside
// those of the check in pairs (simulated_cluster.h).
//
// node_check_bench [--runs N] [--harsh]
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "runtime/node_check/simulated_cluster.h"

namespace longhaul::runtime::node_check {
namespace {

using Kinds = std::vector<FaultKind>;

struct Tally {
  SimulatedCluster::Score check;
  SimulatedCluster::Score pairs;
  size_t pair_tests = 0;
};

std::string NameOf(const Kinds& kinds) {
  std::string name;
  for (const FaultKind kind : kinds) {
    name += (name.empty() ? "" : " + ") + std::string(ToString(kind));
  }
  return name.empty() ? "no fault" : name;
}

double Share(uint32_t part, uint32_t whole) { return whole == 0 ? 0 : 100.0 * part / whole; }

Tally Measure(uint32_t nodes, uint32_t nodes_per_switch, const Noise& noise, uint64_t runs,
              const Kinds& kinds) {
  Tally tally;
  for (uint64_t seed = 1; seed <= runs; ++seed) {
    SimulatedCluster cluster(nodes, nodes_per_switch, noise, seed * 1'000'003 + nodes, kinds);
    tally.check.Add(cluster.ScoreOf(cluster.RunNodeCheck()));
    tally.pairs.Add(cluster.ScoreOf(cluster.RunPairsCheck()));
    tally.pair_tests += cluster.pair_tests();
  }
  return tally;
}

void Print(uint32_t nodes, const Kinds& kinds, uint64_t runs, const Tally& tally) {
  const auto& [check, pairs, tests] = tally;
  std::printf("%5u  %-28s %6.1f %% %7u/%-6u %7u %8.1f %7.1f %% %7u/%-6u\n", nodes,
              NameOf(kinds).c_str(), Share(check.found, check.injected), check.wrong, check.evicted,
              check.misnamed, static_cast<double>(tests) / static_cast<double>(runs * nodes),
              Share(pairs.found, pairs.injected), pairs.wrong, pairs.evicted);
}

int Run(uint64_t runs, const Noise& noise) {
  using enum FaultKind;
  const struct {
    uint32_t nodes;
    uint32_t nodes_per_switch;
  } kSizes[] = {{4, 0}, {8, 0}, {16, 4}, {64, 8}, {256, 16}, {1024, 32}};
  const std::vector<Kinds> alone = {{},
                                    {kBadNode},
                                    {kSlowNode},
                                    {kSlowCompute},
                                    {kBadLink},
                                    {kSlowLink},
                                    {kBadNode, kBadNode},
                                    {kSlowNode, kSlowNode},
                                    {kBadNode, kSlowNode},
                                    {kBadNode, kSlowLink}};
  const std::vector<Kinds> switched = {
      {kBadSwitch}, {kSlowSwitch}, {kBadSwitch, kBadNode}, {kBadSwitch, kSlowLink}};
  std::printf("simulated; %llu runs a row\n", static_cast<unsigned long long>(runs));
  std::printf(
      "                                     node check                              "
      "check in pairs\n");
  std::printf(
      "nodes  faults                       recall   wrong/evicted misnamed tests/node  "
      "recall   wrong/evicted\n");
  Tally total;
  for (const auto& size : kSizes) {
    std::vector<Kinds> all = alone;
    if (size.nodes_per_switch > 0) all.insert(all.end(), switched.begin(), switched.end());
    for (const Kinds& kinds : all) {
      const uint64_t few = size.nodes > 256 ? runs / 10 + 1 : runs;
      const Tally tally = Measure(size.nodes, size.nodes_per_switch, noise, few, kinds);
      Print(size.nodes, kinds, few, tally);
      total.check.Add(tally.check);
      total.pairs.Add(tally.pairs);
    }
  }
  const auto line = [](const char* name, const SimulatedCluster::Score& score) {
    std::printf(
        "%s: recall %.2f %% of %u faults, wrong evictions %.2f %% of %u, misnamed links "
        "and switches %u, undecided %u\n",
        name, Share(score.found, score.injected), score.injected, Share(score.wrong, score.evicted),
        score.evicted, score.misnamed, score.undecided);
  };
  line("node check", total.check);
  line("check in pairs", total.pairs);
  return 0;
}

int Main(int argc, char** argv) {
  uint64_t runs = 200;
  Noise noise;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--harsh") == 0) {
      noise = HarshNoise();
      continue;
    }
    const auto number = std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc
                            ? ParseUint64(argv[++i])
                            : Result<uint64_t>(InvalidArgument(""));
    if (!number.ok() || *number == 0 || *number > 1'000'000) {
      std::fprintf(stderr, "usage: node_check_bench [--runs 1..1000000] [--harsh]\n");
      return 2;
    }
    runs = *number;
  }
  return Run(runs, noise);
}

}  // namespace
}  // namespace longhaul::runtime::node_check

int main(int argc, char** argv) { return longhaul::runtime::node_check::Main(argc, argv); }
