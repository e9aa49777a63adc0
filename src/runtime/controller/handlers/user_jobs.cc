#include "runtime/controller/handlers/user_jobs.h"

#include <algorithm>

#include "base/text.h"
#include "runtime/scheduling/queue_rules.h"

namespace longhaul::runtime::controller {

namespace {

bool LimitsUsers(const spec::QueueSpec& queue) { return !(queue.per_user == spec::UserLimits()); }

}  // namespace

// Counted from the jobs each time and not kept, so that the numbers cannot drift from the state.
// Submissions are rare compared with other events.
std::map<UserJobs::QueueAndUser, uint64_t> UserJobs::Count() const {
  std::map<QueueAndUser, uint64_t> counts;
  for (const auto& [id, job] : context_.jobs.all()) {
    if (!job.live()) continue;
    for (const spec::QueueSpec* queue :
         scheduling::QueuesOf(context_.scheduler.configuration(), job.spec())) {
      if (LimitsUsers(*queue)) ++counts[{queue->name, job.spec().scheduling().owner()}];
    }
  }
  return counts;
}

Status UserJobs::Check(const std::vector<const proto::Job*>& submitted) const {
  std::map<QueueAndUser, uint64_t> added;
  std::map<std::string, uint32_t> limits;
  for (const proto::Job* job : submitted) {
    for (const spec::QueueSpec* queue :
         scheduling::QueuesOf(context_.scheduler.configuration(), *job)) {
      if (queue->per_user.jobs == spec::kUnlimitedJobs) continue;
      limits[queue->name] = queue->per_user.jobs;
      added[{queue->name, job->scheduling().owner()}] +=
          job->has_array() ? job->array().count() : 1;
    }
  }
  if (added.empty()) return {};
  const std::map<QueueAndUser, uint64_t> live = Count();
  for (const auto& [key, more] : added) {
    const auto found = live.find(key);
    const uint64_t has = found == live.end() ? 0 : found->second;
    const auto& [queue, user] = key;
    if (has + more <= limits[queue]) continue;
    return ResourceExhausted(
        "user '" + (user.empty() ? "unknown" : Printable(user, 64)) + "' has " +
        WithThousands(static_cast<int64_t>(has)) + " live jobs in queue '" + queue +
        "', which allows each user " + WithThousands(limits[queue]) + "; " +
        WithThousands(static_cast<int64_t>(more)) +
        " more would exceed that: submit them when others have ended, or stop some");
  }
  return {};
}

void UserJobs::AddTo(std::vector<proto::QueueStatus>& queues) const {
  if (std::none_of(queues.begin(), queues.end(),
                   [](const proto::QueueStatus& queue) { return queue.has_per_user(); })) {
    return;
  }
  const std::map<QueueAndUser, uint64_t> live = Count();
  for (proto::QueueStatus& queue : queues) {
    if (!queue.has_per_user()) continue;
    std::map<std::string, proto::UserHolding> held;  // by user
    for (const proto::UserHolding& each : queue.held()) held[each.user()] = each;
    // The scheduler's amounts list users that hold nodes. Users whose jobs all wait are added here.
    for (auto at = live.lower_bound({queue.name(), ""});
         at != live.end() && at->first.first == queue.name(); ++at) {
      proto::UserHolding& user = held[at->first.second];
      user.set_user(at->first.second);
      user.set_jobs(at->second);
      if (!user.has_amounts()) user.mutable_amounts();
    }
    queue.clear_held();
    for (const auto& [name, user] : held) *queue.add_held() = user;
  }
}

}  // namespace longhaul::runtime::controller
