// A plan as one JSON object, with the figures that the tables and the page show.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "planner/search/plan.h"

namespace longhaul::frontend {

nlohmann::ordered_json ToJson(const planner::search::Proposal& proposal);
nlohmann::ordered_json ToJson(const planner::search::Plan& plan);

}  // namespace longhaul::frontend
