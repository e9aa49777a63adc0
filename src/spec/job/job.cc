#include "spec/job/job.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "spec/internal/document.h"
#include "spec/internal/job_reader.h"
#include "spec/internal/job_schema.h"
#include "spec/job/job_name.h"

namespace longhaul::spec {

namespace {

using internal::JobReader;
using internal::kMaxNameBytes;

bool IsNameCharacter(char c) { return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.'; }

// "examples/headers-gpt.yaml" -> "headers-gpt"; "job" when nothing is left.
std::string NameFromSource(std::string_view source) {
  std::string_view stem = source.substr(source.find_last_of('/') + 1);
  stem = stem.substr(0, stem.find_last_of('.'));
  std::string name;
  for (const char c : stem) {
    if (name.empty() && !IsLetterOrDigit(c)) continue;
    name += IsNameCharacter(c) ? c : '-';
    if (name.size() == kMaxNameBytes) break;
  }
  return name.empty() ? "job" : name;
}

void CheckName(JobReader& reader, JobSpec& job, std::string_view source) {
  if (!reader.Has("name")) {
    job.name = NameFromSource(source);
  } else if (const Status usable = CheckJobName(job.name); !usable.ok()) {
    reader.Refuse("name", usable.message());
  }
}

std::string Joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    text += (text.empty() ? "" : ", ") + std::string(word);
  }
  return text;
}

// Returns whether the recipe can be expanded.
bool CheckRecipe(JobReader& reader, const RecipeSpec& recipe) {
  const auto names = FrameworkNames();
  if (std::ranges::find(names, recipe.framework) == names.end()) {
    const auto nearest = Nearest(recipe.framework, names);
    reader.Refuse("framework",
                  "'" + Printable(recipe.framework, 40) + "' is unknown" +
                      (nearest ? ", did you mean '" + std::string(*nearest) + "'" : "") +
                      "; known here: " + Joined(names));
    return false;
  }
  if (reader.Has("command")) {
    reader.Refuse("command",
                  "cannot stand beside 'framework', whose recipe makes the command: give the "
                  "script as 'script' or 'module' and its arguments as 'args', or leave "
                  "'framework' out and give 'step_pattern' and 'environment' yourself");
    return false;
  }
  if (!recipe.script.empty() && !recipe.module.empty()) {
    reader.Refuse("module", "cannot stand beside 'script'; leave one of them out");
    return false;
  }
  if (recipe.script.empty() && recipe.module.empty() && DefaultModule(recipe.framework).empty()) {
    reader.Refuse("framework", recipe.framework +
                                   " needs the program to train with: give 'script', such as "
                                   "train.py, or 'module', as after python3 -m");
    return false;
  }
  if (recipe.python.empty()) {
    reader.Refuse("python", "must not be empty: the interpreter, such as python3");
  }
  const std::pair<const char*, bool> checkpoints[] = {
      {"checkpoint_directory", !recipe.checkpoint_directory.empty()},
      {"checkpoint_interval", recipe.checkpoint_interval.has_value()}};
  for (const auto& [key, given] : checkpoints) {
    if (!given || HasCheckpointArguments(recipe.framework)) continue;
    reader.Refuse(key,
                  "is for frameworks that have arguments for it (torchtitan, megatron); a "
                  "script of " +
                      recipe.framework +
                      " reads its own arguments: name them in "
                      "'args'");
  }
  return !recipe.python.empty();
}

// Fills in command, environment and step_pattern.
void ExpandRecipe(JobReader& reader, JobSpec& job) {
  if (!CheckRecipe(reader, job.recipe)) return;
  Expansion expansion = Expand(job.recipe, job.name);
  job.command = std::move(expansion.command);
  job.environment.merge(expansion.environment);  // what the job sets is kept
  if (!reader.Has("step_pattern")) job.step_pattern = expansion.step_pattern;
}

// These keys have no meaning without a recipe that reads them.
void RefuseRecipeKeys(JobReader& reader) {
  for (const char* key :
       {"script", "module", "args", "python", "checkpoint_directory", "checkpoint_interval"}) {
    if (!reader.Has(key)) continue;
    reader.Refuse(key, "needs 'framework' beside it: " + Joined(FrameworkNames()));
  }
}

// A command chooses what it trains: the built-in trainer's keys would have no effect.
void CheckCommandJob(JobReader& reader, const JobSpec& job) {
  const bool from_recipe = reader.Has("framework");
  if (job.command.empty() && !from_recipe) {
    reader.Refuse("command", "must not be empty: a program and its arguments");
  }
  for (const char* key :
       {"model", "data", "train", "layout", "trace", "sample", "resources.micro_batch"}) {
    if (!reader.Has(key)) continue;
    reader.Refuse(key, "is for the built-in trainer and has no effect beside '" +
                           std::string(from_recipe ? "framework" : "command") + "'");
  }
  if (!job.resources.memory) {
    reader.Refuse("resources.memory",
                  "auto is for the built-in trainer: the planner has no figure for a 'command', "
                  "give a size such as 64GiB");
  }
  if (job.step_pattern.empty()) return;
  const Result<StepPattern> pattern = StepPattern::Parse(job.step_pattern);
  if (!pattern.ok()) reader.Refuse("step_pattern", pattern.status().message());
}

// A layout that the model, the batch or the workers can't have.
void CheckLayout(JobReader& reader, const JobSpec& job) {
  const LayoutSpec& layout = job.layout;
  const std::string why =
      WhyNoLayout(job.model, layout.tensor.value_or(1), layout.pipeline.value_or(1));
  if (!why.empty()) {
    reader.Refuse(why.starts_with("pipeline") ? "layout.pipeline" : "layout.tensor", why);
  }
  if (layout.data && job.train.global_batch % *layout.data != 0) {
    reader.Refuse("layout.data", std::to_string(*layout.data) + " replicas don't divide the " +
                                     std::to_string(job.train.global_batch) +
                                     " sequences of train.global_batch");
  }
  const auto& nodes = job.resources.nodes;
  const auto& processes = job.resources.processes_per_node;
  if (!layout.data || !layout.tensor || !layout.pipeline || !nodes || !processes) return;
  const uint64_t wanted = uint64_t{*layout.data} * *layout.tensor * *layout.pipeline;
  const uint64_t workers = uint64_t{*nodes} * *processes;
  if (wanted != workers) {
    reader.Refuse("layout", std::to_string(*layout.data) + " x " + std::to_string(*layout.tensor) +
                                " x " + std::to_string(*layout.pipeline) +
                                " (data x tensor x pipeline) are " + std::to_string(wanted) +
                                " workers, resources name " + std::to_string(workers));
  }
}

void CheckBounds(JobReader& reader, const JobSpec& job) {
  const ResourceSpec& resources = job.resources;
  if (!resources.minimum_nodes && !resources.maximum_nodes) return;
  const char* given =
      resources.minimum_nodes ? "resources.minimum_nodes" : "resources.maximum_nodes";
  if (!resources.nodes) {
    return reader.Refuse(given, "needs resources.nodes beside it: the number it is planned for");
  }
  const uint32_t nodes = *resources.nodes;
  const uint32_t minimum = resources.minimum_nodes.value_or(nodes);
  const uint32_t maximum = resources.maximum_nodes.value_or(nodes);
  if (minimum > nodes) {
    return reader.Refuse(
        "resources.minimum_nodes",
        std::to_string(minimum) + " is above the " + std::to_string(nodes) + " of resources.nodes");
  }
  if (maximum < nodes) {
    return reader.Refuse(
        "resources.maximum_nodes",
        std::to_string(maximum) + " is below the " + std::to_string(nodes) + " of resources.nodes");
  }
  // What is left to the planner is looked at when it has chosen.
  const bool known = resources.processes_per_node &&
                     (!job.built_in() || (job.layout.tensor && job.layout.pipeline));
  if (!known) return;
  const std::string why = WhyNoBounds(
      minimum, nodes, maximum, *resources.processes_per_node, job.layout.tensor.value_or(1),
      job.layout.pipeline.value_or(1), job.built_in() ? job.train.global_batch : 0);
  if (!why.empty()) reader.Refuse("resources", why);
}

void CheckTrace(JobReader& reader, const JobSpec& job) {
  if (job.trace.first_step > job.train.steps) {
    reader.Refuse("trace.first_step", std::to_string(job.trace.first_step) +
                                          " is after the last step, " +
                                          std::to_string(job.train.steps));
  }
}

void CheckBuiltInJob(JobReader& reader, JobSpec& job) {
  if (reader.Has("step_pattern")) {
    reader.Refuse("step_pattern",
                  "is for a 'command': the built-in trainer reports its steps itself");
  }
  if (!reader.Has("data.include")) {
    reader.Refuse("data.include",
                  "is missing: give the text to train on, such as ['/usr/include/**/*.h'], or a "
                  "'command' to run, or a 'framework' with its script");
  } else if (job.data.include.empty()) {
    reader.Refuse("data.include", "must not be empty: which files shall be read?");
  }
  const ModelSpec& model = job.model;
  if (model.hidden % model.heads != 0) {
    reader.Refuse("model.hidden", std::to_string(model.hidden) + " is not divisible by the " +
                                      std::to_string(model.heads) + " of model.heads");
  }
  if (!reader.Has("train.warmup_steps")) {
    job.train.warmup_steps = std::min(job.train.warmup_steps, job.train.steps);
  } else if (job.train.warmup_steps > job.train.steps) {
    reader.Refuse("train.warmup_steps", std::to_string(job.train.warmup_steps) +
                                            " is more than the " + std::to_string(job.train.steps) +
                                            " of train.steps");
  }
  if (job.resources.micro_batch && *job.resources.micro_batch > job.train.global_batch) {
    reader.Refuse("resources.micro_batch",
                  std::to_string(*job.resources.micro_batch) + " is more than the " +
                      std::to_string(job.train.global_batch) + " of train.global_batch");
  }
  CheckLayout(reader, job);
  CheckTrace(reader, job);
}

void CheckDevices(JobReader& reader, const ResourceSpec& resources) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  if (resources.memory.value_or(0) % kMiB != 0) {
    reader.Refuse("resources.memory", "must be a multiple of 1MiB");
  }
  if (resources.device_memory % kMiB != 0) {
    reader.Refuse("resources.device_memory", "must be a multiple of 1MiB");
  }
  std::vector<std::string> names = resources.devices;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    reader.Refuse("resources.devices", "names '" + Printable(*twice, 63) + "' twice");
  }
}

