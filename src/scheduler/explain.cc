#include "scheduler/internal/explain.h"

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/text.h"
#include "scheduler/internal/changes.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/room/make_room.h"
#include "scheduler/internal/take_event.h"

namespace longhaul::scheduler {

namespace internal {

namespace {

constexpr size_t kMostChanges = 4;  // together; a longer list would not help a person
// Rounds in which the job that a fix has started must keep its nodes, while the engine carries out
// all decisions.
constexpr int kSettlingRounds = 8;
// So many leaving jobs are tried in every order. Of more, none may have a right to take nodes back.
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

// What kept the job from starting, or the first job of its line if it was not tried itself: jobs of
// a line fail alike.
Block BlockOf(const SchedulerState& state, const JobEntry& job) {
  if (job.block.kind != Block::Kind::kNotTried) return job.block;
  const Line& line = state.lines[job.line];
  if (line.jobs.empty()) return job.block;
  return state.at(line.jobs.begin()->second).block;
}

// Whose limit, how much is held and how much is allowed. Requires that the block is of a user.
std::string UserQuotaText(const SchedulerState& state, const share::QuotaBlock& quota) {
  const std::string user = share::UserText(quota.user);
  const std::string queue = "queue '" + state.queues.name(quota.queue) + "'";
  if (quota.kind == share::QuotaBlock::Kind::kUser) {
    return user + " holds " + state.queues.AmountText(quota.resource, quota.used) + " of the " +
           state.queues.AmountText(quota.resource, quota.bound) + " that " + queue +
           " allows each user";
  }
  return user + " runs " + WithThousands(quota.used) + (quota.used == 1 ? " job, " : " jobs, ") +
         "and " + queue + " allows each user " + WithThousands(quota.bound) + " at a time";
}

// Makes one explanation. All changes are tried on copies of the same scheduler.
class Explainer {
 public:
  Explainer(const SchedulerCore& core, JobId id, Instant now, const Changeable& means)
      : core_(core), id_(std::move(id)), now_(now), means_(means) {}

  // The question is about the state after a round at this time, so the round runs on a copy first.
  // The job may start in it.
  Explanation Run() {
    SchedulerCore next(core_);
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
        const JobEntry* holder = block.by == kNoJob ? nullptr : state.jobs.Find(block.by);
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
    if (quota.of_user()) {
      answer_.sentence = UserQuotaText(state, quota);
      if (quota.kind == share::QuotaBlock::Kind::kUser) {
        answer_.sentence +=
            ", and the job needs " + state.queues.AmountText(quota.resource, quota.asked) + " more";
      }
    } else if (quota.kind == share::QuotaBlock::Kind::kLimit) {
      answer_.sentence =
          "queue '" + queue + "' uses " + state.queues.AmountText(quota.resource, quota.used) +
          " of its limit of " + state.queues.AmountText(quota.resource, quota.bound) +
          " and the job needs " + state.queues.AmountText(quota.resource, quota.asked);
    } else {
      answer_.sentence = "it needs " + state.queues.AmountText(quota.resource, quota.asked) +
                         " beyond its queue's guarantee, and the queues lend no more: " +
                         state.queues.AmountText(quota.resource, quota.used) + " of " +
                         state.queues.AmountText(quota.resource, quota.bound) + " are used or kept";
    }
    Number("used", quota.used);
    Number("asked", quota.asked);
    Number("bound", quota.bound);
  }

