// Groups that are spread over the domains of a tier: where their tasks lie, what a lost node,
// growth and victims do to them, and what is refused and explained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/random.h"
#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::function<void(JobRequest&)> Spread(int32_t most, Tier tier = kLeafTier,
                                        Tier required = kClusterTier) {
  return [=](JobRequest& job) {
    job.groups[0].max_per_domain = most;
    job.groups[0].spread_tier = tier;
    job.groups[0].required = required;
  };
}

int32_t DomainOf(const World& world, NodeIndex node, Tier tier = kLeafTier) {
  const auto& level = world.scheduler.topology().levels()[static_cast<size_t>(tier)];
  return static_cast<int32_t>(level.domain_of_node[node]);
}

// The tasks of a job in each domain that has any.
std::map<int32_t, int32_t> Loads(const World& world, const std::string& name,
                                 Tier tier = kLeafTier) {
  std::map<int32_t, int32_t> loads;
  for (const NodeIndex node : world.NodesOf(name)) ++loads[DomainOf(world, node, tier)];
  return loads;
}

// Starts a job on this node, the others being closed meanwhile.
void PutOn(World& world, NodeIndex only, const JobRequest& job) {
  for (NodeIndex node = 0; node < world.scheduler.topology().size(); ++node) {
    if (node != only) {
      world.scheduler.Apply(NodeChanged{world.NodeName(node), spec::NodeCondition::kCordoned},
                            world.now);
    }
  }
  world.Submit(job);
  for (NodeIndex node = 0; node < world.scheduler.topology().size(); ++node) {
    world.scheduler.Apply(NodeChanged{world.NodeName(node), spec::NodeCondition::kReady},
                          world.now);
  }
  ASSERT_EQ(world.NodesOf(job.id.value()), std::vector<NodeIndex>{only});
}

TEST(Spread, TasksLieOverTheLeavesAsEvenlyAsTheFreeSlotsAllow) {
  World world(2, 2, 2);
  world.Submit("even", 4, 8, "", Spread(kMaxGangTasks));
  EXPECT_THAT(Loads(world, "even"), SizeIs(4));
  // Leaf 0 has one free host, the others have none: without a bound all of it is used.
  world.End("even");
  world.Occupy({2, 3, 4, 5, 6, 7});
  world.Submit("together", 2, 8, "", Spread(kMaxGangTasks));
  EXPECT_THAT(world.NodesOf("together"), ElementsAre(0, 1));
}

TEST(Spread, ABoundIsKeptAndTheJobWaitsForIt) {
  World world(1, 2, 2);
  world.Occupy({2, 3});
  world.Submit("bounded", 2, 8, "", Spread(1));
  EXPECT_EQ(world.Stage("bounded"), JobStage::kWaiting) << "leaf 0 alone has room, for two";
  world.End("occupant-2");
  ASSERT_TRUE(world.Runs("bounded"));
  EXPECT_THAT(Loads(world, "bounded"), SizeIs(2));
}

TEST(Spread, InARequiredBlockItIsTheOneWithTheMostEvenSpread) {
  World world(2, 2, 3);
  world.Occupy({0, 1});  // block 0 has leaves of one and three free hosts
  world.Submit("even", 4, 8, "", Spread(kMaxGangTasks, kLeafTier, kBlockTier));
  ASSERT_TRUE(world.Runs("even"));
  EXPECT_EQ(Loads(world, "even"), (std::map<int32_t, int32_t>{{2, 2}, {3, 2}}));
  // What is left: 1 + 3 hosts in block 0 and 1 + 1 in block 1. The fuller one serves two tasks.
  world.Submit("fuller", 2, 8, "", Spread(1, kLeafTier, kBlockTier));
  EXPECT_EQ(Loads(world, "fuller"), (std::map<int32_t, int32_t>{{2, 1}, {3, 1}}));
  world.Submit("bounded", 3, 8, "", Spread(1, kLeafTier, kBlockTier));
  EXPECT_EQ(world.Stage("bounded"), JobStage::kUnknown) << "a block has two leaves";
}

TEST(Spread, OverBlocksTheTasksOfABlockShareALeaf) {
  World world(2, 2, 2);
  world.Submit("gang", 4, 8, "", Spread(2, kBlockTier));
  ASSERT_TRUE(world.Runs("gang"));
  EXPECT_EQ(Loads(world, "gang", kBlockTier), (std::map<int32_t, int32_t>{{0, 2}, {1, 2}}));
  EXPECT_THAT(Loads(world, "gang"), SizeIs(2)) << "two tasks of a block need one leaf";
}

