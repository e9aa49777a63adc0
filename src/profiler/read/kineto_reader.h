// Reads a Kineto or plain Chrome trace (JSON) into a RankTrace.
//
// The text passes through a window of a megabyte, so memory is that of the events kept and not of
// the file. What is broken is left out and reported with its byte and line: after a damaged object
// reading continues at the next thing that begins like an event, and a file that ends too early
// gives what it had. Objects after the first document are read too (two runs into one file).
// Understands spans (X, and pairs of B and E); flows, counters and instants are only counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "profiler/read/byte_source.h"
#include "profiler/trace/trace.h"

namespace longhaul::profiler {

struct ReadOptions {
  bool shapes = true;                         // keep operators' shapes
  bool found = false;                         // not named: refuse what has no span and no rank
  bool places = false;                        // keep rows' places, and Python's frames as rows
  size_t max_event_bytes = 4 << 20;           // an object longer than this is damage
  size_t max_header_bytes = 64 << 20;         // of one member outside traceEvents
  size_t max_memory_bytes = size_t{1} << 36;  // events beyond are not kept: `cut` says so
};

// kInvalidArgument when there is no event and nothing that looks like a trace, and of a file that
// was found in a folder when it has neither a span nor a rank. `path` is for
// messages and for the rank, which is told by the file's name when the file doesn't say.
Result<RankTrace> ReadKineto(ByteSource& source, const std::string& path,
                             const ReadOptions& options = {});

// The number behind "rank" in a file's name ("rank-3", "rank[3]", "rank_3"), or kNoRank.
int64_t RankInName(std::string_view path);

}  // namespace longhaul::profiler
