#include "story/run_record.h"

#include <cmath>
#include <utility>

namespace longhaul::story {
namespace {

// The job that an event is about; empty: a node, or all jobs. Nothing for events that are not
// evidence of a fault.
std::optional<std::string> SubjectOf(const proto::Event& event) {
  switch (event.kind_case()) {
    case proto::Event::kWorkerExited:
      return event.worker_exited().job_id();
    case proto::Event::kWorkersFailedToStart:
      return event.workers_failed_to_start().job_id();
    case proto::Event::kSnapshotFailed:
      return event.snapshot_failed().job_id();
    case proto::Event::kWorkersProbed:
      return event.workers_probed().job_id();
    case proto::Event::kWorkerWaits:
      return event.worker_waits().job_id();
    case proto::Event::kAgentDisconnected:
    case proto::Event::kAgentJoined:
    case proto::Event::kControllerStarted:
      return "";
    default:
      return std::nullopt;
  }
}

constexpr int64_t kYear2200_ns = 7'258'118'400'000'000'000;

int64_t PlausibleTime(int64_t at_ns) { return at_ns < 0 || at_ns > kYear2200_ns ? 0 : at_ns; }

void MakePlausible(proto::Fault& fault) {
  fault.set_happened_at_ns(PlausibleTime(fault.happened_at_ns()));
  fault.set_detected_at_ns(PlausibleTime(fault.detected_at_ns()));
  fault.set_decided_at_ns(PlausibleTime(fault.decided_at_ns()));
  fault.set_started_at_ns(PlausibleTime(fault.started_at_ns()));
  fault.set_rendezvous_at_ns(PlausibleTime(fault.rendezvous_at_ns()));
  fault.set_restoring_at_ns(PlausibleTime(fault.restoring_at_ns()));
  fault.set_stepping_at_ns(PlausibleTime(fault.stepping_at_ns()));
  fault.set_first_step_at_ns(PlausibleTime(fault.first_step_at_ns()));
  fault.set_new_step_at_ns(PlausibleTime(fault.new_step_at_ns()));
  if (!std::isfinite(fault.lost_rank_seconds())) fault.set_lost_rank_seconds(0);
  for (proto::CategoryTime& cost : *fault.mutable_costs()) {
    if (!std::isfinite(cost.rank_seconds())) cost.set_rank_seconds(0);
  }
}

void Keep(proto::Notification notification, RunRecord& record) {
  notification.set_at_ns(PlausibleTime(notification.at_ns()));
  if (notification.has_fault()) MakePlausible(*notification.mutable_fault());
  record.notifications.push_back(std::move(notification));
}

}  // namespace

RunRecorder::RunRecorder(std::string job_id, size_t limit) : limit_(limit) {
  record_.job_id = std::move(job_id);
}

void RunRecorder::TakeNotification(const proto::Notification& notification) {
  const bool of_node = notification.kind_case() == proto::Notification::kNode;
  if (!of_node && notification.job_id() != record_.job_id) return;
  if (notification.kind_case() == proto::Notification::kStep) {
    step_ = notification;
    return;
  }
  if (notification.kind_case() == proto::Notification::KIND_NOT_SET) ++unknown_;
  full_ = full_ || record_.notifications.size() >= limit_;
  if (full_) return;
  if (step_.has_value()) Keep(*std::exchange(step_, std::nullopt), record_);
  Keep(notification, record_);
}

void RunRecorder::TakeEvent(int64_t logged_at_ns, const proto::Event& event) {
  record_.has_events = true;
  if (event.kind_case() == proto::Event::KIND_NOT_SET) ++unknown_;
  logged_at_ns = PlausibleTime(logged_at_ns);
  int64_t silent_ns = -1;
  if (!event.node().empty()) {
    const auto before = last_of_node_.find(event.node());
    if (before != last_of_node_.end()) silent_ns = logged_at_ns - before->second;
    last_of_node_[event.node()] = logged_at_ns;
  }
  const std::optional<std::string> subject = SubjectOf(event);
  if (!subject.has_value() || (!subject->empty() && *subject != record_.job_id)) return;
  full_ = full_ || record_.events.size() >= limit_;
  if (full_) return;
  const bool disconnected = event.kind_case() == proto::Event::kAgentDisconnected;
  RecordedEvent& kept = record_.events.emplace_back();
  kept.logged_at_ns = logged_at_ns;
  if (disconnected) kept.silent_ns = silent_ns;
  kept.event = event;
  kept.event.set_at_ns(PlausibleTime(event.at_ns()));
}

RunRecord RunRecorder::Record() const {
  RunRecord record = record_;
  if (step_.has_value()) Keep(*step_, record);
  if (unknown_ > 0) {
    record.notes.push_back(
        std::to_string(unknown_) +
        (unknown_ == 1 ? " entry of the log has" : " entries of the log have") +
        " a kind that this program does not know and is left out: a newer version has written "
        "the log, and has the whole story.");
  }
  if (full_) {
    record.notes.push_back("The log has more than " + std::to_string(limit_) +
                           " entries about this job; only the first ones were read.");
  }
  return record;
}

}  // namespace longhaul::story
