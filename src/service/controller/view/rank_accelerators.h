#pragma once

#include "proto/status.pb.h"

namespace longhaul::service {

// The number of accelerators, or the part of one, that each worker of a job has now; 0 where the
// scheduler assigns no devices.
double AcceleratorsOfRank(const proto::JobStatus& status);

}  // namespace longhaul::service
