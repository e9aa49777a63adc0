// Any layout out of the memory of any other: real arenas, sealed by the ranks of one.
#include "checkpoint/reshard/load_snapshots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "checkpoint/copy.h"
#include "checkpoint/formats/reshard_files.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::DistinctBytes;
using testing_support::DtypeOf;
using testing_support::Fill;
using testing_support::RandomLayout;
using testing_support::RandomModel;
using testing_support::SmallModel;

// A rank's plan and room for its state.
struct Rank {
  Rank(const SmallModel& model, const std::vector<WantedShard>& held) : shards(held) {
    std::vector<TensorInfo> infos;
    for (const WantedShard& shard : held) {
      const uint64_t element = model.element_bytes[shard.tensor];
      const std::string& name = model.names[shard.tensor];
      infos.push_back({name + "#" + std::to_string(infos.size()), DtypeOf(element),
                       shard.box.shape(),
                       TensorPart{name, model.rules[shard.tensor].shape, shard.box.offsets()}});
      bytes.emplace_back(static_cast<uint64_t>(shard.box.elements()) * element);
    }
    plan = StatePlan::Create(std::move(infos)).value();
  }
  void FillFrom(const SmallModel& model) {
    for (size_t i = 0; i < shards.size(); ++i) {
      Fill(shards[i].tensor, shards[i].box, model.rules[shards[i].tensor].shape,
           model.element_bytes[shards[i].tensor], bytes[i], 0);
    }
  }
  std::vector<std::span<std::byte>> Memory() { return {bytes.begin(), bytes.end()}; }

  std::vector<WantedShard> shards;
  StatePlan plan;
  std::vector<std::vector<std::byte>> bytes;
};

// The arenas of all ranks of a layout, the state sealed in each.
struct Gang {
  Gang(const SmallModel& model, const spec::Layout& layout, uint64_t step) {
    for (uint32_t number = 0; number < layout.devices(); ++number) {
      Rank rank(model, ShardsOfRank(model.problem(layout), layout, number));
      rank.FillFrom(model);
      const uint64_t size = ArenaBytesFor(rank.plan);
      auto& memory = arenas.emplace_back(size + 64);
      const auto skip = (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
      const auto arena = std::span(memory).subspan(skip, size);
      ArenaWriter writer(arena);
      const Status begun = writer.Begin(step, 2, rank.plan);
      CHECK(begun.ok()) << begun.message();
      for (size_t i = 0; i < rank.bytes.size(); ++i) writer.Write(i, rank.bytes[i]);
      writer.Seal();
      const ArenaReader reader(arena);
      reached.push_back({"rank " + std::to_string(number) + "'s arena",
                         reader.InSlot(reader.ListSealed().front().slot).value()});
    }
  }

  std::vector<std::vector<std::byte>> arenas;
  std::vector<ReachedSnapshot> reached;
};

// A snapshot's chunks, given in the order in which they were announced.
struct StrictSource : ChunkSource {
  explicit StrictSource(const ReachedSnapshot& snapshot) : of(snapshot) {}
  void Expect(std::vector<ChunkId> chunks) override {
    CHECK(at == 0 || at == expected.size()) << "broken off in the middle";
    expected = std::move(chunks);
    at = 0;
  }
  Status Read(ChunkId chunk, std::span<std::byte> to) override {
    CHECK(at < expected.size() && expected[at] == chunk) << "out of turn";
    ++at;
    if (away) {
      at = expected.size();
      return Unavailable("gone");
    }
    const auto from = of.sealed.tensors[chunk.tensor].subspan(chunk.chunk * kChunkBytes, to.size());
    std::copy(from.begin(), from.end(), to.begin());
    bytes += to.size();
    return {};
  }

  const ReachedSnapshot& of;
  std::vector<ChunkId> expected;
  size_t at = 0;
  uint64_t bytes = 0;
  bool away = false;
};

// The gang's snapshots, those that `is_elsewhere` names behind a source.
struct Elsewhere {
  template <typename IsElsewhere>
  Elsewhere(const Gang& gang, IsElsewhere is_elsewhere) : reached(gang.reached) {
    for (size_t i = 0; i < reached.size(); ++i) {
      sources.push_back(std::make_unique<StrictSource>(gang.reached[i]));
      if (!is_elsewhere(i)) continue;
      reached[i].sealed.tensors.clear();
      reached[i].source = sources[i].get();
    }
  }
  uint64_t fetched() const {
    uint64_t sum = 0;
    for (const auto& source : sources) sum += source->bytes;
    return sum;
  }

