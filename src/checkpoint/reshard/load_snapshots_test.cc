// Any layout out of the memory of any other: real arenas, sealed by the ranks of one.
#include "checkpoint/reshard/load_snapshots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
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
    const auto loaded = LoadFromSnapshots(gang.reached, rank.plan, rank.Memory());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_EQ(rank.bytes, truth.bytes);
    ASSERT_EQ(loaded->bytes_needed, DistinctBytes(model, rank.shards));
    // The whole chunks around them, each once: at most all that the ranks hold.
    ASSERT_GE(loaded->bytes_read, loaded->bytes_needed);
    uint64_t held = 0;
    for (const ReachedSnapshot& one : gang.reached) held += one.sealed.plan.total_bytes();
    ASSERT_LE(loaded->bytes_read, held);
    ASSERT_TRUE(loaded->damaged.empty());
  }
}

TEST(LoadFromSnapshots, ADamagedReplicaIsLeftOutAndTheNextOneRead) {
  Random random(3);
  const SmallModel model = RandomModel(random);
  const Gang gang(model, Data(2, 2), 7);  // ranks 0 and 2, 1 and 3 hold the same
  FlipBit(gang.reached[0]);
  Rank rank(model, ShardsOfRank(model.problem(Data(1, 1)), Data(1, 1), 0));
  Rank truth = rank;
  truth.FillFrom(model);
  const auto loaded = LoadFromSnapshots(gang.reached, rank.plan, rank.Memory());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(rank.bytes, truth.bytes);
  ASSERT_EQ(loaded->damaged.size(), 1u);
  EXPECT_NE(loaded->damaged[0].find("rank 0's arena: the hash"), std::string::npos);

  FlipBit(gang.reached[2]);  // its only replica
  const auto lost = LoadFromSnapshots(gang.reached, rank.plan, rank.Memory());
  EXPECT_EQ(lost.status().code(), Code::kDataLoss);
  EXPECT_NE(lost.status().message().find("no saved shard holds"), std::string::npos)
      << lost.status();
}

TEST(LoadFromSnapshots, WhatNobodyReachedIsLostAndMixedStepsAreRefused) {
  Random random(4);
  const SmallModel model = RandomModel(random);
  const Gang gang(model, Data(1, 2), 7);
  Rank rank(model, ShardsOfRank(model.problem(Data(1, 1)), Data(1, 1), 0));
  const auto half = LoadFromSnapshots(std::span(gang.reached).first(1), rank.plan, rank.Memory());
  EXPECT_EQ(half.status().code(), Code::kDataLoss) << half.status();

  const Gang later(model, Data(1, 2), 8);
  const std::vector<ReachedSnapshot> mixed = {gang.reached[0], later.reached[1]};
  const auto refused = LoadFromSnapshots(mixed, rank.plan, rank.Memory());
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("rank 1's arena is of step 8"), std::string::npos)
      << refused.status();
}

}  // namespace
}  // namespace longhaul::checkpoint
