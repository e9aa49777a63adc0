// GET /metrics: the controller's state for Prometheus. docs/metrics.md describes each family.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/status.pb.h"
#include "service/controller/metrics/metrics_text.h"

namespace longhaul::service {

// For so long after its end a job still has samples, so that its last values are scraped.
inline constexpr std::chrono::minutes kMetricsAfterEnd{15};

struct MetricsInput {
  std::vector<proto::JobStatus> jobs;
  std::vector<proto::NodeStatus> nodes;
  std::vector<proto::QueueStatus> queues;
  uint64_t logged_events = 0;
  bool log_writable = true;
  uint64_t event_streams = 0;
  Instant now;
};

std::string RenderMetrics(const MetricsInput& input, MetricsFormat format);

}  // namespace longhaul::service
