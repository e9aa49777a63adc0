#include "spec/job.h"

#include <algorithm>

#include "base/text.h"
#include "spec/internal/document.h"
#include "spec/internal/job_reader.h"
#include "spec/internal/job_schema.h"

namespace longhaul::spec {

namespace {

using internal::JobReader;
using internal::kMaxNameBytes;

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsNameCharacter(char c) { return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.'; }

// A name becomes a folder's and, on Kubernetes, an object's.
bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && IsLetterOrDigit(name.front()) &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

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
  } else if (!IsName(job.name)) {
    reader.Refuse("name", "'" + Printable(job.name, 70) +
                              "' is not a name: 1 to 63 letters, digits, '-', '_' and '.', a "
                              "letter or digit first");
  }
}

// A command trains whatever it likes: the built-in trainer's keys would be without effect.
void CheckCommandJob(JobReader& reader, const JobSpec& job) {
  if (job.command.empty()) {
    reader.Refuse("command", "must not be empty: a program and its arguments");
  }
  for (const char* key : {"model", "data", "train", "sample", "resources.micro_batch"}) {
    if (!reader.Has(key)) continue;
    reader.Refuse(key, "is for the built-in trainer and has no effect beside 'command'");
  }
}

void CheckBuiltInJob(JobReader& reader, JobSpec& job) {
  if (!reader.Has("data.include")) {
    reader.Refuse("data.include",
                  "is missing: give the text to train on, such as ['/usr/include/**/*.h'], or a "
                  "'command' to run");
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
}

// Why the fault can't happen; empty when it can.
std::string WhyNever(const JobSpec& job, const PlannedFault& fault) {
  if (job.built_in() && fault.step > job.train.steps) {
    return "the job ends after step " + std::to_string(job.train.steps);
  }
  const auto& nodes = job.resources.nodes;
  const auto& processes = job.resources.processes_per_node;
  const bool of_agent = fault.kind == FaultKind::kKillAgent;
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
  JobReader reader(root, source);
  RETURN_IF_ERROR(reader.Finish());
  JobSpec job;
  internal::VisitJob(reader, job);
  reader.RefuseUnknown();
  CheckName(reader, job, source);
  if (reader.Has("command")) {
    CheckCommandJob(reader, job);
  } else {
    CheckBuiltInJob(reader, job);
  }
  if (const Status status = CheckFaults(job); !status.ok()) {
    reader.Refuse("inject", status.message());
  }
  RETURN_IF_ERROR(reader.Finish());
  return job;
}

}  // namespace longhaul::spec
