#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/text.h"
#include "scheduler/explanation.h"
#include "scheduler/internal/changes.h"
#include "scheduler/internal/make_room.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/scheduler_impl.h"
#include "scheduler/internal/take_event.h"

namespace longhaul::scheduler {

using internal::Block;
using internal::Change;
using internal::JobEntry;
using internal::Relaxation;
using internal::SchedulerState;

namespace {

constexpr size_t kMostChanges = 4;  // together; what needs more is no answer for a person
// Rounds in which what a fix has started must keep its nodes, while all others do as they are told.
constexpr int kSettlingRounds = 8;
// So many who leave are tried in every order. Of more, none may have a right to take it back.
constexpr size_t kMostInEveryOrder = 4;

struct Found {
  std::vector<std::string> texts;
  std::vector<Event> events;
};

WaitReason ReasonOf(Block::Kind kind) {
  switch (kind) {
    case Block::Kind::kNone:
    case Block::Kind::kNotTried:
      return WaitReason::kNotTried;
    case Block::Kind::kLeaving:
      return WaitReason::kLeaving;
    case Block::Kind::kQuota:
      return WaitReason::kQuota;
    case Block::Kind::kRoom:
      return WaitReason::kNoRoom;
    case Block::Kind::kReservation:
      return WaitReason::kReservation;
    case Block::Kind::kOrder:
      return WaitReason::kOrder;
  }
  return WaitReason::kNotTried;
}

// What kept the line's head kept the job, unless it was tried itself.
Block BlockOf(const SchedulerState& state, const JobEntry& job) {
  if (job.block.kind != Block::Kind::kNotTried) return job.block;
  const internal::Line& line = state.lines[job.line];
  if (line.jobs.empty()) return job.block;
  return state.at(line.jobs.begin()->second).block;
}

}  // namespace

std::string ToString(WaitReason reason) {
  static constexpr const char* kTexts[] = {"none",    "not-tried",   "leaving", "quota",
                                           "no-room", "reservation", "order",   "never-fits"};
  return kTexts[static_cast<size_t>(reason)];
}

// One explanation in the making: everything is tried on copies of the same state.
class Explainer {
 public:
  using Impl = Scheduler::Impl;

  Explainer(const Impl& impl, JobId id, Instant now, const Changeable& means)
      : impl_(impl), id_(std::move(id)), now_(now), means_(means) {}

  Explanation Run() {
    Impl next(impl_);
    next.Decide(now_, kUnlimitedSteps);
    const JobEntry* job = next.state.Find(id_);
    if (job->placed) {
      answer_.reason = WaitReason::kNotTried;
      answer_.sentence = "the next round starts it";
      answer_.expected_start = answer_.expected_late = now_;
      return answer_;
    }
    Describe(next.state, *job);
    Expect(next, *job);
    FindFix();
    Finish();
    return answer_;
  }

 private:
  void Number(const char* name, int64_t value) { answer_.numbers.emplace_back(name, value); }

  void Describe(SchedulerState& state, const JobEntry& job) {
    const Block block = BlockOf(state, job);
    answer_.reason = ReasonOf(block.kind);
    if (job.leaving) answer_.reason = WaitReason::kLeaving;
    switch (answer_.reason) {
      case WaitReason::kQuota:
        DescribeQuota(state, block.quota);
        break;
      case WaitReason::kReservation: {
        const JobEntry* holder = block.by == internal::kNoJob || !state.jobs.contains(block.by)
                                     ? nullptr
                                     : &state.at(block.by);
        answer_.sentence = "room is held for " +
                           (holder == nullptr ? "another job" : holder->request->id.value()) +
                           ", which goes before it";
        break;
      }
      case WaitReason::kLeaving:
        answer_.sentence = "its own last tasks have not stopped yet";
        break;
      case WaitReason::kOrder:
        answer_.sentence = "its queue is served strictly in order, and others go before it";
        break;
      case WaitReason::kNoRoom:
        DescribeRoom(state, job, static_cast<size_t>(block.group));
        break;
      default:
        answer_.sentence = "jobs that go before it keep its queue";
        answer_.reason = WaitReason::kOrder;
    }
  }

