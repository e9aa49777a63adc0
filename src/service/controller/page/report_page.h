// The web page frozen into one file: report.html of a run.
//
// The file has the style sheet, the script, the licences and the data in itself, so that it can be
// opened from a disk and mailed. Its policy permits this script and no other, and no requests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace longhaul::service {

// Returns the text of an HTML file. `data` has the form of web/src/frozen.ts; texts in it may hold
// anything.
std::string ReportPage(const std::string& title, const nlohmann::ordered_json& data);

}  // namespace longhaul::service