void CheckHang(JobReader& reader, const HangSpec& hang) {
  const auto check = [&reader](const char* path, const std::string& text) {
    const auto duration = ParseDuration(text);
    if (text == "never" || (duration.ok() && *duration > Duration(0))) return;
    reader.Refuse(path, "'" + Printable(text, 40) + "' is not a time such as 90s, or never");
  };
  check("hang.stopped", hang.stopped);
  check("hang.no_step", hang.no_step);
  check("hang.idle", hang.idle);
}

void CheckNumeric(JobReader& reader, const NumericSpec& numeric) {
  const auto check = [&reader](const char* path, const std::string& text, const auto& actions) {
    if (std::find(actions.begin(), actions.end(), text) != actions.end()) return;
    std::string known;
    for (const std::string_view action : actions) {
      known += (known.empty() ? "" : action == actions.back() ? " or " : ", ");
      known += action;
    }
    reader.Refuse(path, "'" + Printable(text, 40) + "' is not an action: expected " + known);
  };
  check("numeric.not_finite", numeric.not_finite, NumericSpec::kNotFiniteActions);
  check("numeric.spike", numeric.spike, NumericSpec::kSpikeActions);
}

void CheckScheduling(JobReader& reader, const JobSchedulingSpec& scheduling) {
  const auto time = [&](const char* path, const std::string& text) {
    const auto duration = ParseDuration(text);
    if (text.empty() || (duration.ok() && *duration > Duration(0))) return;
    reader.Refuse(path, "'" + Printable(text, 40) + "' is not a time such as 90min or 12h");
  };
  if (const Status usable = CheckJobName(scheduling.project);
      !scheduling.project.empty() && !usable.ok()) {
    reader.Refuse("scheduling.project", usable.message());
  }
  time("scheduling.expected_duration", scheduling.expected_duration);
  time("scheduling.deadline", scheduling.deadline);
  const std::string& means = scheduling.preemption;
  if (!means.empty() && means != "never" && means != "shrink" && means != "suspend" &&
      means != "requeue") {
    reader.Refuse("scheduling.preemption",
                  "'" + Printable(means, 40) + "' is not never, shrink, suspend or requeue");
  }
  const std::string& priority = scheduling.priority;
  const bool negative = priority.starts_with('-');
  if (priority.empty() || (!negative && (priority[0] < '0' || priority[0] > '9'))) return;
  const auto number = ParseUint64(std::string_view(priority).substr(negative ? 1 : 0));
  if (!number.ok() || *number > 1'000'000) {
    reader.Refuse("scheduling.priority",
                  "'" + Printable(priority, 40) +
                      "' is neither a name nor a whole number from -1,000,000 to 1,000,000");
  }
}