  void DescribeRoom(SchedulerState& state, const JobEntry& job, size_t g) {
    const GroupRequest& group = job.request->groups[g];
    const auto admit = AdmitOf(state, job);
    const Tier tier = std::min(group.required, job.request->required);
    std::vector<ShapeId> shapes;
    if (!job.shapes_of_models.empty()) shapes = job.shapes_of_models[g];
    if (shapes.empty()) shapes = {job.shapes[g]};
    GroupRequest unbounded = group;
    unbounded.max_per_domain = 0;
    int32_t fits = 0;  // of one device model where the group requires it
    int32_t fits_unbounded = 0;
    int32_t total = 0;
    for (const ShapeId shape : shapes) {
      const SlotTable& table = state.tables.Of(state.resources, shape, admit);
      fits = std::max(fits, LargestFit(table, group, tier));
      fits_unbounded = std::max(fits_unbounded, LargestFit(table, unbounded, tier));
      total = std::max(total, table.total());
    }
    answer_.sentence =
        TasksText(group.minimum) + " of " + ToString(group.shape, *state.topology) + " are needed" +
        (tier == kClusterTier ? "" : " in " + TierText(tier)) + "; " + std::to_string(fits) +
        " fit" +
        (tier == kClusterTier ? "" : " in the best one, " + std::to_string(total) + " in all");
    if (shapes.size() > 1) answer_.sentence += ", all on one device model";
    if (group.max_per_host > 0) {
      answer_.sentence +=
          ", at most " + std::to_string(group.max_per_host) + " in " + TierText(kHostTier);
    }
    if (group.is_spread() && group.max_per_domain < group.minimum) {
      answer_.sentence += ", " + SpreadText(group);
      if (fits_unbounded >= group.minimum) {
        answer_.sentence +=
            " (without this bound " + std::to_string(fits_unbounded) + " would fit)";
      }
      Number("tasks_in_one_domain", group.max_per_domain);
    }
    if (group.slice > 1) {
      answer_.sentence +=
          ", each " + std::to_string(group.slice) + " of them within " + TierText(group.slice_tier);
    }
    if (group.rail_aligned) answer_.sentence += ", on the same GPUs of every host";
    Number("tasks_needed", group.minimum);
    Number("tasks_that_fit", fits);
    Number("tasks_that_fit_anywhere", total);
    Number("free_gpus", state.resources.cluster().free_gpus);
  }

  void Expect(SchedulerCore& next, const JobEntry& job) {
    // When other jobs of its user end is not what reservations plan.
    if (next.state.queues.CheckUser(next.state.MinimumOf(job))) return;
    const auto held = next.state.reservations.find(job.number);
    const auto plan = held != next.state.reservations.end()
                          ? std::optional(held->second)
                          : PlanReservation(next.state, job, next.placer);
    // A plan for `now_` that no round carries out means that a quota blocks the job, and the end of
    // that is not known.
    if (!plan || plan->start <= now_) return;
    answer_.expected_start = plan->start;
    // The later of both starts, so that the answer is always an interval.
    const auto late = PlanReservation(next.state, job, next.placer, true);
    answer_.expected_late = late ? std::max(late->start, plan->start) : plan->start;
  }

  // A change that is possible at a level, and whether it could start the job, so that a trial is
  // worth a round.
  struct Option {
    Change change;
    bool hopeful = true;
  };
  // The state after some changes, and what could be changed there.
  struct Level {
    explicit Level(const SchedulerCore& from) : core(from) {}
    SchedulerCore core;
    std::array<std::optional<std::vector<Option>>, kRelaxations> options;
  };

  // Sets of changes by size: the smallest one that starts the job is the answer, and within a size
  // the one whose kinds disturb least. The number of sets is limited by kMostChanges.
  void FindFix() {
    Level now(core_);
    now.core.Advance(now_);
    for (size_t size = 1; size <= kMostChanges; ++size) {
      Found found;
      if (!TrySets(size, 0, now, 0, {}, found)) continue;
      answer_.fix_texts = found.texts;
      answer_.fix = found.events;
      return;
    }
  }

  // Tries sets of `left` relaxations from `first` on, in addition to the changes `so_far`. The
  // level contains those except for the last `ahead` events, which change no room and so no
  // options.
  bool TrySets(size_t left, int first, Level& level, size_t ahead, const Found& so_far,
               Found& found) {
    for (int r = first; r < kRelaxations; ++r) {
      const auto relaxation = static_cast<Relaxation>(r);
      if (relaxation == Relaxation::kFewer && !means_.other_size) continue;
      for (const Option& option : OptionsOf(level, relaxation)) {
        Found with = so_far;
        with.texts.push_back(option.change.text);
        with.events.insert(with.events.end(), option.change.events.begin(),
                           option.change.events.end());
        const auto fresh = std::span(with.events).last(ahead + option.change.events.size());
        if (left == 1) {
          if (!option.hopeful || !Starts(level.core, fresh)) continue;
          found = with;
          return true;
        }
        if (relaxation == Relaxation::kExpedite) {
          if (TrySets(left - 1, r + 1, level, fresh.size(), with, found)) return true;
          continue;
        }
        // A copy for each branch, as changes cannot be taken back. Options are computed once for a
        // level and shared by all sets that extend it.
        Level next(level.core);
        for (const Event& event : fresh) TakeEvent(next.core.state, event);
        if (TrySets(left - 1, r + 1, next, 0, with, found)) return true;
      }
    }
    return false;
  }

