// A report as Markdown: the file report.md of a run. Pure.
#pragma once

#include <string>

#include "frontend/report/report.h"

namespace longhaul::frontend {

std::string ReportMarkdown(const Report& report);

}  // namespace longhaul::frontend
