// A report as texts. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frontend/live_view.h"
#include "frontend/report.h"
#include "frontend/run_history.h"

namespace longhaul::frontend {

std::string ReportMarkdown(const Report& report);
nlohmann::ordered_json ReportJson(const Report& report);

// One line a step report: step,epoch,seconds,loss,validation_loss,gradient_norm,tokens_per_second,
// step_seconds. `seconds` counts from the job's submission.
std::string MetricsCsv(const RunHistory& history, int64_t submitted_at_ns);

// The lines for the terminal when all is over, each within style.columns.
std::vector<std::string> Summary(const Report& report, const ViewStyle& style);

}  // namespace longhaul::frontend
