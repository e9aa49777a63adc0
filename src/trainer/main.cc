// longhaul-trainer: the built-in trainer's process. Apart from `longhaul`, because loading libtorch
// costs each start of a process half a second.
//
//   longhaul-trainer --fork-server FD       forks workers on request (worker_api/fork_server.h)
//   longhaul-trainer --worker [CONFIG]      one rank, named by the environment; CONFIG where there
//                                           is no agent
//   longhaul-trainer --measure-peak         {"flops_per_second_per_core": ..., "cores": ...}
//   longhaul-trainer --calibrate full|quick DIRECTORY
//                                           all that the planner asks of the machine
//                                           (calibrate/calibrate.h)
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/text.h"
#include "io/files/private_files.h"
#include "io/process/batch_scheduling.h"
#include "trainer/calibrate/calibrate.h"
#include "trainer/calibrate/peak.h"
#include "trainer/model/blas_kernels.h"
#include "trainer/model/model.h"
#include "trainer/worker/fork_server.h"
#include "trainer/worker/worker.h"

namespace longhaul::trainer {
namespace {

// As the kernel cuts the program's name; starting again through /proc would leave "exe".
constexpr char kProcessName[] = "longhaul-traine";
constexpr std::array kThreadVariables = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"};

// BLAS reads its number of threads, and which kernels to use, when it is loaded, before main: begin
// again with the right ones.
void PrepareBlas(char** argv) {
  constexpr char kKernels[] = "OPENBLAS_CORETYPE";
  const std::string better =
      std::getenv(kKernels) == nullptr ? BetterBlasKernels(BlasKernels(), VectorUnitsHere()) : "";
  bool right = better.empty();
  if (!right) setenv(kKernels, better.c_str(), 1);
  for (const char* name : kThreadVariables) {
    const char* value = std::getenv(name);
    right = right && value != nullptr && std::strcmp(value, "1") == 0;
    setenv(name, "1", 1);
  }
  if (right) return;
  execv("/proc/self/exe", argv);
  std::fprintf(stderr, "longhaul-trainer: cannot start again: %s\n", std::strerror(errno));
  std::exit(1);
}

int Fail(const Status& status) {
  std::fprintf(stderr, "longhaul-trainer: %s\n", ToString(status).c_str());
  return 1;
}

int MeasurePeak() {
  const int cores = UsableCores();
  const auto peak = MeasureMachine(cores);
  if (!peak.ok()) return Fail(peak.status());
  std::printf("{\"flops_per_second_per_core\": %.4g, \"cores\": %d}\n", peak->count(), cores);
  return 0;
}

int ForkServer(std::string_view descriptor) {
  const auto fd = ParseInt64(descriptor);
  if (!fd.ok() || *fd < 3 || *fd > 1 << 20) {
    return Fail(InvalidArgument("not a descriptor: " + std::string(descriptor)));
  }
  const Status served = ServeForkServer(static_cast<int>(*fd), [] { RunWorker(""); });
  return served.ok() ? 0 : Fail(served);
}

int Main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  const bool known =
      (mode == "--fork-server" && argc == 3) || (mode == "--worker" && argc <= 3) ||
      (mode == "--measure-peak" && argc == 2) ||
      (mode == "--calibrate" && argc == 4 &&
       (std::string_view(argv[2]) == "full" || std::string_view(argv[2]) == "quick"));
  if (!known) {
    std::fprintf(stderr,
                 "usage: %s --fork-server FD | --worker [CONFIG] | --measure-peak | "
                 "--calibrate full|quick DIRECTORY\n",
                 argc > 0 ? argv[0] : "longhaul-trainer");
    return 2;
  }
  PrepareBlas(argv);
  (void)prctl(PR_SET_NAME, kProcessName);
  // What workers write lies in the folder of their run.
  if (mode == "--fork-server" || mode == "--worker") io::MakeFilesPrivate();
  // What is measured is measured as workers run, and a worker's threads are yet to come.
  if (const Status batch = io::UseBatchScheduling(); !batch.ok()) {
    std::fprintf(stderr, "longhaul-trainer: %s: sums of ranks that share cores are slower\n",
                 ToString(batch).c_str());
  }
  PrepareTorch();
  if (mode == "--measure-peak") return MeasurePeak();
  if (mode == "--calibrate") return RunCalibrate({std::string_view(argv[2]) == "quick", argv[3]});
  if (mode == "--fork-server") return ForkServer(argv[2]);
  RunWorker(argc == 3 ? argv[2] : "");
}

}  // namespace
}  // namespace longhaul::trainer

int main(int argc, char** argv) { return longhaul::trainer::Main(argc, argv); }
