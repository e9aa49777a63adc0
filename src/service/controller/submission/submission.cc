#include "service/controller/submission/submission.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "checkpoint/directory.h"
#include "checkpoint/resume_point.h"
#include "corpus/corpus.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "objects/files.h"
#include "planner/local/cost.h"
#include "planner/local/operator_times.h"
#include "service/agent/copy_worker.h"
#include "service/controller/submission/machine_facts.h"
#include "service/controller/submission/usable_nodes.h"
#include "spec/job/step_pattern.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

proto::PlannedFault::Kind KindOf(spec::FaultKind kind) {
  switch (kind) {
    case spec::FaultKind::kKillWorker:
      return proto::PlannedFault::KILL_WORKER;
    case spec::FaultKind::kKillAgent:
      return proto::PlannedFault::KILL_AGENT;
    case spec::FaultKind::kKillNode:
      return proto::PlannedFault::KILL_NODE;
    case spec::FaultKind::kKillController:
      return proto::PlannedFault::KILL_CONTROLLER;
    case spec::FaultKind::kStopWorker:
      return proto::PlannedFault::STOP_WORKER;
  }
  return proto::PlannedFault::KIND_UNSPECIFIED;
}

Result<spec::JobFile> ParseFile(const SubmissionRequest& request) {
  ASSIGN_OR_RETURN(spec::JobFile file, spec::ParseJobFile(request.job, request.source));
  if (file.several && !(request.name + request.inject + request.from).empty()) {
    return InvalidArgument(
        request.source +
        " has a list of jobs: a name, faults to inject and a checkpoint to start "
        "from are for one job; write them into the file");
  }
  spec::JobSpec& spec = file.jobs[0];
  if (request.resume && !file.several && spec.array.size() > 0) {
    return InvalidArgument(request.source +
                           ": an array cannot be resumed; submit its elements again in a new "
                           "directory");
  }
  if (!request.name.empty()) spec.name = request.name;
  if (!request.inject.empty()) {
    ASSIGN_OR_RETURN(const auto faults, spec::ParseFaultPlan(request.inject));
    spec.faults.insert(spec.faults.end(), faults.begin(), faults.end());
    RETURN_IF_ERROR(spec::CheckFaults(spec));
  }
  return file;
}

// The job's own file without what concerns its place among others: it is read again for another
// size, and for the trainer.
std::string OwnJson(spec::JobSpec spec) {
  spec.array = {};
  spec.after = {};
  return spec::ToJson(spec);
}

void CopyArray(const spec::ArraySpec& spec, proto::Job& job) {
  if (spec.size() == 0) return;
  proto::Array& array = *job.mutable_array();
  array.set_count(spec.size());
  array.set_at_once(spec.at_once.value_or(0));
  for (const std::string& value : spec.values) array.add_values(value);
}

// What is left to "auto" is not stated here: the agents know the number of workers.
void CopyLimits(const spec::JobSpec& spec, proto::Job& job) {
  proto::JobLimits& limits = *job.mutable_limits();
  limits.set_processes(spec.limits.processes.value_or(0));
  limits.set_memory_bytes(spec.limits.memory.value_or(spec.resources.memory.value_or(0)));
  limits.set_log_bytes(spec.limits.log_size);
}

void CopyHang(const spec::HangSpec& spec, proto::Job& job) {
  const auto limit = [](const std::string& text) -> int64_t {
    if (text == "never") return -1;
    const Result<Duration> duration = ParseDuration(text);  // ParseJob has checked it
    return duration.ok() ? duration->count() : 0;
  };
  job.mutable_hang()->set_stopped_ns(limit(spec.stopped));
  job.mutable_hang()->set_no_step_ns(limit(spec.no_step));
  job.mutable_hang()->set_idle_ns(limit(spec.idle));
}

proto::NumericPolicy::Action ActionOf(const std::string& word) {
  if (word == "stop") return proto::NumericPolicy::STOP;
  if (word == "rollback") return proto::NumericPolicy::ROLLBACK;
  return word == "ignore" ? proto::NumericPolicy::IGNORE : proto::NumericPolicy::WARN;
}

void CopyNumeric(const spec::NumericSpec& spec, proto::Job& job) {
  job.mutable_numeric()->set_not_finite(ActionOf(spec.not_finite));
  job.mutable_numeric()->set_spike(ActionOf(spec.spike));
}

