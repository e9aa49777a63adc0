// Reads the options of a Megatron-LM run from a script, a list of options or YAML, and lists the
// options that do not affect time or memory. megatron.cc interprets the others.
#pragma once

#include <string_view>

#include "base/status.h"
#include "planner/configs/internal/settings.h"
#include "planner/configs/run_config.h"

namespace longhaul::planner::configs::internal {

// Adds the options of `text` to `settings`, and the launcher's settings about ranks to `config`.
Status ReadMegatronWords(std::string_view text, std::string_view source, Settings& settings,
                         RunConfig& config);

// Removes from `settings` the remaining options that are known to have no effect; lists all others
// in config.unknown.
void PassOverMegatronWords(Settings& settings, RunConfig& config);

}  // namespace longhaul::planner::configs::internal
