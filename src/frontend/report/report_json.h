// A report for programs: the files report.json and metrics.csv of a run. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "frontend/report/report.h"
#include "frontend/run_history.h"

namespace longhaul::frontend {

nlohmann::ordered_json ReportJson(const Report& report);

// One line for each step report:
// step,attempt,seconds,loss,validation_loss,gradient_norm,tokens_per_second, step_seconds.
// `seconds` counts from the job's submission.
std::string MetricsCsv(const RunHistory& history, int64_t submitted_at_ns);

}  // namespace longhaul::frontend
