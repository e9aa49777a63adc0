// Nodes that are reserved for a period: maintenance windows, and reservations for queues and users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/cluster_fixture.h"

namespace longhaul::runtime::scheduling_testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kImpatient = "scheduling: {repair_patience: 1s}";

// A reservation that begins and ends so long from now.
proto::Change Reserve(const Cluster& cluster, const std::string& name,
                      const std::vector<std::string>& nodes, Duration from, Duration until) {
  proto::Change change;
  proto::NodeReservation& reservation = *change.mutable_reserve();
  reservation.set_name(name);
  for (const std::string& node : nodes) reservation.add_nodes(node);
  reservation.set_from_ns(ToNanoseconds(cluster.now + from));
  reservation.set_until_ns(ToNanoseconds(cluster.now + until));
  return change;
}

proto::Change Cancel(const std::string& name) {
  proto::Change change;
  change.set_cancel_reservation(name);
  return change;
}

proto::Job Expecting(proto::Job job, Duration length) {
  job.mutable_scheduling()->set_expected_ns(length.count());
  return job;
}

std::string Refusal(const Cluster& cluster, const proto::Change& change) {
  proto::ChangesAsked asked;
  *asked.add_changes() = change;
  return cluster.controller.CheckChanges(asked).message();
}

TEST(ReservedNodes, AMaintenanceWindowEmptiesItsNodesAndStaysEmpty) {
  Cluster cluster(kImpatient);
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Ask({Reserve(cluster, "fans", {"node-1"}, hours(1), hours(2))});
  cluster.TickUntil(cluster.now + minutes(59));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING) << "before the window nothing happens";
  EXPECT_FALSE(cluster.Node("node-1").window().open());
  cluster.TickUntil(cluster.now + minutes(1) + seconds(2));
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING) << "it takes a snapshot first";
  cluster.Step("a");
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_EQ(cluster.Node("node-1").used_slots(), 0u);
  EXPECT_EQ(cluster.Node("node-1").window().reservation(), "fans");
  EXPECT_TRUE(cluster.Node("node-1").window().open());
  EXPECT_TRUE(cluster.Node("node-1").window().maintenance());
  cluster.Submit(Expecting(Gang("b", 1), minutes(1)));
  cluster.TickUntil(cluster.now + minutes(58));
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED);
  cluster.TickUntil(cluster.now + minutes(2));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING) << "the window is over";
  EXPECT_EQ(cluster.LastStart("a", "node-1").restore().step(), 2u);
  EXPECT_FALSE(cluster.Node("node-1").has_window());
  EXPECT_TRUE(cluster.controller.Reservations().empty());
  EXPECT_THAT(cluster.messages, Contains("the maintenance window fans begins"));
  EXPECT_THAT(cluster.messages, Contains("the maintenance window fans is over"));
}

TEST(ReservedNodes, AJobMovesToNodesThatAreNotReserved) {
  Cluster cluster;
  for (const char* node : {"node-1", "node-2"}) cluster.Join(node);
  cluster.Submit(Gang("a", 2));
  cluster.Step("a");
  cluster.Ask({Reserve(cluster, "fans", {"node-1"}, minutes(10), hours(2))});
  cluster.Join("node-3");
  cluster.TickUntil(cluster.now + minutes(10));
  EXPECT_EQ(cluster.StateOf("a"), proto::LEAVING);
  cluster.Step("a");
  cluster.Persist("a", "node-1", 1, 2);
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-3", "node-2"));
  EXPECT_EQ(cluster.Job("a").moves(), 1u);
  EXPECT_EQ(cluster.Job("a").faults_size(), 0);
}

