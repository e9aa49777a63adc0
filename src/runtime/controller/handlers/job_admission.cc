#include "runtime/controller/handlers/job_admission.h"

#include <string>

#include "runtime/controller/placement.h"
#include "runtime/scheduling/elastic.h"

namespace longhaul::runtime::controller {

namespace {

// So many ranks fit a controller's memory; far beyond any machine there is.
constexpr uint64_t kMaxWorld = 1'000'000;

}  // namespace

Status JobAdmission::CheckSubmission(const proto::Job& job) const {
  if (job.id().empty()) return InvalidArgument("a job needs an id");
  if (context_.jobs.contains(job.id())) {
    return AlreadyExists("there is a job " + job.id() + " already");
  }
  const uint64_t world = uint64_t{job.nodes()} * job.processes_per_node();
  if (world == 0 || world > kMaxWorld) {
    return InvalidArgument("job " + job.id() + " wants " + std::to_string(job.nodes()) +
                           " nodes of " + std::to_string(job.processes_per_node()) +
                           " processes; both must be at least 1 and make at most 1,000,000 ranks");
  }
  const ControllerContext& context = context_;
  for (const auto& [id, other] : context.jobs.all()) {
    if (other.live() && other.spec().run_directory() == job.run_directory() &&
        !job.run_directory().empty()) {
      return AlreadyExists("job " + id + " is running in " + job.run_directory() + " already");
    }
  }
  RETURN_IF_ERROR(CheckBounds(job));
  const Status fits = context_.scheduler.CheckSubmission(job);
  return fits.ok() ? fits : fits.WithContext("job " + job.id());
}

void JobAdmission::OnJobSubmitted(const proto::Job& spec) {
  if (!CheckSubmission(spec).ok()) return;
  const double expected = ToSeconds(context_.options.expected_time_between_failures);
  JobRecord& job = context_.jobs.Add(spec, context_.now, Seconds(expected));
  if (spec.committed_step() > 0) {
    job.snapshots.Commit(spec.committed_step(), spec.committed_attempt(), /*keep=*/1);
    job.life.SkipAttempts(spec.committed_attempt());
  }
  for (const proto::Copy& copy : spec.copies()) {
    job.copier.Add(copy.step(), copy.attempt());
    job.life.SkipAttempts(copy.attempt());
  }
  context_.SetState(job, proto::QUEUED, "submitted");
  for (const std::string& warning : spec.warnings()) {
    context_.AddMessage(spec.id(), proto::MessageNotification::WARNING, warning);
  }
  context_.scheduler.Submit(spec, context_.now);
  placement_.Schedule();
  if (job.life.state() == proto::QUEUED) {
    context_.SetState(job, proto::QUEUED, context_.scheduler.WaitText(JobId(spec.id())));
  }
}

}  // namespace longhaul::runtime::controller
