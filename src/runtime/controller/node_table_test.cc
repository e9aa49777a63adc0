#include "runtime/controller/node_table.h"

#include <gtest/gtest.h>

namespace longhaul::runtime::controller::node_table_test {
namespace {

using std::chrono::hours;
using Joining = NodeTable::Joining;

const NodeId kA("a");
const NodeId kB("b");
const Instant kStart = InstantFromNanoseconds(1'000'000'000'000);

proto::AgentJoined Facts(uint32_t slots, uint32_t peer_port = 0) {
  proto::AgentJoined facts;
  facts.set_slots(slots);
  facts.set_peer_port(peer_port);
  return facts;
}

void Join(NodeTable& table, const NodeId& id, uint64_t life = 1, uint32_t peer_port = 0) {
  ASSERT_EQ(table.BeginJoin(id, life, 1), Joining::kNewLife);
  table.BeginLife(id, life);
  table.Join(id, 1, Facts(4, peer_port));
}

TEST(NodeTable, ANameIsFoundOnceItHasALife) {
  NodeTable table;
  EXPECT_EQ(table.Find(kA), nullptr);
  EXPECT_EQ(table.BeginJoin(kA, 0, 1), Joining::kStale);
  EXPECT_EQ(table.Find(kA), nullptr);
  Join(table, kA);
  ASSERT_NE(table.Find(kA), nullptr);
  EXPECT_TRUE(table.Find(kA)->reachable());
}

TEST(NodeTable, AnEventCountsOnce) {
  NodeTable table;
  Join(table, kA, 5);
  EXPECT_FALSE(table.TakeSequence(kA, 4, 2)) << "of an earlier life";
  EXPECT_FALSE(table.TakeSequence(kA, 5, 1)) << "seen";
  EXPECT_TRUE(table.TakeSequence(kA, 5, 2));
  EXPECT_FALSE(table.TakeSequence(kA, 5, 2));
  EXPECT_FALSE(table.TakeSequence(kB, 5, 2)) << "unknown";
  EXPECT_EQ(table.AcknowledgedSequence(kA, 5), 2u);
  EXPECT_EQ(table.AcknowledgedSequence(kA, 4), 0u);
}

TEST(NodeTable, ALifeThatWasGivenUpMayComeBack) {
  NodeTable table;
  Join(table, kA, 5);
  table.Lose(kA);
  EXPECT_FALSE(table.IsAlive(kA));
  EXPECT_EQ(table.Find(kA)->losses, 1u);
  EXPECT_EQ(table.BeginJoin(kA, 4, 9), Joining::kStale);
  EXPECT_EQ(table.BeginJoin(kA, 5, 1), Joining::kStale);
  EXPECT_EQ(table.BeginJoin(kA, 5, 2), Joining::kSameLife);
  EXPECT_FALSE(table.Join(kA, 2, Facts(4))) << "it was lost, not cut";
  EXPECT_TRUE(table.IsAlive(kA));
}

TEST(NodeTable, ACutIsReportedWhenTheAgentIsBack) {
  NodeTable table;
  Join(table, kA);
  table.Cut(kA);
  EXPECT_FALSE(table.Find(kA)->reachable());
  EXPECT_EQ(table.BeginJoin(kA, 1, 2), Joining::kSameLife);
  EXPECT_TRUE(table.Join(kA, 2, Facts(4)));
  table.Disconnect(kA);
  EXPECT_EQ(table.BeginJoin(kA, 1, 3), Joining::kSameLife);
  EXPECT_FALSE(table.Join(kA, 3, Facts(4))) << "the controller was away";
}

SlotClaim Slots(uint32_t slots) { return {.slots_milli = slots * 1'000}; }

TEST(NodeTable, SlotsAreTakenWhileThereAreSome) {
  NodeTable table;
  Join(table, kA);
  table.TakeSlots(kA, Slots(3));
  EXPECT_TRUE(table.CanTake(kA, Slots(1), 0));
  EXPECT_FALSE(table.CanTake(kA, Slots(2), 0));
  EXPECT_FALSE(table.CanTake(kA, {.slots_milli = 1'001}, 0));
  table.FreeSlots(kA, Slots(3));
  EXPECT_EQ(table.Find(kA)->used_slots(), 0u);
  table.Cut(kA);
  EXPECT_FALSE(table.CanTake(kA, Slots(1), 0));
}

TEST(NodeTable, AWholeDeviceIsOfOneJob) {
  NodeTable table;
  Join(table, kA);
  const SlotClaim first = {.slots_milli = 1'000, .devices = 0b0010};
  table.TakeSlots(kA, first);
  EXPECT_FALSE(table.CanTake(kA, first, 0)) << "slots are free, the device is not";
  EXPECT_TRUE(table.CanTake(kA, {.slots_milli = 1'000, .devices = 0b0100}, 0));
  EXPECT_FALSE(table.CanTake(kA, {.slots_milli = 500, .devices = 0b0010, .share_milli = 500}, 0));
  EXPECT_TRUE(table.DevicesFree(kA, {.slots_milli = 1'000, .devices = 0b0110}, first, 0))
      << "it is its own";
  table.FreeSlots(kA, first);
  EXPECT_TRUE(table.CanTake(kA, first, 0));
}

TEST(NodeTable, SharesOfADeviceAreTakenUntilItsPartsOrItsMemoryAreUsedUp) {
  NodeTable table;
  Join(table, kA);
  const auto share = [](uint16_t milli, int64_t memory_mib) {
    return SlotClaim{milli, 0b0001, milli, memory_mib};
  };
  table.TakeSlots(kA, share(500, 50));
  EXPECT_TRUE(table.CanTake(kA, share(500, 30), 80));
  EXPECT_FALSE(table.CanTake(kA, share(501, 30), 80));
  EXPECT_FALSE(table.CanTake(kA, share(500, 31), 80)) << "the memory of the device is used up";
  EXPECT_TRUE(table.CanTake(kA, share(500, 31), 0)) << "the memory is unknown";
  EXPECT_EQ(table.Find(kA)->used_slots(), 1u) << "rounded up";
  EXPECT_EQ(table.used_milli(), 500u);
}

TEST(NodeTable, PeersAreCounted) {
  NodeTable table;
  EXPECT_FALSE(table.has_peers());
  Join(table, kA, 1, 7000);
  EXPECT_TRUE(table.has_peers());
  table.BeginJoin(kA, 1, 2);
  table.Join(kA, 2, Facts(4, 0));
  EXPECT_FALSE(table.has_peers());
}

TEST(NodeTable, ACordonTakesBackThatASpareIsInUse) {
  NodeTable table;
  Join(table, kA);
  table.Cordon(kA, true, true);
  EXPECT_TRUE(table.Find(kA)->draining);
  table.Enlist(kA);
  EXPECT_FALSE(table.Find(kA)->cordoned);
  EXPECT_FALSE(table.Find(kA)->draining);
  table.Cordon(kA, true, false);
  EXPECT_FALSE(table.Find(kA)->enlisted);
}

TEST(NodeTable, TheSecondWorkerFaultOfAWideOrAnotherJobCounts) {
  NodeTable table;
  Join(table, kA);
  EXPECT_FALSE(table.NoteWorkerFault(kA, "narrow", false, kStart));
  EXPECT_FALSE(table.NoteWorkerFault(kA, "narrow", false, kStart)) << "probably its program";
  EXPECT_TRUE(table.NoteWorkerFault(kA, "other", false, kStart));
  EXPECT_FALSE(table.NoteWorkerFault(kA, "wide", true, kStart)) << "what counted is forgotten";
  EXPECT_TRUE(table.NoteWorkerFault(kA, "wide", true, kStart + hours(24)));
  EXPECT_FALSE(table.NoteWorkerFault(kA, "wide", true, kStart));
  EXPECT_FALSE(table.NoteWorkerFault(kA, "wide", true, kStart + hours(25))) << "a day has passed";
}

}  // namespace
}  // namespace longhaul::runtime::controller::node_table_test
