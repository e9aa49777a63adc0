// Writes the files that document a run into its directory.
#pragma once

#include <string>

#include "base/status.h"
#include "frontend/report/report.h"
#include "frontend/run_history.h"

namespace longhaul::frontend {

// metrics.csv, report.md, report.json, report.html, loss.svg and timeline.svg, each whole or not at
// all. Tries all of them and returns the first failure.
Status WriteArtefacts(const std::string& run_directory, const Report& report,
                      const RunHistory& history);

// Returns the processor's name as the system reports it; empty when the system does not report it.
std::string ProcessorName();

}  // namespace longhaul::frontend
