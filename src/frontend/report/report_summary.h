// A report as lines for the terminal, shown when a run has ended. Pure.
#pragma once

#include <string>
#include <vector>

#include "frontend/live_view.h"
#include "frontend/report/report.h"

namespace longhaul::frontend {

// Each line has at most style.columns columns.
std::vector<std::string> Summary(const Report& report, const ViewStyle& style);

}  // namespace longhaul::frontend
