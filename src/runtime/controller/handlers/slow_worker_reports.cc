#include "runtime/controller/handlers/slow_worker_reports.h"

#include <map>
#include <set>
#include <utility>

namespace longhaul::runtime::controller {

namespace {

// For the answers, after the period of a look, and for the stacks.
constexpr Duration kAnswerLimit = std::chrono::seconds(5);

}  // namespace

bool SlowWorkerReports::Applies(const JobRecord& job) const {
  return job.world() > 1 && job.life.state() == proto::RUNNING && !job.faults.undecided() &&
         !job.group.a_rank_has_ended() && !job.placement.leaving();
}

void SlowWorkerReports::TakeSteps(JobRecord& job, Duration took, uint64_t count) {
  if (!Applies(job)) return;
  if (job.slowness.TakeStep(took / static_cast<int64_t>(count), context_.now)) NoteEnd(job);
  if (job.slowness.IsDue(context_.now)) Look(job);
}

void SlowWorkerReports::Look(JobRecord& job) {
  const Duration period = job.slowness.Period();
  std::set<std::string> nodes;
  for (const Member& member : job.group.members()) {
    nodes.insert(member.node.value());
    proto::Command command;
    auto* sample = command.mutable_sample_workers();
    sample->set_job_id(job.id());
    sample->set_attempt(job.life.attempt());
    sample->set_period_ns(period.count());
    context_.Send(member.node, std::move(command));
  }
  job.slowness.BeginLook(job.progress.step(), std::move(nodes));
  context_.deadlines.Set(DeadlineKind::kSlowness, job.id(), context_.now + period + kAnswerLimit);
}

void SlowWorkerReports::OnWorkersSampled(const proto::Event& event) {
  const auto& sampled = event.workers_sampled();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, sampled.job_id(), sampled.attempt(), &place);
  if (job == nullptr) return;
  for (const auto& worker : sampled.workers()) {
    if (worker.rank() / job->local() != place) return;
  }
  std::map<std::string, std::string> node_of;
  for (const Member& member : job->group.members()) {
    const Node* node = context_.nodes.Find(member.node);
    if (node != nullptr) node_of[node->facts.address()] = member.node.value();
  }
  if (job->slowness.Take(event.node(), sampled, node_of)) Conclude(*job);
}

void SlowWorkerReports::OnWorkersProbed(const proto::Event& event) {
  const auto& probed = event.workers_probed();
  size_t place = 0;
  JobRecord* job = context_.CurrentJob(event, probed.job_id(), probed.attempt(), &place);
  if (job != nullptr && job->slowness.TakeStacks(event.node(), probed)) Name(*job);
}

void SlowWorkerReports::OnDue(JobRecord& job) {
  if (job.slowness.stage() == SlownessWatch::Stage::kLooking) return Conclude(job);
  if (job.slowness.stage() == SlownessWatch::Stage::kStacks) return Name(job);
}

void SlowWorkerReports::Conclude(JobRecord& job) {
  context_.deadlines.Clear(DeadlineKind::kSlowness, job.id());
  switch (job.slowness.Conclude(job.progress.step(), context_.now)) {
    case SlownessWatch::Outcome::kNothing:
      return;
    case SlownessWatch::Outcome::kLookAgain:
      if (Applies(job)) Look(job);
      return;
    case SlownessWatch::Outcome::kEnded:
      return NoteEnd(job);
    case SlownessWatch::Outcome::kWorkersNamed:
      return GatherStacks(job);
    case SlownessWatch::Outcome::kLinksNamed:
      return context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                                 job.slowness.LinksText());
  }
}

void SlowWorkerReports::NoteEnd(const JobRecord& job) {
  context_.AddMessage(job.id(), proto::MessageNotification::INFO,
                      "nothing slows the job down any more");
}

void SlowWorkerReports::GatherStacks(JobRecord& job) {
  for (const std::string& node : job.slowness.BeginStacks()) {
    proto::Command command;
    auto* probe = command.mutable_probe_workers();
    probe->set_job_id(job.id());
    probe->set_attempt(job.life.attempt());
    probe->set_with_stacks(true);
    context_.Send(NodeId(node), std::move(command));
  }
  context_.deadlines.Set(DeadlineKind::kSlowness, job.id(), context_.now + kAnswerLimit);
}

void SlowWorkerReports::Name(JobRecord& job) {
  context_.deadlines.Clear(DeadlineKind::kSlowness, job.id());
  const std::string text = job.slowness.EndStacks();
  if (Applies(job)) context_.AddMessage(job.id(), proto::MessageNotification::WARNING, text);
}

}  // namespace longhaul::runtime::controller