void CopySpec(const spec::JobSpec& spec, proto::Job& job) {
  job.set_name(spec.name);
  job.set_max_restarts(spec.max_restarts);
  job.mutable_snapshot()->set_interval_steps(spec.snapshot.interval_steps.value_or(0));
  job.mutable_snapshot()->set_keep(spec.snapshot.keep);
  job.mutable_snapshot()->set_keep_every(spec.snapshot.keep_every);
  job.mutable_snapshot()->set_keep_best(spec.snapshot.keep_best);
  constexpr std::string_view kPacked = "zstd:";  // shards are kept there as zstd frames
  const bool packed = spec.snapshot.copy_to.starts_with(kPacked);
  job.mutable_snapshot()->set_copy_to(spec.snapshot.copy_to.substr(packed ? kPacked.size() : 0));
  job.mutable_snapshot()->set_copy_compressed(packed);
  job.mutable_snapshot()->set_copy_every(spec.snapshot.copy_every);
  job.mutable_snapshot()->set_copy_bytes_per_second(spec.snapshot.copy_mb_per_s * 1'000'000);
  job.set_spec_json(OwnJson(spec));
  CopyArray(spec.array, job);
  CopyLimits(spec, job);
  CopyHang(spec.hang, job);
  CopyNumeric(spec.numeric, job);
  for (const spec::PlannedFault& planned : spec.faults) {
    proto::PlannedFault& fault = *job.add_faults();
    fault.set_kind(KindOf(planned.kind));
    fault.set_target(planned.target);
    fault.set_step(planned.step);
    fault.set_duration_ns(planned.duration.count());
  }
  proto::Scheduling& scheduling = *job.mutable_scheduling();
  scheduling.set_queue(spec.scheduling.queue);
  scheduling.set_project(spec.scheduling.project);
  scheduling.set_preemption(spec.scheduling.preemption);
  SetTopology(spec.scheduling.topology, scheduling);
  const spec::ResourceSpec& resources = spec.resources;
  for (const std::string& model : resources.devices) scheduling.add_devices(model);
  scheduling.set_assigns_devices(true);
  if (resources.share < 1) {
    scheduling.set_share_milli(static_cast<uint32_t>(std::lround(resources.share * 1'000)));
  }
  scheduling.set_mixed_devices(resources.mixed_devices);
  scheduling.set_device_memory_bytes(resources.device_memory);
  scheduling.set_cpu_milli(static_cast<int64_t>(std::ceil(resources.cpu * 1000)));
  scheduling.set_memory_bytes(resources.memory.value_or(0));  // "auto": ReserveMemory
  for (const auto& [label, value] : spec.scheduling.selector) {
    (*scheduling.mutable_selector())[label] = value;
  }
  for (const std::string& taint : spec.scheduling.tolerates) scheduling.add_tolerates(taint);
  const std::string& priority = spec.scheduling.priority;
  // A priority is a number or the name of one in the controller's file. The scheduler resolves
  // names, so that a change of the file applies to waiting jobs too.
  const bool negative = priority.starts_with('-');
  const auto number = ParseUint64(std::string_view(priority).substr(negative ? 1 : 0));
  if (number.ok()) {
    scheduling.set_priority(static_cast<int32_t>(*number) * (negative ? -1 : 1));
  } else {
    scheduling.set_priority_name(priority);
  }
  // ParseJob has checked them.
  const auto expected = ParseDuration(spec.scheduling.expected_duration);
  if (expected.ok()) scheduling.set_expected_ns(expected->count());
  const auto deadline = ParseDuration(spec.scheduling.deadline);
  // A deadline in the file is relative to the submission. It becomes a time of day here, since the
  // core does not read a clock.
  if (deadline.ok()) scheduling.set_deadline_at_ns(ToNanoseconds(io::Now() + *deadline));
  proto::Workload& workload = *job.mutable_workload();
  workload.set_built_in(spec.built_in());
  workload.set_working_directory(spec.working_directory);
  for (const std::string& word : spec.command) workload.add_command(word);
  if (!spec.step_pattern.empty()) {
    const auto pattern = spec::StepPattern::Parse(spec.step_pattern);  // ParseJob has checked it
    if (pattern.ok()) workload.set_step_pattern(pattern->expression());
  }
  for (const auto& [key, value] : spec.environment) (*workload.mutable_environment())[key] = value;
}

// What the run will be held against. The memory is completed once the data are there.
void Predict(const planner::LocalPlan& plan, const planner::MachineFacts& facts, proto::Job& job) {
  proto::Prediction& prediction = *job.mutable_prediction();
  prediction.set_step_seconds(plan.step.total().count());
  prediction.set_compute_seconds(plan.step.compute.count());
  prediction.set_optimizer_seconds(plan.step.optimizer.count());
  prediction.set_all_reduce_seconds(plan.step.all_reduce.count());
  prediction.set_worker_memory_bytes(plan.memory.total().count());
  prediction.set_micro_batch(plan.micro_batch);
  prediction.set_level(std::string(planner::LevelName(facts.level)));
  prediction.set_basis(facts.basis);
  // The local nodes share the machine, so together the workers have all of its cores. An assumed
  // speed says nothing about this machine.
  if (facts.level == planner::CalibrationLevel::kAssumed) return;
  const planner::OperatorTimes times(facts.device.figures);
  prediction.set_peak_flops_per_second(times.best_flops_per_s() * facts.cores);
}

// With `memory: auto` each node reserves what the planner predicts for its workers.
void ReserveMemory(const spec::JobSpec& spec, proto::Job& job) {
  if (spec.resources.memory) return;
  const auto worker = std::max<int64_t>(0, job.prediction().worker_memory_bytes());
  job.mutable_scheduling()->set_memory_bytes(static_cast<uint64_t>(worker) *
                                             job.processes_per_node());
}

// Whether a checkpoint's state is that of a model with so many parameters (0: not known): which
// layout it is in doesn't matter, the ranks read their boxes of whatever boxes there are.
Status CheckModel(const checkpoint::Manifest& manifest, int64_t parameters,
                  const std::string& run_directory) {
  if (parameters == 0) return Status();
  constexpr int64_t kNumbersAParameter = 3;  // a weight and its two moments
  int64_t saved = 0;
  for (const checkpoint::TensorInfo& tensor : manifest.tensors) {
    if (tensor.dtype == "F32") saved += checkpoint::Box::Whole(tensor.shape).elements();
  }
  saved /= kNumbersAParameter;
  if (saved == parameters) return Status();
  return FailedPrecondition("the checkpoint of step " + std::to_string(manifest.step) + " in " +
                            run_directory + " holds a model of " + std::to_string(saved) +
                            " parameters, the job's has " + std::to_string(parameters) +
                            ": resume with the same model, or use another run directory");
}

// The position in the data is a number of global batches, so with other data or another batch it
// would name other samples.
Status CheckData(const checkpoint::Manifest& manifest, const proto::Job& job,
                 const std::string& where) {
  if (manifest.data.fingerprint == job.data().fingerprint() &&
      manifest.data.global_batch == job.data().global_batch()) {
    return Status();
  }
  return FailedPrecondition("the checkpoint of step " + std::to_string(manifest.step) + " in " +
                            where +
                            " was made with other data or another global batch: resume with "
                            "the same, or use another run directory");
}

// That each planned fault can happen with the nodes and workers that were chosen.
Status CheckFaultsOf(spec::JobSpec spec, const proto::Job& job) {
  spec.resources.nodes = job.nodes();
  spec.resources.processes_per_node = job.processes_per_node();
  if (job.maximum_nodes() > 0) spec.resources.maximum_nodes = job.maximum_nodes();
  return spec::CheckFaults(spec);
}

// What is worth telling of who saved a checkpoint that a job continues from.
std::string SavedBy(const checkpoint::Manifest& manifest, const proto::Job& job) {
  const uint64_t world = uint64_t{job.nodes()} * job.processes_per_node();
  if (manifest.world == world) return "";
  return " of " + std::to_string(manifest.world) + " workers, now " + std::to_string(world);
}

}  // namespace

void SetTopology(const spec::TopologySpec& topology, proto::Scheduling& scheduling) {
  scheduling.set_topology(topology.required == "cluster" ? "" : topology.required);
  scheduling.set_preferred_topology(topology.preferred);
  scheduling.set_slice_nodes(topology.slice.nodes);
  scheduling.set_slice_level(topology.slice.level);
  scheduling.set_rail_aligned(topology.rail_aligned);
  scheduling.set_spread_level(topology.spread.level);
  scheduling.set_spread_at_most(topology.spread.at_most);
}

Submission::Submission(SubmissionOptions options, CoreLoop& loop)
    : options_(std::move(options)), loop_(loop) {}

// The core has only accepted jobs. `reserved_` prevents two submissions that are prepared at the
// same time from taking the same id.
std::string Submission::ReserveId(const std::string& name) {
  std::lock_guard lock(mutex_);
  for (uint64_t number = 1;; ++number) {
    std::string id = name + "-" + std::to_string(number);
    const bool known = loop_.Read([&](const runtime::Controller& core) {
      return core.JobStatus(JobId(id), io::Now()).has_value();
    });
    if (!known && reserved_.insert(id).second) return id;
  }
}

// An elastic job that more nodes are planned for than there are now is planned for what there is.
// The number of nodes must remain a multiple of what the layout needs (NodeStep) and of the slice
// of the topology.
spec::JobSpec Submission::Within(spec::JobSpec spec, size_t nodes) {
  const spec::ResourceSpec& resources = spec.resources;
  if (!resources.minimum_nodes || !resources.nodes || nodes >= *resources.nodes) return spec;
  const uint32_t processes = resources.processes_per_node.value_or(1);
  const uint32_t step = std::lcm(
      spec::NodeStep(processes, spec.layout.tensor.value_or(1), spec.layout.pipeline.value_or(1)),
      std::max(1u, spec.scheduling.topology.slice.nodes));
  const auto whole = static_cast<uint32_t>(nodes / step * step);
  if (whole < *resources.minimum_nodes) return spec;  // the planner says what is missing
  if (!resources.maximum_nodes) spec.resources.maximum_nodes = resources.nodes;
  spec.resources.nodes = whole;
  spec.layout.data.reset();
  return spec;
}

Status Submission::TakeBounds(const spec::JobSpec& spec, const planner::LocalPlan& plan,
                              proto::Job& job) {
  if (spec.built_in()) {
    job.set_tensor(plan.tensor_parallel);
    job.set_pipeline(plan.pipeline_parallel);
  }
  const spec::ResourceSpec& resources = spec.resources;
  if (!resources.minimum_nodes && !resources.maximum_nodes) return {};
  const uint32_t minimum = resources.minimum_nodes.value_or(plan.nodes);
  const uint32_t maximum = resources.maximum_nodes.value_or(plan.nodes);
  const std::string why =
      spec::WhyNoBounds(minimum, plan.nodes, maximum, plan.processes_per_node, plan.tensor_parallel,
                        plan.pipeline_parallel, spec.built_in() ? spec.train.global_batch : 0);
  if (!why.empty()) return InvalidArgument("resources: " + why);
  job.set_minimum_nodes(minimum);
  job.set_maximum_nodes(maximum);
  return {};
}

// The measurement of a core's peak takes time and writes a file, so only one submission does it at
// a time.
Result<planner::LocalPlan> Submission::Place(const spec::JobSpec& spec, proto::Job& job) {
  planner::MachineFacts facts;
  {
    std::lock_guard lock(data_mutex_);
    facts = ReadMachineFacts(options_.state_directory, spec.built_in() ? options_.trainer : "");
  }
  const bool may_wait = spec.resources.nodes && spec.resources.processes_per_node;
  const auto [nodes, absent] = loop_.Read([](const runtime::Controller& core) {
    return std::pair(core.AllNodes(), core.AbsentNodes());
  });
  const spec::ClusterSpec cluster = UsableNodes(nodes, absent, may_wait, facts);
  if (cluster.nodes.empty()) {
    return FailedPrecondition(
        "no node is connected, so the job has no place: start agents first "
        "(longhaul agent), or uncordon some");
  }
  ASSIGN_OR_RETURN(planner::LocalPlan plan,
                   planner::PlanLocal(Within(spec, cluster.nodes.size()), cluster, facts));
  RETURN_IF_ERROR(TakeBounds(Within(spec, cluster.nodes.size()), plan, job));
  job.set_nodes(plan.nodes);
  job.set_processes_per_node(plan.processes_per_node);
  job.set_plan_reason(plan.reason);
  if (spec.built_in()) Predict(plan, facts, job);
  ReserveMemory(spec, job);
  return plan;
}

// `from` is a StartingPoint's.
Status Submission::PrepareWorkload(const spec::JobSpec& spec, const planner::LocalPlan& plan,
                                   const Json& from, proto::Job& job) {
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(job.run_directory()));
  if (!spec.built_in()) return Status();
  const std::string data_directory = job.run_directory() + "/data";
  corpus::CorpusFacts facts;
  {
    std::lock_guard lock(data_mutex_);
    ASSIGN_OR_RETURN(facts, corpus::PrepareCorpus(spec.data, spec.model.sequence, data_directory));
  }
  if (facts.skipped > 0) {
    job.set_plan_reason(job.plan_reason() +
                        " Files of the data that could not be read and "
                        "are left out: " +
                        std::to_string(facts.skipped) + " (" + Join(facts.warnings, "; ") + ").");
  }
  // The plan had an upper bound of the data; now their size is known.
  const Bytes data(
      static_cast<int64_t>(sizeof(uint16_t) * (facts.train_tokens + facts.held_out_tokens)));
  job.mutable_prediction()->set_worker_memory_bytes(
      (plan.memory.total() - plan.memory.data + data).count());
  ReserveMemory(spec, job);
  job.set_total_steps(spec.train.steps);
  // Where the model is in parts each rank has a piece of its own.
  job.mutable_snapshot()->set_replicated(plan.tensor_parallel == 1 && plan.pipeline_parallel == 1);
  job.mutable_data()->set_samples(facts.train_samples);
  job.mutable_data()->set_global_batch(spec.train.global_batch);
  job.mutable_data()->set_seed(spec.train.seed);
  job.mutable_data()->set_fingerprint(facts.fingerprint);
  Json config = Json::parse(job.spec_json(), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return InternalError("a job that cannot be read back");
  config["data_directory"] = data_directory;
  config["run_directory"] = job.run_directory();
  config["micro_batch"] = plan.micro_batch;
  config["layout"] = Json{{"tensor", plan.tensor_parallel}, {"pipeline", plan.pipeline_parallel}};
  // An elastic job's replicas are those that there are.
  if (job.minimum_nodes() == 0) config["layout"]["data"] = plan.data_parallel;
  config["record_samples"] = true;  // an audit of what was trained on; some bytes a sample
  if (!from.is_null()) config["from"] = from;
  job.mutable_workload()->set_trainer_config(config.dump());
  return Status();
}

// What the second tier has of a run that is resumed; a fresh one must find nothing there, or it
// would mix with another's. The bytes are verified when one is brought back.
Status Submission::FindCopies(const spec::JobSpec& spec, bool resume, proto::Job& job) {
  const std::string where = CopyPlace(job.snapshot().copy_to(), job.run_directory());
  ASSIGN_OR_RETURN(const objects::Place place, objects::Place::Open(where));
  checkpoint::CheckpointDirectory directory(place.files(), place.path());
  const auto steps = directory.Survey();
  if (!steps.ok()) return steps.status().WithContext("snapshot.copy_to");
  if (resume && !steps->damaged.empty()) {
    job.add_warnings("of the copies in " + where +
                     " these are damaged: " + checkpoint::DamagedSteps(steps->damaged));
  }
  const std::vector<checkpoint::Manifest>* manifests = &steps->committed;
  if (manifests->empty()) return Status();
  const checkpoint::Manifest& newest = manifests->front();
  const std::string step = std::to_string(newest.step);
  if (!resume) {
    return FailedPrecondition(where + " holds checkpoints of an earlier run, up to step " + step +
                              ": continue with it by --resume, or take another run directory or "
                              "another snapshot.copy_to");
  }
  const int64_t parameters = spec.built_in() ? planner::TrainerParameters(spec.model) : 0;
  RETURN_IF_ERROR(CheckData(newest, job, where));
  RETURN_IF_ERROR(CheckModel(newest, parameters, where));
  constexpr size_t kMostCopies = 64;  // newest first; older ones are not gone back to
  for (size_t i = 0; i < manifests->size() && i < kMostCopies; ++i) {
    proto::Copy& copy = *job.add_copies();
    copy.set_step((*manifests)[i].step);
    copy.set_attempt((*manifests)[i].attempt);
  }
  job.set_plan_reason(job.plan_reason() + " " + where + " has checkpoints up to step " + step +
                      ".");
  return Status();
}

// Where a resumed job continues. Without any checkpoint it starts fresh and reports that; where all
// are damaged it is refused.
Status Submission::FindCheckpoint(const spec::JobSpec& spec, proto::Job& job) {
  const int64_t parameters = spec.built_in() ? planner::TrainerParameters(spec.model) : 0;
  const std::string path = job.run_directory() + "/checkpoints";
  ASSIGN_OR_RETURN(
      const checkpoint::ResumePoint point,
      checkpoint::FindResumePoint(io::PosixFileSystem(), path,
                                  [&](const checkpoint::Manifest& manifest) -> Status {
                                    RETURN_IF_ERROR(CheckData(manifest, job, job.run_directory()));
                                    return CheckModel(manifest, parameters, job.run_directory());
                                  }));
  uint64_t step = 0;
  for (const proto::Copy& copy : job.copies()) step = std::max(step, copy.step());
  if (!point.good && job.copies().empty()) {
    std::vector<std::string> damaged(job.warnings().begin(), job.warnings().end());  // of copies
    if (!point.damaged.empty()) damaged.push_back(checkpoint::DamagedSteps(point.damaged));
    if (!damaged.empty()) {
      return DataLoss("no checkpoint in " + path + " is whole: " + Join(damaged, "; ") +
                      ". Bring a copy of one back, or run without --resume in another folder to "
                      "start fresh");
    }
    job.set_plan_reason(job.plan_reason() + " Nothing to resume from: it starts fresh.");
    return Status();
  }
  if (point.good) {
    step = std::max(step, point.good->step);
    job.set_committed_step(point.good->step);
    job.set_committed_attempt(point.good->attempt);
    job.set_plan_reason(job.plan_reason() + " Resumes after step " +
                        std::to_string(point.good->step) + SavedBy(*point.good, job) + ".");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> text,
                   checkpoint::MoveDamagedAside(io::PosixFileSystem(), path, point, step));
  for (const std::string& each : text) job.add_warnings(each);
  return Status();
}

// The same job on another number of nodes: what was asked for, planned and prepared anew.
Result<proto::Job> Submission::PrepareAgain(const proto::Job& before, uint32_t nodes) {
  ASSIGN_OR_RETURN(spec::JobSpec spec, spec::ParseJob(before.spec_json(), "job " + before.id()));
  spec.resources.nodes = nodes;
  spec.resources.processes_per_node = before.processes_per_node();
  // The parts of a job file must still agree.
  ASSIGN_OR_RETURN(spec, spec::ParseJob(spec::ToJson(spec), "job " + before.id()));
  proto::Job job = before;
  job.clear_warnings();  // reported when it was submitted
  ASSIGN_OR_RETURN(const planner::LocalPlan plan, Place(spec, job));
  job.set_spec_json(OwnJson(spec));
  // Its first weights stay those that it was accepted with, whatever lies there by now.
  const Json config = Json::parse(before.workload().trainer_config(), nullptr, false);
  const Json from = config.is_object() && config.contains("from") ? config["from"] : Json();
  RETURN_IF_ERROR(PrepareWorkload(spec, plan, from, job));
  return job;
}

// The cheap part of the preparation, which touches no file of the run. A sketch, for a what-if
// question, ends here and reserves no id.
Result<Submission::Draft> Submission::Begin(spec::JobSpec spec, const SubmissionRequest& request,
                                            bool several) {
  Draft draft;
  draft.spec = std::move(spec);
  proto::Job& job = draft.job;
  CopySpec(draft.spec, job);
  job.mutable_scheduling()->set_owner(request.user);
  ASSIGN_OR_RETURN(draft.plan, Place(draft.spec, job));
  RETURN_IF_ERROR(CheckFaultsOf(draft.spec, job));
  if (request.sketch) {
    job.set_id(draft.spec.name);
    return draft;
  }
  job.set_id(ReserveId(draft.spec.name));
  std::string directory = request.run_directory;
  if (directory.empty()) {
    directory = options_.state_directory + "/" + job.id();
  } else if (several) {
    directory += "/" + draft.spec.name;
  }
  std::error_code error;
  directory = std::filesystem::absolute(directory, error).lexically_normal().string();
  if (error) return InvalidArgument("cannot use the run directory " + Printable(directory));
  job.set_run_directory(directory);
  return draft;
}

Status Submission::TakeDependencies(const spec::JobSpec& spec, const spec::JobFile& file,
                                    const std::vector<std::string>& ids, proto::Job& job) const {
  if (spec.after.jobs.empty()) return {};
  proto::Dependencies& after = *job.mutable_after();
  after.set_when(spec.after.when == "end"       ? proto::Dependencies::END
                 : spec.after.when == "failure" ? proto::Dependencies::FAILURE
                                                : proto::Dependencies::SUCCESS);
  for (const std::string& name : spec.after.jobs) {
    const auto own = file.several ? file.Find(name) : std::nullopt;
    if (own) {
      const std::string& id = ids[own->job];
      after.add_jobs(own->element ? runtime::ElementIdOf(id, *own->element) : id);
      continue;
    }
    const auto known =
        loop_.Read([&](const runtime::Controller& core) { return core.Resolve(name); });
    // A wrong name is bad input, not a thing that is missing.
    if (!known.ok()) return InvalidArgument("after: " + known.status().message());
    after.add_jobs(known->value());
  }
  return {};
}

// The expensive part. A resumed run that finds a checkpoint does not need its first weights, so an
// unreadable start is an error only if there is no checkpoint.
Status Submission::Complete(const SubmissionRequest& request, Draft& draft) {
  proto::Job& job = draft.job;
  const std::string& directory = job.run_directory();
  std::string from = request.from;
  if (from.empty() && request.resume) {
    ASSIGN_OR_RETURN(from, ReadStart(directory));
  }
  const auto start = from.empty() ? Result<StartingPoint>(StartingPoint())
                                  : FindStart(draft.spec, from, directory);
  if (!start.ok() && !request.resume) return start.status();
  const StartingPoint first = start.ok() ? *start : UnreadableStart(from);
  RETURN_IF_ERROR(PrepareWorkload(draft.spec, draft.plan, first.config, job));
  if (!job.snapshot().copy_to().empty()) {
    RETURN_IF_ERROR(FindCopies(draft.spec, request.resume, job));
  }
  if (request.resume) RETURN_IF_ERROR(FindCheckpoint(draft.spec, job));
  if (job.committed_step() > 0 || job.copies_size() > 0) return {};
  if (!start.ok()) return start.status();  // nothing to continue from either
  RETURN_IF_ERROR(WriteStart(first, directory));
  job.set_plan_reason(job.plan_reason() + first.text);
  return {};
}

Result<proto::JobsSubmitted> Submission::Prepare(const SubmissionRequest& request) {
  proto::JobsSubmitted submitted;
  if (request.before) {
    ASSIGN_OR_RETURN(*submitted.add_jobs(), PrepareAgain(*request.before, request.nodes));
    return submitted;
  }
  ASSIGN_OR_RETURN(const spec::JobFile file, ParseFile(request));
  std::vector<Draft> drafts;
  std::vector<std::string> ids;
  const auto named = [&](const Status& status, const spec::JobSpec& spec) {
    return status.ok() || !file.several ? status : status.WithContext("job '" + spec.name + "'");
  };
  // All drafts first: dependencies refer to ids of the same file, and the core must accept all jobs
  // before the data of any is prepared.
  for (const spec::JobSpec& spec : file.jobs) {
    Result<Draft> draft = Begin(spec, request, file.several);
    if (!draft.ok()) return named(draft.status(), spec);
    RETURN_IF_ERROR(named(TakeDependencies(spec, file, ids, draft->job), spec));
    ids.push_back(draft->job.id());
    *submitted.add_jobs() = draft->job;
    drafts.push_back(*std::move(draft));
  }
  if (request.sketch) return submitted;
  // What the core refuses anyway needs no data.
  RETURN_IF_ERROR(
      loop_.Read([&](const runtime::Controller& core) { return core.CheckSubmission(submitted); }));
  submitted.clear_jobs();
  for (Draft& draft : drafts) {
    RETURN_IF_ERROR(named(Complete(request, draft), draft.spec));
    *submitted.add_jobs() = std::move(draft.job);
  }
  return submitted;
}

}  // namespace longhaul::service
