#include "runtime/scheduling/reservations/node_reservations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/configuration/declared_cluster.h"

namespace longhaul::runtime::scheduling {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Instant kNow = InstantFromNanoseconds(1'790'000'000'000'000'000);

proto::NodeReservation Window(const std::string& name, const std::vector<std::string>& nodes,
                              Duration from, Duration until) {
  proto::NodeReservation window;
  window.set_name(name);
  for (const std::string& node : nodes) window.add_nodes(node);
  window.set_from_ns(ToNanoseconds(kNow + from));
  window.set_until_ns(ToNanoseconds(kNow + until));
  return window;
}

const std::vector<NodeNames> kNodes = {{"node-1", "leaf-1", "block-1", "all"},
                                       {"node-2", "leaf-1", "block-1", "all"},
                                       {"node-3", "leaf-2", "block-1", "all"}};

TEST(NodeReservations, RefuseWhatCannotBeMeant) {
  auto past = Window("a", {"n"}, -hours(2), hours(1));
  auto over = Window("a", {"n"}, -minutes(2), -minutes(1));
  auto backwards = Window("a", {"n"}, hours(2), hours(1));
  auto empty = Window("a", {"n"}, hours(1), hours(1));
  auto long_one = Window("a", {"n"}, hours(1), hours(24 * 366 + 2));
  auto far = Window("a", {"n"}, hours(24 * 367), hours(24 * 368));
  auto twice = Window("a", {"n", "n"}, hours(1), hours(2));
  auto long_name = Window(std::string(10'000, 'a'), {"n"}, hours(1), hours(2));
  auto long_node = Window("a", {std::string(10'000, 'n')}, hours(1), hours(2));
  auto many = Window("a", {}, hours(1), hours(2));
  for (int i = 0; i < 100'000; ++i) many.add_nodes("node-" + std::to_string(i));
  auto queues = Window("a", {"n"}, hours(1), hours(2));
  for (int i = 0; i < 65; ++i) queues.add_queues("q" + std::to_string(i));
  auto extreme = Window("a", {"n"}, hours(1), hours(2));
  extreme.set_from_ns(INT64_MIN);
  extreme.set_until_ns(INT64_MAX);
  const struct {
    const proto::NodeReservation& window;
    const char* part;
  } kRows[] = {
      {past, "which is past; write now"},
      {over, "which is past"},
      {backwards, "expected a time after its begin"},
      {empty, "expected a time after its begin"},
      {long_one, "lasts for longer than 366 days"},
      {far, "expected within 366 days"},
      {twice, "'n' is named twice among its nodes"},
      {long_name, "is not the name of a reservation"},
      {long_node, "has 10,000 bytes, expected 1 to 253"},
      {many, "it has 100,000 nodes, at most 65,536 are allowed"},
      {queues, "it has 65 queues, at most 64"},
      {extreme, "which is past"},
  };
  for (const auto& row : kRows) {
    const Status status = NodeReservations().Check(row.window, kNow);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(row.part));
    EXPECT_LT(status.message().size(), 400u);
  }
  for (const char* name : {"", "-a", "a b", "a/b", "\x01"}) {
    EXPECT_FALSE(NodeReservations().Check(Window(name, {"n"}, hours(1), hours(2)), kNow).ok());
  }
  EXPECT_THAT(NodeReservations().Check(Window("a", {}, hours(1), hours(2)), kNow).message(),
              HasSubstr("names no node"));
  EXPECT_TRUE(NodeReservations().Check(Window("a.b_c-1", {"n"}, hours(0), hours(1)), kNow).ok());
}

TEST(NodeReservations, AreAtMostSixtyFourOfDifferentNames) {
  NodeReservations reservations;
  for (size_t i = 0; i < kMostReservations; ++i) {
    const auto window = Window("w" + std::to_string(i), {"n"}, hours(i), hours(i + 1));
    ASSERT_TRUE(reservations.Check(window, kNow).ok());
    reservations.Add(window);
  }
  const auto more = Window("more", {"n"}, hours(100), hours(101));
  EXPECT_EQ(reservations.Check(more, kNow).code(), Code::kResourceExhausted);
  EXPECT_EQ(reservations.Check(Window("w7", {"n"}, hours(100), hours(101)), kNow).code(),
            Code::kAlreadyExists);
  EXPECT_TRUE(reservations.Cancel("w7"));
  EXPECT_FALSE(reservations.Cancel("w7"));
  EXPECT_TRUE(reservations.Check(more, kNow).ok());
}

TEST(NodeReservations, NameNodesAndDomainsThatExist) {
  NodeReservations reservations;
  EXPECT_TRUE(
      reservations.CheckNodes(Window("a", {"node-3", "leaf-1"}, hours(1), hours(2)), kNodes).ok());
  const Status status =
      reservations.CheckNodes(Window("a", {"node-1", "leaf-3"}, hours(1), hours(2)), kNodes);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no node or domain 'leaf-3'; did you mean 'leaf-"));
}

TEST(NodeReservations, DoNotOverlapOnANode) {
  NodeReservations reservations;
  reservations.Add(Window("fans", {"leaf-1"}, hours(2), hours(4)));
  const auto check = [&](const char* node, int from, int until) {
    return reservations.CheckNodes(Window("b", {node}, hours(from), hours(until)), kNodes);
  };
  for (const char* node : {"node-2", "leaf-1", "block-1", "all"}) {
    const Status status = check(node, 3, 5);
    EXPECT_EQ(status.code(), Code::kAlreadyExists) << node;
    EXPECT_THAT(status.message(), HasSubstr("is reserved as fans from 2026-"));
  }
  EXPECT_FALSE(check("node-1", 1, 9).ok());
  EXPECT_TRUE(check("node-3", 3, 5).ok()) << "another node";
  EXPECT_TRUE(check("node-1", 0, 2).ok()) << "it ends when the other one begins";
  EXPECT_TRUE(check("node-1", 4, 5).ok());
}

TEST(NodeReservations, BeginAndEndOnceEach) {
  NodeReservations reservations;
  reservations.Add(Window("a", {"n"}, hours(1), hours(2)));
  reservations.Add(Window("b", {"n"}, hours(2), hours(3)));
  const auto texts = [&](Duration at) {
    std::vector<std::string> found;
    for (const auto& change : reservations.Advance(kNow + at)) {
      found.push_back((change.begins ? "+" : "-") + change.reservation.name());
    }
    return found;
  };
  EXPECT_EQ(reservations.NextChange(), kNow + hours(1));
  EXPECT_THAT(texts(minutes(59)), IsEmpty());
  EXPECT_THAT(texts(hours(1)), ElementsAre("+a"));
  EXPECT_THAT(texts(hours(1)), IsEmpty());
  EXPECT_TRUE(reservations.IsOpen("a"));
  EXPECT_EQ(reservations.NextChange(), kNow + hours(2));
  EXPECT_THAT(texts(hours(2)), ElementsAre("-a", "+b"));
  EXPECT_THAT(texts(hours(9)), ElementsAre("-b"));
  EXPECT_TRUE(reservations.empty());
  EXPECT_EQ(reservations.NextChange(), std::nullopt);
  reservations.Add(Window("c", {"n"}, hours(10), hours(11)));
  EXPECT_THAT(texts(hours(12)), ElementsAre("+c", "-c")) << "while the controller was away";
}

TEST(NodeReservations, AreToleratedByHoldersAndByJobsThatEndInTime) {
  NodeReservations reservations;
  auto lab = Window("lab", {"node-1"}, hours(2), hours(4));
  lab.add_queues("research");
  lab.add_users("alice");
  reservations.Add(lab);
  reservations.Add(Window("fans", {"node-2"}, hours(3), hours(4)));

  Occupant holder;
  holder.queues = {"small", "research"};
  EXPECT_THAT(reservations.ToleranceOf(holder, kNow).names, ElementsAre("lab"));
  EXPECT_THAT(reservations.ToleranceOf(holder, kNow + hours(3)).names, ElementsAre("lab"));
  Occupant alice;
  alice.user = "alice";
  EXPECT_THAT(reservations.ToleranceOf(alice, kNow).names, ElementsAre("lab"));
  EXPECT_THAT(reservations.ToleranceOf(Occupant(), kNow).names, IsEmpty()) << "unknown duration";

  Occupant waiting;
  waiting.ends = kNow + hours(2);
  const Tolerance both = reservations.ToleranceOf(waiting, kNow);
  EXPECT_THAT(both.names, ElementsAre("fans", "lab"));
  EXPECT_EQ(both.until, kNow + Duration(1)) << "a moment later it would end after lab begins";
  waiting.ends = kNow + hours(2) + minutes(30);
  const Tolerance one = reservations.ToleranceOf(waiting, kNow);
  EXPECT_THAT(one.names, ElementsAre("fans"));
  EXPECT_EQ(one.until, kNow + minutes(30) + Duration(1));
}

TEST(NodeReservations, AreToleratedByAJobThatIsThereUntilTheyBegin) {
  NodeReservations reservations;
  reservations.Add(Window("fans", {"node-2"}, hours(3), hours(4)));
  Occupant there;
  there.placed = true;
  there.ends = kNow + hours(100);
  there.on = {"fans"};
  EXPECT_THAT(reservations.ToleranceOf(there, kNow).names, ElementsAre("fans"));
  EXPECT_THAT(reservations.ToleranceOf(there, kNow + hours(3)).names, IsEmpty());
  there.stays = true;
  EXPECT_THAT(reservations.ToleranceOf(there, kNow + hours(3)).names, ElementsAre("fans"));
  there.on = {};
  EXPECT_THAT(reservations.ToleranceOf(there, kNow).names, IsEmpty()) << "it gets no node there";
}

TEST(NodeReservations, TakeTheirNodesOutOfAShape) {
  spec::ClusterDeclaration cluster = spec::ClosCluster(1, 1, 3);
  cluster.nodes[0].taints = {"old", NodeReservations::TaintOf("fans")};
  cluster.nodes[1].taints = {NodeReservations::TaintOf("lab")};
  const spec::Topology topology = *spec::Topology::Create(cluster);
  const auto allowed = [&](const std::set<std::string>& tolerated) {
    scheduler::Shape shape;
    RestrictTo(tolerated, topology, shape);
    std::vector<std::string> names;
    for (const spec::TopologyNode& node : topology.nodes()) {
      if (shape.classes.contains(node.node_class)) names.push_back(node.name);
    }
    return names.size();
  };
  EXPECT_EQ(allowed({}), 1u);
  EXPECT_EQ(allowed({"lab"}), 2u);
  EXPECT_EQ(allowed({"lab", "fans"}), 3u) << "other taints are not its concern";
  scheduler::Shape shape;
  RestrictTo({"lab", "fans"}, topology, shape);
  EXPECT_EQ(shape.classes, scheduler::ClassSet::All());
  std::set<std::string> tolerates = {"mine"};
  TolerateAll(topology, tolerates);
  EXPECT_EQ(tolerates.size(), 3u);
}

TEST(NodeReservations, SayWhichNodesTheyKeep) {
  NodeReservations reservations;
  reservations.Add(Window("fans", {"leaf-1"}, hours(0), hours(1)));
  reservations.Add(Window("later", {"node-3"}, hours(1), hours(2)));
  reservations.Advance(kNow);
  EXPECT_EQ(reservations.TextFor({}, kNodes),
            "2 nodes are reserved as fans until 2026-09-21T15:13:20.000Z, 1 node is reserved as "
            "later from 2026-09-21T15:13:20.000Z until 2026-09-21T16:13:20.000Z");
  EXPECT_EQ(reservations.TextFor({"fans", "later"}, kNodes), "");
}

}  // namespace
}  // namespace longhaul::runtime::scheduling
