// How the programs of the controller and of the agent end if they cannot start.
#pragma once

#include <cstdio>

#include "base/status.h"

namespace longhaul::service {

inline constexpr int kUsageError = 2;

// Prints the reason as the commands do. Returns the exit code of a failure.
inline int Complain(const Status& status) {
  std::fprintf(stderr, "longhaul: %s\n", status.message().c_str());
  return 1;
}

}  // namespace longhaul::service
