// The user's description of a job: the job file (YAML, or the same keys as JSON through REST).
//
// docs/job-file.md is the reference with every key, its default and its limits; a test compares
// that page with this reader. Parsing checks everything that can be checked without access to the
// machine: unknown keys (with the nearest known one), types, ranges, contradictions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "spec/job/fault_plan.h"
#include "spec/job/framework.h"

namespace longhaul::spec {

// The built-in GPT adds to a token's embedding those of this many tokens before it, each from a
// separate table.
constexpr uint32_t kPreviousTokens = 3;

// The built-in byte-level GPT.
struct ModelSpec {
  uint32_t layers = 4;
  uint32_t hidden = 128;  // divisible by heads
  uint32_t heads = 4;
  uint32_t sequence = 128;    // tokens a sample
  uint32_t vocabulary = 257;  // 256 bytes and a separator; fixed for kind: gpt

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

// Plain text files, found by globs.
struct DataSpec {
  std::vector<std::string> include;  // "/usr/include/**/*.h"
  std::vector<std::string> exclude;
  double held_out = 0.02;  // share of the files kept for validation, chosen by path's hash
  uint64_t max_bytes = 64ull << 20;  // of text taken, files in sorted order

  friend bool operator==(const DataSpec&, const DataSpec&) = default;
};

struct TrainSpec {
  uint64_t steps = 300;
  uint32_t global_batch = 32;  // sequences a step
  double learning_rate = 3e-3;
  uint64_t warmup_steps = 20;
  double final_learning_rate_ratio = 0.1;  // cosine decay ends at this share
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double clip = 1.0;  // gradient norm; 0: off
  uint64_t seed = 1;
  uint64_t evaluate_every = 50;      // steps; 0: only at the end
  uint32_t evaluate_sequences = 64;  // sequences of held-out text an evaluation

  friend bool operator==(const TrainSpec&, const TrainSpec&) = default;
};

// The division of the built-in trainer over its workers, whose number is the product. Ranks are
// numbered tensor first, then data, then pipeline: rank = (stage * data + replica) * tensor + part.
// An elastic job's `data` applies to `resources.nodes`.
struct LayoutSpec {
  std::optional<uint32_t> data;      // replicas; absent: the planner chooses, as for all three
  std::optional<uint32_t> tensor;    // each layer's matrices are divided into this many parts
  std::optional<uint32_t> pipeline;  // stages of consecutive layers

  friend bool operator==(const LayoutSpec&, const LayoutSpec&) = default;
};

// The layers [begin, end) of a stage: as even as possible, the first stages get the remainder.
struct StageLayers {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t count() const { return end - begin; }
};
// Requires stage < stages.
StageLayers LayersOfStage(uint32_t layers, uint32_t stages, uint32_t stage);

// The reason why a model cannot be divided this way, with both figures; empty when it can.
std::string WhyNoLayout(const ModelSpec& model, uint32_t tensor, uint32_t pipeline);

// The number of nodes by which a job's size may change, so that it changes by whole replicas: only
// the data dimension is elastic. Requires all >= 1.
uint32_t NodeStep(uint32_t processes_per_node, uint32_t tensor, uint32_t pipeline);

// The reason why a job cannot have these bounds, with the figures; empty when it can.
// `global_batch` 0: unknown. Requires 1 <= minimum <= maximum, all others >= 1.
std::string WhyNoBounds(uint32_t minimum, uint32_t nodes, uint32_t maximum,
                        uint32_t processes_per_node, uint32_t tensor, uint32_t pipeline,
                        uint32_t global_batch);

// The steps that every rank records as a Chrome trace, runs/NAME/traces/rank-R.json.
struct TraceSpec {
  uint64_t first_step = 0;  // 0: none
  uint32_t steps = 3;

  friend bool operator==(const TraceSpec&, const TraceSpec&) = default;
};

struct SampleSpec {
  std::string prompt = "#include <";
  uint32_t bytes = 256;
  double temperature = 0.7;

