// That each algorithm decides within the scheduler, not only beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "scheduler/scheduler_fixture.h"

namespace longhaul::scheduler {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

int32_t LeafOf(const World& world, NodeIndex node) {
  return static_cast<int32_t>(world.scheduler.topology().levels()[0].domain_of_node[node]);
}

std::set<int32_t> LeavesOf(const World& world, const std::string& name) {
  std::set<int32_t> leaves;
  for (const NodeIndex node : world.NodesOf(name)) leaves.insert(LeafOf(world, node));
  return leaves;
}

TEST(Uses, ASmallJobLeavesTheScarceModelToThoseWhoNeedIt) {
  spec::ClusterDeclaration cluster = spec::ClosCluster(1, 1, 4);
  cluster.models.push_back({"scarce", 80 * 1024});
  cluster.kinds.push_back(cluster.kinds[0]);
  cluster.kinds.back().name = "scarce";
  cluster.kinds.back().model = 1;
  cluster.nodes[0].kind = 1;
  const auto topology = spec::Topology::Create(cluster);
  ASSERT_TRUE(topology.ok()) << topology.status();
  for (const bool pinned_expected : {false, true}) {
    auto scheduler = Scheduler::Create(*topology, {}, {});
    ASSERT_TRUE(scheduler.ok());
    Shape pinned;
    pinned.gpus = 1;
    pinned.models = 2;
    Shape free = pinned;
    free.models = kAnyModel;
    const Instant now = InstantFromNanoseconds(1'000'000'000);
    MixExpected mix;
    mix.tasks = {{free, 50}};
    if (pinned_expected) mix.tasks.push_back({pinned, 50});
    scheduler->Apply(mix, now);
    JobRequest job;
    job.id = JobId("any");
    job.groups.emplace_back();
    job.groups[0].shape = free;
    scheduler->Apply(JobSubmitted{job}, now);
    const auto decisions = scheduler->Decide(now);
    ASSERT_EQ(decisions.size(), 1u);
    // Equal nodes go by number, and the scarce one is the first.
    EXPECT_EQ(decisions[0].tasks[0].node == 0, !pinned_expected);
  }
}

TEST(Uses, AFractionGoesToTheGpuThatItFills) {
  World world(1, 1, 2);
  const auto submit = [&](const std::string& name, uint16_t share) {
    world.Submit(name, 1, 0, "", [&](JobRequest& job) { job.groups[0].shape.share = share; });
  };
  MixExpected mix;
  for (const int share : {300, 600, 700}) {
    Shape shape;
    shape.share = static_cast<uint16_t>(share);
    mix.tasks.emplace_back(shape, 10);
  }
  world.Tell(mix);
  submit("a", 600);
  submit("b", 700);
  submit("c", 300);  // 0.7 + 0.3 fill a GPU
  const auto tasks = [&](const std::string& name) {
    return world.scheduler.TasksOf(JobId(name))[0];
  };
  EXPECT_EQ(tasks("c").node, tasks("b").node);
  EXPECT_EQ(tasks("c").gpus, tasks("b").gpus);
}

TEST(Uses, AGangOnRailsHoldsTheSameGpusEverywhere) {
  World world(1, 1, 3);
  // GPUs 0-3 of the first host are taken, of the others none: without the rule the gang would
  // hold 4-7 there and 0-3 elsewhere.
  world.Submit("first", 1, 4, "", [](JobRequest& job) { job.preemption = Preemption::kNever; });
  ASSERT_EQ(world.NodesOf("first")[0], 0u);
  const GpuMask taken = world.scheduler.TasksOf(JobId("first"))[0].gpus;
  world.Submit("gang", 3, 4, "", [](JobRequest& job) { job.groups[0].rail_aligned = true; });
  ASSERT_TRUE(world.Runs("gang"));
  for (const TaskPlacement& task : world.scheduler.TasksOf(JobId("gang"))) {
    EXPECT_EQ(task.gpus, 0xff & ~taken) << "node " << task.node;
  }
  // Four hosts of one task each there are not.
  world.Submit("more", 4, 1, "", [](JobRequest& job) { job.groups[0].rail_aligned = true; });
  EXPECT_EQ(world.Count(DecisionKind::kReject), 1u);
}

// Ranks that lie on one leaf, for every data group (same pipeline index) of a 2 x 2 layout.
bool DataGroupsStayInALeaf(const World& world, const std::vector<GpuOfRank>& ranks) {
  const size_t half = ranks.size() / 2;
  for (size_t p = 0; p < 2; ++p) {
    for (size_t r = 1; r < half; ++r) {
      if (LeafOf(world, ranks[p * half + r].node) != LeafOf(world, ranks[p * half].node)) {
        return false;
      }
    }
  }
  return true;
}

TEST(Uses, TheHeavierTrafficStaysInALeaf) {
  for (const bool data_is_heavier : {false, true}) {
    World world(1, 2, 2);
    world.Submit("gang", 4, 8, "", [&](JobRequest& job) {
      job.layout = RankLayout{8, 2, 1'000'000, data_is_heavier ? 9'000 : 1'000, 5'000};
    });
    const auto start =
        std::find_if(world.decisions.begin(), world.decisions.end(),
                     [](const Decision& d) { return d.kind == DecisionKind::kStart; });
    ASSERT_NE(start, world.decisions.end());
    ASSERT_EQ(start->ranks.size(), 32u);
    EXPECT_EQ(start->ranks, world.scheduler.RanksOf(JobId("gang")));
    std::set<std::pair<NodeIndex, int>> gpus;
    for (size_t r = 0; r < 32; ++r) {
      gpus.insert({start->ranks[r].node, start->ranks[r].gpu});
      EXPECT_EQ(start->ranks[r].node, start->ranks[r / 8 * 8].node) << "tensor groups stay whole";
      const TaskPlacement& task = start->tasks[static_cast<size_t>(start->ranks[r].task)];
      EXPECT_EQ(task.node, start->ranks[r].node);
      EXPECT_NE(task.gpus >> start->ranks[r].gpu & 1, 0);
    }
    EXPECT_EQ(gpus.size(), 32u) << "a GPU has one rank";
    EXPECT_EQ(DataGroupsStayInALeaf(world, start->ranks), data_is_heavier);
  }
}

TEST(Uses, ARepairTakesTheSpareInTheLeafBeforeAHostElsewhere) {
  World world(1, 2, 4);
  world.Tell(NodeChanged{world.NodeName(7), spec::NodeCondition::kSpare});
  world.Occupy({0});
  world.Submit("gang", 3, 8);
  // Four hosts are whole in no leaf: it lies beside the spare or beside the occupant.
  ASSERT_EQ(LeavesOf(world, "gang").size(), 1u);
  const bool with_spare = LeavesOf(world, "gang").contains(1);
  world.Tell(NodeChanged{world.NodeName(world.NodesOf("gang")[1]), spec::NodeCondition::kDown});
  ASSERT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kRepair), 1u);
  EXPECT_EQ(LeavesOf(world, "gang").size(), with_spare ? 1u : 2u);
  if (with_spare) {
    EXPECT_EQ(world.NodesOf("gang")[1], 7u) << "the lost rank continues there";
  }
}

TEST(Uses, AGangThatCannotBeRepairedInItsLeafMovesAsAWhole) {
  World world(1, 2, 2);
  world.Submit("gang", 2, 8, "", [](JobRequest& job) { job.required = kLeafTier; });
  const std::set<int32_t> before = LeavesOf(world, "gang");
  world.Tell(NodeChanged{world.NodeName(world.NodesOf("gang")[0]), spec::NodeCondition::kDown});
  EXPECT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kMove), 1u);
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 0u);
  EXPECT_EQ(LeavesOf(world, "gang").size(), 1u);
  EXPECT_NE(LeavesOf(world, "gang"), before);
}