  void DescribeQuota(const SchedulerState& state, const share::QuotaBlock& quota) {
    const std::string& queue = state.queues.name(quota.queue);
    if (quota.kind == share::QuotaBlock::Kind::kLimit) {
      answer_.sentence = "queue '" + queue + "' uses " +
                         spec::AmountText(quota.resource, quota.used) + " of its limit of " +
                         spec::AmountText(quota.resource, quota.bound) + " and the job needs " +
                         spec::AmountText(quota.resource, quota.asked);
    } else {
      answer_.sentence = "it needs " + spec::AmountText(quota.resource, quota.asked) +
                         " beyond its queue's guarantee, and the queues lend no more: " +
                         spec::AmountText(quota.resource, quota.used) + " of " +
                         spec::AmountText(quota.resource, quota.bound) + " are used or kept";
    }
    Number("used", quota.used);
    Number("asked", quota.asked);
    Number("bound", quota.bound);
  }

  void DescribeRoom(SchedulerState& state, const JobEntry& job, size_t g) {
    const GroupRequest& group = job.request->groups[g];
    const auto admit = internal::AdmitOf(state, job);
    const SlotTable& table = state.tables.Of(state.resources, job.shapes[g], admit);
    const Tier tier = std::min(group.required, job.request->required);
    const int32_t fits = LargestGang(table, tier, group.slice, group.slice_tier);
    answer_.sentence =
        internal::TasksText(group.minimum) + " of " + ToString(group.shape) + " are needed" +
        (tier == kClusterTier ? "" : " in " + internal::TierText(tier)) + "; " +
        std::to_string(fits) + " fit" +
        (tier == kClusterTier ? ""
                              : " in the best one, " + std::to_string(table.total()) + " in all");
    if (group.max_per_domain > 0) {
      answer_.sentence += ", at most " + std::to_string(group.max_per_domain) + " in " +
                          internal::TierText(group.spread_tier);
    }
    Number("tasks_needed", group.minimum);
    Number("tasks_that_fit", fits);
    Number("tasks_that_fit_anywhere", table.total());
    Number("free_gpus", state.resources.cluster().free_gpus);
  }

  void Expect(Impl& next, const JobEntry& job) {
    const auto held = next.state.reservations.find(job.number);
    const auto plan = held != next.state.reservations.end()
                          ? std::optional(held->second)
                          : internal::PlanReservation(next.state, job, next.placer);
    // What no round starts now isn't due now: a quota keeps it, which ends nobody knows when.
    if (!plan || plan->start <= now_) return;
    answer_.expected_start = plan->start;
    const auto late = internal::PlanReservation(next.state, job, next.placer, true);
    answer_.expected_late = late ? std::max(late->start, plan->start) : plan->start;
  }

  // One change that could be made at a level, and whether a trial of it is worth a round.
  struct Option {
    Change change;
    bool hopeful = true;
  };
  // The state after some changes, and what could be changed there.
  struct Level {
    explicit Level(const Impl& from) : impl(from) {}
    Impl impl;
    std::array<std::optional<std::vector<Option>>, internal::kRelaxations> options;
  };

  void FindFix() {
    Level now(impl_);
    now.impl.Advance(now_);
    for (size_t size = 1; size <= kMostChanges; ++size) {
      Found found;
      if (!TrySets(size, 0, now, 0, {}, found)) continue;
      answer_.fix_texts = found.texts;
      answer_.fix = found.events;
      return;
    }
  }

