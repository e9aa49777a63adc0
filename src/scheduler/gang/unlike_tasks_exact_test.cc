// Gangs of unlike tasks and elastic counts against integer programs written from the definition.
#include <gtest/gtest.h>

#include <iostream>

#include "scheduler/exact/ilp.h"
#include "scheduler/gang/elastic_counts.h"
#include "scheduler/gang/gang_cases.h"
#include "scheduler/gang/unlike_tasks.h"

namespace longhaul::scheduler {
namespace {

struct Case {
  DomainTree tree;
  std::vector<FreeHost> hosts;
  std::vector<TaskGroup> groups;
  UnlikeTasksRequest request;
};

// Hosts of a few kinds with GPUs, cores and memory; a leader and workers, or up to three groups.
Case RandomCase(uint64_t seed) {
  Random random(seed);
  Case c{RandomTree(random), {}, {}, {}};
  const auto kinds = 1 + random.Below(4);
  std::vector<FreeHost> kind_of;
  for (uint64_t k = 0; k < kinds; ++k) {
    FreeHost host;
    host.free = {static_cast<int64_t>(1 + random.Below(8)),
                 static_cast<int64_t>(4 + random.Below(17)),
                 static_cast<int64_t>(8 + random.Below(33))};
    host.host_class = static_cast<uint8_t>(random.Below(3));
    kind_of.push_back(host);
  }
  for (int32_t h = 0; h < c.tree.hosts(); ++h) c.hosts.push_back(kind_of[random.Below(kinds)]);
  const bool leader = random.Below(3) == 0;
  const auto groups = leader ? 2 : 1 + random.Below(3);
  for (uint64_t g = 0; g < groups; ++g) {
    TaskGroup group;
    const bool cpu_only = leader && g == 0;
    group.demand = {cpu_only ? 0 : static_cast<int64_t>(1 + random.Below(4)),
                    static_cast<int64_t>(random.Below(6)), static_cast<int64_t>(random.Below(9))};
    group.tasks = cpu_only ? 1 : static_cast<int32_t>(1 + random.Below(20));
    if (random.Below(4) == 0 && !cpu_only) {
      group.slice = static_cast<int32_t>(2 + random.Below(3));
      group.tasks *= group.slice;
    }
    if (random.Below(5) == 0) group.host_classes = 3;
    c.groups.push_back(group);
  }
  c.request.groups = c.groups;
  if (random.Below(5) == 0) {
    c.request.required_tier =
        static_cast<Tier>(random.Below(static_cast<uint64_t>(c.tree.tiers())));
  }
  c.request.max_steps = 500'000'000;
  return c;
}

std::string Violation(const Case& c, const UnlikeTasksAnswer& answer) {
  std::array<int32_t, kMaxGangShapes> sum{};
  std::array<std::vector<uint8_t>, kMaxTiers> used;
  for (Tier t = 0; t < c.tree.tiers(); ++t) {
    used[static_cast<size_t>(t)].resize(static_cast<size_t>(c.tree.domains(t)));
  }
  std::vector<std::array<int32_t, kMaxGangShapes>> in_leaf(static_cast<size_t>(c.tree.leaves()));
  for (const GroupTasks& entry : answer.tasks) {
    const FreeHost& host = c.hosts[static_cast<size_t>(entry.host)];
    ResourceVector left = host.free;
    for (size_t g = 0; g < c.groups.size(); ++g) {
      if (entry.tasks[g] > 0 && (c.groups[g].host_classes >> host.host_class & 1) == 0) {
        return "host " + std::to_string(entry.host) + " doesn't qualify";
      }
      sum[g] += entry.tasks[g];
      in_leaf[static_cast<size_t>(c.tree.LeafOf(entry.host))][g] += entry.tasks[g];
      for (size_t r = 0; r < left.size(); ++r) left[r] -= entry.tasks[g] * c.groups[g].demand[r];
    }
    for (const int64_t rest : left) {
      if (rest < 0) return "host " + std::to_string(entry.host) + " is over capacity";
    }
    for (Tier t = 0; t < c.tree.tiers(); ++t) {
      used[static_cast<size_t>(t)][static_cast<size_t>(c.tree.DomainOf(t, entry.host))] = 1;
    }
  }
  for (size_t g = 0; g < c.groups.size(); ++g) {
    if (sum[g] != c.groups[g].tasks) return "group " + std::to_string(g) + " is not complete";
    for (const auto& tasks : in_leaf) {
      if (tasks[g] % c.groups[g].slice != 0) return "a slice is cut";
    }
  }
  for (Tier t = 0; t < c.tree.tiers(); ++t) {
    const auto tier = static_cast<size_t>(t);
    const auto count = std::count(used[tier].begin(), used[tier].end(), 1);
    if (count != answer.domains[tier]) return "miscounted domains of tier " + std::to_string(t);
    if (t == c.request.required_tier && count != 1) return "several required domains";
  }
  return "";
}

// Tasks of each group on each host; domains used, lexicographic from the top.
std::optional<std::array<int64_t, kMaxTiers>> FewestDomains(const Case& c) {
  Ilp ilp;
  std::vector<std::vector<int>> tasks(c.groups.size());
  for (size_t g = 0; g < c.groups.size(); ++g) {
    Ilp::Terms all;
    for (const FreeHost& host : c.hosts) {
      const bool qualifies = (c.groups[g].host_classes >> host.host_class & 1) != 0;
      tasks[g].push_back(ilp.AddInteger(0, qualifies ? c.groups[g].tasks : 0));
      all.push_back({tasks[g].back(), 1});
    }
    ilp.AddEqual(all, c.groups[g].tasks);
  }
  for (size_t h = 0; h < c.hosts.size(); ++h) {
    for (size_t r = 0; r < 3; ++r) {
      Ilp::Terms taken;
      for (size_t g = 0; g < c.groups.size(); ++g) {
        taken.push_back({tasks[g][h], double(c.groups[g].demand[r])});
      }
      ilp.AddAtMost(taken, double(c.hosts[h].free[r]));
    }
  }
  std::vector<Ilp::Terms> used;
  for (Tier t = 0; t < c.tree.tiers(); ++t) {
    Ilp::Terms& of_tier = used.emplace_back();
    for (int32_t d = 0; d < c.tree.domains(t); ++d) {
      const int chosen = ilp.AddInteger(0, 1);
      of_tier.push_back({chosen, 1});
      for (size_t g = 0; g < c.groups.size(); ++g) {
        Ilp::Terms inside;
        for (int32_t h = c.tree.FirstHost(t, d); h < c.tree.LastHost(t, d); ++h) {
          inside.push_back({tasks[g][static_cast<size_t>(h)], 1});
        }
        Ilp::Terms linked = inside;
        linked.push_back({chosen, -double(c.groups[g].tasks)});
        ilp.AddAtMost(linked, 0);
        if (t == kLeafTier && c.groups[g].slice > 1) {
          inside.push_back({ilp.AddInteger(0, c.groups[g].tasks), -double(c.groups[g].slice)});
          ilp.AddEqual(inside, 0);
        }
      }
    }
    if (t == c.request.required_tier) ilp.AddEqual(of_tier, 1);
  }
  std::array<int64_t, kMaxTiers> fewest{};
  for (Tier t = c.tree.tiers() - 1; t >= 0; --t) {
    const auto least = ilp.MinimizeAndFix(used[static_cast<size_t>(t)]);
    if (!least) return std::nullopt;
    fewest[static_cast<size_t>(t)] = *least;
  }
  return fewest;
}

TEST(UnlikeTasksExact, DomainsAreTheFewestOfAnIntegerProgram) {
  if (!Ilp::Available())
    GTEST_SKIP() << "EXACT SOLVER ABSENT: install libglpk-dev; nothing was compared";
  int64_t compared = 0;
  int64_t placed = 0;
  int64_t several = 0;
  int64_t unproven = 0;
  int64_t packed_fewest = 0;
  const int64_t cases = ExactCases(100);
  for (uint64_t seed = ExactSeed(); compared < cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case c = RandomCase(seed);
    if (c.tree.hosts() > 40) continue;  // GLPK takes minutes for some of the larger ones
    ++compared;
    c.request.groups = c.groups;
    const UnlikeTasksAnswer answer = PlaceUnlikeTasks(c.tree, c.hosts, c.request);
    const auto fewest = FewestDomains(c);
    unproven += answer.proven ? 0 : 1;
    ASSERT_TRUE(!answer.proven || answer.placed == fewest.has_value());
    if (!answer.placed) continue;
    ++placed;
    several += answer.domains[0] > 1 ? 1 : 0;
    ASSERT_EQ(Violation(c, answer), "");
    for (size_t t = 0; t < static_cast<size_t>(c.tree.tiers()) && answer.proven; ++t) {
      ASSERT_EQ(answer.domains[t], (*fewest)[t]) << "tier " << t;
    }
    // The packing that answers where steps don't suffice: valid, and its bound holds.
    UnlikeTasksRequest hurried = c.request;
    hurried.max_steps = 0;
    const UnlikeTasksAnswer packed = PlaceUnlikeTasks(c.tree, c.hosts, hurried);
    ASSERT_FALSE(std::lexicographical_compare(answer.domains.rbegin(), answer.domains.rend(),
                                              packed.bound.rbegin(), packed.bound.rend()));
    if (!packed.placed) continue;
    ASSERT_EQ(Violation(c, packed), "");
    packed_fewest += packed.domains == answer.domains ? 1 : 0;
  }
  std::cout << cases << " cases, " << placed << " placed, " << several << " on several leaves, "
            << unproven << " unproven; without tables as few domains in " << packed_fewest << "\n";
  EXPECT_GT(several, 0);
}

std::vector<ElasticJob> RandomJobs(Random& random) {
  std::vector<ElasticJob> jobs(1 + random.Below(12));
  for (ElasticJob& job : jobs) {
    const auto step = static_cast<int32_t>(1 + random.Below(8));
    const bool concave = random.Below(2) == 0;
    int64_t value = -static_cast<int64_t>(random.Below(1'000));
    int32_t gpus = random.Below(3) == 0 ? 0 : step;
    for (uint64_t o = 0; o <= random.Below(10); ++o) {
      job.options.push_back({gpus, value});
      gpus += step;
      value +=
          static_cast<int64_t>(random.Below(1'000)) / (concave ? static_cast<int64_t>(o) + 1 : 1) -
          (random.Below(8) == 0 ? 500 : 0);
    }
  }
  return jobs;
}

TEST(ElasticExact, ValueIsTheOptimumOfAnIntegerProgram) {
  if (!Ilp::Available())
    GTEST_SKIP() << "EXACT SOLVER ABSENT: install libglpk-dev; nothing was compared";
  int64_t feasible = 0;
  int64_t exchanged_optimal = 0;
  const int64_t cases = ExactCases(200);
  for (int64_t i = 0; i < cases; ++i) {
    const uint64_t seed = ExactSeed() + static_cast<uint64_t>(i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const std::vector<ElasticJob> jobs = RandomJobs(random);
    const auto capacity = static_cast<int64_t>(random.Below(8 * 12 * 5));
    Ilp ilp;
    Ilp::Terms loss;
    Ilp::Terms gpus;
    for (const ElasticJob& job : jobs) {
      Ilp::Terms one;
      for (const ElasticOption& option : job.options) {
        const int chosen = ilp.AddInteger(0, 1);
        one.push_back({chosen, 1});
        loss.push_back({chosen, -double(option.value)});
        gpus.push_back({chosen, double(option.gpus)});
      }
      ilp.AddEqual(one, 1);
    }
    ilp.AddAtMost(gpus, double(capacity));
    const std::optional<int64_t> least = ilp.Minimize(loss);
    const ElasticAnswer answer = ChooseElasticCounts(jobs, capacity);
    ASSERT_EQ(answer.feasible, least.has_value());
    if (!least) continue;
    ++feasible;
    const auto check = [&](const ElasticAnswer& of) {
      int64_t value = 0;
      int64_t sum = 0;
      for (size_t j = 0; j < jobs.size(); ++j) {
        value += jobs[j].options[static_cast<size_t>(of.choices[j])].value;
        sum += jobs[j].options[static_cast<size_t>(of.choices[j])].gpus;
      }
      ASSERT_EQ(value, of.value);
      ASSERT_EQ(sum, of.gpus);
      ASSERT_LE(sum, capacity);
      ASSERT_LE(value, -*least);
      ASSERT_GE(of.bound, -*least);
    };
    check(answer);
    ASSERT_TRUE(answer.proven);
    ASSERT_EQ(answer.value, -*least);
    const ElasticAnswer exchanged = ChooseElasticCounts(jobs, capacity, 2'000);
    check(exchanged);
    exchanged_optimal += exchanged.value == -*least ? 1 : 0;
  }
  std::cout << cases << " cases, " << feasible << " feasible; greedy with exchanges optimal in "
            << exchanged_optimal << "\n";
  EXPECT_GT(feasible, cases / 2);
}

}  // namespace
}  // namespace longhaul::scheduler
