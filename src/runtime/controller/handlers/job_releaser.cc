#include "runtime/controller/handlers/job_releaser.h"

#include <utility>

#include "base/text.h"
#include "runtime/controller/handlers/job_closer.h"

namespace longhaul::runtime::controller {

namespace {

// What became of a job that another one waits for in vain.
std::string EndText(const std::string& name, bool is_array, bool failed) {
  if (!failed) return name + " succeeded";
  return is_array ? "an element of " + name + " did not succeed" : name + " did not succeed";
}

// An element counts as part of its array: a job may depend on a single element of an array in the
// same submission.
bool IsAmong(const EarlierJobs& jobs, const std::string& id) {
  if (jobs.contains(id)) return true;
  const auto element = SplitElementId(id);
  const auto array = element ? jobs.find(element->array) : jobs.end();
  return array != jobs.end() && element->index < array->second;
}

}  // namespace

JobOutcome JobReleaser::OutcomeOf(const std::string& id) const {
  if (context_.releases.IsArray(id)) {
    const ReleaseUnit& unit = *context_.releases.Find(id);
    return {unit.over(), unit.succeeded < unit.ended};
  }
  const JobRecord& job = std::as_const(context_.jobs).at(id);
  return {!job.live(), !job.live() && job.life.state() != proto::SUCCEEDED};
}

Status JobReleaser::CheckDependencies(const proto::Job& job, const EarlierJobs& earlier) const {
  for (const std::string& id : job.after().jobs()) {
    if (IsAmong(earlier, id)) continue;
    const bool is_array = context_.releases.IsArray(id);
    if (!is_array && !context_.jobs.contains(id)) {
      return InvalidArgument("after: there is no job with the id " + Printable(id, 110));
    }
    const JobOutcome outcome = OutcomeOf(id);
    if (StateOf(job.after().when(), outcome) != DependencyState::kNever) continue;
    const std::string name = (is_array ? "array " : "job ") + id;
    return FailedPrecondition("after: " + EndText(name, is_array, outcome.failed) +
                              ", so a job that waits for it " + VerbOf(job.after().when()) +
                              " would never start; leave it out of 'after'");
  }
  return {};
}

Status JobReleaser::CheckRelease(const std::string& id) const {
  const ReleaseUnit* unit = std::as_const(context_.releases).Find(id);
  if (unit == nullptr && !context_.jobs.contains(id)) {
    return NotFound("no job with the id " + Printable(id, 110));
  }
  if (unit != nullptr && !unit->over() && !unit->after.jobs().empty()) return {};
  return FailedPrecondition(id + " does not wait for other jobs to end");
}

void JobReleaser::Release(const std::string& id) {
  context_.releases.DropDependencies(*context_.releases.Find(id));
}

// Ending a unit that can never start affects the units that depend on it, so the loop runs until no
// unit is affected. Dependencies name only earlier jobs, so there is no cycle.
void JobReleaser::Settle() {
  while (context_.releases.has_affected()) {
    for (const std::string& id : context_.releases.TakeAffected()) {
      ReleaseUnit& unit = *context_.releases.Find(id);
      if (!unit.over()) Advance(unit);
    }
  }
}

void JobReleaser::Advance(ReleaseUnit& unit) {
  const std::string never = TakeSatisfied(unit);
  if (!never.empty()) return EndHeld(unit, never);
  if (unit.after.jobs().empty()) Offer(unit);
}

// Satisfied dependencies are removed for good. An outcome does not change any more, and a long list
// would be examined again with each end.
std::string JobReleaser::TakeSatisfied(ReleaseUnit& unit) const {
  proto::Dependencies left;
  left.set_when(unit.after.when());
  for (const std::string& id : unit.after.jobs()) {
    const JobOutcome outcome = OutcomeOf(id);
    switch (StateOf(unit.after.when(), outcome)) {
      case DependencyState::kSatisfied:
        break;
      case DependencyState::kWaits:
        left.add_jobs(id);
        break;
      case DependencyState::kNever: {
        const bool is_array = context_.releases.IsArray(id);
        const std::string name = (is_array ? "array " : "job ") + id;
        return "never started: " + EndText(name, is_array, outcome.failed) +
               ", and it waited for it " + VerbOf(unit.after.when());
      }
    }
  }
  unit.after = std::move(left);
  return "";
}

void JobReleaser::EndHeld(ReleaseUnit& unit, const std::string& reason) {
  for (uint32_t index = unit.next; index < unit.count(); ++index) {
    JobRecord* job = context_.jobs.Find(unit.ElementId(index));
    if (job->live()) closer_.EndHeld(*job, reason);
  }
}

// `eligible` is the time from which the unit's wait counts, the same for all elements of an array:
// one that is offered later, for lack of room, has waited as long as the first.
void JobReleaser::Offer(ReleaseUnit& unit) {
  if (unit.next == 0) unit.eligible = context_.now;
  while (unit.next < unit.count() && unit.has_room()) {
    const uint32_t index = unit.next++;
    JobRecord* job = context_.jobs.Find(unit.ElementId(index));
    if (!job->live()) continue;  // it was stopped before
    unit.offered.insert(index);
    if (unit.is_array()) unit.waiting.insert(index);
    context_.scheduler.Submit(job->spec(), context_.now, unit.eligible);
    if (!unit.is_array()) {
      context_.AddMessage(job->id(), proto::MessageNotification::INFO,
                          "waits for no other job any more");
    }
  }
}

}  // namespace longhaul::runtime::controller
