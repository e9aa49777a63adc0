// Random histories with faults: what must hold after every round, and that a history repeats.
//
// LONGHAUL_HISTORIES=10000 runs so many instead of a few; LONGHAUL_HISTORY_SEED begins elsewhere.
// Two kinds of histories are drawn: whatever the class accepts, and what a controller submits: one
// group of whole GPUs with one task a host, mostly of unknown duration, on a cluster of two device
// models with labels and taints, and with patience for lost nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/random.h"
#include "scheduler/scheduler.h"

namespace longhaul::scheduler {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

enum class Draws { kAnything, kAsController };

// Quotas beside those of all accelerators: whether queues limit what each user holds and how long
// jobs run, or have quotas of each device model. Drawn apart from all else, so that a seed gives
// the same history otherwise.
enum class Quotas { kPlain, kOfUsers, kOfModels };

// Whether more groups are spread, drawn apart too.
enum class Spread { kFew, kDrawn };

// Two device models, in any order over the nodes, some of them with a label or a taint.
spec::Topology ControllerCluster(Random& rng) {
  spec::ClusterDeclaration cluster = spec::ClosCluster(1, static_cast<uint32_t>(1 + rng.Below(3)),
                                                       static_cast<uint32_t>(1 + rng.Below(5)));
  cluster.models.push_back({"small", 16 * 1024});
  cluster.kinds.push_back(spec::UniformKind(
      "small", static_cast<uint16_t>(cluster.models.size() - 1), 4, 1, 64'000, 256 * 1024));
  for (spec::DeclaredNode& node : cluster.nodes) {
    if (rng.Below(2) == 0) node.kind = static_cast<uint32_t>(cluster.kinds.size() - 1);
    if (rng.Below(4) == 0) node.labels["pool"] = "a";
    if (rng.Below(6) == 0) node.taints.insert("reserved");
  }
  auto topology = spec::Topology::Create(cluster);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *topology;
}

spec::Topology RandomCluster(Random& rng) {
  const auto blocks = static_cast<uint32_t>(1 + rng.Below(2));
  const auto leaves = static_cast<uint32_t>(1 + rng.Below(3));
  const auto hosts = static_cast<uint32_t>(1 + rng.Below(4));
  spec::ClusterDeclaration cluster = spec::ClosCluster(blocks, leaves, hosts);
  if (rng.Below(3) == 0) {  // a second kind, with another model
    cluster.models.push_back({"small", 16 * 1024});
    cluster.kinds.push_back(spec::UniformKind(
        "small", static_cast<uint16_t>(cluster.models.size() - 1), 4, 1, 64'000, 256 * 1024));
    for (size_t i = 0; i < cluster.nodes.size(); i += 2) {
      cluster.nodes[i].kind = static_cast<uint32_t>(cluster.kinds.size() - 1);
    }
  }
  if (rng.Below(4) == 0) cluster.nodes.back().condition = spec::NodeCondition::kSpare;
  auto topology = spec::Topology::Create(cluster);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *topology;
}

int64_t GpusOf(const spec::Topology& topology) {
  int64_t gpus = 0;
  for (uint32_t i = 0; i < topology.size(); ++i) {
    gpus += static_cast<int64_t>(topology.kind_of(i).devices.size());
  }
  return gpus;
}

std::vector<spec::QueueSpec> RandomQueues(Random& rng, int64_t gpus) {
  std::vector<spec::QueueSpec> queues;
  const size_t count = 1 + rng.Below(5);
  std::vector<int64_t> left(count + 1);
  left[count] = gpus * 1000;
  for (size_t i = 0; i < count; ++i) {
    spec::QueueSpec& queue = queues.emplace_back();
    queue.name = "q" + std::to_string(i);
    const size_t parent = rng.Below(3) == 0 && i > 0 ? rng.Below(i) : count;
    if (parent != count) queue.parent = "q" + std::to_string(parent);
    const int64_t most = left[parent] / 1000;
    const int64_t guarantee =
        most == 0 ? 0 : static_cast<int64_t>(rng.Below(static_cast<uint64_t>(most) / 2 + 1));
    queue.guarantee[0] = guarantee * 1000;
    left[parent] -= guarantee * 1000;
    left[i] = guarantee * 1000;
    if (rng.Below(3) == 0) queue.limit[0] = queue.guarantee[0] + 1000 * (1 + gpus / 3);
    if (rng.Below(4) == 0) queue.lend[0] = queue.guarantee[0] / 2;
    queue.weight = static_cast<uint32_t>(1 + rng.Below(3));
    if (rng.Below(4) == 0) queue.order = spec::QueueOrder::kFirstCome;
  }
  return queues;
}

Shape RandomShape(Random& rng) {
  Shape shape;
  switch (rng.Below(5)) {
    case 0:
      shape.share = static_cast<uint16_t>(100 * (1 + rng.Below(9)));
      shape.gpu_memory_mib = static_cast<int32_t>(rng.Below(12'000));
      break;
    case 1:
      break;  // cpu only
    case 2:
      shape.gpus = 8;
      break;
    default:
      shape.gpus = static_cast<uint8_t>(1 << rng.Below(3));
  }
  shape.cpu_milli = static_cast<int32_t>(500 * (1 + rng.Below(8)));
  shape.memory_mib = static_cast<int32_t>(512 * (1 + rng.Below(8)));
  return shape;
}

JobRequest RandomJob(Random& rng, int number, size_t queues, Tier tiers) {
  JobRequest job;
  job.id = JobId("job-" + std::to_string(number));
  job.queue = "q" + std::to_string(rng.Below(queues));
  job.owner = "u" + std::to_string(rng.Below(3));
  job.priority = static_cast<int32_t>(rng.Below(3));
  job.preemption = static_cast<Preemption>(rng.Below(4));
  if (rng.Below(2) == 0) job.limit = std::chrono::minutes(1 + rng.Below(300));
  const size_t groups = rng.Below(6) == 0 ? 2 : 1;
  const auto tier = [&] {
    const uint64_t pick = rng.Below(6);
    return pick == 0   ? kHostTier
           : pick <= 2 ? static_cast<Tier>(rng.Below(static_cast<uint64_t>(tiers)))
                       : kClusterTier;
  };
  if (groups == 2) job.required = std::max(kLeafTier, tier());
  for (size_t g = 0; g < groups; ++g) {
    GroupRequest group;
    group.name = "g" + std::to_string(g);
    group.shape = RandomShape(rng);
    group.minimum = static_cast<int32_t>(1 + rng.Below(rng.Below(2) == 0 ? 1 : 6));
    group.desired = group.minimum;
    if (groups == 1 && rng.Below(4) == 0) {
      group.step = static_cast<int32_t>(1 + rng.Below(2));
      group.desired += group.step * static_cast<int32_t>(rng.Below(4));
    }
    if (groups == 1) group.required = tier();
    if (group.desired > group.minimum && rng.Below(2) == 0) {
      int32_t speed = 1'000;
      for (int32_t n = group.minimum; n <= group.desired; n += group.step) {
        group.speed_milli.push_back(speed);
        speed += static_cast<int32_t>(rng.Below(1'000));
      }
    }
    if (group.shape.gpus > 0 && rng.Below(6) == 0) group.rail_aligned = true;
    if (group.required == kClusterTier && job.required == kClusterTier && rng.Below(10) == 0 &&
        !group.rail_aligned && group.speed_milli.empty()) {
      group.max_per_domain = static_cast<int32_t>(1 + rng.Below(3));
      group.desired = group.minimum;
    }
    job.groups.push_back(group);
  }
  const GroupRequest& first = job.groups[0];
  if (groups == 1 && first.shape.gpus > 0 && rng.Below(4) == 0) {
    job.layout.emplace();
    if (rng.Below(2) == 0) job.layout->tensor = first.shape.gpus;
    const bool even = first.minimum % 2 == 0 && (first.desired == first.minimum || first.step == 2);
    if (even && rng.Below(2) == 0) job.layout->pipeline = 2;
    job.layout->tensor_volume = static_cast<int64_t>(rng.Below(1'000));
    job.layout->data_volume = static_cast<int64_t>(rng.Below(1'000));
    job.layout->pipeline_volume = static_cast<int64_t>(rng.Below(1'000));
  }
  return job;
}

JobRequest ControllerJob(Random& rng, int number, size_t queues, const spec::Topology& topology) {
  JobRequest job;
  job.id = JobId("job-" + std::to_string(number));
  job.queue = "q" + std::to_string(rng.Below(queues));
  job.owner = "u" + std::to_string(rng.Below(3));
  job.priority = static_cast<int32_t>(rng.Below(3));
  job.preemption = rng.Below(4) == 0 ? static_cast<Preemption>(rng.Below(4)) : Preemption::kSuspend;
  if (rng.Below(5) == 0) job.limit = std::chrono::minutes(1 + rng.Below(300));
  job.restart_cost = std::chrono::seconds(10);
  TaskRequest task;
  task.gpus = uint32_t{1} << rng.Below(4);
  if (rng.Below(4) == 0) task.models.insert(topology.models()[rng.Below(2)].name);
  if (rng.Below(6) == 0) task.gpu_memory_mib = 32 * 1024;
  if (rng.Below(4) == 0) task.memory_mib = static_cast<int64_t>(1 + rng.Below(128)) * 1024;
  if (rng.Below(6) == 0) task.selector["pool"] = "a";
  if (rng.Below(4) == 0) task.tolerates.insert("reserved");
  Result<Shape> shape = ResolveRequest(task, topology);
  if (!shape.ok()) {  // no node has the label, or every node is tainted
    task.selector.clear();
    task.tolerates.insert("reserved");
    shape = ResolveRequest(task, topology);
  }
  EXPECT_TRUE(shape.ok()) << shape.status();
  GroupRequest group;
  group.name = "nodes";
  group.shape = *shape;
  group.minimum = static_cast<int32_t>(1 + rng.Below(rng.Below(2) == 0 ? 1 : 4));
  group.desired = group.minimum;
  if (rng.Below(5) == 0) group.desired += static_cast<int32_t>(rng.Below(3));
  if (group.desired > 1) {
    group.max_per_host = 1;
    group.one_model = rng.Below(4) != 0;
  }
  if (rng.Below(3) == 0) group.required = kLeafTier;
  job.groups.push_back(group);
  return job;
}

// Spreads some of the job's groups, inside of a required domain too, and bounds their tasks on a
// host.
void DrawSpread(Random& rng, Tier tiers, JobRequest& job) {
  for (GroupRequest& group : job.groups) {
    const bool bounded = rng.Below(8) == 0;
    if (bounded && group.max_per_host == 0) {
      group.max_per_host = static_cast<int32_t>(1 + rng.Below(3));
    }
    if (group.rail_aligned || rng.Below(3) != 0) continue;
    // The highest required domain is a part of the cluster too.
    if (job.groups.size() == 1 && tiers > 1 && rng.Below(3) == 0) group.required = tiers - 1;
    const Tier below = std::min({group.required, job.required, tiers});
    if (below <= kLeafTier) continue;
    group.spread_tier = static_cast<Tier>(rng.Below(static_cast<uint64_t>(below)));
    group.max_per_domain =
        rng.Below(4) == 0 ? kMaxGangTasks : static_cast<int32_t>(1 + rng.Below(3));
  }
}

void DrawUserLimits(Random& rng, std::vector<spec::QueueSpec>& queues) {
  for (spec::QueueSpec& queue : queues) {
    queue.per_user = {};
    queue.max_run_time = {};
    if (rng.Below(2) == 0) queue.per_user.running = static_cast<uint32_t>(1 + rng.Below(3));
    if (rng.Below(2) == 0) {
      queue.per_user.amounts[0] = static_cast<int64_t>(1'000 * (1 + rng.Below(24)));
    }
    if (rng.Below(4) == 0) {
      queue.per_user.amounts[1] = static_cast<int64_t>(1'000 * (2 + rng.Below(20)));
    }
    if (rng.Below(3) == 0) queue.max_run_time = std::chrono::minutes(10 + rng.Below(300));
  }
}

// Guarantees, limits and lending limits of each model, and limits of users. A queue divides what
// the queue above has left.
void DrawModelQuotas(Random& rng, const spec::Topology& topology,
                     std::vector<spec::QueueSpec>& queues) {
  std::map<std::pair<std::string, std::string>, int64_t> left;  // by queue and model
  for (uint32_t i = 0; i < topology.size(); ++i) {
    const spec::NodeKind& kind = topology.kind_of(i);
    left[{"", topology.models()[kind.model].name}] +=
        1'000 * static_cast<int64_t>(kind.devices.size());
  }
  const auto below = [&](int64_t most) {
    return 1'000 * static_cast<int64_t>(rng.Below(static_cast<uint64_t>(most / 1'000) + 1));
  };
  for (spec::QueueSpec& queue : queues) {
    queue.models.clear();
    int64_t undivided = queue.guarantee[0];
    for (const spec::DeviceModel& model : topology.models()) {
      if (rng.Below(3) == 0) continue;
      spec::ModelQuota quota;
      quota.model = model.name;
      int64_t& above = left[{queue.parent, model.name}];
      quota.guarantee = below(std::min(above, undivided));
      above -= quota.guarantee;
      undivided -= quota.guarantee;
      left[{queue.name, model.name}] = quota.guarantee;
      if (rng.Below(2) == 0) quota.limit = quota.guarantee + 1'000 + below(12'000);
      if (rng.Below(4) == 0) quota.lend = quota.guarantee / 2;
      if (rng.Below(4) == 0) quota.per_user = 1'000 + below(12'000);
      queue.models.push_back(quota);
    }
    std::sort(queue.models.begin(), queue.models.end(),
              [](const auto& a, const auto& b) { return a.model < b.model; });
  }
}

// What would have happened outside: an engine that mostly does as it is told.
class History {
 public:
  explicit History(uint64_t seed, Draws draws = Draws::kAnything, Quotas quotas = Quotas::kPlain,
                   Spread spread = Spread::kDrawn)
      : rng_(seed),
        draws_(draws),
        quotas_(quotas),
        quotas_rng_(seed + 1),
        spread_(spread),
        spread_rng_(seed + 2) {
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

  // On a copy: at once, and it still has its nodes when all who were told to stop have said so, one
  // by one in any order, and those who were told to start run.
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
    for (const Decision& decision : scheduler_->Decide(now_, steps)) {
      log_ += ToString(decision) + "\n";
      Follow(decision);
    }
    return scheduler_->CheckInvariants();
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
      case 16: {
        const auto tier = static_cast<Tier>(rng_.Below(static_cast<uint64_t>(tiers_)));
        const size_t domains =
            scheduler_->topology().levels()[static_cast<size_t>(tier)].domains.size();
        const auto domain = static_cast<int32_t>(rng_.Below(domains));
        if (rng_.Below(2) == 0) {
          event = LinkFaulted{tier, domain};
        } else {
          event = LinkChanged{tier, domain, rng_.Below(3) != 0};
        }
        return true;
      }
      case 17:
        event = MixExpected{{{RandomShape(rng_), static_cast<int64_t>(1 + rng_.Below(100))}}};
        return true;
      default:
        if (rng_.Below(4) != 0) return false;
        event = JobEvictionAsked{*job};
        return true;
    }
  }

  void Follow(const Decision& decision) {
    const std::string kind = ToString(decision).substr(0, ToString(decision).find(' '));
    ++seen_[kind];
    // What was decided by which rule, as far as it can be told from outside.
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

TEST(History, KeepsEveryInvariantAndRepeats) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    History history(seed);
    History again(seed);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
      ASSERT_TRUE(again.Step().ok());
    }
    ASSERT_EQ(history.log(), again.log());
    ASSERT_EQ(history.scheduler().Fingerprint(), again.scheduler().Fingerprint());
    for (const auto& [kind, count] : history.seen()) seen[kind] += count;
  }
  // Everything that can be decided was.
  for (const char* kind : {"start",
                           "grow",
                           "repair",
                           "shrink",
                           "suspend",
                           "evict",
                           "undo",
                           "reserve",
                           "reject",
                           "move",
                           "start with ranks",
                           "start on rails",
                           "start of unlike groups",
                           "start spread",
                           "start spread in a domain",
                           "repair spread",
                           "grow spread",
                           "start alone",
                           "shrink: makes room",
                           "move: makes room"}) {
    if (histories >= 100) {
      EXPECT_GT(seen[kind], 0) << kind;
    }
  }
  if (histories >= 5'000) {
    EXPECT_GT(seen["shrink: its GPUs are worth more to another elastic job"], 0);
    EXPECT_GT(seen["move: tasks were lost, and near the others no place is as good"], 0);
  }
  if (histories >= 1'000) {
    for (const auto& [kind, count] : seen) {
      if (kind.find("reject: ") == std::string::npos) std::printf("%8d %s\n", count, kind.c_str());
    }
  }
}

// The invariants include that a gang of one model lies on one, and that no node is over its memory.
TEST(History, OfAControllerKeepsEveryInvariantAndRepeats) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    History history(seed, Draws::kAsController);
    History again(seed, Draws::kAsController);
    Random rng(seed);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
      if (rng.Below(8) == 0) {
        const Status rebuilt = again.Rebuild();
        ASSERT_TRUE(rebuilt.ok()) << rebuilt << " after\n" << again.log();
      }
      ASSERT_TRUE(again.Step().ok());
      ASSERT_EQ(history.log(), again.log()) << "at step " << step;
    }
    for (const auto& [kind, count] : history.seen()) seen[kind] += count;
  }
  for (const char* kind : {"start of one model", "grow", "suspend", "evict", "reserve", "reject",
                           "move: tasks were lost", "start spread", "start spread in a domain",
                           "repair spread", "grow spread"}) {
    const auto found = seen.lower_bound(kind);
    EXPECT_TRUE(histories < 100 || (found != seen.end() && found->first.starts_with(kind))) << kind;
  }
  if (histories >= 1'000) {
    EXPECT_GT(seen["repair of one model"], 0);
  }
}

// Histories in which a job waited although another round at once, or a victim that it had a right
// to, would have started it, and in which rounds were due without end.
TEST(History, SeedsThatFailedOnceHold) {
  const struct {
    uint64_t seed;
    Draws draws;
  } kRows[] = {{254, Draws::kAnything},        {2051, Draws::kAnything},
               {10'637, Draws::kAnything},     {51'057, Draws::kAnything},
               {901'701, Draws::kAnything},    {2'013'119, Draws::kAnything},
               {85, Draws::kAsController},     {1'470, Draws::kAsController},
               {2'789, Draws::kAsController},  {5'410, Draws::kAsController},
               {7'739, Draws::kAsController},  {111'808, Draws::kAsController},
               {126'326, Draws::kAsController}};
  for (const auto& row : kRows) {
    History history(row.seed, row.draws, Quotas::kPlain, Spread::kFew);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << "seed " << row.seed << ": " << holds << " after\n"
                              << history.log();
    }
  }
}

// Who is rebuilt anywhere, as often as one likes, decides as if he had not been.
TEST(History, ARebuiltSchedulerDecidesAsTheOneBefore) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  int rebuilds = 0;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    History history(seed);
    History again(seed);
    Random rng(seed);
    for (int step = 0; step < 60; ++step) {
      const Status before = history.Step();
      ASSERT_TRUE(before.ok()) << before << " after\n" << history.log();
      if (rng.Below(8) == 0) {
        const Status rebuilt = again.Rebuild();
        ASSERT_TRUE(rebuilt.ok()) << rebuilt << " after\n" << again.log();
        ++rebuilds;
      }
      const Status holds = again.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << again.log();
      ASSERT_EQ(history.log(), again.log()) << "at step " << step;
    }
  }
  EXPECT_GT(rebuilds, 0);
}

// The invariants include that nobody is above a limit, except with jobs that ran before it was
// lowered, and that no job that such a limit blocks holds a reservation.
TEST(History, WithLimitsOfUsersKeepsEveryInvariantAndRepeats) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    const Draws draws = seed % 2 == 0 ? Draws::kAnything : Draws::kAsController;
    History history(seed, draws, Quotas::kOfUsers);
    History again(seed, draws, Quotas::kOfUsers);
    Random rng(seed);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
      if (rng.Below(8) == 0) {
        const Status rebuilt = again.Rebuild();
        ASSERT_TRUE(rebuilt.ok()) << rebuilt << " after\n" << again.log();
      }
      ASSERT_TRUE(again.Step().ok());
      ASSERT_EQ(history.log(), again.log()) << "at step " << step;
      if (rng.Below(20) != 0) continue;
      const Status other = history.RebuildWithOtherLimits();
      ASSERT_TRUE(other.ok()) << other << " after\n" << history.log();
      ASSERT_TRUE(again.RebuildWithOtherLimits().ok());
    }
    for (const auto& [kind, count] : history.seen()) seen[kind] += count;
  }
  for (const char* kind : {"start", "grow", "suspend", "evict", "reserve", "move",
                           "blocked by a user's amount", "blocked by a user's jobs"}) {
    EXPECT_TRUE(histories < 100 || seen[kind] > 0) << kind;
  }
}

// The invariants include that no queue holds more of a model than its limit, and the check of
// guarantees counts each model.
TEST(History, WithQuotasOfModelsKeepsEveryInvariantAndRepeats) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    const Draws draws = seed % 2 == 0 ? Draws::kAnything : Draws::kAsController;
    History history(seed, draws, Quotas::kOfModels);
    History again(seed, draws, Quotas::kOfModels);
    Random rng(seed);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
      if (rng.Below(8) == 0) {
        const Status rebuilt = again.Rebuild();
        ASSERT_TRUE(rebuilt.ok()) << rebuilt << " after\n" << again.log();
      }
      ASSERT_TRUE(again.Step().ok());
      ASSERT_EQ(history.log(), again.log()) << "at step " << step;
      if (rng.Below(20) != 0) continue;
      const Status other = history.RebuildWithOtherLimits();
      ASSERT_TRUE(other.ok()) << other << " after\n" << history.log();
      ASSERT_TRUE(again.RebuildWithOtherLimits().ok());
    }
    for (const auto& [kind, count] : history.seen()) seen[kind] += count;
  }
  for (const char* kind :
       {"start", "grow", "suspend", "evict", "reserve", "move", "blocked by a model's limit"}) {
    EXPECT_TRUE(histories < 100 || seen[kind] > 0) << kind;
  }
}

TEST(History, EveryStatedFixStartsItsJob) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150) / 10;
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  int stated = 0;
  for (uint64_t seed = first; seed < first + 3 * histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(first + (seed - first) / 3));
    // Each seed with all sorts of quotas.
    History history(first + (seed - first) / 3, Draws::kAnything,
                    static_cast<Quotas>((seed - first) % 3));
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
      if (step % 20 != 19) continue;
      const Result<int> fixes = history.CheckFixes();
      ASSERT_TRUE(fixes.ok()) << fixes.status() << " after\n" << history.log();
      stated += *fixes;
    }
  }
  if (histories >= 10) {
    EXPECT_GT(stated, 0);
  }
  if (histories >= 100) std::printf("fixes stated and applied: %d\n", stated);
}

// The limits of its user in two queues block a job, which needs jobs of both stopped.
TEST(History, AFixThatWasNotFoundOnceIsFound) {
  History history(1'730, Draws::kAnything, Quotas::kOfUsers);
  for (int step = 0; step < 60; ++step) {
    ASSERT_TRUE(history.Step().ok());
    if (step % 20 != 19) continue;
    const Result<int> fixes = history.CheckFixes();
    ASSERT_TRUE(fixes.ok()) << fixes.status();
  }
}

}  // namespace
}  // namespace longhaul::scheduler
