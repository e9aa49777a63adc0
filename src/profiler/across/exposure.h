// Divides a rank's exposed communication into waiting, wire time and a pipeline's bubbles.
//
// A rank waits from its own arrival to the last one's; the rest is wire time. Waiting for another
// stage of the pipeline is a bubble. The schedule determines the length of each bubble: with p
// stages, flushed every step and a slot of t for a micro-batch's forward and backward, stage s
// idles s slots at the step's ends (before its first micro-batch and after its last) and p - 1 - s
// before backward passes, of the first (while the pipeline fills) and of those after its last
// forward (while it drains): p - 1 in all (Narayanan et al., SC 2021, 2.2.1). With v chunks of
// layers per stage, interleaved, it is a v-th of that (2.2.2), anywhere between the ends. Where
// gradients of the weights are separate passes it may be anywhere, as long as a simulation of the
// schedule with the mean lengths of its passes gives (across/schedule_play.h). Up to that a bubble
// is expected; a longer one or one elsewhere is not: stages of different length, slow messages,
// stragglers. Lengths are means over the stages.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/across/profiled_job.h"
#include "profiler/across/stages.h"

namespace longhaul::profiler {

enum class Exposure : uint8_t { kWire, kWait, kBubble, kLateBubble };

struct ExposedPiece {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Exposure what = Exposure::kWire;
  Dimension dimension = Dimension::kUnknown;
};

struct Exposed {
  std::vector<std::vector<ExposedPiece>>
      pieces;            // [rank], by time; they tile the rank's kExposed segments
  int64_t slot_ns = 0;   // t; 0: no pipeline
  double due_slots = 0;  // the idle slots of each stage per step in the schedule
};

Exposed CutExposed(const ProfiledJob& job, const Stages& stages);

}  // namespace longhaul::profiler
