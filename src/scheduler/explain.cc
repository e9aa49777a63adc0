#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "scheduler/explanation.h"
#include "scheduler/internal/make_room.h"
#include "scheduler/internal/planning.h"
#include "scheduler/internal/scheduler_impl.h"
#include "scheduler/internal/take_event.h"

namespace longhaul::scheduler {

using internal::Block;
using internal::Books;
using internal::Job;

namespace {

constexpr size_t kMostChanges = 4;   // together; what needs more is no answer for a person
constexpr size_t kMostReturned = 4;  // nodes that a fix brings back

// One thing that could be changed, found for the state that the other changes have made.
struct Change {
  std::string text;
  std::vector<Event> events;
};

// The weights order sets of equal size: what disturbs least comes first.
enum class Relaxation : uint8_t {
  kExpedite,
  kOtherModels,
  kTopology,
  kLinks,
  kLimit,
  kReturnNodes,
  kFewer,
  kEvict,
};
constexpr int kRelaxations = 8;

std::string TierText(Tier tier) {
  switch (tier) {
    case kHostTier:
      return "one host";
    case kLeafTier:
      return "one leaf";
    case kBlockTier:
      return "one block";
    case kClusterTier:
      return "anywhere";
    default:
      return "one domain of tier " + std::to_string(tier);
  }
}

Tier RequiredOf(const JobRequest& request) {
  Tier tier = request.required;
  for (const GroupRequest& group : request.groups) tier = std::min(tier, group.required);
  return tier;
}

std::string Tasks(int64_t count) {
  return WithThousands(count) + (count == 1 ? " task" : " tasks");
}

// Works on books of its own, which the changes so far have been applied to.
class Fixer {
 public:
  Fixer(Books& books, internal::Placer& placer, JobId job)
      : books_(books), placer_(placer), id_(std::move(job)) {}

  std::vector<Change> Alternatives(Relaxation relaxation) {
    switch (relaxation) {
      case Relaxation::kExpedite:
        return Expedite();
      case Relaxation::kOtherModels:
        return OtherModels();
      case Relaxation::kTopology:
        return LooserTopology();
      case Relaxation::kLinks:
        return RestoreLinks();
      case Relaxation::kLimit:
        return RaiseLimits();
      case Relaxation::kReturnNodes:
        return ReturnNodes();
      case Relaxation::kFewer:
        return FewerTasks();
      case Relaxation::kEvict:
        return EvictOthers();
    }
    return {};
  }

 private:
  const Job& job() const { return *books_.Find(id_); }

  std::vector<Change> Expedite() {
    if (job().expedited > 0 && job().expedited == books_.expedites) return {};
    return {{"put it before all other jobs", {JobExpedited{id_}}}};
  }

  std::vector<Change> OtherModels() {
    JobRequest request = *job().request;
    bool changed = false;
    for (GroupRequest& group : request.groups) {
      if (!group.shape.needs_devices() || group.shape.models == kAnyModel) continue;
      group.shape.models = kAnyModel;
      changed = true;
    }
    if (!changed) return {};
    return {{"let it use any device model", {JobChanged{request}}}};
  }

  std::vector<Change> LooserTopology() {
    std::vector<Change> changes;
    const Tier now = RequiredOf(*job().request);
    for (Tier tier = now + 1; now != kClusterTier && tier <= books_.tree->tiers(); ++tier) {
      const Tier looser = tier == books_.tree->tiers() ? kClusterTier : tier;
      JobRequest request = *job().request;
      request.required = std::max(request.required, looser);
      for (GroupRequest& group : request.groups) group.required = std::max(group.required, looser);
      changes.push_back(
          {"require " + TierText(looser) + " instead of " + TierText(now), {JobChanged{request}}});
    }
    JobRequest request = *job().request;
    bool aligned = false;
    for (GroupRequest& group : request.groups) aligned |= std::exchange(group.rail_aligned, false);
    if (aligned) changes.push_back({"give up its alignment to rails", {JobChanged{request}}});
    return changes;
  }

  // Links that gangs may not cross: each alone, then all.
  std::vector<Change> RestoreLinks() {
    std::vector<Change> changes;
    Change all;
    for (const auto& [domain, health] : books_.links) {
      if (health.trusted) continue;
      const auto& level = books_.topology->levels()[static_cast<size_t>(domain.first)];
      const std::string text =
          "bring back the links of " + level.domains[static_cast<size_t>(domain.second)].name;
      const LinkChanged up{domain.first, domain.second, true};
      if (changes.size() < kMostReturned) changes.push_back({text, {up}});
      all.text += (all.text.empty() ? "" : " and ") + text;
      all.events.push_back(up);
    }
    if (all.events.size() > 1) changes.push_back(std::move(all));
    return changes;
  }

