#include "service/controller/machine_peak.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "io/file.h"
#include "io/process.h"
#include "io/program_output.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr FlopsPerSecond kAssumedPeak(50e9);  // one core with AVX2 at 2-3 GHz: 50 to 100
constexpr Duration kMeasureLimit = std::chrono::seconds(60);
constexpr size_t kLongestAnswer = 4096;

std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line;
  }
  return "unknown";
}

uint32_t Cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

double PeakIn(const Json& json) {
  const auto found = json.is_object() ? json.find("flops_per_second_per_core") : json.end();
  return json.is_object() && found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

}  // namespace

planner::MachineFacts ReadMachineFacts(const std::string& state_directory,
                                       const std::string& trainer) {
  planner::MachineFacts facts;
  facts.cores = Cores();
  facts.memory = Bytes(static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
  facts.flops_per_core = kAssumedPeak;
  const std::string path = state_directory + "/machine.json";
  const std::string machine = ProcessorModel() + ", cores: " + std::to_string(facts.cores);
  double peak = 0.0;
  const auto kept = io::ReadText(path, kLongestAnswer);
  if (kept.ok()) {
    const Json json = Json::parse(*kept, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("machine") && json["machine"] == machine) {
      peak = PeakIn(json);
    }
  }
  if (!(peak > 0.0) && !trainer.empty()) {
    io::ProcessOptions options;
    options.argv = {trainer, "--measure-peak"};
    options.environment = io::CurrentEnvironment();
    const auto output = io::OutputOf(std::move(options), kMeasureLimit);
    if (output.ok()) peak = PeakIn(Json::parse(*output, nullptr, /*allow_exceptions=*/false));
    if (peak > 0.0) {
      const Json json = {{"machine", machine}, {"flops_per_second_per_core", peak}};
      // Without the file it is measured again next time.
      (void)!io::WriteTextAtomically(io::PosixFileSystem(), path, json.dump(2) + "\n").ok();
    }
  }
  facts.flops_measured = peak > 0.0;
  if (facts.flops_measured) facts.flops_per_core = FlopsPerSecond(peak);
  return facts;
}

}  // namespace longhaul::service
