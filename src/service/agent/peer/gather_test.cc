// A state in one layout out of the memories of agents that sealed it in another, over real sockets.
#include "service/agent/peer/gather.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"
#include "checkpoint/arena.h"
#include "io/memory/shared_memory.h"
#include "service/agent/peer/peer_connection.h"
#include "service/agent/peer/peer_server.h"

namespace longhaul::service {
namespace {

using checkpoint::StatePlan;
using checkpoint::TensorPart;

constexpr int64_t kRows = 12, kColumns = 300'000;  // of bytes: chunks end within rows

std::byte Element(int64_t row, int64_t column) {
  return std::byte(static_cast<unsigned char>(row * 31 + column * 7 + column / 251));
}

// Rows [begin, end) of the global tensor, and a small one that every rank has whole.
StatePlan RowsOf(int64_t begin, int64_t end) {
  return StatePlan::Create(
             {{"w", "U8", {end - begin, kColumns}, TensorPart{"w", {kRows, kColumns}, {begin, 0}}},
              {"count", "I64", {1}}})
      .value();
}

struct Agent {
  explicit Agent(std::string named) : name(std::move(named)) {
    server = PeerServer::Listen("127.0.0.1", "secret", memory).value();
  }

  // Seals rows [begin, end) of step 7, as the arena of that name.
  std::shared_ptr<const io::SharedMemory> Seal(uint32_t arena_name, int64_t begin, int64_t end) {
    const StatePlan plan = RowsOf(begin, end);
    const auto bytes = static_cast<int64_t>(checkpoint::ArenaBytesFor(plan));
    auto arena =
        io::SharedMemory::Open(io::CreateSharedMemory("rank", Bytes(bytes), false).value()).value();
    checkpoint::ArenaWriter writer(arena->bytes());
    CHECK(writer.Begin(7, 3, plan).ok());
    std::vector<std::byte> rows;
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) rows.push_back(Element(row, column));
    }
    const int64_t count = 7;
    writer.Write(0, rows);
    writer.Write(1, std::as_bytes(std::span(&count, 1)));
    writer.Seal();
    memory.Show({"job", arena_name}, arena);
    return arena;
  }

  std::string name;
  PeerMemory memory{1 << 30};
  std::unique_ptr<PeerServer> server;
};

class GatherTest : public testing::Test {
 protected:
  void Add(const Agent& agent, uint32_t name, uint32_t rank, bool copy = false) {
    proto::Restore::Piece& piece = *restore_.add_pieces();
    piece.set_node(agent.name);
    piece.set_address("127.0.0.1");
    piece.set_port(agent.server == nullptr ? 1 : agent.server->port());
    piece.set_name(name);
    piece.set_copy(copy);
    piece.set_rank(rank);
  }
  Gathered Run(const Agent& on, const StatePlan& plan, const std::string& secret = "secret") {
    restore_.set_step(7);
    restore_.set_saved_attempt(3);
    return Gather({JobId("job"), 0, restore_, on.name, secret, plan, 1 << 30}, on.memory);
  }
  static bool Holds(const Gathered& gathered, int64_t begin, int64_t end) {
    if (gathered.arena == nullptr) return false;
    const auto view = checkpoint::ArenaReader(gathered.arena->bytes()).Open(7);
    if (!view.ok() || view->plan != RowsOf(begin, end)) return false;
    size_t at = 0;
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        if (view->tensors[0][at++] != Element(row, column)) return false;
      }
    }
    return true;
  }

  Agent here_{"here"}, there_{"there"};
  proto::Restore restore_;
};

TEST_F(GatherTest, PutsAnotherLayoutTogetherAndFetchesOnlyWhatIsNeeded) {
  here_.Seal(0, 0, 4);
  there_.Seal(5, 4, 8);
  there_.Seal(6, 8, 12);
  Add(here_, 0, 0);
  Add(there_, 5, 1);
  Add(there_, 6, 2);
  const Gathered gathered = Run(here_, RowsOf(2, 6));
  ASSERT_TRUE(gathered.status.ok()) << gathered.status;
  EXPECT_TRUE(Holds(gathered, 2, 6));
  // Rows 4 and 5 are 600,000 bytes of the first chunk there; nothing of the last piece is needed.
  EXPECT_EQ(gathered.bytes_fetched, uint64_t{1} << 20);
  EXPECT_TRUE(gathered.bad.empty());
  const Gathered all = Run(here_, RowsOf(0, 12));
  ASSERT_TRUE(all.status.ok()) << all.status;
  EXPECT_TRUE(Holds(all, 0, 12));
  EXPECT_EQ(all.bytes_fetched, uint64_t{8 * kColumns});
}