  friend bool operator==(const SampleSpec&, const SampleSpec&) = default;
};

struct SnapshotSpec {
  std::optional<uint64_t> interval_steps;  // absent: "auto"
  uint32_t keep = 3;                       // the number of newest checkpoints
  uint64_t keep_every = 0;                 // steps that are a multiple of this; 0: none
  uint32_t keep_best = 0;                  // those with the lowest validation loss
  std::string copy_to;                     // second tier: a directory, s3://...; absent: none
  uint64_t copy_every = 1;                 // commits
  uint64_t copy_mb_per_s = 0;              // at most; 0: unbounded

  friend bool operator==(const SnapshotSpec&, const SnapshotSpec&) = default;
};

struct ResourceSpec {
  std::optional<uint32_t> nodes;  // absent: the planner chooses
  // An elastic job can run on any number of nodes in between; absent: as `nodes`.
  std::optional<uint32_t> minimum_nodes;
  std::optional<uint32_t> maximum_nodes;
  std::optional<uint32_t> processes_per_node;
  std::optional<uint32_t> micro_batch;
  // Names of the device models that may serve, from the cluster file; empty: any.
  std::vector<std::string> devices;
  bool mixed_devices = false;  // nodes of the job may have different device models
  uint64_t device_memory = 0;  // bytes that each device must have at least
  // Of one device, for the one worker of each node; it reserves device_memory of the device.
  double share = 1;  // above 0; 1: whole devices
  // What each node reserves for the job.
  double cpu = 0;                      // cores
  std::optional<uint64_t> memory = 0;  // bytes; absent: "auto", the planner's figure

  friend bool operator==(const ResourceSpec&, const ResourceSpec&) = default;
};

// What the agent of each node enforces.
struct LimitSpec {
  std::optional<uint32_t> processes;      // and threads; absent: "auto", 4,096 for each worker
  std::optional<uint64_t> memory;         // bytes; absent: "auto", as ResourceSpec::memory; 0: none
  uint64_t log_size = uint64_t{1} << 30;  // bytes of each worker's log

  friend bool operator==(const LimitSpec&, const LimitSpec&) = default;
};

// How long workers of a command may stand still (docs/hangs.md): a time such as 90s, or "never".
struct HangSpec {
  std::string stopped = "30s";   // a worker is stopped
  std::string no_step = "2min";  // no step and no activity of any worker, at least
  std::string idle = "10min";    // no activity of any worker of a job that has reported no step

  friend bool operator==(const HangSpec&, const HangSpec&) = default;
};

// What happens when a loss is no usable number (docs/numeric-faults.md): one of the words of
// kNotFiniteActions and kSpikeActions.
struct NumericSpec {
  static constexpr std::array<std::string_view, 3> kNotFiniteActions = {"warn", "stop", "rollback"};
  static constexpr std::array<std::string_view, 4> kSpikeActions = {"warn", "stop", "rollback",
                                                                    "ignore"};

  std::string not_finite = "warn";  // a loss is NaN or infinite
  std::string spike = "warn";       // several losses in a row are far above the ones before

  friend bool operator==(const NumericSpec&, const NumericSpec&) = default;
};

// Nodes of a job that lie in one domain of a level, so many each.
struct SliceSpec {
  uint32_t nodes = 0;  // 0: no slices
  std::string level;

  friend bool operator==(const SliceSpec&, const SliceSpec&) = default;
};

// Nodes of a job that lie over the domains of a level as evenly as possible.
struct SpreadSpec {
  std::string level;     // empty: not spread
  uint32_t at_most = 0;  // so many of them in one domain; 0: no bound

