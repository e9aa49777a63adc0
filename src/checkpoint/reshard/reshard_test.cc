// Any layout from any other: bytes are compared one by one, and counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/random.h"
#include "checkpoint/reshard/box.h"
#include "checkpoint/reshard/layout_shards.h"
#include "checkpoint/reshard/random_layouts.h"
#include "checkpoint/reshard/read_plan.h"

namespace longhaul::checkpoint {
namespace {

using testing_support::DistinctBytes;
using testing_support::Fill;
using testing_support::RandomLayout;
using testing_support::RandomModel;
using testing_support::ShardsOfAll;
using testing_support::SmallModel;

Box At(std::vector<int64_t> offset, std::vector<int64_t> extent) { return Box::At(offset, extent); }

TEST(BoxesOfRange, AreTheRangeInOrder) {
  const std::vector<int64_t> shape = {3, 4};
  // Elements 2 to 9: the end of row 0, row 1, the first two of row 2.
  const auto boxes = BoxesOfRange(shape, 2, 10);
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0], At({0, 2}, {1, 2}));
  EXPECT_EQ(boxes[1], At({1, 0}, {1, 4}));
  EXPECT_EQ(boxes[2], At({2, 0}, {1, 2}));
  EXPECT_EQ(BoxesOfRange(shape, 0, 12), std::vector<Box>{At({0, 0}, {3, 4})});
  EXPECT_EQ(BoxesOfRange(shape, 5, 7), std::vector<Box>{At({1, 1}, {1, 2})});
  EXPECT_TRUE(BoxesOfRange(shape, 5, 5).empty());
  EXPECT_EQ(BoxesOfRange({}, 0, 1), std::vector<Box>{Box()});
}

TEST(Subtract, LeavesWhatIsOutsideOnce) {
  std::vector<Box> rest;
  Subtract(At({0, 0}, {4, 4}), At({1, 1}, {2, 2}), rest);
  int64_t elements = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    elements += rest[i].elements();
    EXPECT_FALSE(Intersect(rest[i], At({1, 1}, {2, 2})).has_value());
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(Intersect(rest[i], rest[j]).has_value());
  }
  EXPECT_EQ(elements, 12);
}

TEST(PlanReads, ReadsAColumnCutByRowsOnce) {
  // A 4 x 6 tensor of 2-byte elements saved as two column halves; the lower two rows are wanted by
  // two readers.
  const std::vector<SavedShard> saved = {{0, At({0, 0}, {4, 3}), 0, 100},
                                         {0, At({0, 3}, {4, 3}), 1, 200}};
  const std::vector<WantedShard> wanted = {{0, At({2, 0}, {2, 6})}, {0, At({2, 0}, {2, 6})}};
  const std::vector<uint64_t> bytes = {2};
  const std::vector<std::string> names = {"w"};
  const auto plan = PlanReads(saved, wanted, bytes, names);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->reads.size(), 2u);
  EXPECT_EQ(plan->reads[0].offset, 112u);
  EXPECT_EQ(plan->reads[0].bytes, 12u);
  EXPECT_EQ(plan->reads[1].offset, 212u);
  EXPECT_EQ(plan->bytes_read, 24u);
  EXPECT_EQ(plan->bytes_needed, 24u);
  EXPECT_EQ(plan->bytes_wanted, 48u);
}

TEST(PlanReads, NamesWhatNoFileHolds) {
  const std::vector<SavedShard> saved = {{0, At({0}, {3}), 0, 0}};
  const std::vector<WantedShard> wanted = {{0, At({1}, {4})}};
  const std::vector<uint64_t> bytes = {4};
  const std::vector<std::string> names = {"bias"};
  const auto plan = PlanReads(saved, wanted, bytes, names);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::kDataLoss);
  EXPECT_NE(plan.status().message().find("[3:5] of bias"), std::string::npos)
      << plan.status().message();
}

TEST(PlanReads, SmallGapsMakeOneReadWhenAllowed) {
  const std::vector<SavedShard> saved = {{0, At({0, 0}, {4, 8}), 0, 0}};
  const std::vector<WantedShard> wanted = {{0, At({0, 0}, {4, 6})}};
  const std::vector<uint64_t> bytes = {1};
  const std::vector<std::string> names = {"w"};
  const auto exact = PlanReads(saved, wanted, bytes, names);
  const auto merged = PlanReads(saved, wanted, bytes, names, 2);
  EXPECT_EQ(exact->reads.size(), 4u);
  EXPECT_EQ(exact->bytes_read, 24u);
  EXPECT_EQ(merged->reads.size(), 1u);
  EXPECT_EQ(merged->bytes_read, 30u);
  EXPECT_EQ(merged->bytes_needed, 24u);
}

// --- Random models and layouts.

