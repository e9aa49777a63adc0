#include "checkpoint/reshard/layout_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseLayout, TakesWhatItNamesAndOneForTheRest) {
  const auto layout = ParseLayout("tp=2,pp=3, dp=4,zero=1");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->tensor, 2u);
  EXPECT_EQ(layout->pipeline, 3u);
  EXPECT_EQ(layout->data, 4u);
  EXPECT_EQ(layout->zero_stage, 1u);
  EXPECT_EQ(layout->context, 1u);
  EXPECT_EQ(layout->devices(), 24u);
}

TEST(ParseLayout, RefusesByTheNameOfThePart) {
  const std::pair<const char*, const char*> kRows[] = {
      {"", "expected NAME=NUMBER"},
      {"tp", "expected NAME=NUMBER"},
      {"xp=2", "xp=2"},
      {"tp=0", "from 1 to 65536"},
      {"zero=4", "0 to 3"},
      {"tp=2,tp=2", "comes twice"},
      {"tp=-1", "from 1 to 65536"},
      {"tp=65536,dp=65536", "larger than 1,000,000"}};
  for (const auto& [text, reason] : kRows) {
    const auto layout = ParseLayout(text);
    ASSERT_FALSE(layout.ok()) << text;
    EXPECT_THAT(layout.status().message(), HasSubstr(reason)) << text;
  }
}

TEST(ShardingOf, FollowsNamesAndTheOptimizersState) {
  const std::vector<TensorInfo> tensors = {
      {"model.layers.3.attention.qkv.weight", "F32", {12, 4}},
      {"optimizer.first_moment.model.layers.3.attention.qkv.weight", "F32", {12, 4}},
      {"model/layers/1/mlp/down/weight", "F32", {4, 16}},
      {"model.embedding.token.weight", "F32", {8, 4}},
      {"model.output.weight", "F32", {8, 4}},
      {"model.layers.0.mlp.experts.5.down_proj.weight", "F32", {4, 8}},
      {"model.layers.2.attention.norm.weight", "F32", {4}},
      {"step", "I64", {}},
      {"optimizer.state.h.1.mlp.c_fc.weight.step", "F32", {}}};
  const NamedSharding sharding = ShardingOf(tensors, BuiltInRules());
  const auto& rules = sharding.rules;
  EXPECT_EQ(sharding.layers, 4u);
  EXPECT_EQ(sharding.experts, 6u);
  EXPECT_THAT(sharding.unmatched, ElementsAre("step"));
  EXPECT_EQ(rules[0].tensor_dim, 0);
  EXPECT_EQ(rules[0].fused, 3u);
  EXPECT_EQ(rules[0].layer, 3u);
  EXPECT_EQ(rules[0].zero_stage, 3u);
  EXPECT_EQ(rules[1].fused, 3u);
  EXPECT_EQ(rules[1].zero_stage, 1u);
  EXPECT_EQ(rules[2].tensor_dim, 1);
  EXPECT_EQ(rules[3].place, TensorPlace::kFirstStage);
  EXPECT_EQ(rules[4].place, TensorPlace::kLastStage);
  EXPECT_EQ(rules[5].expert, 5);
  EXPECT_EQ(rules[5].tensor_dim, 1);
  EXPECT_EQ(rules[6].tensor_dim, -1);
  EXPECT_EQ(rules[6].place, TensorPlace::kLayer);
  EXPECT_EQ(rules[7].place, TensorPlace::kEveryStage);
  EXPECT_EQ(rules[8].tensor_dim, -1);  // a scalar can't be cut
  EXPECT_EQ(rules[8].place, TensorPlace::kLayer);
}

// The last row takes years if each star tries every place for itself.
TEST(ShardingOf, MatchesStarsToAnyText) {
  const std::tuple<std::string, std::string, bool> kRows[] = {
      {"w*", "weight", true},
      {"*ght", "weight", true},
      {"w*g*t", "weight", true},
      {"*", "", true},
      {"w*t*w", "weight", false},
      {"ab*ba", "aba", false},
      {"*ab*ab", "ab", false},
      {"*ab*ab", "abab", true},
      {"*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(5'000, 'a'), false}};
  for (const auto& [pattern, name, matches] : kRows) {
    NameRule rule;
    rule.match = pattern;
    const std::vector<TensorInfo> tensors = {{name, "F32", {4}}};
    const NamedSharding sharding = ShardingOf(tensors, std::vector<NameRule>{rule});
    EXPECT_EQ(sharding.unmatched.empty(), matches) << pattern << " " << name.substr(0, 20);
  }
}

TEST(ParseNameRules, ReadsAndRefuses) {
  const auto rules = ParseNameRules(
      R"({"rules": [{"match": "blk.{layer}.up", "dim": 1, "fused": 2},
                    {"match": "tok", "dim": 0, "place": "first"}]})");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ((*rules)[0].dim, 1);
  EXPECT_EQ((*rules)[0].fused, 2u);
  EXPECT_EQ((*rules)[1].place, TensorPlace::kFirstStage);
  const std::pair<const char*, const char*> kRows[] = {
      {"{}", "rules are a JSON object"},
      {R"({"rules": [{"dim": 1}]})", "rule 0 has no match"},
      {R"({"rules": [{"match": "a", "dim": 9}]})", "rule 0: dim"},
      {R"({"rules": [{"match": "a", "place": "middle"}]})", "rule 0: place"},
      {R"({"rules": [{"match": "a", "x": 1}]})", "rule 0: x is unknown"},
      {R"({"rules": [7]})", "rule 0 is no object"}};
  for (const auto& [text, reason] : kRows) {
    const auto refused = ParseNameRules(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_THAT(refused.status().message(), HasSubstr(reason)) << text;
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