TEST_F(GatherTest, ADamagedPieceIsNamedAndItsReplicaRead) {
  const auto arena = here_.Seal(0, 0, 6);
  there_.Seal(1, 0, 6);
  there_.Seal(2, 6, 12);
  Add(here_, 0, 0);
  Add(there_, 1, 1);
  Add(there_, 2, 2);
  const auto view = checkpoint::ArenaReader(arena->bytes()).Open(7);
  const_cast<std::byte&>(view->tensors[0][1'500'000]) ^= std::byte{4};
  const Gathered gathered = Run(here_, RowsOf(0, 12));
  ASSERT_TRUE(gathered.status.ok()) << gathered.status;
  EXPECT_TRUE(Holds(gathered, 0, 12));
  ASSERT_EQ(gathered.bad.size(), 1u);
  EXPECT_EQ(gathered.bad[0].node(), "here");
  EXPECT_EQ(gathered.bad[0].rank(), 0u);
  EXPECT_NE(gathered.why.find("rank 0's snapshot in the memory of here: the hash"),
            std::string::npos)
      << gathered.why;
}

// The holder finds the damage itself, breaks off, and the connection serves the next piece.
TEST_F(GatherTest, ADamagedPieceElsewhereIsNeverLoaded) {
  const auto arena = there_.Seal(0, 0, 6);
  there_.Seal(1, 0, 6);
  there_.Seal(2, 6, 12);
  for (uint32_t i = 0; i < 3; ++i) Add(there_, i, i);
  const auto view = checkpoint::ArenaReader(arena->bytes()).Open(7);
  const_cast<std::byte&>(view->tensors[0][1'500'000]) ^= std::byte{4};
  const Gathered gathered = Run(here_, RowsOf(0, 12));
  ASSERT_TRUE(gathered.status.ok()) << gathered.status;
  EXPECT_TRUE(Holds(gathered, 0, 12));
  ASSERT_EQ(gathered.bad.size(), 1u);
  EXPECT_EQ(gathered.bad[0].rank(), 0u);
}

TEST_F(GatherTest, WhatIsNotThereIsSaidAndNothingIsGiven) {
  here_.Seal(0, 0, 6);
  Add(here_, 0, 0);
  Add(there_, 2, 1);
  const Gathered gathered = Run(here_, RowsOf(0, 12));
  EXPECT_EQ(gathered.status.code(), Code::kDataLoss) << gathered.status;
  EXPECT_EQ(gathered.arena, nullptr);
  ASSERT_EQ(gathered.bad.size(), 1u);
  EXPECT_EQ(gathered.bad[0].node(), "there");
  EXPECT_NE(gathered.why.find("no step 7 of rank 2"), std::string::npos) << gathered.why;
}

// If each piece were requested for two seconds, this would take two minutes.
TEST_F(GatherTest, AnAgentThatIsGoneIsTriedOnceForAllOfItsPieces) {
  here_.Seal(0, 0, 12);
  Add(here_, 0, 0);
  const uint32_t port = there_.server->port();
  there_.server.reset();
  constexpr int kPieces = 60;
  for (int i = 1; i <= kPieces; ++i) {
    Add(there_, 0, static_cast<uint32_t>(i));
    restore_.mutable_pieces(i)->set_port(port);
  }
  const Gathered gathered = Run(here_, RowsOf(0, 12));
  ASSERT_TRUE(gathered.status.ok()) << gathered.status;
  EXPECT_TRUE(Holds(gathered, 0, 12));
  EXPECT_EQ(gathered.bad.size(), static_cast<size_t>(kPieces)) << gathered.why;
}

TEST_F(GatherTest, AnotherModelIsNotHeldAgainstThePieces) {
  here_.Seal(0, 0, 12);
  Add(here_, 0, 0);
  const StatePlan other = StatePlan::Create({{"w", "F32", {3}}}).value();
  const Gathered gathered = Run(here_, other);
  EXPECT_EQ(gathered.status.code(), Code::kFailedPrecondition) << gathered.status;
  EXPECT_TRUE(gathered.bad.empty());
}

TEST_F(GatherTest, AnAgentWithoutTheSecretGetsNothing) {
  there_.Seal(0, 0, 12);
  Add(there_, 0, 0);
  const Gathered gathered = Run(here_, RowsOf(0, 12), "guess");
  EXPECT_FALSE(gathered.status.ok());
  EXPECT_NE(gathered.why.find("the secret is wrong"), std::string::npos) << gathered.why;
}

TEST_F(GatherTest, TellsWhatWasSaved) {
  there_.Seal(0, 6, 12);
  there_.Seal(1, 0, 6);
  Add(there_, 1, 1);
  Add(there_, 0, 0);
  restore_.set_step(7);
  restore_.set_saved_attempt(3);
  GatherOrder order{JobId("job"), 1, restore_, "here", "secret", std::nullopt, 1 << 30};
  EXPECT_EQ(Gather(order, here_.memory).saved, RowsOf(0, 6));
  order.rank = 4;
  EXPECT_EQ(Gather(order, here_.memory).saved, RowsOf(6, 12)) << "the first one's";
}

}  // namespace
}  // namespace longhaul::service
