// The process of a controller, around the service.
#pragma once

#include <sys/types.h>

#include "service/controller/controller_service.h"

namespace longhaul::service {

// Runs a controller until SIGTERM, SIGINT or SIGHUP, or until the process `parent` has ended, which
// started it: then it stops all jobs first. 0: there is no such process. Returns the process's exit
// code. Must be called once, before other threads exist.
int ControllerMain(ControllerServiceOptions options, pid_t parent);

}  // namespace longhaul::service
