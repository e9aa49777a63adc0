// A job file for a controller: one job, or a list of jobs that are submitted together.
//
//   jobs:
//     - {name: prepare, command: [./prepare.sh]}
//     - {name: train, command: [./train.sh], after: [prepare]}
//
// Jobs of one file may name each other in `after`. Leaves out the names of jobs that the controller
// has already: only the controller knows them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/job/job.h"

namespace longhaul::spec {

// A name in `after` that means a job of the same file.
struct JobReference {
  size_t job = 0;
  std::optional<uint32_t> element;  // of an array: NAME_INDEX; absent: all of it
};

struct JobFile {
  std::vector<JobSpec> jobs;  // a job comes after the jobs of this file that it names in `after`
  bool several = false;       // written as a list

  // Returns nothing when the name means no job of this file.
  std::optional<JobReference> Find(std::string_view name) const;
};

constexpr size_t kMaxJobsInFile = 1'000;

// Reads a job file. Rejects, besides what ParseJob rejects, names that occur twice and cycles of
// `after`, with the cycle in the message.
Result<JobFile> ParseJobFile(std::string_view text, std::string_view source);

}  // namespace longhaul::spec
