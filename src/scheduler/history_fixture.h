// For tests: a random history of a scheduler and of what happens outside, with the checks of what
// must hold after every round.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "scheduler/history_draws.h"
#include "scheduler/scheduler.h"

namespace longhaul::scheduler {

enum class Draws { kAnything, kAsController };

// Quotas beside those of all accelerators: whether queues limit what each user holds and how long
// jobs run, or have quotas of each device model. Drawn apart from all else, so that a seed gives
// the same history otherwise.
enum class Quotas { kPlain, kOfUsers, kOfModels };

// Whether more groups are spread, drawn apart too.
enum class Spread { kFew, kDrawn };

// Whether others use the nodes too, drawn apart too.
enum class Others { kNone, kDrawn };

// A scheduler with random events, and an engine that carries out most of its decisions and fails or
// ignores the others.
class History {
 public:
  explicit History(uint64_t seed, Draws draws = Draws::kAnything, Quotas quotas = Quotas::kPlain,
                   Spread spread = Spread::kDrawn, Others others = Others::kNone)
      : rng_(seed),
        draws_(draws),
        quotas_(quotas),
        quotas_rng_(seed + 1),
        spread_(spread),
        spread_rng_(seed + 2),
        others_(others),
        others_rng_(seed + 3) {
    const bool controller = draws == Draws::kAsController;
    spec::Topology topology = controller ? ControllerCluster(rng_) : RandomCluster(rng_);
    queue_specs_ = RandomQueues(rng_, GpusOf(topology));
    queues_ = queue_specs_.size();
    DrawQuotas(topology);
    Policy& policy = policy_;
    policy.reservations = static_cast<uint32_t>(1 + rng_.Below(4));
    policy.evictions_a_day = 1'000;              // budgets would hide what reclaim forgets
    if (seed % 3 == 0) policy.reservations = 0;  // they are a reason of their own to wait
    // So is strict order.
    if (rng_.Below(6) == 0) policy.backfill = Backfill::kNone;
    if (seed % 2 == 0) policy.longest_wait = std::chrono::minutes(5 + seed % 40);
    if (controller) policy.repair_patience = std::chrono::minutes(10);
    auto made = Scheduler::Create(topology, queue_specs_, policy);
    EXPECT_TRUE(made.ok()) << made.status();
    scheduler_.emplace(std::move(made).value());
    tiers_ = static_cast<Tier>(scheduler_->topology().levels().size()) - 1;
  }

