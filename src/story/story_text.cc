#include "story/story_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "base/time.h"
#include "story/sentences.h"

namespace longhaul::story {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kLabel = 12;  // of a fault's lines, with the indent

// Breaks a text at spaces; all lines but the first are indented.
std::string Wrapped(const std::string& text, size_t indent) {
  std::string lines;
  size_t column = indent;
  for (const std::string_view word : Split(text, ' ')) {
    const size_t width = Width(word);
    if (column > indent && column + 1 + width > kColumns) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += " ";
      ++column;
    }
    lines += word;
    column += width;
  }
  return lines;
}

std::string Line(const std::string& label, const std::string& text) {
  std::string head = "  " + label;
  head.resize(std::max(head.size() + 1, kLabel), ' ');
  return head + Wrapped(Harmless(text), kLabel) + "\n";
}

// "+19.9 ms" after the fault.
std::string Offset(int64_t at_ns, int64_t happened_at_ns) {
  if (at_ns == happened_at_ns) return "+0 s";
  const double seconds = static_cast<double>(at_ns - happened_at_ns) * 1e-9;
  return (seconds < 0 ? "-" : "+") + SecondsText(std::abs(seconds));
}

std::string Moments(const std::string& label, const std::vector<Moment>& moments,
                    int64_t happened_at_ns) {
  constexpr size_t kOffset = 12;
  std::string text;
  for (const Moment& moment : moments) {
    std::string head = "  " + (text.empty() ? label : "");
    head.resize(kLabel, ' ');
    head += Offset(moment.at_ns, happened_at_ns);
    head.resize(std::max(head.size() + 1, kLabel + kOffset), ' ');
    text += head + Wrapped(Harmless(moment.text), kLabel + kOffset) + "\n";
  }
  return text;
}

std::string OutputText(const FaultStory& fault) {
  if (fault.output.empty()) return "";
  std::string text =
      Line("Output", "The last lines of worker " + std::to_string(std::max(0, fault.rank)) +
                         (fault.output_file.empty() ? ":" : ", in " + fault.output_file + ":"));
  for (const std::string& line : fault.output) {
    text += std::string(kLabel, ' ') + "| " + Harmless(line) + "\n";
  }
  return text;
}

std::string FaultText(const FaultStory& fault) {
  std::string text = "Fault " + std::to_string(fault.number) + ": " + fault.what;
  if (!fault.node.empty() && fault.what.find(fault.node) == std::string::npos) {
    text += " on " + fault.node;
  }
  text = Wrapped(Harmless(text), 2) + "\n";
  text += Line("When", WhenSentence(fault));
  text += Line("Detected", SecondsText(fault.detection_seconds) + " later. " + fault.detector);
  text += Moments("Evidence", fault.observations, fault.happened_at_ns);
  text += OutputText(fault);
  text += Line("Cause", fault.class_name + ". " + fault.cause);
  text += Moments("Actions", fault.actions, fault.happened_at_ns);
  text += Line("Step", StepSentences(fault));
  text += Line("Cost", CostSentences(fault));
  return text;
}

// Their times count from the submission.
std::string WarningsText(const Story& story) {
  constexpr size_t kShown = 10;
  const size_t shown = std::min(kShown, story.warnings.size());
  const std::vector<Moment> first(story.warnings.begin(),
                                  story.warnings.begin() + static_cast<std::ptrdiff_t>(shown));
  std::string text = Moments("Warnings", first, story.submitted_at_ns);
  if (story.warnings.size() > shown) {
    text += Line("", "and " + Plural(story.warnings.size() - shown, "more warning") +
                         ", which --json prints.");
  }
  return text;
}

std::string SummaryText(const Story& story) {
  std::string text = "Summary\n";
  if (story.goodput.has_value()) {
    std::string goodput = Percent(*story.goodput, 2);
    if (!story.categories.empty()) goodput += " (" + ListOfCosts(story.categories) + ")";
    text += Line("Goodput", goodput + ".");
  }
  for (const CauseRow& row : story.causes) {
    std::string cause = Plural(row.faults, "fault") + " of class " + row.class_name;
    if (row.injected > 0) cause += ", " + std::to_string(row.injected) + " of them injected";
    text += Line("Faults", cause + ", which cost " + SecondsText(row.cost_seconds) +
                               " of every worker's time.");
  }
  if (!story.costs.empty()) {
    text += Line("Cost", SecondsText(story.cost_seconds) +
                             " of every worker's time by all faults: " + ListOfCosts(story.costs) +
                             ".");
  }
  if (story.largest_loss.has_value()) {
    text += Line("Largest", "The largest loss of the run is the category '" +
                                story.largest_loss->category + "' with " +
                                SecondsText(story.largest_loss->seconds) + ".");
  }
  text += WarningsText(story);
  if (!story.advice.empty()) text += Line("Advice", story.advice);
  for (const std::string& note : story.notes) text += Line("Note", note);
  return text;
}

std::string HeadText(const Story& story) {
  std::string text = story.job_id + ": " + story.state;
  if (story.ended_at_ns != 0) {
    text += " at " + ToString(InstantFromNanoseconds(story.ended_at_ns)) + " after " +
            SecondsText(static_cast<double>(story.ended_at_ns - story.submitted_at_ns) * 1e-9);
  }
  if (!story.reason.empty()) text += ": " + Headline(story.reason);
  const size_t faults = story.faults.size();
  const std::string count =
      faults == 0 ? "There was no fault."
                  : (faults == 1 ? "There was " : "There were ") + Plural(faults, "fault") + ".";
  return Wrapped(Harmless(text + "."), 2) + "\n  " + count + "\n";
}

}  // namespace

std::string StoryText(const Story& story, std::optional<uint32_t> fault) {
  std::string text;
  if (!fault.has_value()) text = HeadText(story);
  for (const FaultStory& each : story.faults) {
    if (fault.has_value() && each.number != *fault) continue;
    text += (text.empty() ? "" : "\n") + FaultText(each);
  }
  if (!fault.has_value()) text += "\n" + SummaryText(story);
  return text;
}

}  // namespace longhaul::story
