// Every key of a job file with its limits, in one place: reading, writing and the test of the
// reference page all use this list (VisitJob), so they cannot disagree.
//
// A visitor has one function for each kind of value:
//   Section(key, body)                   a map; `body` visits its keys
//   Constant(key, text)                  only this word
//   Whole(key, value, min, max)          a whole number
//   AutoWhole(key, value, min, max)      a whole number or "auto" (absent)
//   Flag(key, value)                     true or false
//   Real(key, value, range)
//   Size(key, value, min, max)           bytes: 64MiB
//   Text(key, value, limit)
//   AutoSize(key, value, min, max)       bytes, or "auto" (absent)
//   TextList(key, value, limit, most)    a list of at most so many texts
//   After(key, value)                    a list of jobs, or {jobs, when}
//   Topology(key, value)                 a level, or {required, preferred, slice, rail_aligned,
//                                        spread}
//   Names(key, value)                    a list of names, or one name
//   Labels(key, value)                   a map of names
//   Environment(key, value)
//   Faults(key, value)                   spec/job/fault_plan.h
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "spec/job/job.h"
#include "spec/job/step_pattern.h"

namespace longhaul::spec::internal {

// An interval; an open end does not belong to it.
struct RealRange {
  double min;
  double max;
  bool min_open = false;
  bool max_open = false;
};

constexpr uint64_t kMaxSteps = 1'000'000'000;
constexpr uint64_t kMaxBatch = 1'000'000;
constexpr size_t kMaxPathBytes = 4'096;  // PATH_MAX
constexpr size_t kMaxCopyToBytes = 1'000;
constexpr size_t kMaxNameBytes = 63;  // a DNS label, as Kubernetes requires
constexpr size_t kMaxListItems = 1'000;
constexpr uint64_t kMaxElements = 1'000'000;  // the controller's own limit is lower
constexpr size_t kMaxElementValues = 10'000;  // a document has at most 20,000 values
constexpr size_t kMaxElementBytes = 4'096;
constexpr size_t kMaxDependencies = 1'000;
constexpr size_t kMaxJobIdBytes = 100;  // a name and its numbers
constexpr size_t kMaxLabels = 16;       // as many as a node of the cluster file can have
constexpr size_t kMaxArgumentBytes = 32 * 1'024;
constexpr size_t kMaxEnvironmentBytes = 32 * 1'024;

// The keys that only a job with the built-in trainer has.
template <typename Visitor, typename Job>
void VisitBuiltIn(Visitor& v, Job& job) {
  v.Section("model", [&] {
    v.Constant("kind", "gpt");
    v.Whole("layers", job.model.layers, 1, 1'000);
    v.Whole("hidden", job.model.hidden, 1, 65'536);
    v.Whole("heads", job.model.heads, 1, 1'024);
    v.Whole("sequence", job.model.sequence, 8, 1'000'000);
    v.Whole("vocabulary", job.model.vocabulary, 257, 257);
  });
  v.Section("data", [&] {
    v.TextList("include", job.data.include, kMaxPathBytes);
    v.TextList("exclude", job.data.exclude, kMaxPathBytes);
    v.Real("held_out", job.data.held_out, RealRange{0, 0.5});
    v.Size("max_bytes", job.data.max_bytes, uint64_t{1} << 10, uint64_t{1} << 40);
  });
  v.Section("train", [&] {
    v.Whole("steps", job.train.steps, 1, kMaxSteps);
    v.Whole("global_batch", job.train.global_batch, 1, kMaxBatch);
    v.Real("learning_rate", job.train.learning_rate, RealRange{0, 10, true, true});
    v.Whole("warmup_steps", job.train.warmup_steps, 0, kMaxSteps);
    v.Real("final_learning_rate_ratio", job.train.final_learning_rate_ratio, RealRange{0, 1});
    v.Real("weight_decay", job.train.weight_decay, RealRange{0, 10});
    v.Real("beta1", job.train.beta1, RealRange{0, 1, false, true});
    v.Real("beta2", job.train.beta2, RealRange{0, 1, false, true});
    v.Real("clip", job.train.clip, RealRange{0, 1e6});
    v.Whole("seed", job.train.seed, 0, UINT64_MAX);
    v.Whole("evaluate_every", job.train.evaluate_every, 0, kMaxSteps);
    v.Whole("evaluate_sequences", job.train.evaluate_sequences, 1, kMaxBatch);
  });
  v.Section("layout", [&] {
    v.AutoWhole("data", job.layout.data, 1, 100'000);
    v.AutoWhole("tensor", job.layout.tensor, 1, 1'024);
    v.AutoWhole("pipeline", job.layout.pipeline, 1, 1'000);
  });
  v.Section("trace", [&] {
    v.Whole("first_step", job.trace.first_step, 0, kMaxSteps);
    v.Whole("steps", job.trace.steps, 1, 100);
  });
  v.Section("sample", [&] {
    v.Text("prompt", job.sample.prompt, 4'096);
    v.Whole("bytes", job.sample.bytes, 0, 65'536);
    v.Real("temperature", job.sample.temperature, RealRange{0, 10});
  });
}

template <typename Visitor, typename Job>
void VisitCommand(Visitor& v, Job& job) {
  v.TextList("command", job.command, kMaxArgumentBytes);
}

// The keys that only a job with a framework has.
template <typename Visitor, typename Job>
void VisitRecipe(Visitor& v, Job& job) {
  v.Text("framework", job.recipe.framework, kMaxNameBytes);
  v.Text("script", job.recipe.script, kMaxPathBytes);
  v.Text("module", job.recipe.module, kMaxPathBytes);
  v.TextList("args", job.recipe.args, kMaxArgumentBytes);
  v.Text("python", job.recipe.python, kMaxPathBytes);
  v.Text("checkpoint_directory", job.recipe.checkpoint_directory, kMaxPathBytes);
  v.AutoWhole("checkpoint_interval", job.recipe.checkpoint_interval, 1, kMaxSteps);
}

template <typename Visitor, typename Job>
void VisitStepPattern(Visitor& v, Job& job) {
  v.Text("step_pattern", job.step_pattern, StepPattern::kMaxBytes);
}

template <typename Visitor, typename Job>
void VisitShared(Visitor& v, Job& job) {
  v.Text("name", job.name, kMaxNameBytes);
  v.Environment("environment", job.environment);
  v.Text("working_directory", job.working_directory, kMaxPathBytes);
  v.Section("snapshot", [&] {
    v.AutoWhole("interval_steps", job.snapshot.interval_steps, 1, kMaxSteps);
    v.Whole("keep", job.snapshot.keep, 1, 1'000);
    v.Whole("keep_every", job.snapshot.keep_every, 0, kMaxSteps);
    v.Whole("keep_best", job.snapshot.keep_best, 0, 1'000);
    v.Text("copy_to", job.snapshot.copy_to, kMaxCopyToBytes);
    v.Whole("copy_every", job.snapshot.copy_every, 1, 1'000'000);
    v.Whole("copy_mb_per_s", job.snapshot.copy_mb_per_s, 0, 1'000'000);
  });
  v.Section("resources", [&] {
    v.AutoWhole("nodes", job.resources.nodes, 1, 100'000);
    v.AutoWhole("minimum_nodes", job.resources.minimum_nodes, 1, 100'000);
    v.AutoWhole("maximum_nodes", job.resources.maximum_nodes, 1, 100'000);
    v.AutoWhole("processes_per_node", job.resources.processes_per_node, 1, 1'024);
    v.AutoWhole("micro_batch", job.resources.micro_batch, 1, kMaxBatch);
    v.Names("devices", job.resources.devices);
    v.Flag("mixed_devices", job.resources.mixed_devices);
    v.Size("device_memory", job.resources.device_memory, 0, uint64_t{1} << 50);
    v.Real("share", job.resources.share, RealRange{0, 1, true, false});
    v.Real("cpu", job.resources.cpu, RealRange{0, 65'536});
    v.AutoSize("memory", job.resources.memory, 0, uint64_t{1} << 50);
  });
  v.Section("limits", [&] {
    v.AutoWhole("processes", job.limits.processes, 16, 4'194'304);  // at most the kernel's limit
    v.AutoSize("memory", job.limits.memory, 0, uint64_t{1} << 50);
    v.Size("log_size", job.limits.log_size, uint64_t{1} << 20, uint64_t{1} << 50);
  });
  v.Section("hang", [&] {
    v.Text("stopped", job.hang.stopped, 63);
    v.Text("no_step", job.hang.no_step, 63);
    v.Text("idle", job.hang.idle, 63);
  });
  v.Section("numeric", [&] {
    v.Text("not_finite", job.numeric.not_finite, 63);
    v.Text("spike", job.numeric.spike, 63);
  });
  v.Section("scheduling", [&] {
    v.Text("queue", job.scheduling.queue, 63);
    v.Text("project", job.scheduling.project, 63);
    v.Text("priority", job.scheduling.priority, 63);
    v.Text("preemption", job.scheduling.preemption, 63);
    v.Topology("topology", job.scheduling.topology);
    v.Text("expected_duration", job.scheduling.expected_duration, 63);
    v.Text("deadline", job.scheduling.deadline, 63);
    v.Labels("selector", job.scheduling.selector);
    v.Names("tolerates", job.scheduling.tolerates);
  });
  v.Section("array", [&] {
    v.AutoWhole("count", job.array.count, 1, kMaxElements);
    v.TextList("values", job.array.values, kMaxElementBytes, kMaxElementValues);
    v.AutoWhole("at_once", job.array.at_once, 1, kMaxElements);
  });
  v.After("after", job.after);
  v.Whole("max_restarts", job.max_restarts, 0, 1'000'000);
  v.Faults("inject", job.faults);
}

template <typename Visitor, typename Job>
void VisitJob(Visitor& v, Job& job) {
  VisitCommand(v, job);
  VisitRecipe(v, job);
  VisitStepPattern(v, job);
  VisitBuiltIn(v, job);
  VisitShared(v, job);
}

// "1 to 1,000"; "above 0, below 10"; "1KiB to 1TiB".
std::string LimitsText(uint64_t min, uint64_t max);
std::string LimitsText(const RealRange& range);
std::string SizeLimitsText(uint64_t min, uint64_t max);
// The shortest text that ParseDouble reads back to the same number: "0.003".
std::string ShortestText(double number);
// "64MiB": the largest unit that divides it.
std::string SizeText(uint64_t bytes);

struct KeyInfo {
  std::string path;    // "train.steps"; a section has no entry of its own
  std::string limits;  // "1 to 1,000,000,000"
};
std::vector<KeyInfo> JobKeys();

}  // namespace longhaul::spec::internal
