#include "planner/gpt.h"

#include <gtest/gtest.h>

namespace longhaul::planner {
namespace {

spec::ModelSpec Model(uint32_t layers, uint32_t hidden, uint32_t sequence, uint32_t vocabulary) {
  spec::ModelSpec model;
  model.layers = layers;
  model.hidden = hidden;
  model.sequence = sequence;
  model.vocabulary = vocabulary;
  return model;
}

TEST(GptParameters, AgreeWithCountsByHand) {
  // Tables 2 * 257 * 128 = 65,792; positions 128 * 128 = 16,384; a layer 12 * 16,384 + 13 * 128 =
  // 198,272, four of them 793,088; last norm 256.
  EXPECT_EQ(GptParameters(Model(4, 128, 128, 257)), 875'520);
  // GPT-2's published 124,439,808 with the output tied, and its second table of 50,257 * 768.
  EXPECT_EQ(GptParameters(Model(12, 768, 1'024, 50'257)), 124'439'808 + 50'257 * 768);
  EXPECT_EQ(GptParameters(Model(1, 1, 8, 257)), 514 + 8 + 25 + 2);
}

TEST(GptStepFlops, AgreeWithAStepByHand) {
  // A token forward: 2 * (12 * 4 * 16,384 + 257 * 128) = 1,638,656 and attention 2 * 4 * 128 * 128
  // = 131,072. Three times that for 32 * 128 tokens.
  EXPECT_EQ(GptStepFlops(Model(4, 128, 128, 257), 32).count(), 3.0 * 4'096 * 1'769'728);
}

TEST(GptStepFlops, GrowWithTheBatchInProportion) {
  const spec::ModelSpec model = Model(3, 96, 200, 257);
  EXPECT_EQ(GptStepFlops(model, 10).count(), 10 * GptStepFlops(model, 1).count());
}

}  // namespace
}  // namespace longhaul::planner
