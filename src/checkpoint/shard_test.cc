#include "checkpoint/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/random.h"
#include "checkpoint/directory.h"
#include "checkpoint/reshard/read_plan.h"
#include "checkpoint/testing.h"
#include "sim/crash_file_system.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::ManifestOf;
using testing_support::State;

constexpr int64_t kRows = 640, kColumns = 1030;

// What each of two ranks holds: half the rows of a global matrix of 2.5 MiB, and all of a vector.
StatePlan HalfOfTheRows(uint32_t rank) {
  return *StatePlan::Create({{"rows." + std::to_string(rank),
                              "F32",
                              {kRows / 2, kColumns},
                              TensorPart{"weight", {kRows, kColumns}, {rank * kRows / 2, 0}}},
                             {"bias", "BF16", {7}}});
}

class SavedShards : public testing::Test {
 protected:
  void SetUp() override {
    Manifest order = ManifestOf(40, 1, 2);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const State& state = states_.emplace_back(HalfOfTheRows(rank), rank);
      order.files.push_back(
          *checkpoints_.WritePiece(40, 1, rank, 2, state.plan(), state.Tensors()));
    }
    ASSERT_TRUE(checkpoints_.Commit(order).ok());
    manifest_ = *checkpoints_.Read(40, 1);
  }

  CheckpointDirectory::OpenedShard Opened(size_t file) {
    auto opened = checkpoints_.OpenShard(manifest_, manifest_.files[file]);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return std::move(opened).value();
  }

  sim::CrashFileSystem files_;
  CheckpointDirectory checkpoints_{files_, "/run/checkpoints"};
  std::vector<State> states_;
  Manifest manifest_;
};

TEST_F(SavedShards, TheManifestSaysWhereEveryBoxLies) {
  ASSERT_EQ(manifest_.tensors.size(), 2u);
  EXPECT_EQ(manifest_.tensors[0], (TensorInfo{"weight", "F32", {kRows, kColumns}}));
  ASSERT_EQ(manifest_.pieces.size(), 4u);
  const Piece& second = manifest_.pieces[2];
  EXPECT_EQ(second.name, "rows.1");
  EXPECT_EQ(second.box.offsets(), (std::vector<int64_t>{kRows / 2, 0}));
  EXPECT_EQ(second.box.shape(), (std::vector<int64_t>{kRows / 2, kColumns}));
  EXPECT_EQ(second.offset, manifest_.files[1].header_bytes);
  EXPECT_EQ(second.offset % 4096, 0u);
  EXPECT_EQ(second.hash, HashOfChunks(HashTensors(states_[1].Tensors())[0]));
  EXPECT_EQ(PieceBytes(manifest_, second), uint64_t{kRows / 2 * kColumns * 4});
}

// The whole matrix in one rank, by the manifest and a read plan.
TEST_F(SavedShards, LoadIntoAnotherLayout) {
  std::vector<SavedShard> saved;
  for (const Piece& piece : manifest_.pieces) {
    saved.push_back({piece.tensor, piece.box, piece.file, piece.offset});
  }
  const WantedShard wanted[] = {{0, Box::Whole(manifest_.tensors[0].shape)}};
  const uint64_t element_bytes[] = {4, 2};
  const std::string names[] = {"weight", "bias"};
  const auto plan = PlanReads(saved, wanted, element_bytes, names);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::byte> matrix(kRows * kColumns * 4);
  for (const Read& read : plan->reads) {
    const auto shard = Opened(read.file);
    std::vector<std::byte> bytes(read.bytes);
    const uint64_t begin = read.offset - shard.header.offsets[0];
    const Status status = ReadVerified(*shard.file, shard.header, 0, begin, bytes);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < read.copies; ++i) {
      const Copy& copy = plan->copies[read.first_copy + i];
      std::memcpy(matrix.data() + copy.to, bytes.data() + copy.from, copy.bytes);
    }
  }
  const size_t half = matrix.size() / 2;
  EXPECT_EQ(std::memcmp(matrix.data(), states_[0].tensor(0).data(), half), 0);
  EXPECT_EQ(std::memcmp(matrix.data() + half, states_[1].tensor(0).data(), half), 0);
}

TEST_F(SavedShards, AnyRangeReadsAsItWasWritten) {
  const auto shard = Opened(0);
  const auto whole = states_[0].tensor(0);
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    const size_t begin = random.Below(whole.size());
    const size_t bytes = random.Below(whole.size() - begin + 1);
    std::vector<std::byte> got(bytes);
    ASSERT_TRUE(ReadVerified(*shard.file, shard.header, 0, begin, got).ok());
    ASSERT_TRUE(std::equal(got.begin(), got.end(), whole.begin() + static_cast<ptrdiff_t>(begin)))
        << bytes << " bytes at " << begin;
  }
}

