#include "trainer/calibrate/peak.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "io/clock.h"
#include "io/fd.h"

namespace longhaul::trainer {
namespace {

double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

FlopsPerSecond MeasureCorePeak(Duration budget) {
  constexpr int64_t kSize = 512;
  const c10::NoGradGuard no_gradients;
  const at::Tensor a = at::full({kSize, kSize}, 0.5);
  const at::Tensor b = at::full({kSize, kSize}, 0.25);
  // The first product is not measured: it allocates the result and starts the library.
  at::Tensor product = at::mm(a, b);
  const Instant end = io::MonotonicNow() + budget;
  double best = 0;
  do {
    const double begin = ThreadCpuSeconds();
    at::mm_out(product, a, b);
    const double took = ThreadCpuSeconds() - begin;
    if (took > 0) best = std::max(best, 2.0 * kSize * kSize * kSize / took);
  } while (io::MonotonicNow() < end);
  return FlopsPerSecond(best);
}

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

Status SlowCore(FlopsPerSecond rate, bool has_mkl) {
  const std::string cause =
      has_mkl ? "libtorch's MKL is slow on this processor. Check in /proc/cpuinfo that the virtual "
                "machine passes avx2 or avx512f on, and that MKL_ENABLE_INSTRUCTIONS is not set; "
              : "libblas.so.3 is not OpenBLAS. Install libopenblas0-pthread, or choose it by "
                "update-alternatives --config libblas.so.3-x86_64-linux-gnu; ";
  return FailedPrecondition("a core does only " + ToString(rate) + ": " + cause +
                            "LONGHAUL_ALLOW_SLOW_BLAS=1 continues without");
}

// All processes run at the same time, because the cores of a busy machine may be slower than a
// single busy core. One pipe serves all: a write of 8 bytes is atomic.
Result<FlopsPerSecond> MeasureMachine(int cores) {
  int ends[2];
  if (pipe(ends) != 0) return FromErrno(errno, "cannot make a pipe");
  const io::Fd from(ends[0]);
  io::Fd to(ends[1]);
  std::vector<pid_t> children;
  for (int i = 0; i < cores; ++i) {
    const pid_t child = fork();
    if (child < 0) return FromErrno(errno, "cannot fork");
    if (child == 0) {
      const double rate = MeasureCorePeak(std::chrono::milliseconds(300)).count();
      _exit(write(to.get(), &rate, sizeof(rate)) == sizeof(rate) ? 0 : 1);
    }
    children.push_back(child);
  }
  // The loop below ends at the end of file, which comes when every end for writing is closed, also
  // that of this process.
  to.Reset();
  double sum = 0;
  int answers = 0;
  for (double rate = 0; read(from.get(), &rate, sizeof(rate)) == sizeof(rate); ++answers) {
    sum += rate;
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  if (answers != cores) return InternalError("a core's speed could not be measured");
  const FlopsPerSecond mean(sum / cores);
  const char* allowed = std::getenv("LONGHAUL_ALLOW_SLOW_BLAS");
  if (mean < kSlowestCore && (allowed == nullptr || std::string_view(allowed) != "1")) {
    return SlowCore(mean, at::hasMKL());
  }
  return mean;
}

}  // namespace longhaul::trainer
