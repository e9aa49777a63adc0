// A rank's state out of a committed step, whatever layout saved it.
//
// A plan says which boxes of global tensors a rank holds. When the step's own file of that rank has
// exactly this plan, that file alone is opened; else the headers of all files make a catalog, and
// the boxes are read by plan: each byte needed is read once, and of what verifies it the whole
// chunks around it. Either way no byte is kept that isn't verified, and the bytes go straight to
// where the caller wants them. Leaves out memory tiers (load_snapshots.h) and other formats' steps.
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

// The boxes of the catalog's tensors that a plan asks for, in its order. kNotFound naming a tensor
// that isn't there, kFailedPrecondition one of another dtype or global shape.
Result<std::vector<WantedShard>> WantedBoxes(const Catalog& catalog, const StatePlan& plan);

// Which step, and whose part of it: the rank's own file is looked at first.
struct StepOfRank {
  std::string folder;  // of all steps: a run's checkpoints/
  uint64_t step = 0;
  uint64_t attempt = 0;
  uint32_t rank = 0;
};

// What the rank saved. Where the step has no file of that rank (it was saved by fewer), what the
// first one saved. kNotFound when the step isn't committed, kDataLoss naming file and reason.
Result<StatePlan> SavedPlan(io::FileSystem& files, const StepOfRank& of);

struct Loaded {
  bool own_file = false;    // the rank's own held exactly this plan
  uint64_t bytes_read = 0;  // of the tensors' data
};

// Fills `memory`. kFailedPrecondition naming what isn't in the step, or has another shape or dtype
// there: it is of another model. kNotFound when the step isn't committed, kDataLoss naming file and
// reason; after an error the memory holds anything. Requires spans of the plan's sizes.
Result<Loaded> LoadState(io::FileSystem& files, const StepOfRank& of, const StatePlan& plan,
                         std::span<const std::span<std::byte>> memory);

}  // namespace longhaul::checkpoint
