// The critical path of a run: the work and transfers for which the run waited, across ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/across/profiled_job.h"

namespace longhaul::profiler {

// The time of the whole run, walking back from its end: work of the rank for which all others
// waited, and the wire time between. Its pieces tile the run from the first rank's begin to the
// last one's end.
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
