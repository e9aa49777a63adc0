#include "io/process/batch_scheduling.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace longhaul::io {

Status UseBatchScheduling() {
  const sched_param none{};  // the policy has no priorities
  if (sched_setscheduler(0, SCHED_BATCH, &none) == 0) return {};
  return Unavailable(std::string("cannot wait for turns of a core (SCHED_BATCH): ") +
                     std::strerror(errno));
}

}  // namespace longhaul::io
