#include "scheduler/internal/jobs/waiting_order.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

constexpr size_t kMostOld = 64;  // beside as many as jobs that wait

}  // namespace

// Jobs arrive nearly in the order of submission, so an addition is mostly an append. A job that
// waits again, after it was stopped, finds its old entry as long as that has not been erased.
void WaitingOrder::Add(const Job& job) {
  ++waiting_;
  if (entries_.empty() || entries_.back().job < job) {
    entries_.push_back({job});
    return;
  }
  const auto place = Find(job);
  if (place->job == job) {
    CHECK(!place->waits) << "a job is added twice";
    place->waits = true;
  } else {
    entries_.insert(place, {job});
  }
}

void WaitingOrder::Remove(const Job& job) {
  const auto place = Find(job);
  CHECK(place != entries_.end() && place->job == job && place->waits)
      << "a job is removed that does not wait";
  place->waits = false;
  --waiting_;
  DeleteOld();
}

std::optional<WaitingOrder::Job> WaitingOrder::First() const {
  return WaitingFrom(entries_.begin());
}

std::optional<WaitingOrder::Job> WaitingOrder::FirstAfter(Instant instant) const {
  return WaitingFrom(After(instant));
}

std::vector<WaitingOrder::Job> WaitingOrder::Between(Instant after, Instant until) const {
  std::vector<Job> jobs;
  for (auto entry = After(after); entry != entries_.end(); ++entry) {
    if (entry->job.since > until) break;
    if (entry->waits) jobs.push_back(entry->job);
  }
  return jobs;
}

WaitingOrder::Entries::const_iterator WaitingOrder::After(Instant instant) const {
  if (entries_.empty() || entries_.back().job.since <= instant) return entries_.end();
  const Job last{instant, std::numeric_limits<uint64_t>::max()};
  return std::upper_bound(entries_.begin(), entries_.end(), last,
                          [](const Job& wanted, const Entry& entry) { return wanted < entry.job; });
}

WaitingOrder::Entries::iterator WaitingOrder::Find(const Job& job) {
  if (!entries_.empty() && entries_.back().job == job) return std::prev(entries_.end());
  return std::lower_bound(entries_.begin(), entries_.end(), job,
                          [](const Entry& entry, const Job& wanted) { return entry.job < wanted; });
}

std::optional<WaitingOrder::Job> WaitingOrder::WaitingFrom(Entries::const_iterator entry) const {
  while (entry != entries_.end() && !entry->waits) ++entry;
  if (entry == entries_.end()) return std::nullopt;
  return entry->job;
}

// Erases in bulk once the old entries outnumber the waiting jobs, so that erasing costs constant
// time per removal on average.
void WaitingOrder::DeleteOld() {
  while (!entries_.empty() && !entries_.back().waits) entries_.pop_back();
  while (!entries_.empty() && !entries_.front().waits) entries_.pop_front();
  if (entries_.size() - waiting_ > waiting_ + kMostOld) {
    std::erase_if(entries_, [](const Entry& entry) { return !entry.waits; });
  }
}

}  // namespace longhaul::scheduler::internal
