// Simulates processes that wait for each other and share a machine's cores.
//
// Each process runs its tasks in order. The processes that compute at a moment have an equal share
// of the cores and at most one core each (processor sharing: Kleinrock, Queueing Systems II, 1976,
// section 4.4); a waiting process uses none. So a core is idle only while fewer processes than
// cores have work: this is the cost of a pipeline's bubble on a machine where each rank has its own
// core, and ranks that share cores avoid it. Leaves out the cost of switching and the assignment of
// processes to cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longhaul::planner {

struct CoreTask {
  enum class Kind : uint8_t {
    kCompute,
    kMeet,     // begins once all processes of a group have reached it
    kSend,     // the message can be received once this is done
    kReceive,  // begins once the message was sent
  };

  Kind kind = Kind::kCompute;
  double seconds = 0;  // of a core
  uint32_t other = 0;  // the group, or the process at the other end
};

// Returns the seconds until all are done. `groups` holds processes by their index in `programs`.
// Requires cores, and programs in which every wait ends.
double PlayThrough(uint32_t cores, const std::vector<std::vector<CoreTask>>& programs,
                   const std::vector<std::vector<uint32_t>>& groups);

}  // namespace longhaul::planner