  // Sets of `left` relaxations from `first` on, beside what `so_far` has changed: all of it in the
  // level, but for the last `ahead` events, which change no room and so none of its options.
  bool TrySets(size_t left, int first, Level& level, size_t ahead, const Found& so_far,
               Found& found) {
    for (int r = first; r < internal::kRelaxations; ++r) {
      const auto relaxation = static_cast<Relaxation>(r);
      if (relaxation == Relaxation::kFewer && !means_.other_size) continue;
      for (const Option& option : OptionsOf(level, relaxation)) {
        Found with = so_far;
        with.texts.push_back(option.change.text);
        with.events.insert(with.events.end(), option.change.events.begin(),
                           option.change.events.end());
        const auto fresh = std::span(with.events).last(ahead + option.change.events.size());
        if (left == 1) {
          if (!option.hopeful || !Starts(level.impl, fresh)) continue;
          found = with;
          return true;
        }
        if (relaxation == Relaxation::kExpedite) {
          if (TrySets(left - 1, r + 1, level, fresh.size(), with, found)) return true;
          continue;
        }
        Level next(level.impl);
        for (const Event& event : fresh) internal::TakeEvent(next.impl.state, event);
        if (TrySets(left - 1, r + 1, next, 0, with, found)) return true;
      }
    }
    return false;
  }

  const std::vector<Option>& OptionsOf(Level& level, Relaxation relaxation) {
    auto& known = level.options[static_cast<size_t>(relaxation)];
    if (known) return *known;
    SchedulerState& state = level.impl.state;
    internal::Placer& placer = level.impl.placer;
    const JobEntry& job = *state.Find(id_);
    known.emplace();
    for (Change& change : internal::AlternativesOf(relaxation, state, placer, job)) {
      Option& option = known->emplace_back();
      option.hopeful = Hopeful(level.impl, job, change);
      option.change = std::move(change);
    }
    return *known;
  }

  // Changes of the job itself are judged without a copy.
  static bool Hopeful(Impl& level, const JobEntry& job, const Change& change) {
    if (FreesRoom(level.state) || change.events.size() != 1) return true;
    const Event& event = change.events[0];
    if (std::holds_alternative<JobExpedited>(event)) {
      return internal::CouldStart(level.state, level.placer, job);
    }
    const auto* changed = std::get_if<JobChanged>(&event);
    if (changed == nullptr) return true;
    if (!level.state.resources.has_room_for_shapes()) return true;
    JobEntry other = job;
    other.request = std::make_shared<const JobRequest>(changed->request);
    other.shapes.clear();
    for (const GroupRequest& group : changed->request.groups) {
      other.shapes.push_back(level.state.resources.Intern(group.shape));
    }
    return internal::CouldStart(level.state, level.placer, other);
  }

  // Whether a round frees room before it looks at who waits.
  static bool FreesRoom(const SchedulerState& state) {
    return !state.damaged.empty() ||
           (!state.bind_deadlines.empty() && state.bind_deadlines.begin()->first <= state.now);
  }

  // The proof: the next round of a copy with all changes starts the job, and it is not stopped
  // again by those that follow at once.
  bool Starts(const Impl& changed, std::span<const Event> events) const {
    Impl trial(changed);
    for (const Event& event : events) internal::TakeEvent(trial.state, event);
    const JobEntry* job = trial.state.Find(id_);
    if (job == nullptr) return false;
    if (!FreesRoom(trial.state) && !internal::CouldStart(trial.state, trial.placer, *job)) {
      return false;
    }
    trial.Decide(now_, kUnlimitedSteps);
    return Holds(trial);
  }

  // Whoever was told to stop says so in any order, and who comes back first takes room that another
  // would have come back to: that one claims what this job has, if it has the right to.
  bool Holds(Impl& started) const {
    const JobEntry* job = started.state.Find(id_);
    if (job == nullptr || !job->placed) return false;
    std::vector<JobId> leaving;
    bool claimed = false;
    for (const auto& [number, other] : started.state.jobs) {
      if (other.placed || !other.leaving) continue;
      leaving.push_back(other.request->id);
      claimed = claimed || MayClaimFrom(started.state, other, *job);
    }
    if (started.state.claims_spared) {  // the next round is due before anybody has stopped
      Impl trial(started);
      trial.Decide(now_, kUnlimitedSteps);
      if (!Settles(trial)) return false;
    }
    if (leaving.size() > kMostInEveryOrder ? claimed : !HoldsInEveryOrder(started, leaving)) {
      return false;
    }
    return Settles(started);
  }

