// What the run waited for, rank after rank.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

// Where the time of the whole run went, walking back from its end: work of the rank that everything
// waited for, and the wire between. Its pieces tile the run from the first rank's begin to the last
// one's end.
struct CriticalPath {
  struct Piece {
    size_t rank = 0;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    Spent spent = Spent::kOtherCompute;  // kExposed: wire
    Dimension dimension = Dimension::kUnknown;
  };
  std::vector<Piece> pieces;  // in order of time
};
CriticalPath FindCriticalPath(const ProfiledJob& job);

}  // namespace longhaul::profiler