TEST(Uses, AGangOfOneTaskAHostMovesAsAWholeToo) {
  World world(1, 2, 2);
  world.Submit("gang", 2, 2, "", [](JobRequest& job) {
    job.required = kLeafTier;
    job.groups[0].max_per_host = 1;
  });
  const std::set<int32_t> before = LeavesOf(world, "gang");
  world.Tell(NodeChanged{world.NodeName(world.NodesOf("gang")[0]), spec::NodeCondition::kDown});
  EXPECT_TRUE(world.Runs("gang")) << "not two tasks on the host that is left";
  EXPECT_EQ(world.Count(DecisionKind::kMove), 1u);
  EXPECT_NE(LeavesOf(world, "gang"), before);
}

TEST(Uses, UnlikeGroupsShareALeafWhereGroupByGroupTheyWouldNot) {
  World world(1, 2, 2);
  // Half of host 1 is taken: leaf 0 is the fuller one, which a leader alone would choose.
  world.Tell(NodeChanged{world.NodeName(0), spec::NodeCondition::kCordoned});
  world.Tell(NodeChanged{world.NodeName(2), spec::NodeCondition::kCordoned});
  world.Tell(NodeChanged{world.NodeName(3), spec::NodeCondition::kCordoned});
  world.Submit("half", 1, 4);
  for (const NodeIndex node : {0u, 2u, 3u}) {
    world.Tell(NodeChanged{world.NodeName(node), spec::NodeCondition::kReady});
  }
  ASSERT_EQ(world.NodesOf("half")[0], 1u);
  JobRequest job = world.Request("served", 2, 4);
  job.groups.push_back(job.groups[0]);
  job.groups[0].name = "workers";
  job.groups[1].name = "leader";
  job.groups[1].shape.gpus = 8;
  job.groups[1].minimum = job.groups[1].desired = 1;
  world.Submit(job);
  ASSERT_TRUE(world.Runs("served"));
  EXPECT_EQ(LeavesOf(world, "served"), std::set<int32_t>{1});
}

