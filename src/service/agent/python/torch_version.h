// The version of PyTorch that a job's command would import. Each generation of PyTorch uses another
// dialect of the rendezvous store's protocol (runtime/rendezvous/request_parser.h).
#pragma once

#include <optional>
#include <string>

#include "io/process/user_account.h"
#include "proto/job.pb.h"

namespace longhaul::service {

// Returns the version, such as "1.13.0", from the files of the command's interpreter, without
// importing them; empty when the command isn't Python or has no PyTorch. Blocks for the start of an
// interpreter, at most 5 seconds. The interpreter runs as `user`, if there is one, as the workers
// do.
std::string FindTorchVersion(const proto::Workload& workload,
                             const std::optional<io::UserAccount>& user = std::nullopt);

}  // namespace longhaul::service