TEST_F(SavedShards, AFlippedBitIsFoundWhereItIs) {
  const uint64_t data_at = manifest_.files[0].header_bytes;
  const uint64_t hit = data_at + (1 << 20) + 17;  // in the second chunk
  files_.FlipBit("/run/checkpoints/step-000000040.e1/" + PieceName(0, 2), hit * 8 + 3);
  const auto shard = Opened(0);
  std::vector<std::byte> chunk(1 << 20);
  EXPECT_TRUE(ReadVerified(*shard.file, shard.header, 0, 0, chunk).ok());
  // One byte beside the damage, in the same chunk: not believed.
  const Status status =
      ReadVerified(*shard.file, shard.header, 0, (1 << 20) + 100, std::span(chunk).first(1));
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("rows.0, chunk 1"), std::string::npos) << status;
}

TEST_F(SavedShards, AFlippedBitOfTheHeaderIsFoundBeforeItIsParsed) {
  const std::string path = "/run/checkpoints/step-000000040.e1/" + PieceName(1, 2);
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const uint64_t bit = random.Below(manifest_.files[1].header_bytes * 8);
    files_.FlipBit(path, bit);
    EXPECT_EQ(checkpoints_.OpenShard(manifest_, manifest_.files[1]).status().code(),
              Code::kDataLoss)
        << "bit " << bit;
    files_.FlipBit(path, bit);
  }
}

TEST(Shard, RanksThatDisagreeOnATensorAreNotCommitted) {
  sim::CrashFileSystem files;
  CheckpointDirectory checkpoints(files, "/run/checkpoints");
  Manifest order = ManifestOf(40, 1, 2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const State state(*StatePlan::Create({{"a", rank == 0 ? "F32" : "I32", {5}}}), rank);
    order.files.push_back(*checkpoints.WritePiece(40, 1, rank, 2, state.plan(), state.Tensors()));
  }
  const Status status = checkpoints.Commit(order);
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("disagree"), std::string::npos) << status;
}

// Hashes made when the bytes were right go with them; bytes that changed since are not saved.
TEST(Shard, BytesThatChangedSinceTheirCopyAreNotSaved) {
  sim::CrashFileSystem files;
  CheckpointDirectory checkpoints(files, "/run/checkpoints");
  State state(testing_support::TinyPlan(), 1);
  const ChunkHashes hashes = HashTensors(state.Tensors());
  state.Writable()[1][7] ^= std::byte{4};
  const Status status =
      checkpoints.WriteHashedPiece({40, 1, 0, 1}, state.plan(), hashes, state.Tensors()).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("tensor b, chunk 0"), std::string::npos) << status;
  EXPECT_TRUE(files.List("/run/checkpoints")->empty()) << "nothing is left";
}

TEST(Shard, AHeaderIsReadAsItWasWrittenAndRefusedWhenItSaysMore) {
  const StatePlan plan = HalfOfTheRows(1);
  const State state(plan, 3);
  const ChunkHashes chunks = HashTensors(state.Tensors());
  const ShardId id{40, 2, 1, 2};
  const std::string text = *EncodeShardHeader(id, plan, chunks);
  const uint64_t file_bytes = text.size() + plan.total_bytes();
  const auto parse = [&](const std::string& header) {
    return ParseShardHeader(std::as_bytes(std::span(header)), file_bytes);
  };
  const auto parsed = parse(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->id, id);
  EXPECT_EQ(parsed->plan, plan);
  EXPECT_EQ(parsed->chunks, chunks);
  const struct {
    const char* from;
    const char* to;
  } kBad[] = {{"longhaul.step\":\"40", "longhaul.step\":\"00"},
              {"longhaul.step\":\"40", "longhaul.step\":\"4x"},
              {"longhaul.rank\":\"1", "longhaul.rank\":\"2"},
              {"longhaul.format\":\"2", "longhaul.format\":\"1"},
              {"chunks:bias", "chunks:bixs"},
              {"part:rows", "parx:rows"},
              {"\\\"of\\\":", "\\\"oF\\\":"},
              {"\\\"offset\\\":[320", "\\\"offset\\\":[321"}};
  for (const auto& row : kBad) {
    std::string bad = text;
    const size_t at = bad.find(row.from);
    ASSERT_NE(at, std::string::npos) << row.from;
    bad.replace(at, std::strlen(row.from), row.to);
    ASSERT_EQ(bad.size(), text.size());
    EXPECT_EQ(parse(bad).status().code(), Code::kDataLoss) << row.to;
  }
}

TEST(Shard, OfAVersionThatCalledAnAttemptAnEpochIsRead) {
  const StatePlan plan = HalfOfTheRows(1);
  const ShardId id{40, 2, 1, 2};
  std::string text = *EncodeShardHeader(id, plan, HashTensors(State(plan, 3).Tensors()));
  const std::string key = "\"longhaul.attempt\"";
  const std::string old_key = "\"longhaul.epoch\"";
  const size_t at = text.find(key);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, key.size(), old_key).append(key.size() - old_key.size(), ' ');
  const auto parsed =
      ParseShardHeader(std::as_bytes(std::span(text)), text.size() + plan.total_bytes());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->id, id);
}

}  // namespace
}  // namespace longhaul::checkpoint
