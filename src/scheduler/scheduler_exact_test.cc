// Class Scheduler against integer programs: whom it stops, and how few leaves it crosses.
//
// Each case is a small cluster with jobs on it and a claimant; the program is written from the
// definitions (internal/room/make_room.h, gang/equal_tasks.h) on what the test put there. Moves are
// off: the cost of stops and shrinks is what is compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>

#include "base/random.h"
#include "scheduler/exact/ilp.h"
#include "scheduler/scheduler.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::minutes;

constexpr int32_t kGpus = 8;  // of a host
constexpr int32_t kCpu = 192'000;

// A job that runs, with all it holds.
struct Running {
  JobRequest request;
  std::vector<TaskPlacement> tasks;
  Duration unsaved{};  // since its last snapshot
  int64_t priority = 0;

  const GroupRequest& group() const { return request.groups[0]; }
  int64_t GpuMilli() const {
    return int64_t{group().shape.gpu_milli()} * static_cast<int64_t>(tasks.size());
  }
};

struct Case {
  int32_t blocks = 1;
  int32_t leaves = 1;  // of a block
  int32_t hosts = 1;   // of a leaf
  std::vector<Running> running;
  std::vector<GpuMask> free;      // [host] wholly free GPUs
  std::vector<int32_t> free_cpu;  // [host]
  std::vector<spec::QueueSpec> queues;
  JobRequest claimant;

  int32_t HostCount() const { return blocks * leaves * hosts; }
  int32_t DomainOf(Tier tier, int32_t host) const {
    if (tier == kHostTier) return host;
    return tier == kLeafTier ? host / hosts : tier == kBlockTier ? host / hosts / leaves : 0;
  }
};

int32_t Pick(Random& random, std::initializer_list<int32_t> of) {
  return of.begin()[random.Below(of.size())];
}

