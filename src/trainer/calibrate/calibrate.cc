#include "trainer/calibrate/calibrate.h"

#include <ATen/Config.h>
#include <ATen/Version.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "io/clock.h"
#include "planner/local/measuring_plan.h"
#include "trainer/calibrate/peak.h"
#include "trainer/calibrate/probe.h"
#include "trainer/calibrate/worker_pool.h"

namespace longhaul::trainer {
namespace {

using planner::Figure;
using planner::FigureKind;
using planner::Measurement;

// "matmul 1,024 x 128 x 512".
std::string Describe(const Figure& figure) {
  std::string text(planner::FigureName(figure.kind));
  for (size_t i = 0; i < planner::SizeNames(figure.kind).size(); ++i) {
    text += (i == 0 ? " " : " x ") + WithThousands(static_cast<int64_t>(figure.sizes[i]));
  }
  return text;
}

Bytes MachineMemory() {
  return Bytes(static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<planner::DeviceFile> Calibrate(const CalibrateOptions& options, const Progress& progress) {
  const Instant began = io::MonotonicNow();
  const auto cores = static_cast<uint32_t>(UsableCores());
  planner::DeviceFile file;
  file.machine = MakeCpuProbe(options.directory)->Machine();
  file.cores = cores;
  file.memory = MachineMemory();
  file.quick = options.quick;
  ASSIGN_OR_RETURN(file.process_memory, MeasureProcessMemory());
  ASSIGN_OR_RETURN(const auto pool, WorkerPool::Start(cores, options.directory));
  planner::MeasuringPlan plan(cores, options.quick);
  while (const auto next = plan.Next()) {
    progress(plan.done(), plan.total(), Describe(next->figure));
    const Duration budget = DurationFromSeconds(next->budget_s);
    if (next->figure.kind == FigureKind::kAllReduce) {
      // A size a group: joining costs little beside the sums.
      ASSIGN_OR_RETURN(const auto figures, MeasureAllReduce({next->figure}, budget));
      plan.Add(figures.front());
      continue;
    }
    const auto figure = pool->Measure(next->figure, budget);
    if (!figure.ok()) return figure.status().WithContext(Describe(next->figure));
    plan.Add(*figure);
  }
  file.figures = plan.figures();
  file.versions["libtorch"] = TORCH_VERSION;
  file.calibration_s = ToSeconds(io::MonotonicNow() - began);
  return file;
}

int RunCalibrate(const CalibrateOptions& options) {
  using Json = nlohmann::ordered_json;
  const auto print = [](const Json& json) {
    const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  };
  const auto file = Calibrate(options, [&](size_t done, size_t total, const std::string& what) {
    print({{"done", done}, {"total", total}, {"what", what}});
  });
  if (!file.ok()) {
    std::fprintf(stderr, "longhaul-trainer: %s\n", ToString(file.status()).c_str());
    return 1;
  }
  print({{"device", Json::parse(planner::ToJson(*file))}});
  return 0;
}

}  // namespace longhaul::trainer
