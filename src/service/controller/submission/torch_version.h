// Which PyTorch a job's command would import: the store that its workers rendezvous on speaks
// another dialect to each generation (runtime/rendezvous/request_parser.h).
#pragma once

#include <string>

#include "proto/job.pb.h"

namespace longhaul::service {

// "1.13.0", read from the files of the command's interpreter without importing them; empty when the
// command is no Python or has no PyTorch. Blocks for as long as an interpreter needs to start, at
// most 5 seconds.
std::string FindTorchVersion(const proto::Workload& workload);

}  // namespace longhaul::service