  // One event, a round, and the engine's answers. Returns what doesn't hold.
  Status Step() {
    now_ += std::chrono::seconds(rng_.Below(6) == 0 ? 600 + rng_.Below(3'000) : 1 + rng_.Below(30));
    Event event;
    if (NextEvent(event)) Apply(event);
    if (others_ == Others::kDrawn && others_rng_.Below(4) == 0) Apply(SomeUse());
    const bool whole = rng_.Below(8) != 0;
    RETURN_IF_ERROR(Round(whole ? kUnlimitedSteps : static_cast<int64_t>(rng_.Below(6))));
    if (!whole) return {};
    for (int again = 0; IsDue(); ++again) {
      if (again == kMostRoundsAtOnce) return InternalError("a round is due after each round");
      now_ += Duration(1);
      RETURN_IF_ERROR(Round(kUnlimitedSteps));
    }
    RETURN_IF_ERROR(CheckNothingIsMissed());
    if (quotas_ != Quotas::kPlain) NoteBlocked();
    return scheduler_->CheckGuarantees(now_);
  }

  // Another scheduler continues where this one is.
  Status Rebuild() {
    Result<Scheduler> next =
        Scheduler::Rebuild(*scheduler_, scheduler_->topology(), queue_specs_, policy_);
    RETURN_IF_ERROR(next.status());
    scheduler_.emplace(*std::move(next));
    return scheduler_->CheckInvariants();
  }

  // A node joins or grows. The scheduler is extended, or rebuilt as a controller does.
  Status Join(Random& rng, bool extends) {
    spec::Topology topology = WithJoinedNode(rng, *scheduler_);
    if (extends) {
      if (!scheduler_->Extend(std::move(topology))) return InternalError("it is not extended");
      return scheduler_->CheckInvariants();
    }
    Result<Scheduler> next = Scheduler::Rebuild(*scheduler_, std::move(topology), queue_specs_,
                                                policy_, [](JobRequest&) {});
    RETURN_IF_ERROR(next.status());
    scheduler_.emplace(*std::move(next));
    return scheduler_->CheckInvariants();
  }

  // The same, with other limits: some queues or users may now hold more than they are allowed.
  Status RebuildWithOtherLimits() {
    DrawQuotas(scheduler_->topology());
    return Rebuild();
  }

  // Each stated fix starts its job. Returns how many were stated.
  Result<int> CheckFixes() {
    int stated = 0;
    for (const JobId& id : scheduler_->Waiting()) {
      ASSIGN_OR_RETURN(const Explanation why, scheduler_->Explain(id, now_));
      if (why.reason == WaitReason::kLeaving) continue;
      if (!Starts(id, why.fix)) {
        std::string queues;
        for (const QueueView& queue : scheduler_->Queues()) {
          queues += " " + queue.name + " guaranteed " + std::to_string(queue.guarantee[0]) +
                    " limit " + std::to_string(queue.limit[0]) + " uses " +
                    std::to_string(queue.usage[0]) + ";";
        }
        return InternalError("the fix does not start " + id.value() + ": " + ToJson(why) + queues);
      }
      ++stated;
    }
    return stated;
  }

  // On a copy: at once, and it still has its nodes when all jobs that had to stop have stopped, one
  // by one in any order, and those that had to start run.
  bool Starts(const JobId& id, const std::vector<Event>& fix) {
    Scheduler trial = scheduler_->Copy();
    for (const Event& event : fix) trial.Apply(event, now_);
    const std::vector<Decision> first = trial.Decide(now_);
    std::vector<JobId> leaving;
    for (const JobId& each : trial.Waiting()) {
      if (trial.StageOf(each) == JobStage::kLeaving) leaving.push_back(each);
    }
    const auto has_nodes = [&] {
      return trial.StageOf(id) != JobStage::kWaiting && trial.StageOf(id) != JobStage::kLeaving;
    };
    if (!has_nodes() || fix.empty()) return has_nodes();
    for (const Decision& each : first) {
      if (each.kind != DecisionKind::kStart) continue;
      trial.Apply(TasksRunning{each.job, each.transaction, {}}, now_);
    }
    if (rng_.Below(2) == 0) trial.Decide(now_);
    while (!leaving.empty()) {
      const auto next = leaving.begin() + static_cast<std::ptrdiff_t>(rng_.Below(leaving.size()));
      trial.Apply(JobStopped{*next}, now_);
      leaving.erase(next);
      trial.Decide(now_);
    }
    trial.Decide(now_);
    return has_nodes();
  }

  const std::string& log() const { return log_; }
  const std::map<std::string, int>& seen() const { return seen_; }
  Scheduler& scheduler() { return *scheduler_; }
  Instant now() const { return now_; }

 private:
  static constexpr int kMostRoundsAtOnce = 50;

  Status Round(int64_t steps) {
    log_ += "round at " + std::to_string(ToNanoseconds(now_)) + "\n";
    const std::vector<Decision> decisions = scheduler_->Decide(now_, steps);
    const Status crosses = CheckLinks(decisions);
    for (const Decision& decision : decisions) {
      log_ += ToString(decision) + "\n";
      Follow(decision);
    }
    RETURN_IF_ERROR(crosses);
    return scheduler_->CheckInvariants();
  }

  // No gang that starts crosses links that are not trusted.
  Status CheckLinks(const std::vector<Decision>& decisions) const {
    const auto levels = scheduler_->topology().levels();
    for (const LinkView& link : scheduler_->Links()) {
      if (link.trusted) continue;
      const auto& domain_of_node = levels[static_cast<size_t>(link.tier)].domain_of_node;
      for (const Decision& decision : decisions) {
        if (decision.kind != DecisionKind::kStart) continue;
        const auto inside = std::count_if(
            decision.tasks.begin(), decision.tasks.end(), [&](const TaskPlacement& task) {
              return domain_of_node[task.node] == static_cast<uint32_t>(link.domain);
            });
        if (inside != 0 && inside != static_cast<std::ptrdiff_t>(decision.tasks.size())) {
          return InternalError(decision.job.value() + " crosses the links of " + link.name);
        }
      }
    }
    return {};
  }

  void DrawQuotas(const spec::Topology& topology) {
    if (quotas_ == Quotas::kOfUsers) DrawUserLimits(quotas_rng_, queue_specs_);
    if (quotas_ == Quotas::kOfModels) DrawModelQuotas(quotas_rng_, topology, queue_specs_);
  }

  void NoteBlocked() {
    for (const JobId& id : scheduler_->Waiting()) {
      const std::string why = scheduler_->WaitText(id);
      if (why.find("of model") != std::string::npos) {
        ++seen_[why.find("limit") != std::string::npos ? "blocked by a model's limit"
                                                       : "blocked by a model's lending"];
      }
      if (why.find("allows each user") == std::string::npos) continue;
      ++seen_[why.find("at a time") == std::string::npos ? "blocked by a user's amount"
                                                         : "blocked by a user's jobs"];
    }
  }

  bool IsDue() const {
    const auto next = scheduler_->NextDeadline();
    return next && *next <= now_ + Duration(1);
  }

  // Where no round is due, a further one at the same time starts nothing. In strict order the head
  // of a queue blocks the others, so it is a reason of its own to wait.
  Status CheckNothingIsMissed() const {
    if (policy_.backfill == Backfill::kNone) return {};
    Scheduler trial = scheduler_->Copy();
    for (const Decision& decision : trial.Decide(now_)) {
      if (decision.kind != DecisionKind::kStart) continue;
      return InternalError("another round at once would do: " + ToString(decision) + " (" +
                           scheduler_->WaitText(decision.job) + ")");
    }
    return {};
  }

  void Apply(const Event& event) {
    log_ += "> " + ToString(event) + "\n";
    scheduler_->Apply(event, now_);
  }

  std::optional<JobId> AnyJob() {
    if (jobs_.empty()) return std::nullopt;
    auto at = jobs_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(rng_.Below(jobs_.size())));
    return JobId(*at);
  }

  std::string AnyNode() {
    return scheduler_->topology()
        .node(static_cast<uint32_t>(rng_.Below(scheduler_->topology().size())))
        .name;
  }

  // Every second time nothing, now and then more than any node has.
  NodeShared SomeUse() {
    const auto below = [this](uint64_t most) {
      return static_cast<int64_t>(others_rng_.Below(most));
    };
    const spec::Topology& topology = scheduler_->topology();
    NodeShared use;
    use.node = topology.node(static_cast<uint32_t>(below(topology.size()))).name;
    if (below(2) == 0) return use;
    use.cpu_milli = below(64'000);
    use.memory_mib = below(256'000);
    for (int64_t& amount : use.counted) amount = below(3);
    use.devices = below(10);
    return use;
  }

  Event SomeLinkEvent() {
    const auto tier = static_cast<Tier>(rng_.Below(static_cast<uint64_t>(tiers_)));
    const size_t domains =
        scheduler_->topology().levels()[static_cast<size_t>(tier)].domains.size();
    const auto domain = static_cast<int32_t>(rng_.Below(domains));
    if (rng_.Below(2) == 0) return LinkFaulted{tier, domain};
    return LinkChanged{tier, domain, rng_.Below(3) != 0};
  }

  bool NextEvent(Event& event) {
    if (!pending_.empty() && rng_.Below(3) != 0) {
      const size_t pick = rng_.Below(pending_.size());
      event = pending_[pick];
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(pick));
      return true;
    }
    const std::optional<JobId> job = AnyJob();
    switch (rng_.Below(job ? 18 : 1)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: {
        JobRequest request = draws_ == Draws::kAsController
                                 ? ControllerJob(rng_, next_job_++, queues_, scheduler_->topology())
                                 : RandomJob(rng_, next_job_++, queues_, tiers_);
        if (spread_ == Spread::kDrawn) DrawSpread(spread_rng_, tiers_, request);
        jobs_.insert(request.id.value());
        requests_[request.id.value()] = request;
        event = JobSubmitted{request};
        return true;
      }
      case 6:
      case 7:
      case 8:
        jobs_.erase(job->value());
        event = JobEnded{*job};
        return true;
      case 9:
        event = NodeChanged{AnyNode(), static_cast<spec::NodeCondition>(rng_.Below(6))};
        return true;
      case 10:
        event = NodeChanged{AnyNode(), spec::NodeCondition::kReady};
        return true;
      case 11:
        event = DeviceChanged{AnyNode(), static_cast<uint32_t>(rng_.Below(8)), rng_.Below(2) == 0};
        return true;
      case 12:
        event = NodeFaulted{AnyNode()};
        return true;
      case 13:
        event = SnapshotTaken{*job};
        return true;
      case 14:
        event = JobExpedited{*job};
        return true;
      case 16:
        event = SomeLinkEvent();
        return true;
      case 17:
        event = MixExpected{{{RandomShape(rng_), static_cast<int64_t>(1 + rng_.Below(100))}}};
        return true;
      default: {
        const uint64_t drawn = rng_.Below(4);
        if (drawn == 0) {
          event = JobEvictionAsked{*job};
          return true;
        }
        return drawn == 1 && Scale(*job, event);
      }
    }
  }

  // To some count within the bounds with which the job was submitted.
  bool Scale(const JobId& job, Event& event) {
    const GroupRequest& group = requests_.at(job.value()).groups[0];
    const auto steps = static_cast<uint64_t>((group.desired - group.minimum) / group.step);
    const auto chosen = static_cast<int32_t>(rng_.Below(steps + 1));
    JobScaled scaled{job, group.minimum + chosen * group.step};
    if (!group.speed_milli.empty() && chosen > 0) {
      scaled.speed_milli = group.speed_milli;
      scaled.speed_milli.resize(static_cast<size_t>(chosen) + 1);
    }
    if (!scheduler_->CheckScale(scaled).ok()) return false;
    event = scaled;
    ++seen_["scaled"];
    return true;
  }

  void Follow(const Decision& decision) {
    const std::string kind = ToString(decision).substr(0, ToString(decision).find(' '));
    ++seen_[kind];
    // What was decided by which rule, as far as it can be seen from outside.
    if (!decision.reason.empty()) {
      const std::string why = decision.reason.substr(0, decision.reason.find(" for job"));
      ++seen_[kind + ": " + why.substr(0, why.find(" for a domain"))];
    }
    const JobRequest& request = requests_.at(decision.job.value());
    if (!decision.ranks.empty()) ++seen_[kind + " with ranks"];
    if (kind == "start" || kind == "repair" || kind == "grow") {
      if (request.groups[0].rail_aligned && decision.tasks.size() > 1) ++seen_[kind + " on rails"];
      if (request.groups.size() > 1) ++seen_[kind + " of unlike groups"];
      if (request.groups[0].is_spread()) {
        ++seen_[kind + " spread"];
        if (request.groups[0].required != kClusterTier) ++seen_[kind + " spread in a domain"];
      }
      if (request.groups.size() == 1 && request.groups[0].minimum == 1) ++seen_[kind + " alone"];
      if (request.groups[0].one_model) ++seen_[kind + " of one model"];
    }
    switch (decision.kind) {
      case DecisionKind::kStart:
      case DecisionKind::kGrow:
      case DecisionKind::kRepair: {
        const uint64_t luck = rng_.Below(10);
        if (luck == 0) return;  // never heard of again
        if (luck == 1) {
          const auto& task = decision.tasks[rng_.Below(decision.tasks.size())];
          pending_.push_back(TaskRefused{decision.job, decision.transaction, task.rank});
          return;
        }
        pending_.push_back(TasksBound{decision.job, decision.transaction, {}});
        pending_.push_back(TasksRunning{decision.job, decision.transaction, {}});
        return;
      }
      case DecisionKind::kMove:
        pending_.push_back(JobStopped{decision.job});
        pending_.push_back(TasksRunning{decision.job, decision.transaction, {}});
        return;
      case DecisionKind::kEvict:
      case DecisionKind::kSuspend:
      case DecisionKind::kUndo:
        pending_.push_back(JobStopped{decision.job});
        return;
      case DecisionKind::kReject:
        jobs_.erase(decision.job.value());
        return;
      case DecisionKind::kShrink:
      case DecisionKind::kReserve:
        return;
    }
  }

  Random rng_;
  Draws draws_;
  Quotas quotas_;
  Random quotas_rng_;
  Spread spread_;
  Random spread_rng_;
  Others others_;
  Random others_rng_;
  std::optional<Scheduler> scheduler_;
  std::vector<spec::QueueSpec> queue_specs_;
  Policy policy_;
  size_t queues_ = 0;
  Tier tiers_ = 1;
  Instant now_ = InstantFromNanoseconds(1'000'000'000'000);
  int next_job_ = 1;
  std::set<std::string> jobs_;
  std::map<std::string, JobRequest> requests_;
  std::vector<Event> pending_;
  std::string log_;
  std::map<std::string, int> seen_;
};

}  // namespace longhaul::scheduler
