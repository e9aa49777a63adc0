// The words of what starts Megatron-LM: options out of a script, a list of options or YAML, and
// which of them say nothing about time or memory. What they mean is megatron.cc's.
#pragma once

#include <string_view>

#include "base/status.h"
#include "planner/configs/internal/settings.h"
#include "planner/configs/run_config.h"

namespace longhaul::planner::configs::internal {

// Adds the options of `text` to `settings`, and what its launcher says of ranks to `config`.
Status ReadMegatronWords(std::string_view text, std::string_view source, Settings& settings,
                         RunConfig& config);

// Takes from `settings` the options that were left over and are known to have no say; others go to
// config.unknown.
void PassOverMegatronWords(Settings& settings, RunConfig& config);

}  // namespace longhaul::planner::configs::internal
