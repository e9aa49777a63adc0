#include "checkpoint/state.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "checkpoint/testing.h"

namespace longhaul::checkpoint {
namespace {

TEST(StatePlan, CountsBytes) {
  const StatePlan plan = testing_support::SmallPlan();
  EXPECT_EQ(plan.bytes(0), 66u);
  EXPECT_EQ(plan.bytes(1), 320u * 1027 * 4);
  EXPECT_EQ(plan.bytes(2), 0u);
  EXPECT_EQ(plan.bytes(3), 8u);
  EXPECT_EQ(plan.total_bytes(), 66u + 320 * 1027 * 4 + 8);
}

TEST(StatePlan, RefusesWhatCannotBeATensor) {
  const std::vector<std::vector<TensorInfo>> kBad = {
      {{"", "F32", {1}}},
      {{std::string(256, 'x'), "F32", {1}}},
      {{"\xc0\x80", "F32", {1}}},
      {{"__metadata__", "F32", {1}}},
      {{"a", "float", {1}}},
      {{"a", "F32", {-1}}},
      {{"a", "F32", {1, 1, 1, 1, 1, 1, 1, 1, 1}}},
      {{"a", "U8", {int64_t{1} << 47}}},
      {{"a", "U8", {int64_t{1} << 40, int64_t{1} << 40}}},
      {{"a", "U8", {int64_t{1} << 46}}, {"b", "U8", {1}}},
      {{"a", "F32", {1}}, {"a", "F32", {1}}},
      {{"a", "F32", {2}, TensorPart{"", {4}, {0}}}},
      {{"a", "F32", {2}, TensorPart{"w", {4, 1}, {0, 0}}}},
      {{"a", "F32", {2}, TensorPart{"w", {4}, {-1}}}},
      {{"a", "F32", {2}, TensorPart{"w", {4}, {3}}}},
      {{"a", "F32", {0}, TensorPart{"w", {4}, {5}}}},
      {{"a", "F32", {2}, TensorPart{"w", {4}, {}}}},
      {{"a", "F32", {2}, TensorPart{"w", {4}, {0}}}, {"b", "F32", {2}, TensorPart{"w", {5}, {2}}}},
      {{"a", "F32", {2}, TensorPart{"w", {4}, {0}}}, {"w", "F32", {2}}},
  };
  for (const auto& tensors : kBad) {
    EXPECT_EQ(StatePlan::Create(tensors).status().code(), Code::kInvalidArgument);
  }
}

TEST(StatePlan, IsDecodedAsItWasEncodedAndNeverWhenCut) {
  std::vector<TensorInfo> tensors = testing_support::SmallPlan().tensors();
  tensors.push_back({"rows", "F32", {2, 3}, TensorPart{"whole rows", {8, 3}, {6, 0}}});
  const StatePlan plan = *StatePlan::Create(tensors);
  const std::string encoded = plan.Encode();
  const Result<StatePlan> decoded = StatePlan::Decode(encoded);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, plan);
  for (size_t cut = 0; cut < encoded.size(); ++cut) {
    EXPECT_FALSE(StatePlan::Decode(encoded.substr(0, cut)).ok()) << cut;
  }
  EXPECT_FALSE(StatePlan::Decode(encoded + '\0').ok());
}

TEST(StatePlan, NamesTheFirstDifference) {
  const auto plan = [](std::vector<TensorInfo> tensors) { return *StatePlan::Create(tensors); };
  const StatePlan one = plan({{"a", "F32", {2, 3}}, {"b", "F32", {1}}});
  EXPECT_EQ(one.FirstDifference(one), std::nullopt);
  EXPECT_EQ(one.FirstDifference(plan({{"a", "F32", {2, 3}}})), "2 tensors here and 1 there");
  EXPECT_EQ(one.FirstDifference(plan({{"a", "F32", {3, 2}}, {"b", "F32", {1}}})),
            "tensor 0 a is [2, 3] here and [3, 2] there");
  EXPECT_EQ(one.FirstDifference(plan({{"a", "F32", {2, 3}}, {"c", "F32", {1}}})),
            "tensor 1 is b here and c there");
  EXPECT_EQ(one.FirstDifference(plan({{"a", "F32", {2, 3}}, {"b", "I32", {1}}})),
            "tensor 1 b is F32 here and I32 there");
}

}  // namespace
}  // namespace longhaul::checkpoint
