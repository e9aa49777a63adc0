// Two agents' memories over real sockets on this machine.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/units.h"
#include "checkpoint/arena.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"
#include "service/agent/peer/peer_connection.h"
#include "service/agent/peer/peer_memory.h"
#include "service/agent/peer/peer_server.h"

namespace longhaul::service::peer_test {
namespace {

using checkpoint::SnapshotKey;

const checkpoint::StatePlan& Plan() {
  static const checkpoint::StatePlan plan =
      *checkpoint::StatePlan::Create({{"a", "U8", {3'000'000}}, {"b", "F32", {5}}});
  return plan;
}

std::vector<std::byte> BytesOf(uint64_t step) {
  std::vector<std::byte> bytes(Plan().total_bytes());
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 7 + step);
  return bytes;
}

// A rank's arena, and what it is written with.
class Rank {
 public:
  Rank() {
    const auto bytes = static_cast<int64_t>(checkpoint::ArenaBytesFor(Plan()));
    memory_ = *io::SharedMemory::Open(*io::CreateSharedMemory("rank", Bytes(bytes), false));
  }
  void Seal(uint64_t step) {
    const std::vector<std::byte> bytes = BytesOf(step);
    checkpoint::ArenaWriter writer(memory_->bytes());
    ASSERT_TRUE(writer.Begin(step, 1, Plan()).ok());
    writer.Write(0, std::span(bytes).first(3'000'000));
    writer.Write(1, std::span(bytes).subspan(3'000'000));
    writer.Seal();
  }
  std::span<std::byte> arena() { return memory_->bytes(); }
  const std::shared_ptr<const io::SharedMemory>& memory() const { return memory_; }

