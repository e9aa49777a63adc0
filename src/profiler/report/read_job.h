// Reads the traces of all ranks, several at a time, each reduced to its summary before the next.
//
// Memory is the traces in work at one time plus all summaries; `max_memory_bytes` bounds the first.
// One thread a core is used; what comes out does not depend on how many there are.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "profiler/rank/summary.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {

struct ReadJobOptions {
  unsigned threads = 0;                       // 0: one a core
  size_t max_memory_bytes = size_t{4} << 30;  // of traces in work at one time
  SummaryOptions summary;
};

// In the order of `paths`. Fails with the first path that can't be read at all.
Result<std::vector<RankSummary>> ReadJob(const std::vector<std::string>& paths,
                                         const ReadJobOptions& options);

// One trace in full.
Result<RankTrace> ReadTraceFile(const std::string& path, const ReadOptions& options);

}  // namespace longhaul::profiler
