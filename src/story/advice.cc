#include "story/advice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/format.h"
#include "proto/fault_class.h"

namespace longhaul::story {
namespace {

// A category dominates with half of what the faults have cost.
constexpr double kDominates = 0.5;
// Below this share of the run's time an advice would not change anything noticeable.
constexpr double kNoticeable = 0.01;

// The same error again and again is the program's: restarts do not help.
std::string OfRepeatedError(const Story& story) {
  std::map<std::string, uint64_t> times;
  for (const FaultStory& fault : story.faults) {
    const auto kind = proto::FaultClassOf(fault.class_name);
    const bool own = kind == proto::FaultClass::kError || kind == proto::FaultClass::kStart;
    if (own && !fault.injected) ++times[fault.what];
  }
  const auto most = std::max_element(
      times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == times.end() || most->second < 2) return "";
  return "The same error ended the workers " + std::to_string(most->second) +
         " times: " + most->first +
         ". Restarts do not help against an error of the program; correct it first.";
}

// Faults of one node, where there are others.
std::string OfOneNode(const Story& story) {
  std::map<std::string, uint64_t> faults;
  uint64_t all = 0;
  for (const FaultStory& fault : story.faults) {
    if (fault.injected || fault.node.empty()) continue;
    ++faults[fault.node];
    ++all;
  }
  for (const auto& [node, count] : faults) {
    if (count < 3 || count == all || count * 2 <= all) continue;
    return std::to_string(count) + " of " + Plural(all, "fault") + " happened on " + node +
           ". Drain it (longhaul nodes drain " + node + ") and check it.";
  }
  return "";
}

std::string OfLostWork(const Story& story, const RunTotals* totals) {
  uint64_t lost = 0;
  uint64_t restarts = 0;
  for (const FaultStory& fault : story.faults) {
    lost += fault.lost_steps;
    restarts += fault.restarted ? 1 : 0;
  }
  // Only the steps that the faults interrupted were lost: a shorter interval would not help.
  if (lost == 0) return "";
  std::string text = "Most of the cost is lost work";
  if (restarts > 0) {
    text += ": a restart repeated " +
            Decimal(static_cast<double>(lost) / static_cast<double>(restarts), 1) +
            " steps on average";
  }
  text += ". ";
  if (totals != nullptr && totals->snapshots > 0) {
    return text + "Take snapshots more often: snapshot.interval_steps of the job file was " +
           Plural(totals->interval_steps, "step") + " at the end.";
  }
  return text +
         "Let the script save checkpoints at a shorter interval, or take snapshots in memory with "
         "the worker API, which cost milliseconds.";
}

std::string OfCategory(const std::string& category, const Story& story, const RunTotals* totals) {
  if (category == "lost work") return OfLostWork(story, totals);
  const std::string text = "Most of the cost is the category '" + category + "'. ";
  if (category == "detect") {
    return text +
           "Report steps at a steady rate (longhaul.report or --step-pattern): a hang is a step "
           "that is missing for three times the longest recent time between two steps.";
  }
  if (category == "diagnose") {
    return text +
           "The job waited for a node. Keep a spare node, or let the job continue with fewer nodes "
           "(--minimum-nodes).";
  }
  if (category == "repair") {
    return text + "New processes were slow to start: look at the logs of the agents in cluster/.";
  }
  if (category == "start-up") {
    return text +
           "The script needs this time to import its packages and to prepare. Load the packages at "
           "the top of the script, so that the fork server has them (docs/fork-server.md).";
  }
  if (category == "rendezvous") {
    return text + "Building the process groups took this long: create fewer groups at the start.";
  }
  if (category == "restore") {
    return text +
           "Reading the state took this long: snapshots in memory (the worker API) are restored "
           "without the disk.";
  }
  return "";
}

}  // namespace

// Rules in order; the first that applies is the advice. An error of the program and a bad node are
// causes, so they come before the costs.
std::string AdviceFor(const Story& story, const RunTotals* totals) {
  if (story.faults.empty()) return "";
  if (std::string text = OfRepeatedError(story); !text.empty()) return text;
  if (std::string text = OfOneNode(story); !text.empty()) return text;
  if (story.costs.empty()) return "";
  double run = 0;
  for (const CategorySeconds& each : story.categories) run += each.seconds;
  if (run > 0 && story.cost_seconds < kNoticeable * run) {
    return "The faults cost less than 1 % of the run's time; nothing has to change.";
  }
  const CategorySeconds& largest = story.costs.front();
  if (largest.seconds < kDominates * story.cost_seconds) return "";
  return OfCategory(largest.category, story, totals);
}

}  // namespace longhaul::story