TEST(Uses, GpusGoWhereTheyAreWorthMost) {
  World world(1, 1, 6);
  world.Submit("saturated", 1, 8, "", [](JobRequest& job) {
    job.groups[0].desired = 5;
    job.groups[0].speed_milli = {1'000, 1'100, 1'110, 1'110, 1'110};
    job.limit = hours(100);
  });
  ASSERT_EQ(world.NodesOf("saturated").size(), 5u);
  world.Submit("scales", 1, 8, "", [](JobRequest& job) {
    job.groups[0].desired = 5;
    job.groups[0].speed_milli = {1'000, 1'900, 2'800, 3'700, 4'500};
    job.limit = hours(100);
  });
  ASSERT_EQ(world.NodesOf("scales").size(), 1u) << "what is free";
  for (int i = 0; i < 3; ++i) {
    world.Pass(minutes(2));
    world.Round();
  }
  EXPECT_GE(world.Count(DecisionKind::kShrink), 1u);
  EXPECT_GE(world.NodesOf("scales").size(), 4u);
  EXPECT_LE(world.NodesOf("saturated").size(), 2u);
  const size_t said = world.decisions.size();
  for (int i = 0; i < 5; ++i) {
    world.Pass(minutes(2));
    world.Round();
  }
  EXPECT_EQ(world.decisions.size(), said) << "it has settled";
}

// Runs a job on one host, all others being closed for it.
void SubmitOn(World& world, NodeIndex only, const std::string& name, int32_t gpus,
              const std::string& queue, Preemption preemption) {
  for (NodeIndex node = 0; node < world.scheduler.topology().size(); ++node) {
    world.Tell(NodeChanged{world.NodeName(node), node == only ? spec::NodeCondition::kReady
                                                              : spec::NodeCondition::kCordoned});
  }
  world.Submit(name, 1, gpus, queue, [&](JobRequest& job) { job.preemption = preemption; });
  for (NodeIndex node = 0; node < world.scheduler.topology().size(); ++node) {
    world.Tell(NodeChanged{world.NodeName(node), spec::NodeCondition::kReady});
  }
}

// Two leaves of two hosts, half of a host taken in each; a gang that needs a whole leaf.
void Scatter(World& world) {
  world.Occupy({});
  for (const NodeIndex only : {0u, 2u}) {
    for (NodeIndex node = 0; node < 4; ++node) {
      world.Tell(NodeChanged{world.NodeName(node), node == only ? spec::NodeCondition::kReady
                                                                : spec::NodeCondition::kCordoned});
    }
    world.Submit("half-" + std::to_string(only), 1, 4, "",
                 [](JobRequest& job) { job.limit = hours(50); });
  }
  for (NodeIndex node = 0; node < 4; ++node) {
    world.Tell(NodeChanged{world.NodeName(node), spec::NodeCondition::kReady});
  }
}

// Four hosts of which the job may have all. An operator takes two of them and gives them back.
TEST(Uses, AnOperatorScalesARunningJob) {
  World world(1, 1, 4);
  const auto hosts = [&world] { return world.scheduler.TasksOf(JobId("elastic")).size(); };
  const auto scale = [&world](int32_t tasks) { world.Tell(JobScaled{JobId("elastic"), tasks}); };
  world.Submit("elastic", 1, 8, "", [](JobRequest& job) { job.groups[0].desired = 4; });
  ASSERT_EQ(hosts(), 4u);
  scale(2);
  EXPECT_EQ(hosts(), 2u);
  EXPECT_EQ(world.decisions.back().kind, DecisionKind::kShrink);
  EXPECT_EQ(world.decisions.back().tasks.size(), 2u) << "those that leave";
  EXPECT_EQ(world.decisions.back().reason, "an operator asked for fewer tasks");
  world.Pass(std::chrono::hours(1));
  world.Round();
  EXPECT_EQ(hosts(), 2u) << "it does not grow beyond what the operator has chosen";
  scale(3);
  EXPECT_EQ(hosts(), 3u) << "at once, not a period after the last growth";
  scale(1);
  EXPECT_EQ(hosts(), 1u);
}

TEST(Uses, AJobThatWaitsOrRepairsIsNotScaled) {
  World world(1, 1, 2);
  const auto check = [&world](const std::string& job, int32_t tasks) {
    return world.scheduler.CheckScale(JobScaled{JobId(job), tasks});
  };
  world.Submit("elastic", 2, 8, "", [](JobRequest& job) {
    job.groups[0].minimum = 1;
    job.preemption = Preemption::kNever;
  });
  world.Submit("waits", 2, 8);
  EXPECT_TRUE(check("elastic", 1).ok());
  EXPECT_EQ(check("elastic", 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(check("waits", 1).code(), Code::kFailedPrecondition);
  EXPECT_EQ(check("unknown", 1).code(), Code::kFailedPrecondition);
  world.obedient = false;
  world.Submit("slow", 1, 8);
  world.Tell(JobScaled{JobId("elastic"), 1});
  world.Tell(JobStopped{JobId("elastic")});
  EXPECT_EQ(check("slow", 1).code(), Code::kFailedPrecondition) << "its start is not confirmed";
}

TEST(Uses, AMoveUnlocksAGangThatWaits) {
  World world(1, 2, 2);
  Scatter(world);
  world.Pass(hours(2));  // a budget is a part of the time gone by
  world.Round();
  world.Submit("gang", 2, 8, "", [](JobRequest& job) { job.required = kLeafTier; });
  EXPECT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kMove), 1u);
  EXPECT_EQ(world.decisions.back().reason, "makes room for gang");
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 0u);
  EXPECT_TRUE(world.Runs("half-0"));
  EXPECT_TRUE(world.Runs("half-2"));
  EXPECT_EQ(LeafOf(world, world.NodesOf("half-0")[0]), LeafOf(world, world.NodesOf("half-2")[0]));
}

TEST(Uses, NoMoveIsBoughtBeyondTheBudgetOrForAShortWait) {
  for (const bool budget : {false, true}) {
    Policy policy;
    if (!budget) policy.move_budget_milli = 0;
    World world(1, 2, 2, {}, policy);
    Scatter(world);
    // In a minute one of them ends by itself: 16 GPUs x 60 s are not twice 4 GPUs x 120 s.
    world.Pass(budget ? hours(50) - minutes(1) : hours(2));
    world.Round();
    world.Submit("gang", 2, 8, "", [](JobRequest& job) { job.required = kLeafTier; });
    EXPECT_FALSE(world.Runs("gang"));
    EXPECT_EQ(world.Count(DecisionKind::kMove), 0u);
  }
}

TEST(Uses, AHigherPriorityMovesWhatItWouldElseStop) {
  World world(1, 2, 2);
  Scatter(world);
  world.Submit("gang", 2, 8, "", [](JobRequest& job) {
    job.required = kLeafTier;
    job.priority = 5;
  });
  EXPECT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kMove), 1u);
  EXPECT_EQ(world.Count(DecisionKind::kEvict) + world.Count(DecisionKind::kSuspend), 0u);
}