void CheckArray(JobReader& reader, const JobSpec& job) {
  const ArraySpec& array = job.array;
  if (!reader.Has("array")) return;
  if (array.size() == 0) {
    return reader.Refuse("array", "has no elements: give count or values, such as {count: 8}");
  }
  if (!array.values.empty() && array.size() != array.values.size()) {
    reader.Refuse("array.count", WithThousands(array.size()) + " disagrees with the " +
                                     WithThousands(static_cast<int64_t>(array.values.size())) +
                                     " of array.values; leave one of them out");
  }
  if (!job.snapshot.copy_to.empty()) {
    reader.Refuse("snapshot.copy_to",
                  "is not for an array: the copies of all its elements would have one place");
  }
  if (job.built_in()) {
    reader.Refuse("array",
                  "is for a 'command', which reads LONGHAUL_ARRAY_INDEX and LONGHAUL_ARRAY_VALUE; "
                  "the built-in trainer would do the same work in each element");
  }
}

void CheckAfter(JobReader& reader, const JobSpec& job) {
  std::vector<std::string> names = job.after.jobs;
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    reader.Refuse("after", "names '" + Printable(*twice, 100) + "' twice");
  }
  const auto* self = job.after.jobs.empty() ? nullptr : &job.name;
  if (self != nullptr && std::find(names.begin(), names.end(), *self) != names.end()) {
    reader.Refuse("after", "job '" + Printable(*self, 63) +
                               "' would wait for itself; to wait for " +
                               "an earlier job of that name give its id, such as " +
                               Printable(*self, 63) + "-1");
  }
}