  std::vector<Change> RaiseLimits() {
    const spec::SharedAmounts asked = MinimumAmounts(*job().request);
    Change change;
    std::vector<std::string> texts;
    for (share::QueueIndex up = job().queue; up > share::kRootQueue;
         up = books_.queues.parent(up)) {
      spec::SharedAmounts limit = books_.queues.limit(up);
      bool raised = false;
      for (size_t r = 0; r < spec::kSharedResources; ++r) {
        const int64_t needed = books_.queues.usage(up)[r] + asked[r];
        if (asked[r] == 0 || needed <= limit[r]) continue;
        texts.push_back("raise the limit of queue '" + books_.queues.name(up) + "' from " +
                        spec::AmountText(r, limit[r]) + " to " + spec::AmountText(r, needed));
        limit[r] = needed;
        raised = true;
      }
      if (raised) change.events.push_back(QueueLimitSet{books_.queues.name(up), limit});
    }
    if (change.events.empty()) return {};
    change.text = Join(texts, " and ");
    return {change};
  }

  // Devices that are out of order: what tasks hold of them and what is free is less than a whole.
  std::vector<uint32_t> BrokenDevices(NodeIndex node) const {
    std::array<int32_t, spec::kMaxDevices> sum{};
    for (TaskSlot slot = books_.state.newest_task(node); slot != kNoTask;
         slot = books_.state.task(slot).older) {
      const TaskRecord& task = books_.state.task(slot);
      const Shape& shape = books_.state.shape(task.shape);
      for (uint32_t d = 0; d < spec::kMaxDevices; ++d) {
        if ((task.cards >> d & 1) != 0) sum[d] += shape.cards > 0 ? kWholeCard : shape.share;
      }
    }
    std::vector<uint32_t> broken;
    for (uint32_t d = 0; d < books_.state.node(node).devices; ++d) {
      if (sum[d] + books_.state.node(node).free_share[d] < kWholeCard) broken.push_back(d);
    }
    return broken;
  }

  // What brings a node back whole, if anything is amiss and the job could use it.
  Change ReturnNode(NodeIndex node) const {
    Change change;
    bool useful = false;
    for (const ShapeId shape : job().shapes) {
      useful |= books_.state.SlotsWhenEmpty(node, shape, 1) > 0;
    }
    if (!useful) return change;
    const std::string& name = books_.topology->node(node).name;
    const spec::NodeCondition condition = books_.state.node(node).condition;
    if (condition != spec::NodeCondition::kReady) {
      change.text = "bring back " + name + ", which is " + std::string(spec::ToString(condition));
      change.events.push_back(NodeChanged{name, spec::NodeCondition::kReady});
    }
    for (const uint32_t device : BrokenDevices(node)) {
      change.text += (change.text.empty() ? "" : " and ") + std::string("repair device ") +
                     std::to_string(device) + " of " + name;
      change.events.push_back(DeviceChanged{name, device, true});
    }
    return change;
  }

