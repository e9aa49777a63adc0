// The report's two pictures, as SVG texts. Pure.
#pragma once

#include <string>

#include "frontend/report/report.h"
#include "frontend/run_history.h"

namespace longhaul::frontend {

// Training and validation loss over steps, with the faults at the steps where they happened.
std::string LossChart(const Report& report, const RunHistory& history);

// One lane a node over time: phases by colour, attempts, snapshots, faults; below it each recovery,
// enlarged, stage by stage.
std::string TimelineChart(const Report& report, const RunHistory& history);

}  // namespace longhaul::frontend
