// Where a job's first weights come from, when it is to begin with those of another run's
// checkpoint: looked at before anything is started.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "spec/job/job.h"

namespace longhaul::service {

struct StartingPoint {
  nlohmann::ordered_json config;  // "from" of the trainer's configuration; null: by the seed
  std::string told;               // " Its first weights are those of step 300 in ..."
};

// What a job begins with that is to begin with the weights at `from`, whose errors are those of
// checkpoint::FindWeights: reads all weights of the chosen step, of which every byte must be as it
// was written. kInvalidArgument for a command's job, and for the job's own run directory. Requires
// `from` whole.
Result<StartingPoint> FindStart(const spec::JobSpec& spec, const std::string& from,
                                const std::string& run_directory);

// For a job that continues from its own checkpoints, where the place that it began with may be gone
// by now: a start from the beginning then fails rather than begin with other weights.
StartingPoint UnreadableStart(const std::string& from);

// What a run began with stays in its directory (from.json), for those who resume it before it has a
// checkpoint. Where it began with none there is no such file.
Status WriteStart(const StartingPoint& start, const std::string& run_directory);
// The step's path; empty when the run began with none.
Result<std::string> ReadStart(const std::string& run_directory);

}  // namespace longhaul::service
