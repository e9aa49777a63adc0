// The metrics of jobs.
#pragma once

#include <vector>

#include "proto/status.pb.h"
#include "service/controller/metrics/metrics_text.h"

namespace longhaul::service {

void AddJobMetrics(const std::vector<proto::JobStatus>& jobs, MetricsText& text);

}  // namespace longhaul::service
