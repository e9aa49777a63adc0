#include "service/controller/submission/machine_facts.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "io/files/file.h"
#include "io/process/process.h"
#include "io/process/program_output.h"
#include "service/device_file_path.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr FlopsPerSecond kAssumedPeak(50e9);  // one core with AVX2 at 2-3 GHz: 50 to 100
constexpr Duration kMeasureLimit = std::chrono::seconds(60);
constexpr size_t kLongestAnswer = 4096;

std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) {
      return std::string(Trim(std::string_view(line).substr(colon + 1)));
    }
  }
  return "unknown processor";
}

// The cores that this process may use, which may be fewer than the machine has.
uint32_t Cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

double PeakIn(const Json& json) {
  const auto found = json.is_object() ? json.find("flops_per_second_per_core") : json.end();
  return json.is_object() && found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

// The core's peak, from the file that keeps it or measured; zero where it can't be.
double CorePeak(const std::string& state_directory, const std::string& trainer, uint32_t cores) {
  const std::string path = state_directory + "/machine.json";
  // The figure is valid for this processor only; a state directory may be moved to another machine.
  const std::string machine = ProcessorModel() + ", cores: " + std::to_string(cores);
  double peak = 0.0;
  const auto kept = io::ReadText(path, kLongestAnswer);
  if (kept.ok()) {
    const Json json = Json::parse(*kept, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("machine") && json["machine"] == machine) {
      peak = PeakIn(json);
    }
  }
  if (peak > 0.0 || trainer.empty()) return peak;
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
  return peak;
}

// Why the device file is not of this machine; empty when it is.
std::string Mismatch(const planner::DeviceFile& file, uint32_t cores) {
  const std::string here = ProcessorModel();
  if (file.machine != here) return "it is of " + Printable(file.machine) + ", this is " + here;
  if (file.cores != cores) {
    return "it was measured with " + std::to_string(file.cores) + " cores, here are " +
           std::to_string(cores);
  }
  return "";
}

// Takes the figures of the device file. Returns why not; empty when there is none to speak of.
std::string TakeDeviceFile(const std::string& path, planner::MachineFacts& facts) {
  if (path.empty()) return "";
  const auto text = io::ReadText(path, planner::kLargestDeviceFile);
  if (text.status().code() == Code::kNotFound) return "";
  auto file = text.ok() ? planner::ParseDeviceFile(*text) : text.status();
  const std::string why = file.ok() ? Mismatch(*file, facts.cores) : file.status().message();
  if (!why.empty()) return path + " is not used: " + why;
  facts.device = *std::move(file);
  facts.level = planner::CalibrationLevel::kCalibrated;
  facts.basis = "measured by longhaul calibrate on " + Printable(facts.device.measured_at) +
                (facts.device.quick ? " (quick)" : "");
  return "";
}

}  // namespace

planner::MachineFacts ReadMachineFacts(const std::string& state_directory,
                                       const std::string& trainer) {
  planner::MachineFacts facts;
  facts.cores = Cores();
  facts.memory = Bytes(static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
  const std::string unusable = TakeDeviceFile(DefaultDeviceFile(), facts);
  if (facts.level == planner::CalibrationLevel::kCalibrated) return facts;
  const double peak = CorePeak(state_directory, trainer, facts.cores);
  const bool measured = peak > 0.0;
  const FlopsPerSecond core = measured ? FlopsPerSecond(peak) : kAssumedPeak;
  facts.level = measured ? planner::CalibrationLevel::kPeak : planner::CalibrationLevel::kAssumed;
  facts.device = planner::ShippedCpu(core);
  facts.basis = "those shipped with the program, at a core's " +
                std::string(measured ? "measured" : "assumed") + " " + ToString(core) +
                "; longhaul calibrate measures them";
  if (!unusable.empty()) facts.basis += " (" + unusable + ")";
  return facts;
}

}  // namespace longhaul::service
