// The recompute of each layer of a pipeline stage, where the layers of a stage differ.
//
// A stage's layers are numbered from 0 in the model's order, over all its chunks. Runs cover them
// from the first on; layers that no run covers keep everything. Full recompute of some layers is a
// separate run on every stage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "spec/model/training.h"

namespace longhaul::planner {

class RecomputeRuns {
 public:
  // Keeps a view of the training's runs until the next call.
  void Reset(const spec::Training& training) {
    const spec::Recompute& recompute = training.recompute;
    by_stage_ = recompute.kind == spec::RecomputeKind::kByStage;
    partly_ = recompute.kind == spec::RecomputeKind::kFull && recompute.full_layers > 0;
    some_ = {0, recompute.full_layers, spec::RecomputeKind::kFull, {}};
    runs_ = training.stage_recompute;
    if (!by_stage_) return;
    begins_.assign(training.layout.pipeline + 1, static_cast<uint32_t>(runs_.size()));
    for (size_t i = runs_.size(); i-- > 0;) begins_[runs_[i].stage] = static_cast<uint32_t>(i);
    // A stage without runs begins where the next one does.
    for (size_t i = begins_.size() - 1; i-- > 0;) begins_[i] = std::min(begins_[i], begins_[i + 1]);
  }

  // Whether layers of a stage may differ; otherwise Training::recompute applies to all.
  bool differ() const { return by_stage_ || partly_; }

  // Calls see(run, begin, count) for each part of the layers [begin, end) of the stage; the run is
  // null where everything is kept.
  template <typename See>
  void ForEach(uint32_t stage, uint32_t begin, uint32_t end, See see) const {
    uint32_t passed = 0;
    for (const spec::RecomputeRun& run : Of(stage)) {
      const uint32_t low = std::max(begin, passed);
      const uint32_t high = std::min(end, passed + run.layers);
      if (low < high) see(&run, low, high - low);
      passed += run.layers;
    }
    const uint32_t low = std::max(begin, passed);
    if (low < end) see(static_cast<const spec::RecomputeRun*>(nullptr), low, end - low);
  }

 private:
  std::span<const spec::RecomputeRun> Of(uint32_t stage) const {
    if (partly_) return {&some_, 1};
    return runs_.subspan(begins_[stage], begins_[stage + 1] - begins_[stage]);
  }

  bool by_stage_ = false;
  bool partly_ = false;
  spec::RecomputeRun some_;
  std::span<const spec::RecomputeRun> runs_;
  std::vector<uint32_t> begins_;
};

}  // namespace longhaul::planner