  const std::vector<Option>& OptionsOf(Level& level, Relaxation relaxation) {
    auto& known = level.options[static_cast<size_t>(relaxation)];
    if (known) return *known;
    SchedulerState& state = level.core.state;
    Placer& placer = level.core.placer;
    const JobEntry& job = *state.Find(id_);
    known.emplace();
    for (Change& change : AlternativesOf(relaxation, state, placer, job)) {
      Option& option = known->emplace_back();
      option.hopeful = Hopeful(level.core, job, change);
      option.change = std::move(change);
    }
    return *known;
  }

  // Whether a change could start the job. Changes of the job itself are checked without a copy.
  static bool Hopeful(SchedulerCore& level, const JobEntry& job, const Change& change) {
    if (FreesRoom(level.state) || change.events.size() != 1) return true;
    const Event& event = change.events[0];
    if (std::holds_alternative<JobExpedited>(event)) {
      return CouldStart(level.state, level.placer, job);
    }
    const auto* changed = std::get_if<JobChanged>(&event);
    if (changed == nullptr) return true;
    if (!level.state.resources.has_room_for_shapes()) return true;
    JobEntry other = job;
    other.request = std::make_shared<const JobRequest>(changed->request);
    level.state.InternShapes(other);
    return CouldStart(level.state, level.placer, other);
  }

  // Whether a round frees room before it tries the waiting jobs.
  static bool FreesRoom(const SchedulerState& state) {
    return !state.damaged.empty() ||
           (!state.bind_deadlines.empty() && state.bind_deadlines.begin()->first <= state.now);
  }

  // The proof of a fix: with all changes, the next round of a copy starts the job, and the rounds
  // that follow at once do not stop it again.
  bool Starts(const SchedulerCore& changed, std::span<const Event> events) const {
    SchedulerCore trial(changed);
    for (const Event& event : events) TakeEvent(trial.state, event);
    const JobEntry* job = trial.state.Find(id_);
    if (job == nullptr) return false;
    if (!FreesRoom(trial.state) && !CouldStart(trial.state, trial.placer, *job)) {
      return false;
    }
    trial.Decide(now_, kUnlimitedSteps);
    return Holds(trial);
  }

  // Whether the job keeps its nodes in whatever order the leaving jobs are reported as stopped. The
  // first one that is back takes room that another one would have used, and the other one may then
  // claim the nodes of this job.
  bool Holds(SchedulerCore& started) const {
    const JobEntry* job = started.state.Find(id_);
    if (job == nullptr || !job->placed) return false;
    std::vector<JobId> leaving;
    bool claimed = false;
    for (const JobEntry* other : std::as_const(started.state.jobs).InOrder()) {
      if (other->placed || !other->leaving) continue;
      leaving.push_back(other->request->id);
      claimed = claimed || MayClaimFrom(started.state, *other, *job);
    }
    if (started.state.RoundIsDue()) {  // the next round is due before any job has stopped
      SchedulerCore trial(started);
      trial.Decide(now_, kUnlimitedSteps);
      if (!Settles(trial)) return false;
    }
    if (leaving.size() > kMostInEveryOrder ? claimed : !HoldsInEveryOrder(started, leaving)) {
      return false;
    }
    return Settles(started);
  }

  // Whether `other` may claim the nodes of `job`: now, or once other jobs are back in its queue,
  // which then holds more than its guarantee.
  static bool MayClaimFrom(const SchedulerState& state, const JobEntry& other,
                           const JobEntry& job) {
    if (MayTakeFrom(state, other, job)) return true;
    return other.queue != job.queue && !state.IsProtected(job, other.queue) &&
           job.request->preemption != Preemption::kNever && MayClaim(state, other);
  }

  // Whether the job keeps its nodes if a round follows each report of a stop, in every order.
  bool HoldsInEveryOrder(const SchedulerCore& so_far, const std::vector<JobId>& leaving) const {
    for (size_t i = 0; i < leaving.size(); ++i) {
      SchedulerCore trial(so_far);
      if (!HoldsWithNext(trial, leaving, i)) return false;
    }
    return true;
  }