  // Now, or when others are back in the job's queue, which then holds more than its guarantee.
  static bool MayClaimFrom(const SchedulerState& state, const JobEntry& other,
                           const JobEntry& job) {
    if (internal::MayTakeFrom(state, other, job)) return true;
    return other.queue != job.queue && job.held_priority <= kMaxPriority &&
           job.request->preemption != Preemption::kNever && internal::MayClaim(state, other);
  }

  // A round after each of those who have yet to say that they stopped.
  bool HoldsInEveryOrder(const Impl& so_far, const std::vector<JobId>& leaving) const {
    for (size_t i = 0; i < leaving.size(); ++i) {
      Impl trial(so_far);
      internal::TakeEvent(trial.state, JobStopped{leaving[i]});
      trial.Decide(now_, kUnlimitedSteps);
      if (!IsPlaced(trial.state)) return false;
      std::vector<JobId> others = leaving;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (others.empty() ? !Settles(trial) : !HoldsInEveryOrder(trial, others)) return false;
    }
    return true;
  }

  // Whether the job keeps its nodes in the rounds that follow at once.
  bool Settles(Impl& trial) const {
    for (int round = 0; round < kSettlingRounds && IsPlaced(trial.state); ++round) {
      if (!AllObey(trial.state) && !trial.state.claims_spared) break;
      trial.Decide(now_, kUnlimitedSteps);
    }
    return IsPlaced(trial.state);
  }

  bool IsPlaced(const SchedulerState& state) const {
    const JobEntry* job = state.Find(id_);
    return job != nullptr && job->placed;
  }

  // Whoever is to stop has stopped, and whoever is to start runs. Whether there was anybody.
  static bool AllObey(SchedulerState& state) {
    std::vector<Event> answers;
    for (const auto& [number, job] : state.jobs) {
      if (job.leaving) answers.emplace_back(JobStopped{job.request->id});
      if (job.bind_by && job.lost.empty()) {
        answers.emplace_back(TasksRunning{job.request->id, job.transaction, {}});
      }
    }
    for (const Event& event : answers) internal::TakeEvent(state, event);
    return !answers.empty();
  }

  void Finish() {
    if (!answer_.fix_texts.empty()) {
      answer_.sentence += "; it would start now with: " + Join(answer_.fix_texts, "; ");
    }
    if (answer_.expected_start) {
      const Duration wait = *answer_.expected_start - now_;
      answer_.sentence += "; expected in " + longhaul::ToString(wait);
    }
  }

  const Impl& impl_;
  JobId id_;
  Instant now_;
  Changeable means_;
  Explanation answer_;
};

Result<Explanation> Scheduler::Explain(const JobId& id, Instant now,
                                       const Changeable& means) const {
  const JobEntry* job = impl_->state.Find(id);
  if (job == nullptr) return NotFound("no job named '" + Printable(id.value(), 63) + "'");
  if (job->placed) {
    Explanation answer;
    answer.sentence = "it has its nodes";
    return answer;
  }
  return Explainer(*impl_, id, std::max(now, impl_->state.now), means).Run();
}

std::string ToJson(const Explanation& explanation) {
  nlohmann::ordered_json json;
  json["reason"] = ToString(explanation.reason);
  json["sentence"] = explanation.sentence;
  json["numbers"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : explanation.numbers) json["numbers"][name] = value;
  if (explanation.expected_start) {
    json["expected_start_ns"] = ToNanoseconds(*explanation.expected_start);
  }
  if (explanation.expected_late) {
    json["expected_late_ns"] = ToNanoseconds(*explanation.expected_late);
  }
  json["fix"] = explanation.fix_texts;
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (const Event& event : explanation.fix) events.push_back(ToString(event));
  json["events"] = events;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace longhaul::scheduler
