#include "bin/command.h"

#include <cstdio>

namespace longhaul::bin {

int Fail(const Status& status) {
  std::fprintf(stderr, "longhaul: %s\n", status.message().c_str());
  return kExitFailure;
}

}  // namespace longhaul::bin
