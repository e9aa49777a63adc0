// One advice that follows from a run's faults. Pure.
#pragma once

#include <string>

#include "story/story.h"

namespace longhaul::story {

// Returns sentences with the figures that lead to the advice; empty when the faults suggest
// nothing. Requires that everything else of the story is set. `totals` may be null.
std::string AdviceFor(const Story& story, const RunTotals* totals);

}  // namespace longhaul::story
