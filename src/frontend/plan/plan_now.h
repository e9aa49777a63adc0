// Compares the layout that the user runs now with the best one: what a change would gain.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/search/plan.h"

namespace longhaul::frontend {

struct RunNow {
  std::string source;  // the file's name
  planner::search::Proposal proposal;
  std::vector<std::string> assumed;
  std::vector<std::string> unknown;  // settings that were not understood
};

// "The best layout takes 4.80 s a step in place of 5.41 s: 12.7 % more tokens a second."
std::string GainText(const planner::search::Plan& plan, const RunNow& now);
// Paragraphs for a terminal; the text ends with a line end.
std::string NowText(const planner::search::Plan& plan, const RunNow& now);
nlohmann::ordered_json NowJson(const planner::search::Plan& plan, const RunNow& now);

}  // namespace longhaul::frontend