// Its leaf needs a neighbour's place, and the only other place is a borrower's.
TEST(Uses, AStopMakesWayForAMoveThatMakesRoom) {
  for (const bool moves : {true, false}) {
    spec::QueueSpec ours;
    ours.name = "ours";
    ours.guarantee[0] = 32'000;
    spec::QueueSpec theirs;
    theirs.name = "theirs";
    Policy policy;
    policy.moves = moves;
    World world(1, 2, 2, {ours, theirs}, policy);
    SubmitOn(world, 0, "half", 4, "ours", Preemption::kSuspend);
    SubmitOn(world, 2, "fixed", 8, "ours", Preemption::kNever);
    SubmitOn(world, 3, "fixed-half", 4, "ours", Preemption::kNever);
    SubmitOn(world, 3, "borrower", 4, "theirs", Preemption::kSuspend);
    world.Submit("gang", 2, 8, "ours", [](JobRequest& job) { job.required = kLeafTier; });
    EXPECT_EQ(world.Runs("gang"), moves);
    EXPECT_EQ(world.Count(DecisionKind::kSuspend), moves ? 1u : 0u);
    EXPECT_EQ(world.Count(DecisionKind::kMove), moves ? 1u : 0u);
    EXPECT_TRUE(world.Runs("half"));
    EXPECT_EQ(world.Stage("borrower"), moves ? JobStage::kWaiting : JobStage::kRunning);
  }
}

