// One advice that follows from a run's faults. Pure.
#pragma once

#include <string>

#include "frontend/explain/story.h"

namespace longhaul::frontend {

// Returns sentences with the figures that lead to the advice; empty when the faults suggest
// nothing. Requires that everything else of the story is set. `totals` may be null.
std::string AdviceFor(const Story& story, const RunTotals* totals);

}  // namespace longhaul::frontend