struct SavedState {
  std::vector<SavedShard> shards;
  std::vector<std::vector<std::byte>> files;  // one a rank
};

SavedState Save(const SmallModel& model, const spec::Layout& layout) {
  SavedState saved;
  for (uint32_t rank = 0; rank < layout.devices(); ++rank) {
    std::vector<std::byte>& file = saved.files.emplace_back(3);  // begins nowhere in particular
    for (const WantedShard& shard : ShardsOfRank(model.problem(layout), layout, rank)) {
      const uint64_t bytes = model.element_bytes[shard.tensor];
      const uint64_t at = file.size();
      file.resize(at + static_cast<uint64_t>(shard.box.elements()) * bytes);
      Fill(shard.tensor, shard.box, model.rules[shard.tensor].shape, bytes, file, at);
      saved.shards.push_back({shard.tensor, shard.box, rank, at});
    }
  }
  return saved;
}

// Loads some ranks of a layout and compares every byte. Returns an error for people.
std::string LoadAndCompare(const SmallModel& model, const SavedState& saved,
                           const std::vector<WantedShard>& wanted) {
  const auto plan = PlanReads(saved.shards, wanted, model.element_bytes, model.names);
  if (!plan.ok()) return plan.status().message();
  if (plan->bytes_read != plan->bytes_needed) return "read more than needed";
  std::vector<std::vector<std::byte>> memory;
  std::set<std::pair<uint32_t, uint64_t>> touched;  // (file, byte), counted independently
  for (const WantedShard& shard : wanted) {
    memory.emplace_back(static_cast<uint64_t>(shard.box.elements()) *
                        model.element_bytes[shard.tensor]);
  }
  for (const Read& read : plan->reads) {
    for (uint64_t i = 0; i < read.bytes; ++i) {
      if (!touched.emplace(read.file, read.offset + i).second) return "a byte is read twice";
    }
    for (size_t i = 0; i < read.copies; ++i) {
      const Copy& copy = plan->copies[read.first_copy + i];
      std::memcpy(memory[copy.wanted].data() + copy.to,
                  saved.files[read.file].data() + read.offset + copy.from, copy.bytes);
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::vector<std::byte> expected(memory[i].size());
    Fill(wanted[i].tensor, wanted[i].box, model.rules[wanted[i].tensor].shape,
         model.element_bytes[wanted[i].tensor], expected, 0);
    if (memory[i] != expected) {
      return model.names[wanted[i].tensor] + " " + ToString(wanted[i].box) + " differs";
    }
  }
  return "";
}

TEST(ShardsOfRank, OfAllRanksAreTheWholeState) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const SmallModel model = RandomModel(random);
    const spec::Layout layout = RandomLayout(random, model);
    uint64_t whole = 0;
    for (size_t i = 0; i < model.rules.size(); ++i) {
      whole += static_cast<uint64_t>(Box::Whole(model.rules[i].shape).elements()) *
               model.element_bytes[i];
    }
    EXPECT_EQ(DistinctBytes(model, ShardsOfAll(model, layout)), whole) << "seed " << seed;
  }
}

TEST(ShardsOfRank, OfZeroStageThreeHoldEachElementOnceAStage) {
  Random random(3);
  SmallModel model = RandomModel(random);
  spec::Layout layout;
  layout.data = 4;
  layout.zero_stage = 3;
  uint64_t held = 0;
  for (const WantedShard& shard : ShardsOfAll(model, layout)) {
    held += static_cast<uint64_t>(shard.box.elements()) * model.element_bytes[shard.tensor];
  }
  EXPECT_EQ(held, DistinctBytes(model, ShardsOfAll(model, layout)));
}

TEST(ShardsOfRank, CutFusedProjectionsPartByPart) {
  // Queries, keys and values of 4 rows each over two tensor ranks: rank 1 holds the lower half of
  // each. ZeRO-1 over two replicas cuts a moment's 6 x 2 local elements in halves.
  TensorRule weight{{12, 2}, 0, 3, false, TensorPlace::kLayer, 0, -1, 3};
  TensorRule moment = weight;
  moment.zero_stage = 1;
  const std::vector<TensorRule> rules = {weight, moment};
  spec::Layout layout;
  layout.tensor = 2;
  layout.data = 2;
  layout.zero_stage = 1;
  const ShardingProblem problem{rules, 1, 0};
  ASSERT_TRUE(CheckSharding(problem, layout).ok());
  const auto shards = ShardsOfRank(problem, layout, 3);  // tensor 1, replica 1
  ASSERT_EQ(shards.size(), 5u);
  EXPECT_EQ(shards[0].box, At({2, 0}, {2, 2}));
  EXPECT_EQ(shards[1].box, At({6, 0}, {2, 2}));
  EXPECT_EQ(shards[2].box, At({10, 0}, {2, 2}));
  EXPECT_EQ(shards[3].box, At({7, 0}, {1, 2}));  // local rows 3, 4 and 5
  EXPECT_EQ(shards[4].box, At({10, 0}, {2, 2}));
  layout.tensor = 3;
  EXPECT_EQ(CheckSharding(problem, layout).code(), Code::kInvalidArgument);
}

