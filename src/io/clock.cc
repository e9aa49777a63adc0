#include "io/clock.h"

#include <ctime>

namespace longhaul::io {
namespace {

Instant Read(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return InstantFromNanoseconds(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

}  // namespace

Instant Now() { return Read(CLOCK_REALTIME); }
Instant MonotonicNow() { return Read(CLOCK_MONOTONIC); }
Instant ThreadCpuTime() { return Read(CLOCK_THREAD_CPUTIME_ID); }
Instant ProcessCpuTime() { return Read(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace longhaul::io
