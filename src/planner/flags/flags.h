// Writes a layout as the settings of a training framework, ready to start.
//
// There is one writer per framework, each for a range of releases; its option names come from the
// framework's own sources (the output states the range, because options change). A layout that a
// framework has no option for is rejected with the missing option, never written in part; the
// search calls CheckExpressible before it proposes one. Leaves out what a layout does not
// determine: data, tokenizer, learning rate, checkpoints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/evaluation.h"

namespace longhaul::planner::flags {

enum class Framework { kMegatron, kDeepSpeed, kTorchtitan, kLonghaul };

// "megatron", "deepspeed", "torchtitan" or "longhaul"; rejects others with the nearest name.
Result<Framework> ParseFramework(std::string_view name);
std::string_view ToString(Framework framework);
// The releases that the writer was checked against: "core_v0.14.0 to core_v0.19.0".
std::string_view Releases(Framework framework);

// Whether the framework has options for all of the layout. The error names the missing option and
// an alternative.
Status CheckExpressible(Framework framework, const Question& question);

struct Launch {
  std::string text;                // a shell script, JSON, TOML or YAML; ends with a line end
  std::vector<std::string> notes;  // remaining steps and facts for the user; may be empty
};

// Rejects what CheckExpressible rejects.
Result<Launch> WriteLaunch(Framework framework, const Question& question);

}  // namespace longhaul::planner::flags
