#include "scheduler/share/durations.h"

#include <algorithm>

namespace longhaul::scheduler::share {

namespace {

constexpr size_t kEnough = 5;  // fewer say little about a ninth of ten
// What is assumed without like jobs follows Microsoft's Philly trace of October 2017 (47,192 jobs):
// the median job runs for 28 minutes, nine of ten for less than 3 hours, and of those that have run
// for a time t half run for 2 t and more, one in ten for 4 t to 44 t, for each t from a minute to
// three days.
constexpr Duration kUnknown = std::chrono::minutes(30);
constexpr int64_t kHighOverMedian = 6;
// The time in which a job that is ended takes its last snapshot.
constexpr Duration kEnding = std::chrono::minutes(1);

// A user who has underestimated a job has probably done so by little.
Duration BeyondUserLimit(Duration elapsed) {
  return elapsed + elapsed / 4 + std::chrono::minutes(1);
}

Duration BeyondLikeJobs(Duration elapsed) { return elapsed * 2; }

}  // namespace

std::array<Durations::Key, 4> Durations::Keys(const JobLikeness& job) {
  const std::string size = std::to_string(job.size);
  // Lengths go first, so that no choice of names makes two groups one.
  const std::string queue = std::to_string(job.queue.size()) + ":" + job.queue + ":" + size;
  return {"o" + std::to_string(job.owner.size()) + ":" + job.owner + ":" + queue, "q" + queue,
          "s" + size, "*"};
}

void Durations::Observe(const JobLikeness& job, Duration ran) {
  for (const Key& key : Keys(job)) {
    Group& group = groups_[key];
    const int64_t value = ran.count();
    if (group.ring.size() < kWindow) {
      group.ring.push_back(value);
    } else {
      int64_t& oldest = group.ring[group.next];
      group.sorted.erase(std::lower_bound(group.sorted.begin(), group.sorted.end(), oldest));
      oldest = value;
      group.next = (group.next + 1) % kWindow;
    }
    group.sorted.insert(std::upper_bound(group.sorted.begin(), group.sorted.end(), value), value);
  }
}

ExpectedDuration Durations::Expect(const JobLikeness& job, std::optional<Duration> user_limit,
                                   Duration elapsed, std::optional<Duration> longest) const {
  ExpectedDuration expected = ExpectUnlimited(job, user_limit, elapsed);
  if (!longest) return expected;
  const Duration most = std::max(*longest, elapsed + kEnding);
  expected.median = std::min(expected.median, most);
  expected.high = std::min(expected.high, most);
  return expected;
}

ExpectedDuration Durations::ExpectUnlimited(const JobLikeness& job,
                                            std::optional<Duration> user_limit,
                                            Duration elapsed) const {
  ExpectedDuration expected;
  if (user_limit) {
    expected.from_user = true;
    expected.median = expected.high =
        *user_limit > elapsed ? *user_limit : BeyondUserLimit(elapsed);
    return expected;
  }
  for (const Key& key : Keys(job)) {
    const auto found = groups_.find(key);
    if (found == groups_.end() || found->second.sorted.size() < kEnough) continue;
    const std::vector<int64_t>& all = found->second.sorted;
    const auto first = std::upper_bound(all.begin(), all.end(), elapsed.count());
    const auto left = static_cast<size_t>(all.end() - first);
    expected.like_jobs = all.size();
    if (left == 0) break;  // it has outlived them all
    const auto begin = static_cast<size_t>(first - all.begin());
    expected.median = Duration(all[begin + (left - 1) / 2]);
    expected.high = Duration(all[begin + (left - 1) * 9 / 10]);
    return expected;
  }
  const Duration plain = std::max(kUnknown, BeyondLikeJobs(elapsed));
  expected.median = plain;
  expected.high = plain * kHighOverMedian;
  return expected;
}

}  // namespace longhaul::scheduler::share