// Slices must divide every number of nodes that the job may have.
void CheckSlice(JobReader& reader, const JobSpec& job) {
  constexpr const char* kPath = "scheduling.topology.slice";
  const SliceSpec& slice = job.scheduling.topology.slice;
  if (!reader.Has(kPath)) return;
  if (slice.nodes == 0 || slice.level.empty()) {
    return reader.Refuse(kPath, "needs nodes and level, such as {nodes: 4, level: leaf}");
  }
  const ResourceSpec& resources = job.resources;
  const std::pair<const char*, std::optional<uint32_t>> counts[] = {
      {"nodes", resources.nodes},
      {"minimum_nodes", resources.minimum_nodes},
      {"maximum_nodes", resources.maximum_nodes}};
  for (const auto& [key, nodes] : counts) {
    if (!nodes || *nodes % slice.nodes == 0) continue;
    reader.Refuse("scheduling.topology.slice.nodes",
                  std::to_string(slice.nodes) + " does not divide the " + std::to_string(*nodes) +
                      " of resources." + key);
  }
}

// What the rule cannot be combined with contradicts it: these nodes share a domain.
void CheckSpread(JobReader& reader, const TopologySpec& topology) {
  constexpr const char* kPath = "scheduling.topology.spread";
  if (!reader.Has(kPath)) return;
  const std::string& level = topology.spread.level;
  if (level.empty()) {
    return reader.Refuse(kPath, "needs a level, such as leaf or {level: leaf, at_most: 2}");
  }
  if (level == "host") {
    return reader.Refuse(kPath, "every node of a job is another host already; name a level above");
  }
  if (level == topology.required) {
    reader.Refuse(kPath, "'" + Printable(level, 40) +
                             "' is the required level, whose domain holds all nodes; name a lower "
                             "level");
  }
  const std::pair<const char*, bool> others[] = {{"preferred", !topology.preferred.empty()},
                                                 {"slice", topology.slice.nodes > 0},
                                                 {"rail_aligned", topology.rail_aligned}};
  for (const auto& [key, given] : others) {
    if (!given) continue;
    reader.Refuse(kPath, "cannot be combined with " + std::string(key) + "; leave one of them out");
  }
}

