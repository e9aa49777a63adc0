// What the accelerators of the cluster are used for, now and over time.
//
// Free accelerators are divided into those of idle nodes and fragments: those of nodes that are
// partly in use, which a job of whole nodes cannot have. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/status.pb.h"

namespace longhaul::service {

// In accelerators. The sum is what the nodes have, connected or not.
struct Occupancy {
  double in_use = 0;
  double idle = 0;         // of ready nodes without any use
  double fragments = 0;    // free ones of ready nodes that are partly in use
  double unavailable = 0;  // free ones of nodes that are not ready, and those of absent nodes

  double total() const { return in_use + idle + fragments + unavailable; }
};

// `absent`: the declared nodes that are not connected, with their accelerators.
Occupancy OccupancyOf(const std::vector<proto::NodeStatus>& nodes,
                      const std::map<std::string, uint32_t>& absent);

// The mean occupancy in periods of one width, from the first sample on. Once there are more than
// kMostPeriods, the width doubles and neighbours are merged; at kMostWidth, the oldest one is
// dropped instead. The result depends only on the samples and their order.
class OccupancyHistory {
 public:
  static constexpr size_t kMostPeriods = 240;  // a bar of two or three pixels each
  static constexpr Duration kFirstWidth = std::chrono::seconds(10);
  static constexpr Duration kMostWidth = 64 * kFirstWidth;  // of 42 hours in all

  // A time before the last sample's counts as that one.
  void Add(Instant at, const Occupancy& occupancy);

  // {"from_ms", "width_ms", "in_use": [...], "idle": [...], "fragments": [...],
  // "unavailable": [...]}; a period without a sample has null. Null: there is no sample yet.
  nlohmann::ordered_json ToJson() const;

 private:
  struct Period {
    uint32_t samples = 0;
    Occupancy sum;
  };

  void MakeRoom(Instant at);
  size_t PeriodOf(Instant at) const { return static_cast<size_t>((at - begin_) / width_); }

  Instant begin_{};
  Instant last_{};
  Duration width_ = kFirstWidth;
  std::vector<Period> periods_;
};

}  // namespace longhaul::service
