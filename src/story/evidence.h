// The evidence of one fault in a run's event log, as sentences. Pure.
#pragma once

#include <string>
#include <vector>

#include "story/run_record.h"
#include "story/story.h"

namespace longhaul::story {

// The end of the worker that the fault is about; null: there is no such event.
const proto::WorkerExited* ExitOf(const RunRecord& record, const FaultStory& fault);

// What agents and the controller observed, in order of time, at most 12 and the number of the rest.
// Requires that the fault's class, node, rank, attempt and times are set.
std::vector<Moment> ObservationsOf(const RunRecord& record, const FaultStory& fault);

// What the workers did when the controller looked at them because of the fault: of each worker the
// newest stack, by rank, at most 16. Requires the same.
std::vector<WorkerStack> StacksOf(const RunRecord& record, const FaultStory& fault);

// A sentence: which part of Longhaul found the fault, and by what.
std::string DetectorOf(const FaultStory& fault);

// A sentence: what the class of the fault means.
std::string CauseOf(const FaultStory& fault);

}  // namespace longhaul::story
