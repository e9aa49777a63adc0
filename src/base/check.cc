#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace longhaul::internal {

CheckFailure::CheckFailure(const char* condition, const char* file, int line) {
  reason_ << file << ":" << line << ": check failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n", reason_.str().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace longhaul::internal