  std::vector<ReachedSnapshot> reached;
  std::vector<std::unique_ptr<StrictSource>> sources;
};

spec::Layout Data(uint32_t data, uint32_t tensor) {
  spec::Layout layout;
  layout.data = data;
  layout.tensor = tensor;
  return layout;
}

void FlipBit(const ReachedSnapshot& snapshot) {
  for (const std::span<const std::byte> tensor : snapshot.sealed.tensors) {
    if (tensor.empty()) continue;
    const_cast<std::byte&>(tensor[tensor.size() / 2]) ^= std::byte{16};
    return;
  }
}

// LONGHAUL_RESHARD_PAIRS=1000 for the whole of it.
TEST(LoadFromSnapshots, OfRandomPairsOfLayoutsIsExactAndReadsEachByteOnce) {
  const char* pairs = std::getenv("LONGHAUL_RESHARD_PAIRS");
  const uint64_t count = pairs == nullptr ? 15 : std::strtoull(pairs, nullptr, 10);
  uint64_t fetched = 0;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const SmallModel model = RandomModel(random);
    const Gang gang(model, RandomLayout(random, model), 7);
    const spec::Layout to = RandomLayout(random, model);
    const auto number = static_cast<uint32_t>(random.Below(to.devices()));
    Rank rank(model, ShardsOfRank(model.problem(to), to, number));
    Rank truth = rank;
    truth.FillFrom(model);
    // Some of the snapshots lie elsewhere.
    Elsewhere elsewhere(gang, [&random](size_t) { return random.Below(2) == 0; });
    LoadedSnapshots loaded;
    const Status read = LoadFromSnapshots(elsewhere.reached, rank.plan, rank.Memory(), loaded);
    ASSERT_TRUE(read.ok()) << read;
    ASSERT_EQ(rank.bytes, truth.bytes);
    ASSERT_EQ(loaded.bytes_needed, DistinctBytes(model, rank.shards));
    ASSERT_EQ(loaded.bytes_fetched, elsewhere.fetched());
    fetched += loaded.bytes_fetched;
    // The whole chunks around them, each once: at most all that the ranks hold.
    ASSERT_GE(loaded.bytes_read, loaded.bytes_needed);
    uint64_t held = 0;
    for (const ReachedSnapshot& one : gang.reached) held += one.sealed.plan.total_bytes();
    ASSERT_LE(loaded.bytes_read, held);
    ASSERT_TRUE(loaded.damaged.empty());
  }
  EXPECT_GT(fetched, 0u);
}

TEST(LoadFromSnapshots, ADamagedReplicaIsLeftOutAndTheNextOneRead) {
  Random random(3);
  const SmallModel model = RandomModel(random);
  const Gang gang(model, Data(2, 2), 7);  // ranks 0 and 2, 1 and 3 hold the same
  FlipBit(gang.reached[0]);
  Rank rank(model, ShardsOfRank(model.problem(Data(1, 1)), Data(1, 1), 0));
  Rank truth = rank;
  truth.FillFrom(model);
  LoadedSnapshots loaded;
  const Status read = LoadFromSnapshots(gang.reached, rank.plan, rank.Memory(), loaded);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(rank.bytes, truth.bytes);
  ASSERT_EQ(loaded.damaged.size(), 1u);
  EXPECT_NE(loaded.damaged[0].find("rank 0's arena: the hash"), std::string::npos);
  EXPECT_EQ(loaded.left_out, std::vector<size_t>{0});

  FlipBit(gang.reached[2]);  // its only replica
  LoadedSnapshots lost;
  const Status refused = LoadFromSnapshots(gang.reached, rank.plan, rank.Memory(), lost);
  EXPECT_EQ(refused.code(), Code::kDataLoss);
  EXPECT_NE(refused.message().find("no saved shard holds"), std::string::npos) << refused;
  EXPECT_EQ(lost.left_out, (std::vector<size_t>{0, 2}));
}

TEST(LoadFromSnapshots, WhatIsHereIsReadBeforeWhatIsLikeItElsewhere) {
  Random random(5);
  const SmallModel model = RandomModel(random);
  const Gang gang(model, Data(2, 2), 7);
  const Elsewhere elsewhere(gang, [](size_t rank) { return rank < 2; });  // 2 and 3 are here
  Rank rank(model, ShardsOfRank(model.problem(Data(1, 1)), Data(1, 1), 0));
  Rank truth = rank;
  truth.FillFrom(model);
  LoadedSnapshots loaded;
  const Status read = LoadFromSnapshots(elsewhere.reached, rank.plan, rank.Memory(), loaded);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(rank.bytes, truth.bytes);
  EXPECT_EQ(loaded.bytes_fetched, 0u);
}

TEST(LoadFromSnapshots, AHolderThatGoesAwayIsLeftOut) {
  Random random(6);
  const SmallModel model = RandomModel(random);
  const Gang gang(model, Data(2, 2), 7);
  Elsewhere elsewhere(gang, [](size_t rank) { return rank != 2; });
  FlipBit(gang.reached[2]);  // the one that is here
  elsewhere.sources[1]->away = true;
  Rank rank(model, ShardsOfRank(model.problem(Data(1, 1)), Data(1, 1), 0));
  Rank truth = rank;
  truth.FillFrom(model);
  LoadedSnapshots loaded;
  const Status read = LoadFromSnapshots(elsewhere.reached, rank.plan, rank.Memory(), loaded);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(rank.bytes, truth.bytes);
  std::sort(loaded.left_out.begin(), loaded.left_out.end());
  EXPECT_EQ(loaded.left_out, (std::vector<size_t>{1, 2}));
}

TEST(LoadFromSnapshots, WhatNobodyReachedIsLostAndMixedStepsAreRefused) {
  Random random(4);
  const SmallModel model = RandomModel(random);
  const Gang gang(model, Data(1, 2), 7);
  Rank rank(model, ShardsOfRank(model.problem(Data(1, 1)), Data(1, 1), 0));
  LoadedSnapshots loaded;
  const Status half =
      LoadFromSnapshots(std::span(gang.reached).first(1), rank.plan, rank.Memory(), loaded);
  EXPECT_EQ(half.code(), Code::kDataLoss) << half;

  const Gang later(model, Data(1, 2), 8);
  const std::vector<ReachedSnapshot> mixed = {gang.reached[0], later.reached[1]};
  const Status refused = LoadFromSnapshots(mixed, rank.plan, rank.Memory(), loaded);
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("rank 1's arena is of step 8"), std::string::npos) << refused;
}

}  // namespace
}  // namespace longhaul::checkpoint