void CheckTopology(JobReader& reader, const JobSpec& job) {
  constexpr const char* kAligned = "scheduling.topology.rail_aligned";
  constexpr uint32_t kMostAligned = 8;
  const TopologySpec& topology = job.scheduling.topology;
  CheckSlice(reader, job);
  CheckSpread(reader, topology);
  if (!topology.preferred.empty() && topology.preferred == topology.required) {
    reader.Refuse("scheduling.topology.preferred",
                  "'" + Printable(topology.preferred, 40) +
                      "' is required already; name a lower level, or leave it out");
  }
  if (!topology.rail_aligned) return;
  if (topology.slice.nodes > 0) {
    reader.Refuse(kAligned, "cannot be combined with slice; leave one of them out");
  }
  if (job.resources.share < 1) {
    reader.Refuse(kAligned, "is for whole devices and cannot be combined with resources.share");
  }
  if (job.resources.processes_per_node.value_or(1) > kMostAligned) {
    reader.Refuse(kAligned, "is for at most " + std::to_string(kMostAligned) +
                                " devices of a node, not the " +
                                std::to_string(*job.resources.processes_per_node) +
                                " of resources.processes_per_node");
  }
}

// A share is of one device for the one worker of a node, in thousandths.
void CheckShare(JobReader& reader, JobSpec& job) {
  ResourceSpec& resources = job.resources;
  const double thousandths = resources.share * 1'000;
  if (std::abs(thousandths - std::round(thousandths)) > 1e-9) {
    reader.Refuse("resources.share", "has more than three decimals");
  }
  if (resources.share == 1) return;
  if (resources.processes_per_node.value_or(1) != 1) {
    reader.Refuse("resources.share", "is for one worker on each node, not the " +
                                         std::to_string(*resources.processes_per_node) +
                                         " of resources.processes_per_node");
  }
  resources.processes_per_node = 1;
}

// An object store's address is looked at more closely where it is used.
void CheckCopies(JobReader& reader, const SnapshotSpec& snapshot) {
  std::string_view to = snapshot.copy_to;
  constexpr std::string_view kPacked = "zstd:";  // how shards are kept there
  if (to.starts_with(kPacked)) {
    to.remove_prefix(kPacked.size());
    if (to.empty()) to = kPacked;
  }
  if (to.empty() || to.starts_with("/") || to.starts_with("s3://")) return;
  reader.Refuse("snapshot.copy_to", "'" + Printable(to, 70) +
                                        "' is neither a directory by its whole path, "
                                        "/shared/checkpoints, nor s3://BUCKET/PREFIX, either "
                                        "with zstd: before it or without");
}

// Why the fault can't happen; empty when it can.
std::string WhyNever(const JobSpec& job, const PlannedFault& fault) {
  if (job.built_in() && fault.step > job.train.steps) {
    return "the job ends after step " + std::to_string(job.train.steps);
  }
  const auto& most = job.resources.maximum_nodes;
  const auto& nodes = most ? most : job.resources.nodes;
  const auto& processes = job.resources.processes_per_node;
  const bool of_agent = fault.kind == FaultKind::kKillAgent || fault.kind == FaultKind::kKillNode;
  const bool of_worker =
      fault.kind == FaultKind::kKillWorker || fault.kind == FaultKind::kStopWorker;
  if (of_agent && nodes && fault.target >= *nodes) {
    return "the job's agents are 1 to " + std::to_string(*nodes);
  }
  if (of_worker && nodes && processes && fault.target >= uint64_t{*nodes} * uint64_t{*processes}) {
    return "the job's workers are 0 to " +
           std::to_string(uint64_t{*nodes} * uint64_t{*processes} - 1);
  }
  return "";
}

}  // namespace

StageLayers LayersOfStage(uint32_t layers, uint32_t stages, uint32_t stage) {
  CHECK(stage < stages);
  const auto begin = [&](uint64_t of) {
    return static_cast<uint32_t>((of * layers + stages - 1) / stages);
  };
  return {begin(stage), begin(uint64_t{stage} + 1)};
}

