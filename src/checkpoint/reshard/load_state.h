// Loads a rank's state from a committed step, saved by any layout.
//
// A plan lists the boxes of global tensors that a rank holds. If the step's own file of that rank
// has exactly this plan, only that file is opened. Otherwise the headers of all files form a
// catalog, and the boxes are read by plan: each needed byte once, with the whole chunks around it
// for verification. All bytes are verified, and they are read directly into the caller's memory.
// Leaves out memory tiers (load_snapshots.h) and steps of other formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/formats/catalog.h"
#include "checkpoint/reshard/read_plan.h"
#include "checkpoint/state.h"
#include "io/files/file.h"

namespace longhaul::checkpoint {

// Returns the boxes of the catalog's tensors for a plan, in its order. Returns kNotFound with a
// missing tensor, and kFailedPrecondition with one of another dtype or global shape.
Result<std::vector<WantedShard>> WantedBoxes(const Catalog& catalog, const StatePlan& plan);

// A step, and the rank whose file is tried first.
struct StepOfRank {
  std::string folder;  // of all steps: a run's checkpoints/
  uint64_t step = 0;
  uint64_t attempt = 0;
  uint32_t rank = 0;
};

// Returns the rank's saved plan, or the first rank's if the step has no file of that rank (fewer
// ranks saved it). Returns kNotFound when the step isn't committed, and kDataLoss with file and
// reason.
Result<StatePlan> SavedPlan(io::FileSystem& files, const StepOfRank& of);

struct Loaded {
  bool own_file = false;    // the rank's own file had exactly this plan
  uint64_t bytes_read = 0;  // of the tensors' data
};

// Fills `memory`. Returns kFailedPrecondition with a tensor that is missing in the step or has
// another shape or dtype (another model's step), kNotFound when the step isn't committed, and
// kDataLoss with file and reason. After an error the contents of `memory` are undefined. Requires
// spans of the plan's sizes.
Result<Loaded> LoadState(io::FileSystem& files, const StepOfRank& of, const StatePlan& plan,
                         std::span<const std::span<std::byte>> memory);

}  // namespace longhaul::checkpoint
