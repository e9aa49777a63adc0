// Reads the traces of all ranks, several at a time, each reduced to its summary before the next.
//
// Memory is bounded for the whole profile. Summaries grow with the traces' steps, and so does what
// is made of them: where those of all steps don't fit, as many steps in a row as do are looked at,
// of all ranks the same: of those of the first trace the ones whose mean is nearest to the median
// step. What is left out is told. One thread a core is used; what comes out does not depend on how
// many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "profiler/rank/summary.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {

struct ReadJobOptions {
  unsigned threads = 0;                       // 0: one a core
  size_t max_memory_bytes = size_t{4} << 30;  // of a profile: traces in work, summaries, findings
  SummaryOptions summary;                     // with steps asked for, none else is left out
  // Of the paths, those that were found in a folder and not named: one that holds no trace (another
  // program's JSON, a file damaged from its first byte on) is skipped.
  std::set<std::string> found;
  // Called by one thread at a time behind each trace, with bytes of files; false stops.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

struct RankSummaries {
  std::vector<RankSummary> ranks;    // in the order of the paths
  std::string left_out;              // which steps, for a person; empty: none
  std::vector<std::string> skipped;  // files, each with the reason
};

// Fails with the first path that can't be read at all; with kResourceExhausted where a trace by
// itself, one step of all of them, or the steps asked for, need more memory; kNotFound, with what
// was looked at, where every file is skipped; kCancelled when stopped.
Result<RankSummaries> ReadJob(const std::vector<std::string>& paths, const ReadJobOptions& options);

// Whether a file that fails so holds no trace, as against one that could not be read.
bool HoldsNoTrace(const Status& status);

// kNotFound: none of the files holds a trace; names the first of them with their reasons.
Status NoTraceAmong(const std::vector<std::string>& skipped);

// One trace in full.
Result<RankTrace> ReadTraceFile(const std::string& path, const ReadOptions& options);

// Of steps of these lengths, the first of `count` in a row whose mean is nearest to the median of
// all. The very first, which warms up, is taken only if all are.
size_t TypicalSteps(const std::vector<double>& lengths, size_t count);

}  // namespace longhaul::profiler
