// Notes the occupancy of the cluster every kPeriod, whether or not somebody views it.
//
// The history begins with the controller's process: the event log does not have the nodes' use.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/time.h"
#include "service/controller/core_loop.h"
#include "service/controller/view/occupancy.h"

namespace longhaul::service {

class OccupancySampler {
 public:
  static constexpr Duration kPeriod = std::chrono::seconds(5);

  // Requires that `loop` outlives this.
  explicit OccupancySampler(CoreLoop& loop);

  // Returns OccupancyHistory::ToJson.
  nlohmann::ordered_json ToJson() const;

 private:
  void Sample();
  void Run(const std::stop_token& stop);

  CoreLoop& loop_;
  mutable std::mutex mutex_;  // guards history_
  OccupancyHistory history_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace longhaul::service