 private:
  std::shared_ptr<const io::SharedMemory> memory_;
};

bool Holds(std::span<const std::byte> arena, uint64_t step) {
  const auto view = checkpoint::ArenaReader(arena).Open(step);
  if (!view.ok()) return false;
  const std::vector<std::byte> bytes = BytesOf(step);
  return std::ranges::equal(view->tensors[0], std::span(bytes).first(3'000'000)) &&
         std::ranges::equal(view->tensors[1], std::span(bytes).subspan(3'000'000));
}

class Peers : public testing::Test {
 protected:
  void SetUp() override {
    auto server = PeerServer::Listen("127.0.0.1", "secret", memory_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  PeerConnection Connect() {
    auto connection = PeerConnection::Connect("127.0.0.1", server_->port(), 0);
    EXPECT_TRUE(connection.ok()) << connection.status();
    return *std::move(connection);
  }
  // Fetches into a new arena.
  Status Fetch(const SnapshotKey& key, Rank& to, const std::string& secret = "secret",
               bool copy = true) {
    PeerConnection connection = Connect();
    ASSIGN_OR_RETURN(const checkpoint::PeerMessage announced,
                     AskForCopy(connection, secret, key, copy, checkpoint::PeerKind::kFetch));
    return checkpoint::ReceiveSnapshotData(announced, connection.Reader(), to.arena());
  }

  PeerMemory memory_{1 << 30};
  std::unique_ptr<PeerServer> server_;
  Rank rank_;
};

TEST_F(Peers, WhatWasSentCanBeFetchedWhenTheSenderIsGone) {
  std::vector<SnapshotKey> received;
  memory_.OnReceived([&received](const SnapshotKey& key) { received.push_back(key); });
  {
    PeerConnection connection = Connect();
    for (const uint64_t step : {10u, 20u, 30u, 40u}) {
      rank_.Seal(step);
      const Status sent = SendCopy(connection, "secret", {"job", 3, step, 1}, rank_.arena());
      ASSERT_TRUE(sent.ok()) << sent;
    }
  }
  ASSERT_EQ(received.size(), 4u);
  EXPECT_EQ(received[3], (SnapshotKey{"job", 3, 40, 1}));
  Rank fetched;
  const Status status = Fetch({"job", 3, 40, 0}, fetched);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Holds(fetched.arena(), 40));
  EXPECT_TRUE(Fetch({"job", 3, 30, 0}, fetched).ok()) << "the one before is kept too";
  EXPECT_FALSE(Fetch({"job", 3, 10, 0}, fetched).ok());
  EXPECT_FALSE(Fetch({"job", 2, 40, 0}, fetched).ok());
  EXPECT_FALSE(Fetch({"other", 3, 40, 0}, fetched).ok());
  memory_.Drop("job");
  EXPECT_EQ(memory_.bytes(), 0u);
  EXPECT_FALSE(Fetch({"job", 3, 40, 0}, fetched).ok());
}

TEST_F(Peers, OnesOwnArenaCanBeFetchedToo) {
  rank_.Seal(10);
  memory_.Show({"job", 0}, rank_.memory());
  Rank fetched;
  const Status status = Fetch({"job", 0, 10, 0}, fetched, "secret", /*copy=*/false);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Holds(fetched.arena(), 10));
}

// The arena of a node is named after the ranks it first had: a copy of another node's rank of that
// number is something else.
TEST_F(Peers, OnesOwnArenaIsNotTakenForACopyOfThatName) {
  rank_.Seal(10);
  memory_.Show({"job", 3}, rank_.memory());
  Rank other;
  other.Seal(10);
  Rank fetched;
  EXPECT_FALSE(Fetch({"job", 3, 10, 0}, fetched).ok());
  {
    PeerConnection connection = Connect();
    ASSERT_TRUE(SendCopy(connection, "secret", {"job", 3, 10, 2}, other.arena()).code() ==
                Code::kNotFound)
        << "it was sealed in attempt 1";
    ASSERT_TRUE(SendCopy(connection, "secret", {"job", 3, 10, 1}, other.arena()).ok());
  }
  EXPECT_TRUE(Fetch({"job", 3, 10, 0}, fetched).ok());
}

// A gang of another size may still be reading the snapshot in it.
TEST_F(Peers, AnArenaThatIsReplacedIsKeptUntilTheNewOneHasTwoSnapshots) {
  rank_.Seal(10);
  memory_.Show({"job", 0}, rank_.memory());
  Rank larger;
  memory_.Show({"job", 0}, larger.memory());
  memory_.Show({"job", 0}, larger.memory());
  EXPECT_EQ(memory_.OwnArenasOf({"job", 0}).size(), 2u);
  larger.Seal(20);
  memory_.NoteSealed({"job", 0});
  Rank fetched;
  EXPECT_TRUE(Fetch({"job", 0, 10, 0}, fetched, "secret", /*copy=*/false).ok());
  larger.Seal(30);
  memory_.NoteSealed({"job", 0});
  EXPECT_FALSE(Fetch({"job", 0, 10, 0}, fetched, "secret", /*copy=*/false).ok());
  EXPECT_TRUE(Fetch({"job", 0, 30, 0}, fetched, "secret", /*copy=*/false).ok());
}

TEST_F(Peers, WithoutTheSecretNothingIsTakenOrGiven) {
  rank_.Seal(10);
  memory_.Show({"job", 0}, rank_.memory());
  Rank fetched;
  EXPECT_FALSE(Fetch({"job", 0, 10, 0}, fetched, "guess").ok());
  PeerConnection connection = Connect();
  EXPECT_FALSE(SendCopy(connection, "", {"job", 3, 10, 1}, rank_.arena()).ok());
  EXPECT_EQ(memory_.bytes(), 0u);
}

TEST_F(Peers, AFullNodeRefusesAndSaysWhy) {
  PeerMemory small(1 << 20);
  auto server = PeerServer::Listen("127.0.0.1", "", small);
  ASSERT_TRUE(server.ok());
  rank_.Seal(10);
  auto connection = PeerConnection::Connect("127.0.0.1", (*server)->port(), 0);
  ASSERT_TRUE(connection.ok());
  const Status status = SendCopy(*connection, "", {"job", 3, 10, 1}, rank_.arena());
  EXPECT_NE(status.message().find("limit"), std::string::npos) << status;
}

TEST_F(Peers, ASenderThatDiesMidwayLeavesTheOlderCopy) {
  rank_.Seal(10);
  {
    PeerConnection connection = Connect();
    ASSERT_TRUE(SendCopy(connection, "secret", {"job", 3, 10, 1}, rank_.arena()).ok());
  }
  rank_.Seal(20);
  {
    PeerConnection connection = Connect();
    const auto snapshot = checkpoint::ArenaReader(rank_.arena())
                              .InSlot(checkpoint::ArenaReader(rank_.arena()).ListSealed()[0].slot);
    checkpoint::PeerMessage offer;
    offer.kind = checkpoint::PeerKind::kOffer;
    offer.secret = "secret";
    offer.key = {"job", 3, 20, 1};
    offer.plan = snapshot->plan;
    offer.chunks = snapshot->chunks;
    ASSERT_TRUE(SendPeerMessage(offer, connection.Writer()).ok());
    ASSERT_TRUE(checkpoint::ReceivePeerMessage(connection.Reader()).ok());
    ASSERT_TRUE(connection.Writer()(snapshot->tensors[0].first(1'500'000)).ok());
  }
  // The next copy waits for nobody: the broken one ends when its socket does.
  Status sent;
  for (int i = 0; i < 1000; ++i) {
    PeerConnection connection = Connect();
    sent = SendCopy(connection, "secret", {"job", 4, 20, 1}, rank_.arena());
    if (sent.ok()) break;
  }
  ASSERT_TRUE(sent.ok()) << sent;
  Rank fetched;
  EXPECT_FALSE(Fetch({"job", 3, 20, 0}, fetched).ok());
  ASSERT_TRUE(Fetch({"job", 3, 10, 0}, fetched).ok());
  EXPECT_TRUE(Holds(fetched.arena(), 10));
}

TEST(Budget, SpreadsWritesOverTime) {
  using std::chrono::milliseconds;
  Budget budget(1'000'000);  // 100,000 bytes are 100 ms
  Instant now = InstantFromNanoseconds(5'000'000'000);
  EXPECT_EQ(budget.Use(100'000, now), Duration(0));
  // 20 ms of the first were free.
  EXPECT_EQ(budget.Use(100'000, now), milliseconds(80));
  EXPECT_EQ(budget.Use(100'000, now + milliseconds(80)), milliseconds(100));
  // A pause gives no more than the burst.
  now += std::chrono::seconds(60);
  EXPECT_EQ(budget.Use(100'000, now), Duration(0));
  EXPECT_EQ(budget.Use(1, now), milliseconds(80));
  Budget unlimited(0);
  EXPECT_EQ(unlimited.Use(1u << 30, now), Duration(0));
  EXPECT_EQ(unlimited.Use(1u << 30, now), Duration(0));
}

}  // namespace
}  // namespace longhaul::service::peer_test