// Puts one job of tasks of equal shape on random hosts; nothing where none has room.
void AddRunning(Random& random, Case& c, bool fractions) {
  Running job;
  job.request.id = JobId("running-" + std::to_string(c.running.size()));
  GroupRequest& group = job.request.groups.emplace_back();
  const bool fraction = fractions && random.Below(4) == 0;
  if (fraction) {
    group.shape.share = 500;
  } else {
    group.shape.gpus = static_cast<uint8_t>(Pick(random, {1, 1, 2, 4, 8}));
  }
  if (random.Below(4) == 0) group.shape.cpu_milli = Pick(random, {8'000, 48'000, 96'000});
  const auto tasks = static_cast<int32_t>(1 + random.Below(4));
  for (int32_t rank = 0; rank < tasks; ++rank) {
    const size_t host = random.Below(c.free.size());
    GpuMask gpus = 0;
    for (int32_t i = 0; i < kGpus && CountGpus(gpus) < std::max<int>(1, group.shape.gpus); ++i) {
      gpus |= static_cast<GpuMask>(c.free[host] & (1 << i));
    }
    if (CountGpus(gpus) < std::max<int>(1, group.shape.gpus)) continue;
    if (c.free_cpu[host] < group.shape.cpu_milli) continue;
    c.free_cpu[host] -= group.shape.cpu_milli;
    c.free[host] &= static_cast<GpuMask>(~gpus);
    job.tasks.push_back(
        {0, static_cast<int32_t>(job.tasks.size()), static_cast<NodeIndex>(host), gpus});
  }
  if (job.tasks.empty()) return;
  const auto held = static_cast<int32_t>(job.tasks.size());
  group.minimum = group.desired = held;
  if (random.Below(4) == 0)
    group.minimum = 1 + static_cast<int32_t>(random.Below(static_cast<uint64_t>(held)));
  if (!c.queues.empty()) job.request.queue = c.queues[random.Below(c.queues.size())].name;
  job.priority = job.request.priority = Pick(random, {0, 0, 1, 2});
  job.request.preemption =
      std::array{Preemption::kNever,   Preemption::kShrink,  Preemption::kSuspend,
                 Preemption::kRequeue, Preemption::kRequeue, Preemption::kRequeue}[random.Below(6)];
  job.request.restart_cost = minutes(random.Below(4));
  job.unsaved = minutes(random.Below(random.Below(2) == 0 ? 5 : 300));
  c.running.push_back(job);
  // A second fraction shares the GPU.
  if (!fraction || random.Below(2) == 0) return;
  Running other = job;
  other.request.id = JobId("running-" + std::to_string(c.running.size()));
  other.request.groups[0].shape.cpu_milli = 0;
  other.unsaved = minutes(random.Below(300));
  c.running.push_back(other);
}

// Half of the gangs that could be are spread.
void MaybeSpread(Random& random, GroupRequest& group) {
  if (group.slice > 1 || group.required <= kLeafTier || random.Below(2) == 0) return;
  group.max_per_domain = Pick(random, {1, 2, 3, kMaxGangTasks});
  group.spread_tier =
      group.required <= kBlockTier ? kLeafTier : Pick(random, {kLeafTier, kBlockTier});
}

void MakeClaimant(Random& random, Case& c, bool busy) {
  JobRequest& job = c.claimant;
  job.id = JobId("claimant");
  job.priority = Pick(random, {1, 2, 3});
  if (!c.queues.empty()) job.queue = c.queues[random.Below(c.queues.size())].name;
  GroupRequest& group = job.groups.emplace_back();
  group.shape.gpus = static_cast<uint8_t>(Pick(random, {1, 2, 3, 4, 8, 8}));
  if (random.Below(5) == 0) group.shape.cpu_milli = Pick(random, {8'000, 24'000, 96'000});
  const int32_t most = std::max(1, c.HostCount() * kGpus / group.shape.gpus * 3 / 4);
  group.minimum = 1 + static_cast<int32_t>(random.Below(static_cast<uint64_t>(most)));
  if (random.Below(2) == 0) group.minimum = std::min(group.minimum, 4);
  if (random.Below(5) == 0) {
    group.slice = Pick(random, {2, 3, 4});
    group.slice_tier = Pick(random, {kHostTier, kLeafTier, kBlockTier});
    group.minimum += (group.slice - group.minimum % group.slice) % group.slice;
  } else if (random.Below(5) == 0) {
    group.max_per_host = Pick(random, {1, 2});
  }
  group.desired = group.minimum;
  group.step = group.slice;
  group.required =
      Pick(random, {kHostTier, kLeafTier, kLeafTier, kBlockTier, kClusterTier, kClusterTier});
  // The other program asks for the fewest domains, which is what a spread gang does not.
  if (busy) MaybeSpread(random, group);
}

Case RandomCase(uint64_t seed, bool busy) {
  Random random(seed);
  Case c;
  c.blocks = Pick(random, {1, 2});
  c.leaves = Pick(random, {1, 2, 3});
  c.hosts = Pick(random, {1, 2, 3, 4});
  c.free.assign(static_cast<size_t>(c.HostCount()), 0xff);
  c.free_cpu.assign(static_cast<size_t>(c.HostCount()), kCpu);
  if (busy && random.Below(2) == 0) {
    const int64_t gpus = int64_t{c.HostCount()} * kGpus * kWholeGpu;
    for (const char* name : {"a", "b", "c"}) {
      spec::QueueSpec queue;
      queue.name = name;
      queue.guarantee[0] =
          static_cast<int64_t>(random.Below(static_cast<uint64_t>(gpus / 3000) + 1)) * 1000;
      if (random.Below(4) == 0) queue.limit[0] = std::max(queue.guarantee[0], gpus / 2);
      c.queues.push_back(queue);
    }
  }
  const bool fractions = busy && random.Below(3) == 0;
  const uint64_t jobs = 1 + random.Below(busy ? 40 : 20);
  for (uint64_t i = 0; i < jobs && c.running.size() < 64; ++i) AddRunning(random, c, fractions);
  MakeClaimant(random, c, busy);
  return c;
}

std::string Describe(const Case& c) {
  std::ostringstream text;
  text << c.blocks << " x " << c.leaves << " x " << c.hosts << " hosts";
  for (const spec::QueueSpec& queue : c.queues) {
    text << "\nqueue " << queue.name << " guarantee " << queue.guarantee[0] << " limit "
         << queue.limit[0];
  }
  const auto describe = [&](const JobRequest& job) {
    const GroupRequest& group = job.groups[0];
    text << "\n"
         << job.id.value() << " in '" << job.queue << "' priority " << job.priority
         << " preemption " << int(job.preemption) << " tasks " << group.minimum << ".."
         << group.desired << " of " << int(group.shape.gpus) << "/" << group.shape.share << " cpu "
         << group.shape.cpu_milli << " required " << group.required << " slice " << group.slice
         << "@" << group.slice_tier << " most " << group.max_per_host << " a host, "
         << group.max_per_domain << " a domain of " << group.spread_tier << " on";
  };
  for (const Running& job : c.running) {
    describe(job.request);
    for (const TaskPlacement& task : job.tasks) text << " " << task.node << "/" << task.gpus;
  }
  describe(c.claimant);
  return text.str();
}

Scheduler Start(const Case& c, Instant now) {
  auto topology = spec::Topology::Create(spec::ClosCluster(static_cast<uint32_t>(c.blocks),
                                                           static_cast<uint32_t>(c.leaves),
                                                           static_cast<uint32_t>(c.hosts)));
  EXPECT_TRUE(topology.ok()) << topology.status();
  Policy policy;
  policy.moves = false;
  auto made = Scheduler::Create(*topology, c.queues, policy);
  EXPECT_TRUE(made.ok()) << made.status();
  for (const Running& job : c.running) {
    JobAdopted adopted;
    adopted.request = job.request;
    adopted.submitted = adopted.started = now - minutes(600);
    adopted.last_snapshot = now - job.unsaved;
    adopted.held_priority = job.priority;
    adopted.tasks = job.tasks;
    made->Apply(adopted, now);
  }
  EXPECT_TRUE(made->CheckInvariants().ok()) << made->CheckInvariants();
  return std::move(made).value();
}

// One term a variable.
Ilp::Terms Summed(const Ilp::Terms& terms) {
  std::map<int, double> sums;
  for (const auto& [variable, factor] : terms) sums[variable] += factor;
  return {sums.begin(), sums.end()};
}

int64_t Loss(const Running& job) {
  const int64_t lost_ms = (job.unsaved + job.request.restart_cost).count() / 1'000'000;
  return std::max<int64_t>(1'000, job.GpuMilli()) * lost_ms / 1'000 +
         std::max<int64_t>(0, job.request.priority) * Policy{}.priority_gpu_seconds * 1'000;
}

// The claimant's tasks on hosts and its rules, for both programs.
struct Landing {
  Ilp ilp;
  std::vector<int> tasks;  // [host]

  // All of `allowed` hosts; `room` says what a task needs there.
  void AddRules(const Case& c, const std::function<bool(int32_t)>& allowed) {
    const GroupRequest& group = c.claimant.groups[0];
    Ilp::Terms all;
    for (int32_t host = 0; host < c.HostCount(); ++host) {
      int64_t most = allowed(host) ? kGpus : 0;
      if (group.max_per_host > 0) most = std::min<int64_t>(most, group.max_per_host);
      tasks.push_back(ilp.AddInteger(0, most));
      all.push_back({tasks.back(), 1});
    }
    ilp.AddEqual(all, group.minimum);
    if (group.is_spread()) {
      std::map<int32_t, Ilp::Terms> domains;
      for (int32_t host = 0; host < c.HostCount(); ++host) {
        domains[c.DomainOf(group.spread_tier, host)].push_back(
            {tasks[static_cast<size_t>(host)], 1});
      }
      for (const auto& [domain, terms] : domains) ilp.AddAtMost(terms, group.max_per_domain);
    }
    // What lies in one required domain needs no slices above it.
    if (group.slice == 1 || group.slice_tier >= group.required) return;
    std::map<int32_t, Ilp::Terms> slices;
    for (int32_t host = 0; host < c.HostCount(); ++host) {
      slices[c.DomainOf(group.slice_tier, host)].push_back({tasks[static_cast<size_t>(host)], 1});
    }
    for (auto& [domain, terms] : slices) {
      terms.push_back({ilp.AddInteger(0, group.minimum), -double(group.slice)});
      ilp.AddEqual(terms, 0);
    }
  }
};

// Whom the rules let the claimant take, one alone.
bool Fair(const Case& c, const Running& job) {
  if (job.request.preemption == Preemption::kNever) return false;
  if (c.queues.empty() || job.request.queue == c.claimant.queue) {
    return job.priority < c.claimant.priority;
  }
  int64_t used = 0;
  int64_t guarantee = 0;
  bool any = false;
  for (const spec::QueueSpec& queue : c.queues) {
    any = any || queue.guarantee[0] > 0;
    if (queue.name == c.claimant.queue) guarantee = queue.guarantee[0];
  }
  for (const Running& other : c.running) {
    used += other.request.queue == c.claimant.queue ? other.GpuMilli() : 0;
  }
  return any && used + MinimumAmounts(c.claimant)[0] <= guarantee;
}

// The least that stops and shrinks cost so that the claimant lands in one domain of the tier.
class VictimModel {
 public:
  VictimModel(const Case& c, Tier tier, int32_t domain, bool nobody = false) : c_(c) {
    AddVictims(nobody);
    landing_.AddRules(c, [&](int32_t host) { return c.DomainOf(tier, host) == domain; });
    for (int32_t host = 0; host < c.HostCount(); ++host) AddHost(host);
    if (!c.queues.empty()) AddQueues();
  }

  std::optional<int64_t> Least() { return landing_.ilp.Minimize(cost_); }

 private:
  void AddVictims(bool nobody) {
    Ilp& ilp = landing_.ilp;
    for (const Running& job : c_.running) {
      const bool fair = !nobody && Fair(c_, job);
      const bool stops = fair && job.request.preemption != Preemption::kShrink;
      stop_.push_back(ilp.AddInteger(0, stops ? 1 : 0));
      cost_.push_back({stop_.back(), double(Loss(job))});
      const auto held = static_cast<int64_t>(job.tasks.size());
      const int64_t spare = held - job.group().minimum;
      Ilp::Terms given = {{stop_.back(), double(spare)}};
      auto& give = give_.emplace_back();
      for (int64_t t = 0; t < held; ++t) {
        give.push_back(ilp.AddInteger(0, fair && spare > 0 ? 1 : 0));
        cost_.push_back({give.back(), double(Loss(job) / held)});
        given.push_back({give.back(), 1});
      }
      ilp.AddAtMost(given, double(spare));  // stopped, or shrunk as far as it may
    }
  }

  void AddHost(int32_t host) {
    Ilp& ilp = landing_.ilp;
    const Shape& shape = c_.claimant.groups[0].shape;
    const auto h = static_cast<size_t>(host);
    Ilp::Terms gpus = {{landing_.tasks[h], double(shape.gpus)}};
    Ilp::Terms cpu = {{landing_.tasks[h], double(shape.cpu_milli)}};
    std::map<GpuMask, std::vector<std::pair<int, int>>> shared;
    for (size_t j = 0; j < c_.running.size(); ++j) {
      const Running& job = c_.running[j];
      const Shape& held = job.group().shape;
      for (size_t t = 0; t < job.tasks.size(); ++t) {
        if (job.tasks[t].node != h) continue;
        const int give = give_[j][t];
        if (held.share > 0) {
          shared[job.tasks[t].gpus].emplace_back(stop_[j], give);
        } else {
          gpus.push_back({stop_[j], -double(held.gpus)});
          gpus.push_back({give, -double(held.gpus)});
        }
        cpu.push_back({stop_[j], -double(held.cpu_milli)});
        cpu.push_back({give, -double(held.cpu_milli)});
      }
    }
    for (const auto& [gpu, holders] : shared) {
      const int freed = ilp.AddInteger(0, 1);
      gpus.push_back({freed, -1});
      for (const auto& [stop, give] : holders)
        ilp.AddAtMost({{freed, 1}, {stop, -1}, {give, -1}}, 0);
    }
    ilp.AddAtMost(Summed(gpus), CountGpus(c_.free[h]));
    ilp.AddAtMost(Summed(cpu), c_.free_cpu[h]);
  }

  void AddQueues() {
    for (const spec::QueueSpec& queue : c_.queues) {
      int64_t used = 0;
      Ilp::Terms taken;
      for (size_t j = 0; j < c_.running.size(); ++j) {
        const Running& job = c_.running[j];
        if (job.request.queue != queue.name) continue;
        used += job.GpuMilli();
        taken.push_back({stop_[j], double(job.GpuMilli())});
        for (const int give : give_[j])
          taken.push_back({give, double(job.group().shape.gpu_milli())});
      }
      if (queue.name != c_.claimant.queue) {
        landing_.ilp.AddAtMost(taken, double(std::max<int64_t>(0, used - queue.guarantee[0])));
      } else if (queue.limit[0] != spec::kUnlimitedAmounts[0]) {
        landing_.ilp.AddAtLeast(taken,
                                double(used + MinimumAmounts(c_.claimant)[0] - queue.limit[0]));
      }
    }
  }

  const Case& c_;
  Landing landing_;
  Ilp::Terms cost_;
  std::vector<int> stop_;
  std::vector<std::vector<int>> give_;
};

// Nothing where it finds room; else the least cost in the lowest tier in which any set lands:
// preferred topology goes before cost.
std::optional<int64_t> LeastCost(const Case& c) {
  const GroupRequest& group = c.claimant.groups[0];
  std::vector<Tier> tiers = {group.required};
  if (group.required == kClusterTier) {
    tiers = {kLeafTier, kBlockTier, kClusterTier};
    if (group.minimum == 1) tiers.insert(tiers.begin(), kHostTier);
    // One domain of those that it spreads over is no place for it.
    if (group.is_spread() && group.minimum > 1) {
      std::erase_if(tiers, [&](Tier tier) { return tier <= group.spread_tier; });
    }
    if (VictimModel(c, kClusterTier, 0, true).Least()) return 0;
  }
  for (const Tier tier : tiers) {
    std::optional<int64_t> least;
    const int32_t last = c.DomainOf(tier, c.HostCount() - 1);
    for (int32_t domain = 0; domain <= last; ++domain) {
      const std::optional<int64_t> here = VictimModel(c, tier, domain).Least();
      if (here && (!least || *here < *least)) least = here;
    }
    if (least) return least;
  }
  return std::nullopt;
}

struct Tally {
  int64_t with_victims = 0;
  int64_t without = 0;
  int64_t shrunk = 0;
  int64_t across_queues = 0;
  int64_t mixed = 0;  // cases with victims of the claimant's own queue and of others
  int64_t dearer = 0;
  double worst = 1;
};

// What the decisions of one round cost, from the test's own records.
int64_t CostOf(const Case& c, const std::vector<Decision>& decisions, Tally& tally) {
  int64_t cost = 0;
  bool own = false;
  bool borrowed = false;
  const auto start =
      std::find_if(decisions.begin(), decisions.end(), [&](const Decision& decision) {
        return decision.kind == DecisionKind::kStart && decision.job == c.claimant.id;
      });
  if (start == decisions.end()) return 0;
  for (const Decision& decision : decisions) {
    if (decision.transaction != start->transaction) continue;  // elastic jobs grow and shrink too
    const auto job = std::find_if(c.running.begin(), c.running.end(), [&](const Running& running) {
      return running.request.id == decision.job;
    });
    if (job == c.running.end()) continue;
    EXPECT_TRUE(Fair(c, *job)) << ToString(decision);
    if (job->request.queue != c.claimant.queue) ++tally.across_queues;
    (job->request.queue != c.claimant.queue ? borrowed : own) = true;
    if (decision.kind == DecisionKind::kShrink) {
      cost += Loss(*job) / static_cast<int64_t>(job->tasks.size()) *
              static_cast<int64_t>(decision.tasks.size());
      ++tally.shrunk;
    } else if (decision.kind == DecisionKind::kEvict || decision.kind == DecisionKind::kSuspend) {
      cost += Loss(*job);
    } else {
      ADD_FAILURE() << ToString(decision);
    }
  }
  tally.mixed += own && borrowed ? 1 : 0;
  return cost;
}

std::string Said(const std::vector<Decision>& decisions) {
  std::string said;
  for (const Decision& decision : decisions) said += "\n" + ToString(decision);
  return said;
}

void SolveVictims(uint64_t seed, Tally& tally) {
  const Case c = RandomCase(seed, true);
  const Instant now = InstantFromNanoseconds(1'500'000'000'000'000'000);
  SCOPED_TRACE(Describe(c));
  Scheduler scheduler = Start(c, now);
  if (!scheduler.CheckSubmission(c.claimant).ok()) return;
  scheduler.Apply(JobSubmitted{c.claimant}, now);
  const std::vector<Decision> decisions = scheduler.Decide(now);
  const bool started = scheduler.StageOf(c.claimant.id) == JobStage::kAssumed;
  const int64_t cost = CostOf(c, decisions, tally);
  const std::optional<int64_t> least = LeastCost(c);
  ASSERT_EQ(started, least.has_value()) << (least ? *least : -1);
  ASSERT_TRUE(scheduler.CheckInvariants().ok()) << scheduler.CheckInvariants();
  if (!least || *least == 0) {
    ASSERT_EQ(cost, 0) << Said(decisions);
    ++tally.without;  // it waits, or starts as it is
    return;
  }
  ++tally.with_victims;
  ASSERT_GE(cost, *least);
  tally.dearer += cost > *least ? 1 : 0;
  tally.worst = std::max(tally.worst, double(cost) / double(*least));
  EXPECT_LE(double(cost), 1.05 * double(*least))
      << cost << " against " << *least << Said(decisions);
}

TEST(SchedulerExact, VictimsCostTheOptimumOfAnIntegerProgram) {
  if (!Ilp::Available())
    GTEST_SKIP() << "EXACT SOLVER ABSENT: install libglpk-dev; nothing was compared";
  const int64_t cases = ExactCases(200);
  Tally tally;
  int64_t seeds = 0;
  // Each case counted needs victims.
  for (; tally.with_victims < cases && seeds < 20 * cases; ++seeds) {
    const uint64_t seed = ExactSeed() + static_cast<uint64_t>(seeds);
    SCOPED_TRACE("seed " + std::to_string(seed));
    SolveVictims(seed, tally);
    if (HasFailure()) break;
  }
  std::cout << tally.with_victims << " cases with victims of " << seeds << "; shrunk "
            << tally.shrunk << ", of other queues " << tally.across_queues
            << ", of both at once in " << tally.mixed << " cases; dearer than the "
            << "optimum " << tally.dearer << ", worst ratio " << tally.worst << "\n";
  EXPECT_EQ(tally.with_victims, cases);
  EXPECT_TRUE(cases < 100 || (tally.shrunk > 0 && tally.across_queues > 0 && tally.mixed > 0));
}

// The fewest blocks, then leaves, then hosts; -1 where it doesn't fit.
std::array<int64_t, 3> FewestDomains(const Case& c) {
  const Tier required = c.claimant.groups[0].required;
  Landing landing;
  landing.AddRules(c, [](int32_t) { return true; });
  const Shape& shape = c.claimant.groups[0].shape;
  std::array<Ilp::Terms, 3> used;
  const std::array<Tier, 3> tiers = {kBlockTier, kLeafTier, kHostTier};
  for (size_t t = 0; t < tiers.size(); ++t) {
    const int32_t domains = c.DomainOf(tiers[t], c.HostCount() - 1) + 1;
    for (int32_t d = 0; d < domains; ++d) used[t].push_back({landing.ilp.AddInteger(0, 1), 1});
    for (int32_t host = 0; host < c.HostCount(); ++host) {
      const auto at = static_cast<size_t>(c.DomainOf(tiers[t], host));
      landing.ilp.AddAtMost(
          {{landing.tasks[static_cast<size_t>(host)], 1}, {used[t][at].first, -double(kGpus)}}, 0);
    }
    if (required == tiers[t]) landing.ilp.AddEqual(used[t], 1);
  }
  for (int32_t host = 0; host < c.HostCount(); ++host) {
    const auto h = static_cast<size_t>(host);
    landing.ilp.AddAtMost({{landing.tasks[h], double(shape.gpus)}}, CountGpus(c.free[h]));
    landing.ilp.AddAtMost({{landing.tasks[h], double(shape.cpu_milli)}}, c.free_cpu[h]);
  }
  std::array<int64_t, 3> fewest = {-1, -1, -1};
  for (size_t t = 0; t < tiers.size(); ++t) {
    const auto least = landing.ilp.MinimizeAndFix(used[t]);
    if (!least) return fewest;
    fewest[t] = *least;
  }
  return fewest;
}

TEST(SchedulerExact, GangsCrossTheFewestBlocksAndLeaves) {
  if (!Ilp::Available())
    GTEST_SKIP() << "EXACT SOLVER ABSENT: install libglpk-dev; nothing was compared";
  const int64_t cases = ExactCases(200);
  const Instant now = InstantFromNanoseconds(1'500'000'000'000'000'000);
  int64_t placed = 0;
  int64_t several = 0;
  int64_t more_hosts = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const uint64_t seed = ExactSeed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case c = RandomCase(seed, false);
    for (Running& job : c.running) job.request.preemption = Preemption::kNever;
    GroupRequest& group = c.claimant.groups[0];
    if (seed % 3 != 0) group.required = kClusterTier;
    int32_t slots = 0;
    for (const GpuMask free : c.free) slots += CountGpus(free) / group.shape.gpus;
    const int32_t part = slots * static_cast<int32_t>(seed % 10) / 10;
    group.minimum = std::max(1, part / group.slice) * group.slice;
    group.desired = group.minimum;
    Scheduler scheduler = Start(c, now);
    scheduler.Apply(JobSubmitted{c.claimant}, now);
    scheduler.Decide(now);
    const std::array<int64_t, 3> fewest = FewestDomains(c);
    const std::vector<TaskPlacement> tasks = scheduler.TasksOf(c.claimant.id);
    ASSERT_EQ(tasks.empty(), fewest[2] < 0);
    if (tasks.empty()) continue;
    std::array<std::map<int32_t, int32_t>, 3> used;
    for (const TaskPlacement& task : tasks) {
      const auto host = static_cast<int32_t>(task.node);
      ++used[0][c.DomainOf(kBlockTier, host)];
      ++used[1][c.DomainOf(kLeafTier, host)];
      ++used[2][host];
    }
    ASSERT_EQ(static_cast<int64_t>(used[0].size()), fewest[0]) << "blocks";
    ASSERT_EQ(static_cast<int64_t>(used[1].size()), fewest[1]) << "leaves";
    ++placed;
    several += fewest[1] > 1 ? 1 : 0;
    more_hosts += static_cast<int64_t>(used[2].size()) > fewest[2] ? 1 : 0;
  }
  std::cout << placed << " of " << cases << " placed, " << several << " on several leaves; on more "
            << "hosts than the fewest " << more_hosts << "\n";
  EXPECT_GT(placed, cases / 4);
  EXPECT_GT(several, cases / 20);
}

}  // namespace
}  // namespace longhaul::scheduler
