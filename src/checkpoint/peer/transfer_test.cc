#include "checkpoint/peer/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "base/random.h"
#include "base/units.h"
#include "checkpoint/copy.h"
#include "checkpoint/testing.h"
#include "io/memory/shared_memory.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::SmallPlan;
using testing_support::State;

io::SharedMapping NewArena() {
  const Bytes size(static_cast<int64_t>(ArenaBytesFor(SmallPlan())));
  const Result<io::Fd> fd = io::CreateSharedMemory("arena", size, false);
  return io::SharedMapping::Map(*fd).value();
}

// Bytes that were sent, to be received; `cut` ends them early.
class Wire {
 public:
  WriteBytes write() {
    return [this](std::span<const std::byte> bytes) {
      sent_.insert(sent_.end(), bytes.begin(), bytes.end());
      return Status();
    };
  }
  ReadBytes read() {
    return [this](std::span<std::byte> to) -> Status {
      if (to.size() > sent_.size() - at_) return Unavailable("the other end is gone");
      std::copy_n(sent_.begin() + static_cast<ptrdiff_t>(at_), to.size(), to.begin());
      at_ += to.size();
      return {};
    };
  }
  std::vector<std::byte>& sent() { return sent_; }
  void Rewind() { at_ = 0; }

 private:
  std::vector<std::byte> sent_;
  size_t at_ = 0;
};

PeerMessage OfferOf(const ArenaReader::Hashed& snapshot) {
  PeerMessage offer;
  offer.kind = PeerKind::kOffer;
  offer.secret = "secret";
  offer.key = {"job-1", 3, snapshot.snapshot.step, snapshot.snapshot.attempt};
  offer.plan = snapshot.plan;
  offer.chunks = snapshot.chunks;
  return offer;
}

class Transfer : public testing::Test {
 protected:
  void SetUp() override {
    ArenaWriter writer(from_.bytes());
    ASSERT_TRUE(writer.Begin(40, 2, state_.plan()).ok());
    writer.WriteAll(state_.Tensors(), 1);
    writer.Seal();
    snapshot_ = *ArenaReader(from_.bytes()).InSlot(0);
  }
  // Sends everything; the first failure.
  Status Send(Wire& wire) {
    RETURN_IF_ERROR(SendPeerMessage(OfferOf(snapshot_), wire.write()));
    return SendSnapshotData(snapshot_, wire.write());
  }
  Status Receive(Wire& wire, std::span<std::byte> arena) {
    ASSIGN_OR_RETURN(const PeerMessage offer, ReceivePeerMessage(wire.read()));
    return ReceiveSnapshotData(offer, wire.read(), arena);
  }

  const State state_{SmallPlan(), 1};
  io::SharedMapping from_ = NewArena();
  io::SharedMapping to_ = NewArena();
  ArenaReader::Hashed snapshot_;
};

TEST_F(Transfer, ACopyIsTheSnapshot) {
  Wire wire;
  ASSERT_TRUE(Send(wire).ok());
  ASSERT_TRUE(Receive(wire, to_.bytes()).ok());
  const auto view = ArenaReader(to_.bytes()).Open(40);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_TRUE(state_.Equals(view->tensors));
  EXPECT_EQ(view->snapshot.attempt, 2u);
}

TEST_F(Transfer, ChunksComeInTheOrderOfTheirRequest) {
  PeerMessage request;
  request.kind = PeerKind::kFetchChunks;
  request.secret = "secret";
  request.key = {"job-1", 3, 40, 2};
  request.copy = true;
  for (uint32_t tensor = 0; tensor < snapshot_.plan.size(); ++tensor) {
    if (!snapshot_.chunks[tensor].empty())
      request.wanted.insert(request.wanted.begin(), {tensor, 0});
  }
  ASSERT_GT(request.wanted.size(), 1u);
  Wire wire;
  ASSERT_TRUE(SendPeerMessage(request, wire.write()).ok());
  const Result<PeerMessage> received = ReceivePeerMessage(wire.read());
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(*received, request);
  ASSERT_TRUE(SendChunks(snapshot_, received->wanted, wire.write()).ok());
  for (const ChunkId& id : request.wanted) {
    const auto tensor = state_.Tensors()[id.tensor];
    std::vector<std::byte> chunk(std::min(kChunkBytes, tensor.size()));
    ASSERT_TRUE(wire.read()(chunk).ok());
    EXPECT_TRUE(std::equal(chunk.begin(), chunk.end(), tensor.begin())) << id.tensor;
  }
}

TEST_F(Transfer, ChunksThatAreNotThereAreRefusedBeforeAnyIsSent) {
  const auto tensors = static_cast<uint32_t>(snapshot_.plan.size());
  for (const ChunkId& odd : {ChunkId{tensors, 0}, ChunkId{0, 1u << 30}}) {
    Wire wire;
    const std::vector<ChunkId> wanted = {{0, 0}, odd};
    EXPECT_EQ(SendChunks(snapshot_, wanted, wire.write()).code(), Code::kInvalidArgument);
    EXPECT_TRUE(wire.sent().empty());
  }
}

TEST_F(Transfer, AChunkThatIsDamagedHereIsNotSent) {
  const_cast<std::byte&>(snapshot_.tensors[0][1]) ^= std::byte{1};
  Wire wire;
  EXPECT_EQ(SendChunks(snapshot_, std::vector<ChunkId>{{0, 0}}, wire.write()).code(),
            Code::kDataLoss);
  EXPECT_TRUE(wire.sent().empty());
}

