// The step of a run whose weights another run is to begin with: chosen, held against the model that
// wants them, and read once before anything is started with it.
//
// Only weights count: what the optimizer keeps of each lies beside them under kOptimizerPrefix and
// is neither asked for nor read. Loading is load_state.h's, with a plan of weights alone.
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
  std::vector<std::string> passed_over;  // newer steps that are damaged: what was found
};

// `path` is one committed step, or a run's folder, or that of its steps: then the newest step whose
// weights all verify. `weights` are the model's, whole, in its order. Reads every byte of them
// once. kNotFound when there is no committed step, kInvalidArgument when it is a checkpoint of
// another format, kFailedPrecondition when the newest is of another model, with the first tensor
// that tells and the number of them, kDataLoss naming the file when nothing is good.
Result<FoundWeights> FindWeights(io::FileSystem& files, const std::string& path,
                                 std::span<const TensorInfo> weights);

}  // namespace longhaul::checkpoint
