// Writes what stays of a run into its directory.
#pragma once

#include <string>

#include "base/status.h"
#include "frontend/report/report.h"
#include "frontend/run_history.h"

namespace longhaul::frontend {

// metrics.csv, report.md, report.json, loss.svg and timeline.svg, each whole or not at all. Tries
// all of them and returns the first failure.
Status WriteArtefacts(const std::string& run_directory, const Report& report,
                      const RunHistory& history);

// The processor's name as the system tells it; empty when it doesn't.
std::string ProcessorName();

}  // namespace longhaul::frontend