TEST(Spread, GoesTogetherWithOneTaskOnAHost) {
  World world(1, 2, 2);
  world.Submit("gang", 4, 2, "", [](JobRequest& job) {
    Spread(2)(job);
    job.groups[0].max_per_host = 1;
  });
  ASSERT_TRUE(world.Runs("gang"));
  const std::vector<NodeIndex> nodes = world.NodesOf("gang");
  EXPECT_THAT(std::set<NodeIndex>(nodes.begin(), nodes.end()), SizeIs(4));
  // Two tasks for each leaf, and one task a host: the third one has no host in leaf 1.
  World narrow(1, 2, 2);
  narrow.Occupy({3});
  narrow.Submit("gang", 4, 2, "", [](JobRequest& job) {
    Spread(2)(job);
    job.groups[0].max_per_host = 1;
  });
  EXPECT_EQ(narrow.Stage("gang"), JobStage::kWaiting);
}

// By enumeration: no other choice of a required domain and of counts is more even.
TEST(Spread, IsTheMostEvenOfAllPlacements) {
  int placed = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto leaves = static_cast<uint32_t>(1 + random.Below(3));
    World world(2, leaves, 3);
    std::vector<NodeIndex> full;
    for (NodeIndex node = 0; node < world.scheduler.topology().size(); ++node) {
      if (random.Below(2) == 0) full.push_back(node);
    }
    world.Occupy(full);
    const auto tasks = static_cast<int32_t>(1 + random.Below(5));
    const auto most = static_cast<int32_t>(1 + random.Below(3));
    const Tier required = random.Below(2) == 0 ? kBlockTier : kClusterTier;
    world.Submit("gang", tasks, 8, "", Spread(most, kLeafTier, required));
    std::map<int32_t, int32_t> free;
    for (NodeIndex node = 0; node < world.scheduler.topology().size(); ++node) {
      if (std::find(full.begin(), full.end(), node) == full.end()) ++free[DomainOf(world, node)];
    }
    std::vector<int32_t> best;
    for (int32_t block = 0; block < (required == kBlockTier ? 2 : 1); ++block) {
      const int32_t first = block * static_cast<int32_t>(leaves);
      const int32_t last = required == kBlockTier ? first + static_cast<int32_t>(leaves)
                                                  : 2 * static_cast<int32_t>(leaves);
      std::vector<int32_t> loads;
      const auto enumerate = [&](const auto& self, int32_t leaf, int32_t left) -> void {
        if (leaf == last) {
          std::vector<int32_t> sorted = loads;
          std::erase(sorted, 0);
          std::sort(sorted.rbegin(), sorted.rend());
          if (left == 0 && (best.empty() || sorted < best)) best = sorted;
          return;
        }
        for (int32_t n = 0; n <= std::min({left, most, free[leaf]}); ++n) {
          loads.push_back(n);
          self(self, leaf + 1, left - n);
          loads.pop_back();
        }
      };
      enumerate(enumerate, first, tasks);
    }
    std::vector<int32_t> got;
    for (const auto& [leaf, load] : Loads(world, "gang")) got.push_back(load);
    std::sort(got.rbegin(), got.rend());
    // A task alone goes where it wastes least.
    if (tasks > 1) {
      ASSERT_EQ(got, best);
    }
    placed += got.empty() ? 0 : 1;
  }
  EXPECT_GT(placed, 50);
}

TEST(Spread, ALostNodeIsReplacedWhereTheBoundAllows) {
  World world(1, 3, 2);
  world.Submit("gang", 3, 8, "", Spread(1));
  ASSERT_THAT(Loads(world, "gang"), SizeIs(3));
  const NodeIndex lost = world.NodesOf("gang")[1];
  world.Tell(NodeChanged{world.NodeName(lost), spec::NodeCondition::kDown});
  ASSERT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kRepair), 1u);
  EXPECT_THAT(Loads(world, "gang"), SizeIs(3)) << "the other host of the same leaf";
  // The leaf has no other host: the gang stops, because a second task in another leaf is too many.
  world.Tell(NodeChanged{world.NodeName(world.NodesOf("gang")[1]), spec::NodeCondition::kDown});
  EXPECT_EQ(world.Stage("gang"), JobStage::kWaiting);
  EXPECT_EQ(world.Count(DecisionKind::kRepair), 1u);
}

