// The routes of the REST API for the web page: compact views, each with the id of the last event
// that it includes, from which the page follows the event stream. Thread-safe.
#pragma once

#include <string>

#include "service/controller/core_loop.h"
#include "service/controller/rest/api_response.h"
#include "service/controller/view/history_cache.h"

namespace longhaul::service {

class ViewRoutes {
 public:
  static constexpr size_t kMostRuns = 200;

  // Requires that both outlive this.
  ViewRoutes(CoreLoop& loop, NotificationFeed& feed) : loop_(loop), histories_(feed) {}

  // Returns the newest jobs, at most kMostRuns, an array as one.
  ApiResponse Runs() const;
  // Returns one run, without its curves with ?series=false.
  ApiResponse Run(const ApiRequest& request, const std::string& id_or_name) const;

 private:
  CoreLoop& loop_;
  mutable HistoryCache histories_;
};

}  // namespace longhaul::service