  // Nodes that are not whole, the best condition first: single ones, then more and more of them.
  std::vector<Change> ReturnNodes() {
    std::vector<std::pair<int, Change>> away;
    for (NodeIndex node = 0; node < books_.state.size(); ++node) {
      Change change = ReturnNode(node);
      if (change.events.empty()) continue;
      static constexpr int kOrder[] = {4, 1, 3, 2, 5, 0};  // by NodeCondition, spares first
      away.emplace_back(kOrder[static_cast<size_t>(books_.state.node(node).condition)],
                        std::move(change));
    }
    std::stable_sort(away.begin(), away.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Change> changes;
    for (size_t i = 0; i < away.size() && i < kMostReturned; ++i) changes.push_back(away[i].second);
    for (size_t size = 2; away.size() >= 2; size *= 2) {
      const size_t many = std::min(size, away.size());
      Change all;
      for (size_t i = 0; i < many; ++i) {
        const Change& one = away[i].second;
        all.text += (i == 0 ? "" : " and ") + one.text;
        all.events.insert(all.events.end(), one.events.begin(), one.events.end());
      }
      changes.push_back(std::move(all));
      if (many == away.size()) break;
    }
    return changes;
  }

  // The most tasks that room and quota leave now, fewer than its minimum.
  std::vector<Change> FewerTasks() {
    if (job().request->groups.size() != 1) return {};
    JobRequest request = *job().request;
    GroupRequest& group = request.groups[0];
    const int32_t unit = std::max(group.slice, 1);
    int32_t most =
        std::min(placer_.MostTasks(books_, job(), 0, {}, internal::AdmitOf(books_, job())),
                 group.minimum - 1);
    most -= most % unit;
    while (most > 0 && books_.queues.Check(job().queue, AmountsOf(group.shape, most))) most -= unit;
    std::vector<Change> changes;
    // Reservations may forbid the most; a few smaller sizes are tried too.
    for (int32_t count = most; count > 0 && changes.size() < 3; count = count / 2 / unit * unit) {
      JobRequest fewer = request;
      fewer.groups[0].minimum = fewer.groups[0].desired = count;
      fewer.groups[0].step = std::max(1, unit);
      changes.push_back({"run it with " + Tasks(count) + " instead of " + Tasks(group.minimum),
                         {JobChanged{fewer}}});
    }
    return changes;
  }

  std::vector<Change> EvictOthers() {
    std::vector<Change> changes;
    const internal::Room room =
        internal::FindRoom(books_, job(), internal::Rights::kOperator, placer_);
    std::vector<internal::JobNumber> stopped;
    if (room.found && !room.victims.empty()) {
      Change change;
      std::vector<std::string> names;
      for (const internal::ChosenVictim& victim : room.victims) {
        const JobId& name = books_.at(victim.job).request->id;
        names.push_back(name.value());
        change.events.push_back(JobEvictionAsked{name});
        stopped.push_back(victim.job);
      }
      change.text = "stop " + Join(names, ", ");
      changes.push_back(change);
    }
    if (const Change change = EvictBorrowers({}); !change.events.empty()) {
      changes.push_back(change);
    }
    // Those who hold its room, and then whoever still holds its quota.
    if (const Change change = EvictBorrowers(stopped);
        !stopped.empty() && change.events.size() > stopped.size()) {
      changes.push_back(change);
    }
    return changes;
  }

  // After these, jobs of those that hold most beyond their guarantee, until quotas admit this one.
  Change EvictBorrowers(const std::vector<internal::JobNumber>& first) {
    const spec::SharedAmounts asked = MinimumAmounts(*job().request);
    share::QueueTree left = books_.queues;
    Change change;
    std::vector<std::string> names;
    std::vector<std::tuple<int64_t, int64_t, internal::JobNumber>> order;
    for (const internal::JobNumber number : books_.placed) {
      const Job& other = books_.at(number);
      order.emplace_back(-books_.queues.ExcessShare(other.queue),
                         internal::LossOfStopping(books_, other), number);
    }
    std::sort(order.begin(), order.end());
    const auto stop = [&](internal::JobNumber number) {
      const Job& other = books_.at(number);
      left.Remove(other.queue, other.held);
      names.push_back(other.request->id.value());
      change.events.push_back(JobEvictionAsked{other.request->id});
    };
    for (const internal::JobNumber number : first) stop(number);
    for (const auto& [excess, cost, number] : order) {
      if (!left.Check(job().queue, asked)) break;
      if (std::find(first.begin(), first.end(), number) != first.end()) continue;
      stop(number);
    }
    if (left.Check(job().queue, asked)) return {};
    change.text = "stop " + Join(names, ", ");
    return change;
  }

  Books& books_;
  internal::Placer& placer_;
  JobId id_;
};

struct Found {
  std::vector<std::string> texts;
  std::vector<Event> events;
};

using Apply = std::function<void(const Event&)>;

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
Block BlockOf(const Books& books, const Job& job) {
  if (job.block.kind != Block::Kind::kNotTried) return job.block;
  const internal::Line& line = books.lines[job.line];
  if (line.jobs.empty()) return job.block;
  return books.at(line.jobs.begin()->second).block;
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
    const Job* job = next.books.Find(id_);
    if (job->placed) {
      answer_.reason = WaitReason::kNotTried;
      answer_.sentence = "the next round starts it";
      answer_.expected_start = answer_.expected_late = now_;
      return answer_;
    }
    Describe(next.books, *job);
    Expect(next, *job);
    for (size_t size = 1; size <= kMostChanges; ++size) {
      Found found;
      if (TrySets(size, 0, {}, found)) {
        answer_.fix_texts = found.texts;
        answer_.fix = found.events;
        break;
      }
    }
    Finish();
    return answer_;
  }

