#include "runtime/controller/handlers/job_admission.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "runtime/controller/handlers/user_jobs.h"
#include "runtime/controller/placement.h"
#include "runtime/scheduling/elastic.h"
#include "runtime/scheduling/queue_rules.h"

namespace longhaul::runtime::controller {

namespace {

// So many ranks fit a controller's memory; far beyond any machine there is.
constexpr uint64_t kMaxWorld = 1'000'000;
// Each element of an array has a specification of its own.
constexpr uint64_t kMaxArrayBytes = uint64_t{256} << 20;

}  // namespace

Status JobAdmission::CheckSubmission(const proto::Job& job) const {
  RETURN_IF_ERROR(CheckOne(job, {}));
  const Status user = UserJobs(context_).Check({&job});
  return user.ok() ? user : user.WithContext("job " + job.id());
}

// The checks see the jobs of the submission in order: a job may depend on an earlier one, and all
// together must stay within the limits of their users.
Status JobAdmission::CheckSubmission(const proto::JobsSubmitted& submitted) const {
  if (submitted.jobs().empty()) return InvalidArgument("a submission needs a job");
  EarlierJobs earlier;
  std::set<std::string> directories;
  std::vector<const proto::Job*> jobs;
  for (const proto::Job& job : submitted.jobs()) {
    RETURN_IF_ERROR(CheckOne(job, earlier));
    jobs.push_back(&job);
    if (!earlier.emplace(job.id(), job.array().count()).second)
      return InvalidArgument("two jobs have the id " + job.id());
    if (!job.run_directory().empty() && !directories.insert(job.run_directory()).second) {
      return InvalidArgument("two jobs have the run directory " + job.run_directory());
    }
  }
  return UserJobs(context_).Check(jobs);
}

Status JobAdmission::CheckOne(const proto::Job& job, const EarlierJobs& earlier) const {
  if (job.id().empty()) return InvalidArgument("a job needs an id");
  if (context_.jobs.contains(job.id()) || context_.releases.Find(job.id()) != nullptr) {
    return AlreadyExists("there is a job " + job.id() + " already");
  }
  const uint64_t world = uint64_t{job.nodes()} * job.processes_per_node();
  if (world == 0 || world > kMaxWorld) {
    return InvalidArgument("job " + job.id() + " wants " + std::to_string(job.nodes()) +
                           " nodes of " + std::to_string(job.processes_per_node()) +
                           " processes; both must be at least 1 and make at most 1,000,000 ranks");
  }
  RETURN_IF_ERROR(CheckDirectory(job));
  RETURN_IF_ERROR(CheckBounds(job));
  if (job.has_array()) {
    if (const Status array = CheckArray(job); !array.ok())
      return array.WithContext("job " + job.id());
  }
  if (const Status after = releaser_.CheckDependencies(job, earlier); !after.ok()) {
    return after.WithContext("job " + job.id());
  }
  Status fits = scheduling::CheckRights(context_.scheduler.configuration(), job);
  if (fits.ok()) fits = context_.scheduler.CheckSubmission(job);
  return fits.ok() ? fits : fits.WithContext("job " + job.id());
}

// Two live jobs in one folder would overwrite each other's checkpoints. An ended job may be
// followed by another one in its folder: that is how a run is resumed.
Status JobAdmission::CheckDirectory(const proto::Job& job) const {
  const std::string& directory = job.run_directory();
  if (directory.empty()) return {};
  for (const auto& [id, other] : std::as_const(context_.jobs).all()) {
    if (!other.live()) continue;
    const std::string& used = other.spec().run_directory();
    const bool same = used == directory;
    // An array's elements have folders below its own.
    const bool of_array =
        other.spec().has_element() && used.substr(0, used.rfind('/')) == directory;
    if (!same && !of_array) continue;
    return AlreadyExists("job " + id + " is running in " + directory + " already");
  }
  return {};
}

Status JobAdmission::CheckArray(const proto::Job& job) const {
  const proto::Array& array = job.array();
  const uint32_t limit = context_.scheduler.configuration().array_limit;
  if (array.count() == 0) return InvalidArgument("array: it has no elements");
  if (array.count() > limit) {
    return InvalidArgument("array: " + WithThousands(array.count()) +
                           " elements; this controller accepts at most " + WithThousands(limit) +
                           " (scheduling.array_limit of its file): submit several arrays");
  }
  const auto values = static_cast<uint32_t>(array.values_size());
  if (values != 0 && values != array.count()) {
    return InvalidArgument("array: " + std::to_string(array.count()) + " elements and " +
                           std::to_string(values) + " values");
  }
  // The values are divided over the elements, so each element's size is that of the job without
  // them.
  proto::Job one = job;
  one.mutable_array()->clear_values();
  const uint64_t bytes = one.ByteSizeLong() * array.count();
  if (bytes <= kMaxArrayBytes) return {};
  return InvalidArgument("array: " + WithThousands(array.count()) + " elements of " +
                         WithThousands(static_cast<int64_t>(one.ByteSizeLong())) +
                         " bytes are more than 256 MiB: put the long command or environment into a "
                         "script");
}

JobRecord& JobAdmission::AddJob(const proto::Job& spec) {
  const double expected = ToSeconds(context_.options.expected_time_between_failures);
  JobRecord& job = context_.jobs.Add(spec, context_.now, Seconds(expected));
  // A resumed run: its newest checkpoint can be restored from the first attempt on. Attempt numbers
  // continue above those on disk, because they are part of the names of folders.
  if (spec.committed_step() > 0) {
    job.snapshots.Commit(spec.committed_step(), spec.committed_attempt(), /*keep=*/1);
    job.life.SkipAttempts(spec.committed_attempt());
  }
  for (const proto::Copy& copy : spec.copies()) {
    job.copier.Add(copy.step(), copy.attempt());
    job.life.SkipAttempts(copy.attempt());
  }
  return job;
}

void JobAdmission::OnJobSubmitted(const proto::Job& spec) {
  // The service has refused such a job already. A replayed log must reach the same state, whatever
  // it contains.
  if (!CheckSubmission(spec).ok()) return;
  if (spec.has_array() || !spec.after().jobs().empty()) return AddHeld(spec);
  JobRecord& job = AddJob(spec);
  context_.SetState(job, proto::QUEUED, "submitted");
  for (const std::string& warning : spec.warnings()) {
    context_.AddMessage(spec.id(), proto::MessageNotification::WARNING, warning);
  }
  context_.scheduler.Submit(spec, context_.now);
  // Scheduled here and not only at the end of the step, so that the reason of a job that has to
  // wait is part of this event's notifications.
  placement_.Schedule();
  if (job.life.state() == proto::QUEUED) {
    context_.SetState(job, proto::QUEUED, context_.scheduler.WaitText(JobId(spec.id())));
  }
}

void JobAdmission::OnJobsSubmitted(const proto::JobsSubmitted& submitted) {
  if (!CheckSubmission(submitted).ok()) return;
  for (const proto::Job& job : submitted.jobs()) {
    if (job.has_array() || !job.after().jobs().empty()) {
      AddHeld(job);
    } else {
      context_.SetState(AddJob(job), proto::QUEUED, "submitted");
      context_.scheduler.Submit(job, context_.now);
    }
    for (const std::string& warning : job.warnings()) {
      context_.AddMessage(job.id(), proto::MessageNotification::WARNING, warning);
    }
  }
}

void JobAdmission::AddHeld(const proto::Job& spec) {
  ReleaseUnit& unit = context_.releases.Add(spec);
  if (!unit.is_array()) {
    context_.SetState(AddJob(spec), proto::QUEUED, context_.releases.WaitText(spec.id()));
    return;
  }
  for (uint32_t index = 0; index < unit.count(); ++index) {
    const std::string* value =
        spec.array().values().empty() ? nullptr : &spec.array().values(static_cast<int>(index));
    AddJob(ElementOf(unit.spec, index, value));
  }
  context_.AddMessage(
      "", proto::MessageNotification::INFO,
      "array " + spec.id() + " was submitted: " + std::to_string(unit.count()) + " elements");
}

}  // namespace longhaul::runtime::controller
