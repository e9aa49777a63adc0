#include "io/fd.h"

#include <unistd.h>

namespace longhaul::io {

void Fd::Reset() {
  // A close that fails has still closed on Linux; a retry could close another owner's descriptor.
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace longhaul::io
