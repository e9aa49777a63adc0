// The routes of the REST API for the web page: compact views, each with the id of the last event
// that it includes, from which the page follows the event stream. Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/time.h"
#include "service/controller/core_loop.h"
#include "service/controller/rest/api_response.h"
#include "service/controller/view/cluster_view.h"
#include "service/controller/view/history_cache.h"
#include "service/controller/view/occupancy_sampler.h"
#include "service/controller/view/story_cache.h"
#include "service/controller/view/waiting_list.h"

namespace longhaul::service {

class ViewRoutes {
 public:
  static constexpr size_t kMostRuns = 200;

  // Requires that both outlive this.
  ViewRoutes(CoreLoop& loop, NotificationFeed& feed)
      : loop_(loop), histories_(feed), stories_(feed), waiting_(loop), occupancy_(loop) {}

  // Returns the newest jobs, at most kMostRuns, an array as one.
  ApiResponse Runs() const;
  // Returns one run, without its curves with ?series=false.
  ApiResponse Run(const ApiRequest& request, const std::string& id_or_name) const;
  // Returns one fault of a run: its story, and the last lines of the worker where they can be read.
  ApiResponse Fault(const std::string& id_or_name, const std::string& number) const;
  // Returns the cluster, for all viewers the same within a second.
  ApiResponse Cluster() const;

 private:
  static constexpr Duration kClusterPeriod = std::chrono::seconds(1);

  ClusterViewInput ReadCluster() const;

  CoreLoop& loop_;
  mutable HistoryCache histories_;
  mutable StoryCache stories_;
  mutable WaitingList waiting_;
  OccupancySampler occupancy_;
  mutable std::mutex cluster_mutex_;  // guards both below
  mutable ApiResponse cluster_;
  mutable std::optional<Instant> cluster_made_;  // monotonic
};

}  // namespace longhaul::service
