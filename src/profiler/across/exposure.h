// A rank's exposed communication, cut into waiting, wire and a pipeline's bubbles.
//
// A rank waits from its own arrival to the last one's; the rest is wire. Waiting for another stage
// of the pipeline is a bubble. How long each must be follows from the schedule: with p stages,
// flushed every step and a slot of t for a micro-batch's forward and backward, stage s idles s
// slots at the step's ends (before its first micro-batch and behind its last) and p - 1 - s before
// backward passes, of the first (while the pipeline fills) and of those behind its last forward
// (while it drains): p - 1 in all (Narayanan et al., SC 2021, 2.2.1). With v chunks of layers a
// stage, interleaved, it is a v-th of that (2.2.2), between the ends anywhere. Where gradients of
// the weights are passes of their own it may be anywhere, as long as playing the schedule with the
// mean lengths of its passes says (across/schedule_play.h). Up to that a bubble is expected, what
// is longer or lies elsewhere is not: stages of unlike length, slow messages, others' stragglers.
// Lengths are means over the stages.
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
      pieces;            // [rank], by time; they tile its kExposed segments
  int64_t slot_ns = 0;   // t; 0: no pipeline
  double due_slots = 0;  // that the schedule has each stage idle a step
};

Exposed CutExposed(const ProfiledJob& job, const Stages& stages);

}  // namespace longhaul::profiler
