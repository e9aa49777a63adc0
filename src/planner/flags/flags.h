// A layout as the settings of a training framework, ready to start.
//
// A writer a framework, each for a range of releases whose option names were read in that
// framework's own sources (the range is in what it writes, because options change). A layout that a
// framework has no option for is refused with the option that is missing, never written in part;
// the search asks CheckExpressible before it proposes one. Leaves out what a layout does not
// decide: data, tokenizer, learning rate, checkpoints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/evaluation.h"

namespace longhaul::planner::flags {

enum class Framework { kMegatron, kDeepSpeed, kTorchtitan, kLonghaul };

// "megatron", "deepspeed", "torchtitan" or "longhaul"; refuses others with the nearest one.
Result<Framework> ParseFramework(std::string_view name);
std::string_view ToString(Framework framework);
// The releases that the writer was held against: "core_v0.14.0 to core_v0.19.0".
std::string_view Releases(Framework framework);

// Whether the framework has options for all of it. The refusal names what it lacks, and what would
// do instead.
Status CheckExpressible(Framework framework, const Question& question);

struct Launch {
  std::string text;                // a shell script, a JSON document, TOML or YAML; ends a line
  std::vector<std::string> notes;  // what the user must still do or know; may be empty
};

// Refuses what CheckExpressible refuses.
Result<Launch> WriteLaunch(Framework framework, const Question& question);

}  // namespace longhaul::planner::flags