 private:
  void Number(const char* name, int64_t value) { answer_.numbers.emplace_back(name, value); }

  void Describe(Books& books, const Job& job) {
    const Block block = BlockOf(books, job);
    answer_.reason = ReasonOf(block.kind);
    if (job.leaving) answer_.reason = WaitReason::kLeaving;
    switch (answer_.reason) {
      case WaitReason::kQuota:
        DescribeQuota(books, block.quota);
        break;
      case WaitReason::kReservation: {
        const Job* holder = block.by == internal::kNoJob || !books.jobs.contains(block.by)
                                ? nullptr
                                : &books.at(block.by);
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
        DescribeRoom(books, job, static_cast<size_t>(block.group));
        break;
      default:
        answer_.sentence = "jobs that go before it keep its queue";
        answer_.reason = WaitReason::kOrder;
    }
  }

  void DescribeQuota(const Books& books, const share::QuotaBlock& quota) {
    const std::string& queue = books.queues.name(quota.queue);
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

  void DescribeRoom(Books& books, const Job& job, size_t g) {
    const GroupRequest& group = job.request->groups[g];
    const auto admit = internal::AdmitOf(books, job);
    const SlotTable& table = books.tables.Of(books.state, job.shapes[g], admit);
    const Tier tier = std::min(group.required, job.request->required);
    const int32_t fits = LargestGang(table, tier, group.slice, group.slice_tier);
    answer_.sentence =
        Tasks(group.minimum) + " of " + ToString(group.shape) + " are needed" +
        (tier == kClusterTier ? "" : " in " + TierText(tier)) + "; " + std::to_string(fits) +
        " fit" +
        (tier == kClusterTier ? ""
                              : " in the best one, " + std::to_string(table.total()) + " in all");
    if (group.max_per_domain > 0) {
      answer_.sentence += ", at most " + std::to_string(group.max_per_domain) + " in " +
                          TierText(group.spread_tier);
    }
    Number("tasks_needed", group.minimum);
    Number("tasks_that_fit", fits);
    Number("tasks_that_fit_anywhere", table.total());
    Number("free_cards", books.state.cluster().free_cards);
  }

  void Expect(Impl& next, const Job& job) {
    const auto held = next.books.reservations.find(job.number);
    const auto plan = held != next.books.reservations.end()
                          ? std::optional(held->second)
                          : internal::PlanReservation(next.books, job, next.placer);
    if (!plan) return;
    answer_.expected_start = plan->start;
    const auto late = internal::PlanReservation(next.books, job, next.placer, true);
    answer_.expected_late = late ? std::max(late->start, plan->start) : plan->start;
  }

  // Sets of `left` relaxations from `first` on, on top of what `so_far` has changed.
  bool TrySets(size_t left, int first, const Found& so_far, Found& found) {
    Impl changed(impl_);
    changed.Advance(now_);
    for (const Event& event : so_far.events) internal::TakeEvent(changed.books, event);
    for (int r = first; r < kRelaxations; ++r) {
      if (static_cast<Relaxation>(r) == Relaxation::kFewer && !means_.other_size) continue;
      Impl scratch(changed);
      Fixer fixer(scratch.books, scratch.placer, id_);
      for (const Change& change : fixer.Alternatives(static_cast<Relaxation>(r))) {
        Found with = so_far;
        with.texts.push_back(change.text);
        with.events.insert(with.events.end(), change.events.begin(), change.events.end());
        if (left > 1) {
          if (TrySets(left - 1, r + 1, with, found)) return true;
        } else if (Starts(changed, change.events)) {
          found = with;
          return true;
        }
      }
    }
    return false;
  }

  // The proof: the next round of a copy with all changes starts the job.
  bool Starts(const Impl& changed, const std::vector<Event>& events) const {
    Impl trial(changed);
    for (const Event& event : events) internal::TakeEvent(trial.books, event);
    trial.Decide(now_, kUnlimitedSteps);
    const Job* job = trial.books.Find(id_);
    return job != nullptr && job->placed;
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
  const Job* job = impl_->books.Find(id);
  if (job == nullptr) return NotFound("no job named '" + Printable(id.value(), 63) + "'");
  if (job->placed) {
    Explanation answer;
    answer.sentence = "it has its nodes";
    return answer;
  }
  return Explainer(*impl_, id, std::max(now, impl_->books.now), means).Run();
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