std::string WhyNoLayout(const ModelSpec& model, uint32_t tensor, uint32_t pipeline) {
  if (model.heads % tensor != 0) {
    return "tensor " + std::to_string(tensor) + " does not divide the " +
           std::to_string(model.heads) + " heads of the model";
  }
  if (tensor > model.vocabulary) {
    return "tensor " + std::to_string(tensor) + " is more than the " +
           std::to_string(model.vocabulary) + " words of the vocabulary";
  }
  if (pipeline > model.layers) {
    return "pipeline " + std::to_string(pipeline) + " is more than the " +
           std::to_string(model.layers) + " layers of the model";
  }
  return "";
}

uint32_t NodeStep(uint32_t processes_per_node, uint32_t tensor, uint32_t pipeline) {
  const uint64_t copy = uint64_t{tensor} * pipeline;  // workers of one replica
  return static_cast<uint32_t>(copy / std::gcd<uint64_t>(copy, processes_per_node));
}

std::string WhyNoBounds(uint32_t minimum, uint32_t nodes, uint32_t maximum,
                        uint32_t processes_per_node, uint32_t tensor, uint32_t pipeline,
                        uint32_t global_batch) {
  const uint32_t step = NodeStep(processes_per_node, tensor, pipeline);
  for (const uint32_t count : {minimum, nodes, maximum}) {
    if (count % step == 0) continue;
    return std::to_string(count) + " nodes hold no whole replicas of tensor " +
           std::to_string(tensor) + " x pipeline " + std::to_string(pipeline) + " with " +
           std::to_string(processes_per_node) +
           " workers each: minimum_nodes, nodes and maximum_nodes must be multiples of " +
           std::to_string(step);
  }
  const uint64_t replicas = uint64_t{maximum} * processes_per_node / (uint64_t{tensor} * pipeline);
  if (global_batch > 0 && replicas > global_batch) {
    return "maximum_nodes " + std::to_string(maximum) + " makes " + std::to_string(replicas) +
           " replicas, more than the " + std::to_string(global_batch) +
           " sequences of train.global_batch";
  }
  return "";
}

Status CheckFaults(const JobSpec& job) {
  for (const PlannedFault& fault : job.faults) {
    const std::string why = WhyNever(job, fault);
    if (!why.empty()) {
      return InvalidArgument("'" + ToString(fault) + "' can never happen: " + why);
    }
  }
  return {};
}

Result<JobSpec> ParseJob(std::string_view text, std::string_view source) {
  ASSIGN_OR_RETURN(const internal::Node root, internal::ParseDocument(text, source));
  if (const internal::Node* jobs = internal::Find(root, "jobs")) {
    return InvalidArgument(std::string(source) + ":" + std::to_string(jobs->key_line) +
                           ": jobs: a file of several jobs is for a controller: longhaul submit " +
                           std::string(source));
  }
  return internal::ReadJob(root, source);
}

Result<JobSpec> internal::ReadJob(const Node& root, std::string_view source) {
  JobReader reader(root, source);
  RETURN_IF_ERROR(reader.Finish());
  JobSpec job;
  internal::VisitJob(reader, job);
  reader.RefuseUnknown();
  CheckName(reader, job, source);
  CheckShare(reader, job);
  if (reader.Has("framework")) {
    ExpandRecipe(reader, job);
  } else {
    RefuseRecipeKeys(reader);
  }
  if (reader.Has("command") || reader.Has("framework")) {
    CheckCommandJob(reader, job);
  } else {
    CheckBuiltInJob(reader, job);
  }
  CheckBounds(reader, job);
  CheckDevices(reader, job.resources);
  CheckHang(reader, job.hang);
  CheckNumeric(reader, job.numeric);
  CheckScheduling(reader, job.scheduling);
  CheckTopology(reader, job);
  CheckCopies(reader, job.snapshot);
  CheckArray(reader, job);
  CheckAfter(reader, job);
  if (const Status status = CheckFaults(job); !status.ok()) {
    reader.Refuse("inject", status.message());
  }
  RETURN_IF_ERROR(reader.Finish());
  return job;
}

}  // namespace longhaul::spec
