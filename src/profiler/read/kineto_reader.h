// Reads a Kineto or plain Chrome trace (JSON) into a RankTrace.
//
// The text passes through a window of a megabyte, so memory depends on the kept events and not on
// the file. Damaged parts are left out and reported with byte and line: after a damaged object
// reading continues at the next text that begins like an event, and a truncated file gives its
// complete events. Objects after the first document are read too (two runs in one file). Supports
// spans (X, and pairs of B and E); flows, counters and instants are only counted.
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
  bool found = false;                         // not named: reject a file without span and rank
  bool places = false;                        // keep rows' places, and Python's frames as rows
  size_t max_event_bytes = 4 << 20;           // an object longer than this is damage
  size_t max_header_bytes = 64 << 20;         // of one member outside traceEvents
  size_t max_memory_bytes = size_t{1} << 36;  // events beyond are not kept: sets `cut`
};

// kInvalidArgument when the text has no event and does not look like a trace, and for a file found
// in a folder that has neither a span nor a rank. `path` is for messages and for the rank, which
// comes from the file's name when the content does not give it.
Result<RankTrace> ReadKineto(ByteSource& source, const std::string& path,
                             const ReadOptions& options = {});

// The number after "rank" in a file's name ("rank-3", "rank[3]", "rank_3"), or kNoRank.
int64_t RankInName(std::string_view path);

}  // namespace longhaul::profiler
