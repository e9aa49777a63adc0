#include "service/controller/view/waiting_list.h"

#include <algorithm>
#include <utility>

#include "io/clock.h"

namespace longhaul::service {
namespace {

WaitingJob WaitingFrom(const proto::JobStatus& status) {
  const proto::Job& job = status.job();
  WaitingJob waiting;
  waiting.id = job.id();
  waiting.queue = job.scheduling().queue();
  waiting.owner = job.scheduling().owner();
  waiting.workers = uint64_t{job.nodes()} * job.processes_per_node();
  waiting.submitted_at_ns = status.submitted_at_ns();
  waiting.sentence = status.reason();
  return waiting;
}

}  // namespace

WaitingList::Snapshot WaitingList::Get() {
  const std::lock_guard lock(mutex_);
  const Instant started = io::MonotonicNow();
  if (!made_ || started - refreshed_ >= kPeriod) Refresh(started);
  return list_;
}

void WaitingList::Refresh(Instant started) {
  const auto jobs =
      loop_.Read([](const runtime::Controller& core) { return core.Listing(io::Now()); });
  list_ = {};
  for (const proto::JobStatus& job : jobs) {
    if (job.state() != proto::QUEUED) continue;
    ++list_.total;
    if (list_.jobs.size() < kMostJobs) list_.jobs.push_back(WaitingFrom(job));
  }
  std::map<std::string, Explained> kept;
  for (const WaitingJob& job : list_.jobs) {
    if (auto found = explained_.extract(job.id); !found.empty()) kept.insert(std::move(found));
  }
  explained_ = std::move(kept);
  Explain(started);
  for (WaitingJob& job : list_.jobs) {
    const auto found = explained_.find(job.id);
    if (found == explained_.end()) continue;
    job.explained = true;
    job.sentence = found->second.why.sentence;
    job.expected_start = found->second.why.expected_start;
    job.expected_late = found->second.why.expected_late;
  }
  made_ = true;
  refreshed_ = io::MonotonicNow();
}

void WaitingList::Explain(Instant started) {
  std::vector<std::string> order;
  for (const WaitingJob& job : list_.jobs) order.push_back(job.id);
  // Those without an explanation have the time 0, and so come first.
  const auto at = [&](const std::string& id) {
    const auto found = explained_.find(id);
    return found == explained_.end() ? Instant() : found->second.at;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const std::string& a, const std::string& b) { return at(a) < at(b); });
  for (const std::string& id : order) {
    if (io::MonotonicNow() - started >= kBudget) return;
    Explain(id,
            loop_.Read([&](const runtime::Controller& core) { return core.AskWhy(JobId(id)); }));
  }
}

void WaitingList::Explain(const std::string& id, const runtime::Controller::Question& question) {
  scheduler::Explanation why;
  why.sentence = question.held.empty() ? question.aside : question.held;
  if (question.held.empty() && question.scheduler.has_value()) {
    const auto answer = question.scheduler->Explain(JobId(id), io::Now(), question.means);
    if (!answer.ok()) return;  // it has started meanwhile
    why = *answer;
  }
  if (!question.reserved.empty() && question.held.empty()) why.sentence += "; " + question.reserved;
  if (why.sentence.empty()) return;
  explained_[id] = {std::move(why), io::MonotonicNow()};
}

}  // namespace longhaul::service