// PyTorch's fully_shard: 5 rows over 2 ranks are 3 and 2, a scalar is on both. In groups of 2 the
// four replicas hold everything twice.
TEST(ShardsOfRank, RowsAreCutAsFullyShardCutsThem) {
  const std::vector<TensorRule> rules = {{{5, 4}, -1, 1, false, TensorPlace::kEveryStage, 0, -1, 3},
                                         {{}, -1, 1, false, TensorPlace::kEveryStage, 0, -1, 3},
                                         {{4}, -1, 1, false, TensorPlace::kEveryStage, 0, -1, 3}};
  ShardingProblem problem{rules, 0, 0};
  problem.zero_form = ZeroForm::kRows;
  problem.zero_group = 2;
  spec::Layout layout;
  layout.data = 4;
  layout.zero_stage = 3;
  ASSERT_TRUE(CheckSharding(problem, layout).ok());
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const auto shards = ShardsOfRank(problem, layout, rank);
    ASSERT_EQ(shards.size(), 3u) << rank;
    EXPECT_EQ(shards[0].box, rank % 2 == 0 ? At({0, 0}, {3, 4}) : At({3, 0}, {2, 4})) << rank;
    EXPECT_EQ(shards[1].box.elements(), 1);
    EXPECT_EQ(shards[2].box, rank % 2 == 0 ? At({0}, {2}) : At({2}, {2})) << rank;
  }
  problem.zero_group = 3;
  const Status refused = CheckSharding(problem, layout);
  EXPECT_NE(refused.message().find("groups of 3 don't divide the 4 replicas"), std::string::npos)
      << refused;
}

TEST(ShardsOfRank, UnevenPartsDifferByOne) {
  std::vector<TensorRule> rules = {{{257, 2}, 0, 1, true, TensorPlace::kEveryStage, 0, -1, 4}};
  spec::Layout layout;
  layout.tensor = 2;
  ASSERT_TRUE(CheckSharding({rules, 0, 0}, layout).ok());
  EXPECT_EQ(ShardsOfRank({rules, 0, 0}, layout, 0)[0].box, At({0, 0}, {128, 2}));
  EXPECT_EQ(ShardsOfRank({rules, 0, 0}, layout, 1)[0].box, At({128, 0}, {129, 2}));
  rules[0].uneven = false;
  EXPECT_FALSE(CheckSharding({rules, 0, 0}, layout).ok());
}

TEST(StageOfLayer, InterleavesChunks) {
  spec::Layout layout;
  layout.pipeline = 2;
  layout.virtual_pipeline = 2;
  // Seven layers in four chunks of 2, 2, 2 and 1, dealt out to the stages in turn.
  const std::vector<uint32_t> expected = {0, 0, 1, 1, 0, 0, 1};
  for (uint32_t layer = 0; layer < 7; ++layer) {
    EXPECT_EQ(StageOfLayer(layout, 7, layer), expected[layer]) << layer;
  }
  layout.layers_per_stage = {1, 1, 2, 3};
  EXPECT_EQ(StageOfLayer(layout, 7, 1), 1u);
  EXPECT_EQ(StageOfLayer(layout, 7, 3), 0u);
}

// LONGHAUL_RESHARD_PAIRS=1000 for the whole of it.
TEST(Reshard, OfRandomPairsOfLayoutsIsExact) {
  const char* wanted_pairs = std::getenv("LONGHAUL_RESHARD_PAIRS");
  const uint64_t pairs = wanted_pairs == nullptr ? 60 : std::strtoull(wanted_pairs, nullptr, 10);
  for (uint64_t seed = 1; seed <= pairs; ++seed) {
    Random random(seed);
    const SmallModel model = RandomModel(random);
    const spec::Layout from = RandomLayout(random, model);
    const spec::Layout to = RandomLayout(random, model);
    const SavedState saved = Save(model, from);
    // One rank alone, and all ranks of a host that reads for them together.
    const auto rank = static_cast<uint32_t>(random.Below(to.devices()));
    const auto one = ShardsOfRank(model.problem(to), to, rank);
    const auto all = ShardsOfAll(model, to);
    for (const auto& wanted : {one, all}) {
      ASSERT_EQ(LoadAndCompare(model, saved, wanted), "") << "seed " << seed;
    }
    const auto plan = PlanReads(saved.shards, one, model.element_bytes, model.names);
    ASSERT_EQ(plan->bytes_needed, DistinctBytes(model, one)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