TEST(ReservedNodes, TheHoldersJobStartsInTheWindow) {
  Cluster cluster(std::string(kLabs) + kImpatient);
  cluster.Join("node-1");
  cluster.Submit(InQueue(Gang("other", 1), "blue"));
  cluster.Step("other");
  proto::Change change = Reserve(cluster, "course", {"node-1"}, minutes(5), hours(2));
  change.mutable_reserve()->add_queues("red");
  change.mutable_reserve()->add_users("carol");
  cluster.Ask({change});
  cluster.TickUntil(cluster.now + minutes(5) + seconds(2));
  cluster.Step("other");
  EXPECT_EQ(cluster.StateOf("other"), proto::QUEUED);
  cluster.Submit(InQueue(Gang("holder", 1), "red"));
  EXPECT_EQ(cluster.StateOf("holder"), proto::RUNNING);
  cluster.Stop("holder");
  proto::Job carols = InQueue(Gang("carols", 1), "blue");
  carols.mutable_scheduling()->set_owner("carol");
  cluster.Submit(carols);
  EXPECT_EQ(cluster.StateOf("carols"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("other"), proto::QUEUED);
}

TEST(ReservedNodes, AHoldersJobRunsOnWhenTheWindowBeginsAndEnds) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  cluster.Submit(InQueue(Gang("a", 1), "red"));
  cluster.Step("a");
  proto::Change change = Reserve(cluster, "course", {"node-1"}, minutes(5), hours(2));
  change.mutable_reserve()->add_queues("red");
  cluster.Ask({change});
  cluster.TickUntil(cluster.now + hours(3));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.Job("a").attempt(), 1u);
}

TEST(ReservedNodes, OnlyJobsThatEndInTimeStartBeforeTheWindow) {
  Cluster cluster(R"(queues: [{name: quick, max_run_time: 20min}, {name: slow}])");
  for (const char* node : {"node-1", "node-2", "node-3"}) cluster.Join(node);
  cluster.Ask({Reserve(cluster, "fans", {"all"}, minutes(25), hours(2))});
  cluster.Submit(Expecting(InQueue(Gang("long", 1), "slow"), minutes(26)));
  cluster.Submit(InQueue(Gang("unknown", 1), "slow"));
  EXPECT_EQ(cluster.StateOf("long"), proto::QUEUED);
  EXPECT_EQ(cluster.StateOf("unknown"), proto::QUEUED) << "half an hour is assumed";
  cluster.Submit(Expecting(InQueue(Gang("short", 1), "slow"), minutes(25)));
  cluster.Submit(InQueue(Gang("limited", 1), "quick"));
  EXPECT_EQ(cluster.StateOf("short"), proto::RUNNING);
  EXPECT_EQ(cluster.StateOf("limited"), proto::RUNNING) << "its queue ends it in 20 min";
  cluster.TickUntil(cluster.now + minutes(24));
  EXPECT_EQ(cluster.StateOf("long"), proto::QUEUED);
}

TEST(ReservedNodes, AJobThatWaitedForTooLongNoLongerStartsBeforeTheWindow) {
  Cluster cluster;
  cluster.Join("node-1");
  cluster.Submit(Gang("first", 1));
  cluster.Ask({Reserve(cluster, "fans", {"node-1"}, hours(1), hours(2))});
  cluster.Submit(Expecting(Gang("a", 1), minutes(20)));
  cluster.Submit(Expecting(Gang("b", 1), minutes(20)));
  cluster.TickUntil(cluster.now + minutes(30));
  cluster.Stop("first");
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING) << "it ends ten minutes before the window";
  cluster.TickUntil(cluster.now + minutes(10) + seconds(1));
  cluster.Stop("a");
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED) << "it would end a second too late";
  cluster.TickUntil(cluster.now + hours(1) + minutes(20));
  EXPECT_EQ(cluster.StateOf("b"), proto::RUNNING);
}

TEST(ReservedNodes, ACancelledReservationGivesItsNodesBack) {
  Cluster cluster(kImpatient);
  cluster.Join("node-1");
  cluster.Ask({Reserve(cluster, "fans", {"node-1"}, hours(0), hours(2))});
  cluster.Submit(Gang("a", 1));
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  EXPECT_THAT(Refusal(cluster, Cancel("fan")), HasSubstr("did you mean 'fans'"));
  cluster.Ask({Cancel("fans")});
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_FALSE(cluster.Node("node-1").has_window());
}

TEST(ReservedNodes, ACancelledReservationLetsAJobRunOnThatHasNotLeftYet) {
  Cluster cluster("scheduling: {repair_patience: 5min}");
  cluster.Join("node-1");
  cluster.Submit(Gang("a", 1));
  cluster.Step("a");
  cluster.Ask({Reserve(cluster, "fans", {"node-1"}, hours(0), hours(2))});
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING) << "it runs on as long as it may";
  cluster.Ask({Cancel("fans")});
  cluster.TickUntil(cluster.now + hours(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.Job("a").attempt(), 1u);
}

