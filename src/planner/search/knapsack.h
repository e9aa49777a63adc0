// Which parts to compute again so that a stage fits, at the least time.
//
// A stage must free some bytes. Each module of its layers (norms, FFN, attention, ...) frees bytes
// and costs seconds in every layer where it is recomputed; layers are taken in the stage's order,
// so a choice is a number of first layers for each module, and what these free and cost are sums
// over them: the bounded knapsack with a covering constraint (Kellerer, Pferschy and Pisinger,
// Knapsack Problems, 2004, section 13.3.3). Solved exactly by branch and bound over modules in the
// order of seconds a byte. The device computes while the host launches, so what counts is the
// longer of the two. Stages are chosen for one by one: each at its least time makes the pipeline's
// step least, as that never falls when a stage gets slower.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace longhaul::planner::search {

constexpr size_t kMostItems = 6;

// Sums over the first n layers, n from 0 to all of them; never falling. All of one length.
struct RecomputeItem {
  std::span<const double> device_s;
  std::span<const double> launch_s;
  std::span<const double> bytes;  // freed
  // At most the device's seconds a byte of any layer; infinite where none frees anything.
  double least_rate = 0;
};

// The least rate of sums like those.
double LeastRate(std::span<const double> device_s, std::span<const double> bytes);

// A stage's time is the longer of device and launches.
struct RecomputeTime {
  double device_s = 0;
  double launch_s = 0;

  double total() const { return device_s > launch_s ? device_s : launch_s; }
  // Of equal times the one that computes less.
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
// (those before it are settled otherwise); of equals the first found. Nothing where all together
// free too little, or no plan takes less than `below`. Adds the plans that were looked at, whole or
// in part, to `effort`. Requires at most kMostItems items.
std::optional<RecomputePlan> ChooseRecompute(std::span<const RecomputeItem> items, double needed,
                                             RecomputeTime without, RecomputeTime below,
                                             uint32_t first = 0, uint64_t* effort = nullptr);

// One way to recompute a layer: seconds, and bytes of one micro-batch that it frees.
struct LayerChoice {
  double device_s = 0;
  double bytes = 0;
};

// Bytes that can be freed at so many seconds each.
struct FreedAtRate {
  double rate = 0;
  double bytes = 0;
};

// The lower convex hull of the choices and of freeing nothing, as steps of rising rate: whatever is
// chosen for a layer, or mixed over layers, costs no less than the first steps that free as much.
std::vector<FreedAtRate> HullOf(std::vector<LayerChoice> choices);

// The least seconds in which steps of any order free `needed`; infinite where all of them free
// less. Sorts the steps.
double LeastSeconds(std::vector<FreedAtRate>& steps, double needed);

}  // namespace longhaul::planner::search