TEST(Uses, NothingMovesUnderAnEngineThatCannot) {
  Policy policy;
  policy.moves = false;
  World world(1, 2, 2, {}, policy);
  Scatter(world);
  world.Submit("gang", 2, 8, "", [](JobRequest& job) {
    job.required = kLeafTier;
    job.priority = 5;
  });
  EXPECT_TRUE(world.Runs("gang"));
  EXPECT_EQ(world.Count(DecisionKind::kMove), 0u);
  EXPECT_EQ(world.Count(DecisionKind::kEvict), 1u);
}

TEST(Uses, NoGangCrossesLinksThatAreDown) {
  World world(1, 3, 2);
  world.Tell(LinkChanged{kLeafTier, 0, false});
  world.Submit("inside", 2, 8);
  EXPECT_EQ(LeavesOf(world, "inside"), std::set<int32_t>{0}) << "whole inside is harmless";
  world.End("inside");
  world.Submit("wide", 4, 8);
  EXPECT_EQ(LeavesOf(world, "wide"), (std::set<int32_t>{1, 2}));
  world.End("wide");
  world.Submit("wider", 5, 8);
  EXPECT_FALSE(world.Runs("wider"));
  world.Tell(LinkChanged{kLeafTier, 0, true});
  EXPECT_TRUE(world.Runs("wider"));
}

TEST(Uses, AGangWaitsForLinksThatAreDownAndIsNotRefused) {
  for (const int groups : {1, 2}) {
    World world(1, 2, 2);
    world.Tell(LinkChanged{kLeafTier, 0, false});
    world.Submit("gang", 4 / groups, 8, "", [&](JobRequest& job) {
      if (groups == 2) job.groups.push_back(job.groups[0]);
    });
    EXPECT_FALSE(world.Runs("gang"));
    EXPECT_EQ(world.Count(DecisionKind::kReject), 0u) << groups;
    world.Tell(LinkChanged{kLeafTier, 0, true});
    EXPECT_TRUE(world.Runs("gang")) << groups;
  }
}

TEST(Uses, AGangInsideLinksThatAreDownCrossesNoOthersThere) {
  World world(2, 2, 2);
  world.Occupy({4, 5, 6, 7});
  world.Tell(LinkChanged{kBlockTier, 0, false});
  world.Tell(LinkChanged{kLeafTier, 0, false});
  world.Submit("both leaves", 3, 8);
  EXPECT_FALSE(world.Runs("both leaves")) << "inside the block, but across a leaf's links";
  world.Tell(LinkChanged{kLeafTier, 0, true});
  EXPECT_TRUE(world.Runs("both leaves"));
}

TEST(Uses, LinksThatFailOftenAreAvoidedUntilTheyHaveHealed) {
  World world(1, 2, 2);
  world.Tell(LinkFaulted{kLeafTier, 1});
  world.Submit("first", 3, 8);
  EXPECT_TRUE(world.Runs("first")) << "one fault is forgiven";
  world.End("first");
  world.Tell(LinkFaulted{kLeafTier, 1});
  world.Submit("second", 3, 8);
  EXPECT_FALSE(world.Runs("second"));
  world.Pass(hours(70));
  world.Round();
  EXPECT_TRUE(world.Runs("second"));
}

}  // namespace
}  // namespace longhaul::scheduler