TEST(Spread, AnElasticJobStartsAndGrowsWithinTheBound) {
  World world(1, 2, 3);
  world.Occupy({3, 4});
  world.Submit("elastic", 1, 8, "", [](JobRequest& job) {
    Spread(2)(job);
    job.groups[0].desired = 4;
    job.limit = hours(100);
  });
  EXPECT_EQ(Loads(world, "elastic"), (std::map<int32_t, int32_t>{{0, 2}, {1, 1}}));
  world.End("occupant-3");
  world.Pass(minutes(10));
  world.Round();
  EXPECT_EQ(Loads(world, "elastic"), (std::map<int32_t, int32_t>{{0, 2}, {1, 2}}));
  EXPECT_EQ(world.Count(DecisionKind::kGrow), 1u);
}

TEST(Spread, VictimsAreTakenWhereTheBoundLeavesRoom) {
  Policy policy;
  policy.moves = false;
  World world(1, 2, 3, {}, policy);
  for (const NodeIndex node : {3u, 4u, 5u}) {
    PutOn(world, node, world.Request("dear-" + std::to_string(node), 1, 8));
  }
  world.Pass(hours(5));  // what they have done since their start would be lost
  PutOn(world, 2, world.Request("cheap", 1, 8));
  // Two hosts are free, both in leaf 0.
  world.Submit("gang", 2, 8, "", [](JobRequest& job) {
    Spread(1)(job);
    job.priority = 2;
  });
  ASSERT_TRUE(world.Runs("gang"));
  EXPECT_THAT(Loads(world, "gang"), SizeIs(2));
  EXPECT_TRUE(world.Runs("cheap")) << "its leaf has a free host";
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 1u);
}

TEST(Spread, WithoutABoundTheVictimsAreTheCheapestOfAllLeaves) {
  Policy policy;
  policy.moves = false;
  World world(1, 2, 2, {}, policy);
  for (const NodeIndex node : {1u, 3u}) {
    PutOn(world, node, world.Request("dear-" + std::to_string(node), 1, 8));
  }
  world.Pass(hours(5));
  for (const NodeIndex node : {0u, 2u}) {
    PutOn(world, node, world.Request("cheap-" + std::to_string(node), 1, 8));
  }
  world.Submit("gang", 2, 8, "", [](JobRequest& job) {
    Spread(kMaxGangTasks)(job);
    job.priority = 1;
  });
  ASSERT_TRUE(world.Runs("gang"));
  EXPECT_THAT(world.NodesOf("gang"), ElementsAre(0, 2)) << "not the two of one leaf";
}

TEST(Spread, AReservationKeepsWhatTheBoundNeeds) {
  World world(1, 2, 2);
  const auto stays = [&](const std::string& name, NodeIndex node, Duration time) {
    JobRequest job = world.Request(name, 1, 8);
    Lasts(time, true)(job);
    PutOn(world, node, job);
  };
  stays("a", 0, hours(1));
  stays("b", 1, hours(1));
  world.Submit("gang", 2, 8, "", [](JobRequest& job) {
    Spread(1)(job);
    job.priority = 1;
  });
  ASSERT_EQ(world.Stage("gang"), JobStage::kWaiting);
  // Of the free hosts of leaf 1 one is enough for it.
  world.Submit("small", 1, 8, "", Lasts(hours(9)));
  EXPECT_TRUE(world.Runs("small"));
  world.Submit("another", 1, 8, "", Lasts(hours(9)));
  EXPECT_EQ(world.Stage("another"), JobStage::kWaiting);
  EXPECT_EQ(world.Explain("another").reason, WaitReason::kReservation);
}

TEST(Spread, ItNeverCrossesALinkThatIsNotTrusted) {
  World world(1, 3, 2);
  world.Tell(LinkChanged{kLeafTier, 0, false});
  world.Submit("gang", 2, 8, "", Spread(kMaxGangTasks));
  EXPECT_EQ(Loads(world, "gang"), (std::map<int32_t, int32_t>{{1, 1}, {2, 1}}));
  world.Submit("bounded", 3, 8, "", Spread(1));
  EXPECT_EQ(world.Stage("bounded"), JobStage::kWaiting);
  world.Tell(LinkChanged{kLeafTier, 0, true});
  EXPECT_TRUE(world.Runs("bounded"));
}