  friend bool operator==(const SpreadSpec&, const SpreadSpec&) = default;
};

// Where the nodes of a job must lie in the network. The levels are those of the cluster file.
struct TopologySpec {
  std::string required;   // the level that all nodes share; empty: none
  std::string preferred;  // a lower level, which they share if they can
  SliceSpec slice;
  bool rail_aligned = false;  // the workers have the same device indices on every node
  SpreadSpec spread{};

  // Whether the text of one level describes it: "leaf".
  bool plain() const { return *this == TopologySpec{required, "", {}, false}; }
  friend bool operator==(const TopologySpec&, const TopologySpec&) = default;
};

// The job's scheduling options; texts as written, checked by ParseJob.
struct JobSchedulingSpec {
  std::string queue;       // absent: the controller's default
  std::string project;     // to which the time is charged; absent: none
  std::string priority;    // a whole number, or a name of the controller's file
  std::string preemption;  // never, shrink, suspend or requeue
  TopologySpec topology;
  std::string expected_duration;                // "2h"
  std::string deadline;                         // after submission: "12h"
  std::map<std::string, std::string> selector;  // labels that every node of the job must have
  std::vector<std::string> tolerates;           // taints of nodes that the job accepts

  friend bool operator==(const JobSchedulingSpec&, const JobSchedulingSpec&) = default;
};

// An array: jobs that differ only in their index and value (LONGHAUL_ARRAY_INDEX, _VALUE).
struct ArraySpec {
  std::optional<uint32_t> count;    // absent: as many as values
  std::vector<std::string> values;  // by index; none, or `count`
  std::optional<uint32_t> at_once;  // so many may have nodes at a time; absent: all

  // The number of elements; 0: the job is not an array.
  uint32_t size() const { return count.value_or(static_cast<uint32_t>(values.size())); }

  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

// Jobs that must have ended before this one may start.
struct AfterSpec {
  std::vector<std::string> jobs;  // ids or names of jobs and arrays; none: it waits for no job
  std::string when = "success";   // how they must have ended: success, end or failure

  friend bool operator==(const AfterSpec&, const AfterSpec&) = default;
};

struct JobSpec {
  std::string name;  // letters, digits, '-', '_', '.'; at most 63
  // Either a command, or the built-in trainer with the six sections below.
  std::vector<std::string> command;
  // With a framework, ParseJob expands it into command, environment and step_pattern, and the
  // writers write it instead of the command.
  RecipeSpec recipe;
  // Finds the steps in the command's output: a preset's name or an expression
  // (spec/job/step_pattern.h); empty: steps are not read.
  std::string step_pattern;
  std::map<std::string, std::string> environment;
  std::string working_directory;  // absent: where `longhaul` was started
  ModelSpec model;
  DataSpec data;
  TrainSpec train;
  LayoutSpec layout;
  TraceSpec trace;
  SampleSpec sample;

  SnapshotSpec snapshot;
  ResourceSpec resources;
  LimitSpec limits;
  HangSpec hang;
  NumericSpec numeric;
  JobSchedulingSpec scheduling;
  ArraySpec array;
  AfterSpec after;
  uint32_t max_restarts = 100;
  std::vector<PlannedFault> faults;  // key "inject"

  bool built_in() const { return command.empty(); }

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// Reads a job. `source` names the text in messages ("examples/headers-gpt.yaml") and, when the text
// has no name, the job. A message is one line for each mistake found (at most ten), each with the
// line and the key's path: "job.yaml:3: train.steps: 0 is out of range: 1 to 1,000,000,000".
Result<JobSpec> ParseJob(std::string_view text, std::string_view source);

// Rejects a planned fault that can never happen: a step, worker or agent beyond those of the job.
// ParseJob calls it; callers that add faults afterwards call it again.
Status CheckFaults(const JobSpec& job);

// The same job as YAML that ParseJob reads back to an equal one, with every key.
std::string ToYaml(const JobSpec& job);
// As JSON, which ParseJob reads too; also the built-in trainer's configuration.
std::string ToJson(const JobSpec& job);

}  // namespace longhaul::spec
