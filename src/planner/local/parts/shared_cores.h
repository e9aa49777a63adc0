// How long processes take that wait for each other and share a machine's cores.
//
// Each process runs its tasks in order. Those that compute at a moment have an equal share of the
// cores and at most one each (processor sharing: Kleinrock, Queueing Systems II, 1976,
// section 4.4); who waits takes none. So a core is idle only while fewer processes than cores have
// work, which is what a pipeline's bubble costs on a machine whose ranks have cores of their own,
// and what it doesn't where they share. Leaves out the cost of switching and who happens to be
// where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longhaul::planner {

struct CoreTask {
  enum class Kind : uint8_t {
    kCompute,
    kMeet,     // begins once all of a group have come to it
    kSend,     // what is sent can be received once this is done
    kReceive,  // begins once it has been sent
  };

  Kind kind = Kind::kCompute;
  double seconds = 0;  // of a core
  uint32_t other = 0;  // the group, or the process at the other end
};

// Seconds until all are done. `groups` are processes by their place in `programs`. Requires cores
// and programs in which all waiting ends.
double PlayThrough(uint32_t cores, const std::vector<std::vector<CoreTask>>& programs,
                   const std::vector<std::vector<uint32_t>>& groups);

}  // namespace longhaul::planner
