// The largest number of micro-batches whose activations a pipeline stage holds, by schedule.
//
// In units of one chunk's micro-batch: GPipe (Huang et al., 2019) all; 1F1B min(m, p - i);
// interleaved (Narayanan et al., SC 2021) 2(p - i - 1) + (v - 1) p + 1; zero-bubble H1 as 1F1B
// (Qi et al., arXiv 2401.10241), V about p; DualPipe p + 1 (DeepSeek-V3, arXiv 2412.19437).
#pragma once

#include <cstdint>
#include <span>

#include "spec/model/training.h"

namespace longhaul::planner {

// Writes the micro-batches of each chunk (0 .. virtual_pipeline - 1) that stage `stage` holds into
// `held`, which has one entry per chunk. Requires stage < pipeline and micro_batches >= 1.
void HeldMicroBatches(const spec::Layout& layout, bool overlap_expert, uint32_t stage,
                      uint32_t micro_batches, std::span<uint32_t> held);

}  // namespace longhaul::planner
