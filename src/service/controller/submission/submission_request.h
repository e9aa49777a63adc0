// The bodies of REST requests, from text to types that can't be wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "proto/job.pb.h"

namespace longhaul::service {

// POST /v1/jobs: {"job": "<YAML or JSON text>" | {object}, "name"?, "run_directory"?, "resume"?,
// "from"?, "inject"?, "source"?}
struct SubmissionRequest {
  std::string job;             // the job file's text
  std::string source = "job";  // names it in messages
  std::string name;            // instead of the file's; empty: the file's
  std::string run_directory;   // empty: chosen
  std::string inject;          // further faults
  std::string from;            // another run's checkpoint whose weights it begins with, whole path
  bool resume = false;         // continue from the newest checkpoint in run_directory
  // Instead of all that: a job that waits and has not begun, prepared anew for so many nodes.
  std::optional<proto::Job> before{};
  uint32_t nodes = 0;
};

// kInvalidArgument with line and column for what is no JSON, with the key for what is wrong in it.
Result<SubmissionRequest> ParseSubmissionRequest(std::string_view body);

// POST /v1/jobs/{id}/stop and .../cordon: nothing, or {"reason": "..."}.
Result<std::string> ParseReason(std::string_view body);

}  // namespace longhaul::service
