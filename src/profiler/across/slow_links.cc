#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "profiler/across/suspects.h"

namespace longhaul::profiler {
namespace {

constexpr double kSlowWire = 1.25;  // a link's wire over its siblings' median

// The ranks of an exchange; of a send and receive the sender first.
std::vector<int64_t> PairOf(const ProfiledJob& job, const Instance& instance) {
  std::vector<int64_t> ranks;
  for (const Member& m : instance.members) {
    const Collective& call = job.ranks[m.rank].collectives[m.collective];
    const int64_t rank = job.ranks[m.rank].metadata.rank;
    if (call.kind == CollectiveKind::kSend)
      ranks.insert(ranks.begin(), rank);
    else
      ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

// Exchanges of one dimension, kind and size are siblings; groups that take longer stand out.
std::vector<Suspect> FindSlowLinks(const Surroundings& around) {
  const ProfiledJob& job = around.job;
  std::vector<Suspect> found;
  struct Wire {
    std::vector<double> seconds;
    std::vector<size_t> instances;
  };
  using Pair = std::vector<int64_t>;
  // The direction separates sends of activations from those of gradients between the same two
  // ranks. Sorted maps, so that the suspects have the same order in each run.
  std::map<std::tuple<Dimension, bool, int64_t>, std::map<Pair, Wire>> families;
  for (size_t i = 0; i < job.instances.size(); ++i) {
    const Instance& instance = job.instances[i];
    Pair ranks = PairOf(job, instance);
    const bool up = ranks.front() < ranks.back();
    Wire& wire = families[{job.groups[instance.group].dimension, up, instance.bytes}][ranks];
    wire.seconds.push_back(static_cast<double>(instance.wire_ns()) * 1e-9);
    wire.instances.push_back(i);
  }
  std::map<Pair, std::map<size_t, double>> slow;  // the factor of each instance
  std::map<Pair, double> worst;
  for (const auto& [family, groups] : families) {
    if (groups.size() < 3) continue;
    for (const auto& [ranks, wire] : groups) {
      std::vector<double> others;
      for (const auto& [other, times] : groups) {
        if (other != ranks) others.push_back(Median(times.seconds));
      }
      const double usual = Median(std::move(others));
      const double own = Median(wire.seconds);
      // Short exchanges pass the ratio by the noise of their start alone, hence the least
      // difference in seconds beside it.
      if (own < kSlowWire * usual || own - usual < 2e-6) continue;
      for (const size_t i : wire.instances) slow[ranks][i] = usual / own;
      worst[ranks] = std::max(worst[ranks], own / usual);
    }
  }
  for (const auto& [ranks, factors] : slow) {
    Change change;
    change.wire = [scale = factors](size_t i) {
      const auto factor = scale.find(i);
      return factor == scale.end() ? 1.0 : factor->second;
    };
    std::string name = "link";
    for (const int64_t rank : ranks) {
      name += (rank == ranks.front() ? " " : "-") + std::to_string(rank);
    }
    char text[160];
    std::snprintf(text, sizeof(text), "%.1f times the wire time of like exchanges, over %zu calls",
                  worst[ranks], factors.size());
    std::vector<size_t> places;
    for (const Member& m : job.instances[factors.begin()->first].members) {
      places.push_back(m.rank);
    }
    found.push_back({Cause::kSlowLink, name, places, text, change});
  }
  return found;
}

}  // namespace longhaul::profiler
