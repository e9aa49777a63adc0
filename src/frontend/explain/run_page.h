// The web page of a run as one file: report.html.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "proto/status.pb.h"

namespace longhaul::frontend {

// Returns the page of one job, from what its run has left: `path` and `job` as for ReadRun. The
// `status` is the controller's last one; without it, the page shows what the log states. The page
// names what is missing. Fails only where there is neither a log nor a status.
Result<std::string> RunPage(const std::string& path, const std::string& job,
                            const std::optional<proto::JobStatus>& status);

}  // namespace longhaul::frontend
