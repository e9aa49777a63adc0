// Whether guarantees are kept, found out by trying: the rule of reclaim once more, on cards alone,
// and a round on a copy. Nothing here is shared with what chooses victims (internal/make_room.h).
#include <algorithm>
#include <map>

#include "scheduler/internal/scheduler_impl.h"

namespace longhaul::scheduler {

using internal::Block;
using internal::Books;
using internal::Job;

namespace {

using share::QueueIndex;

// From the queue up, without the root.
std::vector<QueueIndex> Path(const Books& books, QueueIndex queue) {
  std::vector<QueueIndex> path;
  for (; queue > share::kRootQueue; queue = books.queues.parent(queue)) path.push_back(queue);
  return path;
}

bool Contains(const std::vector<QueueIndex>& path, QueueIndex queue) {
  return std::find(path.begin(), path.end(), queue) != path.end();
}

// Cards that a queue uses, in thousandths, as the trial goes on.
using Usage = std::map<QueueIndex, int64_t>;

bool MayTake(const Books& books, const Usage& usage, QueueIndex claimant, int64_t asked,
             QueueIndex victim, int64_t held) {
  const std::vector<QueueIndex> ours = Path(books, claimant);
  const std::vector<QueueIndex> theirs = Path(books, victim);
  QueueIndex branch = share::kNoQueue;
  for (const QueueIndex queue : ours) {
    if (!Contains(theirs, queue)) branch = queue;
  }
  if (branch == share::kNoQueue || Contains(ours, victim) || asked == 0) return false;
  if (usage.at(branch) + asked > books.queues.guarantee(branch)[0]) return false;
  for (const QueueIndex queue : theirs) {
    if (Contains(ours, queue)) break;
    if (held > 0 && usage.at(queue) - held < books.queues.guarantee(queue)[0]) return false;
  }
  return true;
}

// Jobs with another right or reason to wait than their queue's guarantee.
bool IsChecked(const Books& books, const Job& job) {
  if (job.placed || job.leaving || job.request->groups.size() != 1) return false;
  const GroupRequest& group = job.request->groups[0];
  if (group.shape.cards == 0 || !books.queues.reclaims(job.queue)) return false;
  if (group.max_per_domain > 0 && group.spread_tier != kHostTier) return false;
  // Room there is; it is held for somebody who goes before.
  if (job.block.kind == Block::Kind::kReservation) return false;
  const int64_t asked = int64_t{group.shape.card_milli()} * group.minimum;
  return books.queues.usage(job.queue)[0] + asked <= books.queues.limit(job.queue)[0];
}

bool MayBeStopped(const Books& books, const Job& job) {
  if (!job.placed || job.held[0] == 0 || job.started_in_round == books.rounds) return false;
  if (job.held_priority > kMaxPriority) return false;
  const Preemption rule = job.request->preemption;
  if (rule == Preemption::kNever || rule == Preemption::kShrink) return false;
  const Instant yesterday = books.now - std::chrono::hours(24);
  const auto recent = std::count_if(job.evictions.begin(), job.evictions.end(),
                                    [&](Instant at) { return at > yesterday; });
  return recent < static_cast<std::ptrdiff_t>(books.policy.evictions_a_day);
}

bool AnotherIsPromised(const Books& books, internal::JobNumber job) {
  return books.reservations.size() > (books.reservations.contains(job) ? 1u : 0u);
}

}  // namespace

Status Scheduler::CheckGuarantees(Instant now) const {
  const Books& books = impl_->books;
  if (!books.policy.preempt || books.policy.backfill == Backfill::kNone || impl_->unfinished) {
    return {};
  }
  const auto queues = static_cast<QueueIndex>(books.queues.size());
  for (const auto& [number, job] : books.jobs) {
    // Others' promises are a reason of their own to wait.
    if (!IsChecked(books, job) || AnotherIsPromised(books, number)) continue;
    const GroupRequest& group = job.request->groups[0];
    const int64_t asked = int64_t{group.shape.card_milli()} * group.minimum;
    Usage usage;
    for (QueueIndex q = 0; q < queues; ++q) usage[q] = books.queues.usage(q)[0];
    Scheduler trial = Copy();
    // The guarantee is of what borrowers hold; that others make way elsewhere is no part of it.
    trial.impl_->books.policy.moves = false;
    // What the round has begun is for the next one, which is due if it matters.
    for (auto& [begun, each] : trial.impl_->books.jobs) {
      each.started_in_round += each.started_in_round == books.rounds ? 1 : 0;
    }
    std::string taken;
    for (const auto& [other_number, other] : books.jobs) {
      const int64_t held = other.held[0];
      if (other.queue == job.queue || !MayBeStopped(books, other) ||
          !MayTake(books, usage, job.queue, asked, other.queue, held)) {
        continue;
      }
      for (const QueueIndex queue : Path(books, other.queue)) usage[queue] -= held;
      trial.Apply(JobEvictionAsked{other.request->id}, now);
      taken += " " + other.request->id.value();
    }
    if (taken.empty()) continue;
    trial.Apply(JobExpedited{job.request->id}, now);
    trial.Decide(now);
    if (!trial.impl_->books.at(number).placed) continue;
    return InternalError(job.request->id.value() +
                         " waits within its queue's guarantee, and stopping" + taken +
                         " would start it");
  }
  return {};
}

}  // namespace longhaul::scheduler
