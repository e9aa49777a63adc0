#include "story/sentences.h"

#include "base/format.h"
#include "base/time.h"

namespace longhaul::story {

std::string ListOfCosts(const std::vector<CategorySeconds>& costs) {
  std::string text;
  for (const CategorySeconds& cost : costs) {
    text += (text.empty() ? "" : ", ") + cost.category + " " + SecondsText(cost.seconds);
  }
  return text;
}

std::string WhenSentence(const FaultStory& fault) {
  std::string text = ToString(InstantFromNanoseconds(fault.happened_at_ns)) + ", " +
                     SecondsText(fault.after_seconds) + " after the submission";
  if (fault.attempt > 0) text += ", in attempt " + std::to_string(fault.attempt);
  if (fault.since_last_step >= 0) {
    text += ", " +
            (fault.since_last_step > 0 ? SecondsText(fault.since_last_step) : "immediately") +
            " after the report of step " + std::to_string(fault.last_step);
  }
  return text + ".";
}

std::string StepSentences(const FaultStory& fault) {
  if (!fault.restarted) {
    if (fault.over) return "Work continued without a restart.";
    return fault.open ? "Work has not continued yet." : "Work did not continue.";
  }
  if (fault.from_step == 0 && fault.lost_steps == 0) {
    return "All workers started again. The step is unknown, because the command reported none.";
  }
  return "Work continued from step " + std::to_string(fault.from_step) + "; " +
         Plural(fault.lost_steps, "step") + (fault.lost_steps == 1 ? " was" : " were") +
         " done again.";
}

std::string CostSentences(const FaultStory& fault) {
  if (fault.open) return "The cost is known when the first new step is done.";
  std::string text = SecondsText(fault.cost_seconds) + " of every worker's time";
  if (!fault.costs.empty()) text += ": " + ListOfCosts(fault.costs);
  text += ".";
  if (fault.recovery_seconds.has_value()) {
    text += " The first new step was done " + SecondsText(*fault.recovery_seconds) +
            " after the fault.";
  } else if (!fault.over) {
    text += " No new step followed.";
  }
  return text;
}

}  // namespace longhaul::story