TEST(Spread, WhatNoClusterCouldHoldIsRefusedWithTheLargestSize) {
  World world(2, 2, 3);
  const auto refusal = [&](int32_t tasks, const std::function<void(JobRequest&)>& change) {
    JobRequest job = world.Request("gang", tasks, 8);
    change(job);
    return std::string(world.scheduler.CheckSubmission(job).message());
  };
  EXPECT_EQ(refusal(8, Spread(2)), "");
  EXPECT_THAT(refusal(9, Spread(2)),
              HasSubstr("the largest size that fits this cluster with at most 2 in one leaf is 8"));
  EXPECT_THAT(refusal(5, Spread(2, kLeafTier, kBlockTier)),
              HasSubstr("fits one of its domains with at most 2 in one leaf is 4"));
  EXPECT_THAT(refusal(13, Spread(kMaxGangTasks)),
              HasSubstr("the largest size that fits this cluster is 12"));
  EXPECT_THAT(refusal(2, Spread(1, 2)), HasSubstr("a tier of the network that the cluster does"));
  EXPECT_THAT(refusal(2, Spread(1, kHostTier)), HasSubstr("spread over a tier"));
  EXPECT_THAT(refusal(2, Spread(1, kBlockTier, kBlockTier)),
              HasSubstr("over domains that are not below the one that it must lie in"));
  EXPECT_THAT(refusal(2,
                      [](JobRequest& job) {
                        Spread(1)(job);
                        job.required = kLeafTier;
                      }),
              HasSubstr("not below"));
  EXPECT_THAT(refusal(2,
                      [](JobRequest& job) {
                        Spread(1)(job);
                        job.groups[0].slice = 2;
                      }),
              HasSubstr("groups without slices"));
  EXPECT_THAT(refusal(2,
                      [](JobRequest& job) {
                        Spread(1)(job);
                        job.groups[0].rail_aligned = true;
                      }),
              HasSubstr("without slices and spread"));
  EXPECT_THAT(refusal(2, [](JobRequest& job) { job.groups[0].max_per_host = -1; }),
              HasSubstr("bound of tasks below zero"));
}

TEST(Spread, AnExplanationNamesTheBoundAndTheLeastThatStartsTheJob) {
  World world(1, 2, 3);
  world.Occupy({3, 4});
  world.Submit("gang", 4, 8, "", Spread(2));
  const Explanation why = world.Explain("gang");
  EXPECT_EQ(why.reason, WaitReason::kNoRoom);
  EXPECT_THAT(why.sentence, HasSubstr("4 tasks of 8 GPUs are needed; 3 fit, at most 2 in one leaf "
                                      "(without this bound 4 would fit)"));
  EXPECT_THAT(why.fix_texts, ElementsAre("allow at most 3 in one leaf instead of 2"));
  for (const Event& event : why.fix) world.scheduler.Apply(event, world.now);
  world.Round();
  EXPECT_EQ(Loads(world, "gang"), (std::map<int32_t, int32_t>{{0, 3}, {1, 1}}));
}

TEST(Spread, AnExplanationNamesNoBoundWhereOnlyThatStartsTheJob) {
  World world(1, 2, 2);
  world.Occupy({2, 3});
  world.Submit("gang", 2, 8, "", Spread(1));
  const Explanation why = world.Explain("gang");
  EXPECT_THAT(why.fix_texts, ElementsAre("allow any number of its tasks in one leaf"));
  for (const Event& event : why.fix) world.scheduler.Apply(event, world.now);
  world.Round();
  EXPECT_THAT(world.NodesOf("gang"), ElementsAre(0, 1));
}

TEST(Spread, AMovedJobIsSpreadAgain) {
  World world(1, 3, 2);
  world.Occupy({4});
  world.Submit("spread", 2, 8, "", Spread(1));
  ASSERT_THAT(Loads(world, "spread"), SizeIs(2));
  // No leaf has two free hosts, until the spread job has moved out of one.
  world.Submit("leaf", 2, 8, "", [](JobRequest& job) {
    job.groups[0].required = kLeafTier;
    job.priority = 1;
  });
  ASSERT_TRUE(world.Runs("leaf"));
  EXPECT_EQ(world.Count(DecisionKind::kMove), 1u);
  EXPECT_THAT(Loads(world, "spread"), SizeIs(2));
}

}  // namespace
}  // namespace longhaul::scheduler