// One flipped bit anywhere on its way: never a copy that differs, and the older one stays.
TEST_F(Transfer, NoFlippedBitAndNoCutIsSealed) {
  const State older(SmallPlan(), 9);
  ArenaWriter writer(to_.bytes());
  ASSERT_TRUE(writer.Begin(30, 1, older.plan()).ok());
  writer.WriteAll(older.Tensors(), 1);
  writer.Seal();
  Wire wire;
  ASSERT_TRUE(Send(wire).ok());
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    // Half of them in the message, which is short.
    const size_t range = i % 2 == 0 ? wire.sent().size() : 400;
    const uint64_t bit = random.Below(range * 8);
    const std::byte mask{static_cast<unsigned char>(1u << bit % 8)};
    wire.sent()[bit / 8] ^= mask;
    wire.Rewind();
    ASSERT_FALSE(Receive(wire, to_.bytes()).ok()) << "bit " << bit;
    wire.sent()[bit / 8] ^= mask;
    const auto sealed = ArenaReader(to_.bytes()).ListSealed();
    ASSERT_EQ(sealed.size(), 1u);
    ASSERT_EQ(sealed[0].step, 30u);
  }
  for (int i = 0; i < 100; ++i) {
    Wire cut;
    cut.sent().assign(
        wire.sent().begin(),
        wire.sent().begin() + static_cast<ptrdiff_t>(random.Below(wire.sent().size())));
    ASSERT_FALSE(Receive(cut, to_.bytes()).ok());
  }
  const auto view = ArenaReader(to_.bytes()).Open(30);
  ASSERT_TRUE(view.ok() && older.Equals(view->tensors));
}

TEST_F(Transfer, DamageInTheSendersMemoryIsNamedThere) {
  const auto tensor = snapshot_.tensors[1];
  const auto at = static_cast<size_t>(tensor.data() - from_.bytes().data()) + (1 << 20) + 5;
  from_.bytes()[at] ^= std::byte{1};
  Wire wire;
  const Status status = Send(wire);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("tensor weight, chunk 1"), std::string::npos) << status;
  EXPECT_FALSE(Receive(wire, to_.bytes()).ok());
  EXPECT_TRUE(ArenaReader(to_.bytes()).ListSealed().empty());
}

TEST(PeerMessage, IsReadAsItWasWritten) {
  const State state(SmallPlan(), 1);
  PeerMessage offer;
  offer.kind = PeerKind::kOffer;
  offer.secret = "s";
  offer.key = {"job-1", 3, 40, 2};
  offer.plan = state.plan();
  offer.chunks = HashTensors(state.Tensors());
  PeerMessage fetch;
  fetch.kind = PeerKind::kFetch;
  fetch.key = {"job-1", 3, 40, 0};
  PeerMessage refused;
  refused.reason = "no room";
  PeerMessage ready;
  ready.kind = PeerKind::kReady;
  for (const PeerMessage& message : {offer, fetch, refused, ready}) {
    Wire wire;
    ASSERT_TRUE(SendPeerMessage(message, wire.write()).ok());
    const auto received = ReceivePeerMessage(wire.read());
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(*received, message);
  }
}

TEST(PeerMessage, AProbeAndItsAnswerArriveAsTheyWereSent) {
  PeerMessage probe;
  probe.kind = PeerKind::kProbe;
  probe.secret = "secret";
  probe.seed = 7;
  probe.answer_bytes = kMaxProbeBytes;
  probe.contents = ProbeContents(7, 1003);
  PeerMessage answer;
  answer.kind = PeerKind::kProbeAnswer;
  answer.contents = ProbeContents(~uint64_t{7}, 5);
  Wire wire;
  ASSERT_TRUE(SendPeerMessage(probe, wire.write()).ok());
  ASSERT_TRUE(SendPeerMessage(answer, wire.write()).ok());
  EXPECT_EQ(ReceivePeerMessage(wire.read()).value(), probe);
  EXPECT_EQ(ReceivePeerMessage(wire.read()).value(), answer);
  EXPECT_NE(ProbeContents(7, 64), ProbeContents(8, 64));
  EXPECT_EQ(ProbeContents(7, 0), "");
}

TEST(PeerMessage, RefusesAProbeThatAsksForTooMuch) {
  PeerMessage probe;
  probe.kind = PeerKind::kProbe;
  std::string frame = EncodePeerMessage(probe).value();
  // The payload: an empty secret, the seed, the bytes of the answer.
  const uint64_t too_many = kMaxProbeBytes + 1;
  std::memcpy(frame.data() + kPeerFrameBytes + 12, &too_many, sizeof(too_many));
  const uint64_t hash = Hash64(std::string_view(frame).substr(kPeerFrameBytes),
                               static_cast<uint32_t>(PeerKind::kProbe));
  std::memcpy(frame.data() + 16, &hash, sizeof(hash));
  const auto bytes = std::as_bytes(std::span(frame));
  const auto parse = [&] {
    return ParsePeerMessage(bytes.first(kPeerFrameBytes), bytes.subspan(kPeerFrameBytes));
  };
  EXPECT_EQ(parse().status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace longhaul::checkpoint
