// The readers that run_config.h uses, one for each framework.
#pragma once

#include <string_view>

#include "base/status.h"
#include "planner/configs/run_config.h"

namespace longhaul::planner::configs::internal {

constexpr uint64_t kMostRanks = 10'000'000;
constexpr uint64_t kMostSequences = 1'000'000'000;
constexpr uint64_t kMostMicro = 1'000'000;
constexpr uint64_t kMostTokens = uint64_t{1} << 27;  // of a sequence

Result<RunConfig> ReadMegatron(std::string_view text, std::string_view source);
Result<RunConfig> ReadDeepSpeed(std::string_view text, std::string_view source);
Result<RunConfig> ReadTorchtitan(std::string_view text, std::string_view source);

}  // namespace longhaul::planner::configs::internal