TEST(ReservedNodes, AJobThatNobodyMayStopStays) {
  Cluster cluster(kImpatient);
  cluster.Join("node-1");
  cluster.Join("node-2");
  proto::Job job = Gang("a", 1);
  job.mutable_scheduling()->set_preemption("never");
  cluster.Submit(job);
  cluster.Step("a");
  cluster.Ask({Reserve(cluster, "fans", {"all"}, minutes(1), hours(2))});
  cluster.TickUntil(cluster.now + hours(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
  EXPECT_EQ(cluster.Job("a").attempt(), 1u);
  cluster.Submit(Gang("b", 1));
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED);
}

TEST(ReservedNodes, SurviveARestartOfTheController) {
  Cluster cluster(kImpatient);
  cluster.Join("node-1");
  cluster.Ask({Reserve(cluster, "fans", {"node-1"}, minutes(30), hours(2))});
  cluster.Submit(Expecting(Gang("a", 1), hours(2)));
  Controller replayed{Cluster::Patient()};
  for (const auto& [now, event] : cluster.log) (void)replayed.Step(event, now);
  EXPECT_EQ(replayed.StateHash(), cluster.controller.StateHash());
  cluster.controller = std::move(replayed);
  cluster.now += hours(1);
  cluster.Started(kImpatient);
  cluster.Join("node-1", 2, 1);
  EXPECT_TRUE(cluster.Node("node-1").window().open()) << "it began while the controller was away";
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
  cluster.TickUntil(cluster.now + hours(1));
  EXPECT_EQ(cluster.StateOf("a"), proto::RUNNING);
}

TEST(ReservedNodes, ADomainsReservationHasTheNodesThatJoinLater) {
  Cluster cluster(std::string(kLabs) + "cluster: cluster.yaml\n", kTwoNodes);
  cluster.Join("node-1");
  cluster.Join("node-8");
  cluster.Ask({Reserve(cluster, "fans", {"l2", "undeclared"}, hours(0), hours(2))});
  cluster.Join("node-2");
  cluster.Join("node-9");
  for (const char* node : {"node-2", "node-8", "node-9"}) {
    EXPECT_EQ(cluster.Node(node).window().reservation(), "fans") << node;
  }
  cluster.Submit(Gang("a", 1));
  EXPECT_THAT(cluster.GangOf("a"), ElementsAre("node-1"));
  cluster.Submit(Gang("b", 1));
  EXPECT_EQ(cluster.StateOf("b"), proto::QUEUED);
  EXPECT_TRUE(cluster.controller.CheckSubmission(Gang("c", 2)).ok())
      << "what cannot run now can run later";
  EXPECT_EQ(cluster.controller.AskWhy(JobId("b")).reserved,
            "3 nodes are reserved as fans until 1970-01-01T02:16:40.000Z");
}

TEST(ReservedNodes, RefuseUnknownNamesAndNodesThatAreTaken) {
  Cluster cluster(kLabs);
  cluster.Join("node-1");
  EXPECT_THAT(Refusal(cluster, Reserve(cluster, "fans", {"node-2"}, hours(1), hours(2))),
              HasSubstr("no node or domain 'node-2'; did you mean 'node-1'"));
  proto::Change change = Reserve(cluster, "course", {"node-1"}, hours(1), hours(2));
  change.mutable_reserve()->add_queues("green");
  EXPECT_THAT(Refusal(cluster, change), HasSubstr("there is no queue 'green'"));
  EXPECT_EQ(Refusal(cluster, Reserve(cluster, "fans", {"all"}, hours(1), hours(2))), "");
  // Two of one event: the second one is not made.
  cluster.Ask({Reserve(cluster, "fans", {"all"}, hours(1), hours(2)),
               Reserve(cluster, "disks", {"node-1"}, hours(1), hours(2))});
  EXPECT_EQ(cluster.controller.Reservations().size(), 1u);
  EXPECT_THAT(cluster.messages, Contains(HasSubstr("node-1 is reserved as fans from")));
}

TEST(ReservedNodes, AJobCannotNameTheTaintOfAReservation) {
  Cluster cluster(std::string(kLabs) + "cluster: cluster.yaml\n", kTwoNodes);
  cluster.Join("node-1");
  cluster.Ask({Reserve(cluster, "fans", {"all"}, hours(0), hours(2))});
  proto::Job job = Gang("a", 1);
  job.mutable_scheduling()->add_tolerates("\x01reserved:fans");
  cluster.Submit(job);
  EXPECT_EQ(cluster.StateOf("a"), proto::QUEUED);
}

}  // namespace
}  // namespace longhaul::runtime::scheduling_testing