  // The same where leaving[i] is the first one that is reported. Uses the trial up: the last order
  // needs no copy of it.
  bool HoldsWithNext(SchedulerCore& trial, std::vector<JobId> leaving, size_t i) const {
    TakeEvent(trial.state, JobStopped{leaving[i]});
    trial.Decide(now_, kUnlimitedSteps);
    if (!IsPlaced(trial.state)) return false;
    leaving.erase(leaving.begin() + static_cast<std::ptrdiff_t>(i));
    if (leaving.empty()) return Settles(trial);
    for (size_t next = 0; next + 1 < leaving.size(); ++next) {
      SchedulerCore copy(trial);
      if (!HoldsWithNext(copy, leaving, next)) return false;
    }
    return HoldsWithNext(trial, leaving, leaving.size() - 1);
  }

  // Whether the job keeps its nodes in the rounds that follow at once.
  bool Settles(SchedulerCore& trial) const {
    for (int round = 0; round < kSettlingRounds && IsPlaced(trial.state); ++round) {
      if (!CarryOut(trial.state) && !trial.state.RoundIsDue()) break;
      trial.Decide(now_, kUnlimitedSteps);
    }
    return IsPlaced(trial.state);
  }

  bool IsPlaced(const SchedulerState& state) const {
    const JobEntry* job = state.Find(id_);
    return job != nullptr && job->placed;
  }

  // Applies the engine's reports that all leaving jobs have stopped and all starting jobs run.
  // Returns whether there was any.
  static bool CarryOut(SchedulerState& state) {
    std::vector<Event> answers;
    for (const JobEntry* job : std::as_const(state.jobs).InOrder()) {
      if (job->leaving) answers.emplace_back(JobStopped{job->request->id});
      if (job->bind_by && job->lost.empty()) {
        answers.emplace_back(TasksRunning{job->request->id, job->transaction, {}});
      }
    }
    for (const Event& event : answers) TakeEvent(state, event);
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

  const SchedulerCore& core_;
  JobId id_;
  Instant now_;
  Changeable means_;
  Explanation answer_;
};

}  // namespace

Result<Explanation> Explain(const SchedulerCore& core, const JobId& id, Instant now,
                            const Changeable& means) {
  const JobEntry* job = core.state.Find(id);
  if (job == nullptr) return NotFound("no job named '" + Printable(id.value(), 63) + "'");
  if (job->placed) {
    Explanation answer;
    answer.sentence = "it has its nodes";
    return answer;
  }
  return Explainer(core, id, std::max(now, core.state.now), means).Run();
}

std::string WaitText(const SchedulerState& state, const JobId& id) {
  const JobEntry* job = state.Find(id);
  if (job == nullptr || job->placed) return "";
  if (job->leaving) return "waits for its own last tasks to stop";
  const Block block = BlockOf(state, *job);
  switch (block.kind) {
    case Block::Kind::kQuota: {
      if (block.quota.of_user()) return UserQuotaText(state, block.quota);
      const std::string needs =
          "needs " + state.queues.AmountText(block.quota.resource, block.quota.asked);
      const std::string bound = state.queues.AmountText(block.quota.resource, block.quota.bound);
      const std::string used = state.queues.AmountText(block.quota.resource, block.quota.used);
      if (block.quota.kind == share::QuotaBlock::Kind::kLimit) {
        return needs + "; queue '" + state.queues.name(block.quota.queue) + "' uses " + used +
               " of its limit of " + bound;
      }
      return needs + " beyond its queue's guarantee; of " + bound + ", " + used +
             " are used or kept";
    }
    case Block::Kind::kRoom: {
      const GroupRequest& group = job->request->groups[static_cast<size_t>(block.group)];
      return "no room for " + std::to_string(group.minimum) + " x " +
             longhaul::scheduler::ToString(group.shape, *state.topology) + "; " +
             std::to_string(state.resources.cluster().free_gpus) + " GPUs are free";
    }
    case Block::Kind::kReservation: {
      const JobEntry* holder = state.jobs.Find(block.by);
      return "room is held for " +
             (holder == nullptr ? "another job" : holder->request->id.value());
    }
    default:
      return "waits for its turn";
  }
}

}  // namespace internal

std::string ToString(WaitReason reason) {
  static constexpr const char* kTexts[] = {"none",    "not-tried",   "leaving", "quota",
                                           "no-room", "reservation", "order",   "never-fits"};
  return kTexts[static_cast<size_t>(reason)];
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
