// Chooses the parts to recompute so that a stage fits, at the least time.
//
// A stage must free some bytes. Each module of its layers (norms, FFN, attention, ...) frees bytes
// and costs seconds in every layer where it is recomputed; layers are used in the stage's order, so
// a choice is a number of first layers for each module, and its bytes and seconds are sums over
// them: the bounded knapsack with a covering constraint (Kellerer, Pferschy and Pisinger, Knapsack
// Problems, 2004, section 13.3.3). Solved exactly by branch and bound over modules in the order of
// seconds per byte. The device computes while the host launches, so the longer of the two counts.
// Stages are solved one by one: the least time of each makes the pipeline's step least, because the
// step never gets shorter when a stage gets slower.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace longhaul::planner::search {

constexpr size_t kMostItems = 6;

// Sums over the first n layers, n from 0 to all of them; never decreasing. All have one length.
struct RecomputeItem {
  std::span<const double> device_s;
  std::span<const double> launch_s;
  std::span<const double> bytes;  // freed
  // At most the device's seconds per byte of any layer; infinite where no layer frees anything.
  double least_rate = 0;
};

// The least rate of such sums.
double LeastRate(std::span<const double> device_s, std::span<const double> bytes);

// A stage's time is the longer of the device's time and the launches' time.
struct RecomputeTime {
  double device_s = 0;
  double launch_s = 0;

  double total() const { return device_s > launch_s ? device_s : launch_s; }
  // Of equal times, the one with less compute is smaller.
  bool operator<(const RecomputeTime& other) const {
    if (total() != other.total()) return total() < other.total();
    return device_s < other.device_s;
  }
};

struct RecomputePlan {
  std::array<uint32_t, kMostItems> layers{};  // of each item
  RecomputeTime time;
};

// The plan of least time that frees at least `needed`, each item's layers counted from `first` on
// (earlier ones are decided elsewhere); of equal plans the first found. Nothing where all together
// free too little, or no plan takes less than `below`. Adds the evaluated plans, whole or in part,
// to `effort`. Requires at most kMostItems items.
std::optional<RecomputePlan> ChooseRecompute(std::span<const RecomputeItem> items, double needed,
                                             RecomputeTime without, RecomputeTime below,
                                             uint32_t first = 0, uint64_t* effort = nullptr);

// One way to recompute a layer: seconds, and bytes of one micro-batch that it frees.
struct LayerChoice {
  double device_s = 0;
  double bytes = 0;
};

// Bytes that can be freed at a rate of seconds per byte.
struct FreedAtRate {
  double rate = 0;
  double bytes = 0;
};

// The lower convex hull of the choices and of freeing nothing, as steps of rising rate: any choice
// for a layer, or a mix over layers, costs no less than the first steps that free as much.
std::vector<FreedAtRate> HullOf(std::vector<LayerChoice> choices);

// The least seconds in which steps of any order free `needed`; infinite where all of them free
// less. Sorts the steps.
double LeastSeconds(std::vector<FreedAtRate>& steps, double needed);

}  // namespace longhaul::planner::search
