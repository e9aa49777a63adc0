#include "service/controller/view/occupancy_sampler.h"

#include <condition_variable>
#include <utility>

#include "io/clock.h"

namespace longhaul::service {

OccupancySampler::OccupancySampler(CoreLoop& loop)
    : loop_(loop), thread_([this](const std::stop_token& stop) { Run(stop); }) {}

nlohmann::ordered_json OccupancySampler::ToJson() const {
  const std::lock_guard lock(mutex_);
  return history_.ToJson();
}

void OccupancySampler::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    Sample();
    stopped.wait_for(lock, stop, kPeriod, [] { return false; });
  }
}

// Only the copies are made under the core's lock.
void OccupancySampler::Sample() {
  const auto [nodes, absent] = loop_.Read([](const runtime::Controller& core) {
    return std::pair(core.AllNodes(), core.AbsentNodes());
  });
  if (nodes.empty() && absent.empty()) return;  // nothing has joined yet
  const Occupancy occupancy = OccupancyOf(nodes, absent);
  const std::lock_guard lock(mutex_);
  history_.Add(io::Now(), occupancy);
}

}  // namespace longhaul::service
