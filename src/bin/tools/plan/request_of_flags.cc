#include "bin/tools/plan/request_of_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/text.h"
#include "io/files/file.h"
#include "planner/known_stacks.h"
#include "planner/local/device_constants.h"
#include "planner/local/device_file.h"
#include "planner/local/gpu/gpu_file.h"
#include "planner/local/software_fit.h"
#include "planner/search/gpus.h"
#include "planner/search/settings.h"
#include "spec/cluster/device_cluster.h"

namespace longhaul::bin {
namespace {

using planner::search::PlanRequest;
using planner::search::Reach;

constexpr uint64_t kMostBytes = 1 << 20;  // of a model's or cluster's file

// "3M", "250k", "1200000".
Result<double> ParseDollars(std::string_view text) {
  double scale = 1;
  std::string_view digits = text;
  if (!text.empty()) {
    const char last = text.back();
    scale = last == 'B' ? 1e9 : last == 'M' ? 1e6 : last == 'k' ? 1e3 : 1;
    if (scale > 1) digits.remove_suffix(1);
  }
  const Result<double> number = ParseDouble(digits);
  if (!number.ok() || !(*number > 0) || *number * scale > 1e15) {
    return InvalidArgument("--budget '" + Printable(text, 40) +
                           "' is not a sum of dollars, as in 250k or 3M");
  }
  return *number * scale;
}

// The counts of "LOW..HIGH" or of one number.
Result<std::vector<uint32_t>> ParseGpus(std::string_view text, const spec::DeviceCluster& cluster) {
  const size_t dots = text.find("..");
  const Result<uint64_t> low = ParseUint64(text.substr(0, dots));
  const Result<uint64_t> high =
      dots == std::string_view::npos ? low : ParseUint64(text.substr(dots + 2));
  if (!low.ok() || !high.ok() || *low < 1 || *high < *low || *high > 10'000'000) {
    return InvalidArgument("--gpus '" + Printable(text, 40) +
                           "' is not a range of GPUs, as in 256..4096");
  }
  std::vector<uint32_t> counts = planner::search::GpuCounts(cluster, static_cast<uint32_t>(*low),
                                                            static_cast<uint32_t>(*high));
  if (counts.empty()) {
    return InvalidArgument("--gpus " + Printable(text, 40) +
                           " holds no count of whole islands of " + std::to_string(cluster.island) +
                           " GPUs");
  }
  return counts;
}

// GPUs that `calibrate --device cuda` measured, as many machines of them as fill the count.
Status ReadGpus(const std::string& text, const std::string& path, uint32_t devices,
                PlanRequest& job) {
  const Result<planner::GpuFile> file = planner::ParseGpuFile(text);
  if (!file.ok()) return file.status().WithContext(path);
  const auto constants = planner::ConstantsOf(*file, devices);
  if (!constants.ok()) return constants.status().WithContext(path);
  job.cluster = constants->cluster;
  job.machine = {constants->matrix, constants->links, {}};  // the stack is the framework's
  return {};
}

// A shipped device and a count, a cluster's YAML, or a machine that was calibrated (of GPUs with a
// count too: gpu.json:64).
Status ReadCluster(const PlanFlags& flags, PlanRequest& job) {
  std::string path = flags.cluster;
  uint32_t devices = 0;
  if (access(path.c_str(), R_OK) != 0) {
    const size_t colon = path.rfind(':');
    const auto count = colon == std::string::npos
                           ? Result<uint64_t>(uint64_t{0})
                           : ParseUint64(std::string_view(path).substr(colon + 1));
    const bool counted = colon != std::string::npos && count.ok() && *count >= 1 &&
                         *count <= 10'000'000 && access(path.substr(0, colon).c_str(), R_OK) == 0;
    if (!counted) {
      ASSIGN_OR_RETURN(job.cluster, spec::ParseClusterName(flags.cluster));
      return {};
    }
    devices = static_cast<uint32_t>(*count);
    path.resize(colon);
  }
  ASSIGN_OR_RETURN(const std::string text, io::ReadText(path, planner::kLargestDeviceFile));
  if (text.find("\"longhaul-gpu\"") != std::string::npos) {
    return ReadGpus(text, path, devices, job);
  }
  if (devices > 0) {
    return InvalidArgument(path +
                           " says its own count of GPUs: leave out :" + std::to_string(devices));
  }
  if (text.find("\"longhaul-device\"") == std::string::npos) {
    ASSIGN_OR_RETURN(job.cluster, spec::ParseDeviceCluster(text, path));
    return {};
  }
  const Result<planner::DeviceFile> file = planner::ParseDeviceFile(text);
  if (!file.ok()) return file.status().WithContext(path);
  planner::DeviceConstants constants = planner::ConstantsOf(*file);
  job.cluster = constants.cluster;
  job.machine = {constants.matrix, constants.links, constants.stack};
  return {};
}

// Sequences of a step where none is given: 4 Mi tokens, or 1,024 a device where that is more,
// rounded to a power of two.
uint32_t UsualBatch(const PlanRequest& job) {
  const double tokens = std::max(4.0 * (1 << 20), 1024.0 * job.cluster.devices);
  const double sequences = std::max(1.0, tokens / job.model.sequence_length);
  return static_cast<uint32_t>(std::exp2(std::round(std::log2(sequences))));
}

Status SetFramework(const std::string& name, PlanRequest& job) {
  job.base.software.framework = "megatron-core";
  if (name == "any") {
    job.reach = Reach::kSomeFramework;
    return {};
  }
  if (name == "all") {
    job.reach = Reach::kEverything;
    return {};
  }
  const auto framework = planner::flags::ParseFramework(name);
  if (!framework.ok()) {
    return NotFound(framework.status().message() + ", any (some of them), all (everything)");
  }
  job.framework = *framework;
  job.reach = Reach::kOneFramework;
  using planner::flags::Framework;
  if (*framework == Framework::kTorchtitan) job.base.software.framework = "torchtitan";
  if (*framework == Framework::kDeepSpeed) job.base.software.framework = "deepspeed";
  return {};
}

// GPUs without a unit for the precision would be planned as if they had one.
Status CheckPrecision(const PlanRequest& job) {
  const spec::Device& device = job.cluster.device;
  const spec::Precision precision = job.base.precision;
  const bool eight = precision == spec::Precision::kFp8 || precision == spec::Precision::kMxfp8;
  const bool four = precision == spec::Precision::kNvfp4;
  if ((!eight || device.fp8.count() > 0) && (!four || device.fp4.count() > 0)) return {};
  return InvalidArgument("--precision " + std::string(planner::search::ToText(precision)) + ": " +
                         device.name + " has no unit for it: use bf16, or " +
                         (eight ? "h100-sxm" : "b200-sxm"));
}

}  // namespace

Result<double> ParseTokens(std::string_view text) {
  double scale = 1;
  std::string_view digits = text;
  if (!text.empty()) {
    const char last = text.back();
    scale = last == 'T' ? 1e12 : last == 'B' ? 1e9 : last == 'M' ? 1e6 : 1;
    if (scale > 1) digits.remove_suffix(1);
  }
  const Result<double> number = ParseDouble(digits);
  if (!number.ok() || !(*number > 0) || *number * scale > 1e18) {
    return InvalidArgument("--tokens '" + Printable(text, 40) +
                           "' is not a number of tokens, as in 300B or 15T");
  }
  return *number * scale;
}

bool IsOfGpus(const PlanRequest& job) { return job.machine && job.cluster.device.name != "cpu"; }

Result<StackChoice> ReadStack(const std::string& text) {
  StackChoice choice;
  if (text.empty()) return choice;
  const Result<spec::Software> known = planner::ParseStackName(text);
  if (known.ok()) {
    choice.known = *known;
    return choice;
  }
  if (access(text.c_str(), R_OK) != 0) {
    return Status(known.status().code(),
                  "--stack: " + known.status().message() + ", and no file has this name");
  }
  ASSIGN_OR_RETURN(const std::string content, io::ReadText(text, kMostBytes));
  const auto factor = planner::ParseStackFile(content);
  if (!factor.ok()) return factor.status().WithContext(text);
  choice.compute_factor = factor->compute_factor;
  return choice;
}

void ApplyStack(const StackChoice& stack, bool keeps_settings, spec::Software& software) {
  if (stack.known && keeps_settings) {
    software.framework = stack.known->framework;
    software.release = stack.known->release;
  } else if (stack.known) {
    software = *stack.known;
  }
  software.compute_factor = stack.compute_factor;
}

std::string StackList() {
  std::string text;
  for (const planner::KnownStack& stack : planner::KnownStacks()) {
    constexpr size_t kWidth = 20;
    text += std::string(stack.name) + std::string(kWidth - stack.name.size(), ' ') +
            std::string(stack.what) + "; fitted to: " + std::string(stack.fitted) + "\n";
  }
  return text;
}

Result<NowAndJob> JobOfRun(PlanFlags flags) {
  NowAndJob run;
  ASSIGN_OR_RETURN(run.file, ReadRunFile(flags.from.first, flags.from.second));
  if (flags.batch > 0 || flags.sequence > 0 || !flags.precision.empty()) {
    return InvalidArgument(
        "--batch, --sequence and --precision are read from the file of --from: change it there, or "
        "ask --what-if batch=...");
  }
  // One name is the cluster's where the file has the model.
  if (flags.cluster.empty() && run.file.config.model) std::swap(flags.cluster, flags.model);
  if (flags.cluster.empty()) {
    return InvalidArgument(
        run.file.config.model
            ? "--from needs a CLUSTER too, as in: longhaul plan --from " + flags.from.first +
                  " FILE h100-sxm"
            : "the file does not say the model's sizes: give MODEL and CLUSTER, as "
              "in: longhaul plan --from " +
                  flags.from.first + " FILE llama-3.1-8b h100-sxm:64");
  }
  flags.cluster = ClusterOfRun(flags.cluster, run.file.config);
  RETURN_IF_ERROR(ReadCluster(flags, run.job));
  std::optional<spec::Model> model;
  if (!flags.model.empty()) {
    ASSIGN_OR_RETURN(model, ReadModel(flags.model));
  }
  const auto question = planner::configs::QuestionOf(run.file.config, model, run.job.cluster);
  if (!question.ok()) return question.status().WithContext(run.file.path);
  run.question = *question;
  planner::configs::RunConfig& config = run.file.config;
  if (config.devices > 0 && config.devices != run.job.cluster.devices) {
    config.assumed.push_back(std::to_string(run.job.cluster.devices) + " GPUs (the file starts " +
                             std::to_string(config.devices) + " ranks)");
  }
  run.job.model = question->model;
  if (run.job.model.name.empty()) {
    run.job.model.name = "the model of " + std::filesystem::path(run.file.path).filename().string();
  }
  run.job.headroom = flags.headroom;
  RETURN_IF_ERROR(
      SetFramework(flags.framework == "any" ? flags.from.first : flags.framework, run.job));
  run.job.base = question->training;
  RETURN_IF_ERROR(CheckPrecision(run.job));
  for (const std::string& text : flags.fixed) {
    const Status status = planner::search::ParseFixed(text, run.job.fixed);
    if (!status.ok()) return status.WithContext("--fix");
  }
  return run;
}

Result<PlanRequest> JobOf(const PlanFlags& flags) {
  PlanRequest job;
  ASSIGN_OR_RETURN(job.model, ReadModel(flags.model));
  RETURN_IF_ERROR(ReadCluster(flags, job));
  if (flags.sequence > 0) job.model.sequence_length = flags.sequence;
  RETURN_IF_ERROR(spec::CheckModel(job.model));
  job.base.batch.global = flags.batch > 0 ? flags.batch : UsualBatch(job);
  // Machines are measured in fp32, the built-in trainer's own.
  const std::string usual = job.machine && !IsOfGpus(job) ? "fp32" : "bf16";
  ASSIGN_OR_RETURN(job.base.precision, planner::search::ParsePrecision(
                                           flags.precision.empty() ? usual : flags.precision));
  RETURN_IF_ERROR(CheckPrecision(job));
  job.headroom = flags.headroom;
  RETURN_IF_ERROR(SetFramework(
      flags.emit.empty() || flags.framework != "any" ? flags.framework : flags.emit, job));
  job.recompute_by_stage =
      flags.recompute.empty() ? job.reach != Reach::kOneFramework : flags.recompute == "stage";
  for (const std::string& text : flags.fixed) {
    const Status status = planner::search::ParseFixed(text, job.fixed);
    if (!status.ok()) return status.WithContext("--fix");
  }
  return job;
}

Status SetGoal(const PlanFlags& flags, const planner::RunFacts& run, PlanRequest& job) {
  planner::search::Goal goal;
  goal.run = run;
  if (flags.objective == "cost") goal.objective = planner::search::Objective::kCost;
  if (flags.deadline_days > 0) goal.deadline_days = flags.deadline_days;
  if (!flags.budget.empty()) {
    ASSIGN_OR_RETURN(goal.budget_dollars, ParseDollars(flags.budget));
  }
  std::vector<uint32_t> counts = {job.cluster.devices};
  if (!flags.gpus.empty()) {
    ASSIGN_OR_RETURN(counts, ParseGpus(flags.gpus, job.cluster));
    job.cluster.devices = counts.back();
  }
  return planner::search::SetGpus(counts, goal, job);
}

}  // namespace longhaul::bin
