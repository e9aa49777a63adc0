// The first weights of a job that starts from the weights of another run's checkpoint. They are
// checked before anything is started.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "spec/job/job.h"

namespace longhaul::service {

struct StartingPoint {
  // "from" of the trainer's configuration; null: initialised by the seed.
  nlohmann::ordered_json config;
  std::string text;  // " Its first weights are those of step 300 in ..."
};

// Checks and returns the starting point `from` of a job. Reads all weights of the chosen step and
// verifies every byte; errors are those of checkpoint::FindWeights. Returns kInvalidArgument for a
// command's job, and for the job's own run directory. Requires a whole path `from`.
Result<StartingPoint> FindStart(const spec::JobSpec& spec, const std::string& from,
                                const std::string& run_directory);

// For a job that continues from its own checkpoints, when its original starting point may no longer
// exist: a start from the beginning then fails instead of using other weights.
StartingPoint UnreadableStart(const std::string& from);

// Writes the starting point to the run's directory (from.json), for a resume before the first
// checkpoint. Without a starting point it writes no file.
Status WriteStart(const StartingPoint& start, const std::string& run_directory);
// Returns the step's path; empty when the run had no starting point.
Result<std::string> ReadStart(const std::string& run_directory);

}  // namespace longhaul::service
