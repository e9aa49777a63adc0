// Parses and checks the bodies of REST requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "proto/job.pb.h"

namespace longhaul::service {

// POST /v1/jobs: {"job": "<YAML or JSON text>" | {object}, "name"?, "run_directory"?, "resume"?,
// "from"?, "inject"?, "source"?, "user"?}
struct SubmissionRequest {
  std::string job;             // the job file's text
  std::string source = "job";  // its name in messages
  std::string name;            // instead of the file's; empty: the file's
  std::string run_directory;   // empty: chosen
  std::string inject;          // further faults
  std::string user;            // to whom the time is charged, as the client reports; empty: unknown
  std::string from;  // another run's checkpoint to take the first weights from, whole path
  // Only its size and its scheduling, for a what-if question: no data, folder or id are made.
  bool sketch = false;
  bool resume = false;  // continue from the newest checkpoint in run_directory
  // Instead of all that: a waiting job that has not begun, to be prepared again for this many
  // nodes.
  std::optional<proto::Job> before{};
  uint32_t nodes = 0;
};

// Returns kInvalidArgument, with line and column if the body isn't JSON, else with the wrong key.
Result<SubmissionRequest> ParseSubmissionRequest(std::string_view body);

// Reads the body of POST /v1/jobs/{id}/stop and .../cordon: empty, or {"reason": "..."}.
Result<std::string> ParseReason(std::string_view body);

}  // namespace longhaul::service
