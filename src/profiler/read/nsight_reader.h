// Reads Nsight Systems' exported SQLite (nsys export --type sqlite) into a RankTrace.
//
// Tables as NVIDIA documents them (Nsight Systems User Guide, "SQLite Schema Reference"): kernels,
// copies, sets and runtime calls of CUPTI_ACTIVITY_KIND_*, ranges of NVTX_EVENTS, texts of
// StringIds, the device's name of TARGET_INFO_GPU. A missing table counts as empty. Times are
// nanoseconds since the session began, so hosts are aligned by their collectives alone. Nsight
// stores no metadata of collectives: they are recognized by kernels' names.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "profiler/trace/trace.h"

namespace longhaul::profiler {

// Whether a file begins like an SQLite database.
bool IsSqlite(std::string_view head);

Result<RankTrace> ReadNsight(const std::string& path);
// The same from a database in memory; for tests and fuzzers.
Result<RankTrace> ReadNsightBytes(std::string_view database, const std::string& path);

}  // namespace longhaul::profiler
