// Sentences about the facts of a fault, for the terminal and the web page. Pure.
#pragma once

#include <string>
#include <vector>

#include "story/story.h"

namespace longhaul::story {

// "lost work 202 ms, start-up 66 ms".
std::string ListOfCosts(const std::vector<CategorySeconds>& costs);

// When the fault happened, in which attempt and after which step.
std::string WhenSentence(const FaultStory& fault);
// From which step work continued.
std::string StepSentences(const FaultStory& fault);
// What the fault cost, and when the first new step was done.
std::string CostSentences(const FaultStory& fault);

}  // namespace longhaul::story
