// GET /metrics: the controller's state in Prometheus' text format 0.0.4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/status.pb.h"

namespace longhaul::service {

struct MetricsInput {
  std::vector<proto::JobStatus> jobs;
  std::vector<proto::NodeStatus> nodes;
  uint64_t logged_events = 0;
  bool log_writable = true;
  uint64_t event_streams = 0;
};

std::string RenderMetrics(const MetricsInput& input);

}  // namespace longhaul::service
