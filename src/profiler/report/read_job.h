// Reads the traces of all ranks, several at a time, each reduced to its summary before the next.
//
// Memory is bounded for the whole profile. Summaries grow with the traces' steps, and so do the
// results: where all steps do not fit, as many consecutive steps as fit are analysed, the same ones
// for all ranks: those of the first trace whose mean is nearest to the median step. The text
// `left_out` names the other steps. Uses one thread per core; the result does not depend on the
// number of threads.
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
  unsigned threads = 0;                       // 0: one per core
  size_t max_memory_bytes = size_t{4} << 30;  // of a profile: traces in work, summaries, findings
  SummaryOptions summary;                     // requested steps are never left out
  // The paths that were found in a folder and not named by the user: one without a trace (another
  // program's JSON, a file damaged from its first byte on) is skipped.
  std::set<std::string> found;
  // Called by one thread at a time after each trace, with bytes of files; false stops.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

struct RankSummaries {
  std::vector<RankSummary> ranks;    // in the order of the paths
  std::string left_out;              // the omitted steps, for a person; empty: none
  std::vector<std::string> skipped;  // files, each with the reason
};

// Fails with the first path that is unreadable; with kResourceExhausted where a trace by itself,
// one step of all of them, or the requested steps, need more memory; kNotFound, with the files and
// reasons, where every file is skipped; kCancelled when stopped.
Result<RankSummaries> ReadJob(const std::vector<std::string>& paths, const ReadJobOptions& options);

// Whether this error means that a file holds no trace, and not that it is unreadable.
bool HoldsNoTrace(const Status& status);

// kNotFound: none of the files holds a trace; names the first of them with their reasons.
Status NoTraceAmong(const std::vector<std::string>& skipped);

// One trace in full.
Result<RankTrace> ReadTraceFile(const std::string& path, const ReadOptions& options);

// Returns the first of `count` consecutive steps of these lengths whose mean is nearest to the
// median of all. The very first step, which warms up, is included only if all are.
size_t TypicalSteps(const std::vector<double>& lengths, size_t count);

}  // namespace longhaul::profiler
