// Finds the step of a run from whose weights another run starts: chooses it, compares it with the
// model, and verifies it before anything is started.
//
// Only weights count: the optimizer's state is beside them under kOptimizerPrefix and is not read.
// load_state.h loads them, with a plan of weights alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "checkpoint/state.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

inline constexpr std::string_view kOptimizerPrefix = "optimizer.";

struct FoundWeights {
  std::string folder;  // of the steps
  uint64_t step = 0;
  uint64_t attempt = 0;
  std::vector<std::string> passed_over;  // newer steps that are damaged, with the damage
};

// `path` is one committed step, or a run's folder or the folder of its steps: then the newest step
// whose weights all verify. `weights` are the model's whole ones, in its order. Reads every byte of
// them once. Returns kNotFound when there is no committed step, kInvalidArgument for a checkpoint
// of another format, kFailedPrecondition when the newest step is of another model (with the first
// tensor that differs and how many do), and kDataLoss with the file when all are damaged.
Result<FoundWeights> FindWeights(io::FileSystem& files, const std::string& path,
                                 std::span<const TensorInfo> weights);

}  // namespace longhaul::checkpoint
