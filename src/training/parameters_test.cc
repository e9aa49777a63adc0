#include "training/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "spec/model/parameters.h"

namespace longhaul::training::parameters_test {
namespace {

ModelConfig Mixture() {
  ModelConfig config;
  spec::Model& shape = config.shape;
  shape.layers = 3;
  shape.hidden = 32;
  shape.ffn_hidden = 48;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.vocabulary = 101;
  shape.sequence_length = 16;
  shape.gated_ffn = true;
  shape.qk_norm = true;
  shape.position = spec::Position::kRope;
  shape.experts = spec::Experts{.count = 4,
                                .top_k = 2,
                                .ffn_hidden = 24,
                                .shared = 1,
                                .shared_ffn_hidden = 24,
                                .dense_first_layers = 1};
  return config;
}

std::vector<Parameter> OfRank(const ModelConfig& config, const Layout& layout, uint32_t rank) {
  const Place place = PlaceOf(layout, rank);
  std::vector<Parameter> all;
  const auto take = [&](int32_t layer) {
    for (Parameter& parameter : ParametersOf(config, layout, place, layer)) {
      all.push_back(std::move(parameter));
    }
  };
  for (uint32_t chunk = 0; chunk < layout.chunks; ++chunk) {
    const uint32_t stage = chunk * layout.pipeline + place.stage;
    if (stage == 0) take(kEmbedding);
    const Cut layers = LayersOfStage(config, layout, stage);
    for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
      take(static_cast<int32_t>(layer));
    }
    if (stage + 1 == layout.stages()) take(kOutput);
  }
  return all;
}

TEST(Parameters, AreAsManyAsThePlannerCounts) {
  for (const bool tied : {false, true}) {
    ModelConfig config = Mixture();
    config.shape.tied_embeddings = tied;
    std::map<std::string, int64_t> counts;
    for (const Parameter& parameter : OfRank(config, {}, 0)) {
      counts[parameter.name] = parameter.count();
    }
    int64_t sum = 0;
    for (const auto& [name, count] : counts) sum += count;
    EXPECT_EQ(sum, spec::Parameters(config.shape));
  }
}

// Over the ranks that count in the norm, and one replica, each element occurs once.
TEST(Parameters, EachElementCountsOnceInEveryLayout) {
  const ModelConfig config = Mixture();
  for (const std::string text :
       {"dp1", "tp2", "tp4", "tp4 sp", "dp4 ep2", "dp2 tp2 ep2 pp3", "pp3", "cp2 tp2"}) {
    const Layout layout = *ParseLayout(text);
    int64_t sum = 0;
    for (uint32_t rank = 0; rank < layout.world(); ++rank) {
      const Place place = PlaceOf(layout, rank);
      for (const Parameter& parameter : OfRank(config, layout, rank)) {
        const bool replica = parameter.expert ? place.expert_replica > 0 : place.replica > 0;
        if (replica || place.ring > 0) continue;
        if (CountsInTensorGroup(layout, place, parameter)) sum += parameter.count();
      }
    }
    EXPECT_EQ(sum, spec::Parameters(config.shape)) << text;
  }
}

TEST(Parameters, PartsWithTheSameKeysSumTheirGradients) {
  const Layout layout = *ParseLayout("tp4");
  for (const Parameter& parameter : OfRank(Mixture(), layout, 3)) {
    const std::vector<uint32_t> ranks = ShareRanks(layout, 3, parameter);
    if (parameter.name == "model.layers.0.attention.key.weight") {
      EXPECT_EQ(ranks, (std::vector<uint32_t>{2, 3}));
      EXPECT_EQ(parameter.tensor_cut.begin, 8);
    }
    if (parameter.name == "model.layers.0.attention.query.weight") {
      EXPECT_EQ(ranks, std::vector<uint32_t>{3});
    }
    // Each part has its own heads, so that their norm is shared whatever the tokens are.
    if (parameter.name == "model.layers.0.attention.query_norm.weight") {
      EXPECT_EQ(ranks, (std::vector<uint32_t>{0, 1, 2, 3}));
    }
    if (parameter.name == "model.layers.1.router.weight") {
      EXPECT_EQ(ranks, (std::vector<uint32_t>{0, 1, 2, 3}));
    }
    if (parameter.name == "model.norm.weight") {
      EXPECT_EQ(ranks, std::vector<uint32_t>{3});
    }
  }
}

TEST(Parameters, WithDividedTokensTheNormsGradientsAreShares) {
  const Layout layout = *ParseLayout("tp2 sp");
  for (const Parameter& parameter : OfRank(Mixture(), layout, 0)) {
    if (parameter.name.find("norm") == std::string::npos) continue;
    EXPECT_EQ(ShareRanks(layout, 0, parameter), (std::vector<uint32_t>{0, 1})) << parameter.name;
  }
}

TEST(Parameters, InitialValuesAreNormalAndDependOnTheNameOnly) {
  const std::vector<Parameter> parameters = OfRank(Mixture(), {}, 0);
  const Parameter& token = parameters.front();
  const uint64_t key = InitialKey(token, 7);
  EXPECT_EQ(key, InitialKey(OfRank(Mixture(), *ParseLayout("tp2"), 1).front(), 7));
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    const double value = InitialValue(token, key, static_cast<uint64_t>(i)) / token.deviation;
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.015);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
}

}  // namespace
}  // namespace longhaul::training::parameters_test
