// The optimizers of the C header: the arguments that they refuse, and that they run the kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "longhaul.h"
#include "optimizer/adamw.h"

extern "C" int UpdateFromC(float* weights, const float* gradients, float* momentum, size_t count);

namespace longhaul::worker_api::optimizer_api_test {
namespace {

constexpr size_t kCount = 6;

struct Arrays {
  std::vector<float> weights = {1, -2, 3, -4, 5, -6};
  std::vector<float> gradients = {0.1F, 0.2F, -0.3F, 0.4F, 0.5F, -0.6F};
  std::vector<float> first = std::vector<float>(kCount);
  std::vector<float> second = std::vector<float>(kCount);
};

const longhaul_adamw_options kAdamW = {sizeof(longhaul_adamw_options), 0.9, 0.95, 1e-8};
const longhaul_update kUpdate = {sizeof(longhaul_update), 1, 0.01, 0.1, 1};

int StepAdamW(const longhaul_adamw_options& options, const longhaul_update& update, Arrays& arrays,
              longhaul_error& error) {
  return longhaul_adamw(&options, &update, kCount, arrays.weights.data(), arrays.gradients.data(),
                        arrays.first.data(), arrays.second.data(), &error);
}

TEST(OptimizerApi, AdamWGivesTheBitsOfTheKernel) {
  Arrays through, direct;
  longhaul_error error = {};
  ASSERT_EQ(StepAdamW(kAdamW, kUpdate, through, error), LONGHAUL_OK) << error.message;
  optimizer::Update(optimizer::AdamW{0.9, 0.95, 1e-8}, {1, 0.01, 0.1, 1}, direct.weights,
                    direct.gradients, direct.first, direct.second);
  EXPECT_EQ(through.weights, direct.weights);
  EXPECT_EQ(through.second, direct.second);
}

TEST(OptimizerApi, LionStepsFromC) {
  Arrays arrays;
  ASSERT_EQ(UpdateFromC(arrays.weights.data(), arrays.gradients.data(), arrays.first.data(), 2),
            LONGHAUL_OK);
  EXPECT_EQ(arrays.weights, (std::vector<float>{0.5, -2.5, 3, -4, 5, -6}));
}

TEST(OptimizerApi, RefusesOptionsOutOfRangeAndWritesNothing) {
  const struct {
    const char* want;
    longhaul_adamw_options options;
    longhaul_update update;
  } rows[] = {
      {"options has size 8", {8, 0.9, 0.95, 1e-8}, kUpdate},
      {"beta1 is 1.0", {sizeof(longhaul_adamw_options), 1, 0.95, 1e-8}, kUpdate},
      {"beta2 is nan", {sizeof(longhaul_adamw_options), 0.9, NAN, 1e-8}, kUpdate},
      {"epsilon is -1", {sizeof(longhaul_adamw_options), 0.9, 0.95, -1}, kUpdate},
      {"update has size 0", kAdamW, {0, 1, 0.01, 0.1, 1}},
      {"number 0", kAdamW, {sizeof(longhaul_update), 0, 0.01, 0.1, 1}},
      {"rate is nan", kAdamW, {sizeof(longhaul_update), 1, NAN, 0.1, 1}},
      {"rate is -0.01", kAdamW, {sizeof(longhaul_update), 1, -0.01, 0.1, 1}},
      {"decay is inf", kAdamW, {sizeof(longhaul_update), 1, 0.01, INFINITY, 1}},
      {"scale is nan", kAdamW, {sizeof(longhaul_update), 1, 0.01, 0.1, NAN}},
  };
  for (const auto& row : rows) {
    Arrays arrays;
    longhaul_error error = {};
    EXPECT_EQ(StepAdamW(row.options, row.update, arrays, error), LONGHAUL_INVALID_ARGUMENT)
        << row.want;
    EXPECT_NE(std::string(error.message).find(row.want), std::string::npos) << error.message;
    EXPECT_EQ(arrays.weights, Arrays().weights) << row.want;
    EXPECT_EQ(arrays.first, Arrays().first) << row.want;
  }
}

TEST(OptimizerApi, RefusesArraysThatAreNullEmptyUnalignedOrOverlap) {
  Arrays arrays;
  float* const weights = arrays.weights.data();
  const auto refuse = [&](size_t count, float* first, float* second, const std::string& want) {
    longhaul_error error = {};
    EXPECT_EQ(longhaul_adamw(&kAdamW, &kUpdate, count, weights, arrays.gradients.data(), first,
                             second, &error),
              LONGHAUL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.message).find(want), std::string::npos) << error.message;
  };
  float* const first = arrays.first.data();
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(arrays.second.data()) + 1);
  refuse(0, first, arrays.second.data(), "weights has 0 elements");
  refuse(SIZE_MAX, first, arrays.second.data(), "weights has");
  refuse(kCount, nullptr, arrays.second.data(), "first is null");
  refuse(kCount, first, odd, "second is not aligned");
  refuse(kCount, first, weights + kCount - 1, "second overlaps weights");
  EXPECT_EQ(arrays.weights, Arrays().weights);
}

int FailAtTheThird(void* calls, size_t m, size_t n, size_t, const float*, const float*, int,
                   float* out) {
  for (size_t i = 0; i < m * n; ++i) out[i] = 1;
  return ++*static_cast<int*>(calls) == 3 ? 1 : 0;
}

TEST(OptimizerApi, MuonLeavesWeightsAndMomentumIfAProductFails) {
  Arrays arrays;
  const longhaul_muon_options options = {sizeof(longhaul_muon_options), 0.95, 0, 0};
  longhaul_error error = {};
  int calls = 0;
  EXPECT_EQ(longhaul_muon(&options, &kUpdate, 2, 3, arrays.weights.data(), arrays.gradients.data(),
                          arrays.first.data(), FailAtTheThird, &calls, &error),
            LONGHAUL_FAILED_PRECONDITION);
  EXPECT_EQ(calls, 3) << "no product follows one that failed";
  EXPECT_EQ(arrays.weights, Arrays().weights);
  EXPECT_EQ(arrays.first, Arrays().first);
}

TEST(OptimizerApi, GroupsRefuseADecayAndAdaGradARateOfZero) {
  Arrays arrays;
  longhaul_error error = {};
  const longhaul_group_adagrad_options options = {
      sizeof(longhaul_group_adagrad_options), 0.5, 0.1, 0, 0, 0};
  longhaul_update update = kUpdate;
  EXPECT_EQ(longhaul_group_adagrad_begin(&options, &update, kCount, arrays.weights.data(),
                                         arrays.first.data(), arrays.second.data(), &error),
            LONGHAUL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("use the penalty l2"), std::string::npos);
  update.decay = update.rate = 0;
  EXPECT_EQ(longhaul_group_adagrad_begin(&options, &update, kCount, arrays.weights.data(),
                                         arrays.first.data(), arrays.second.data(), &error),
            LONGHAUL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("rate is 0"), std::string::npos) << error.message;
}

TEST(OptimizerApi, RefusesAMatrixWhoseSizeOverflows) {
  Arrays arrays;
  const longhaul_adafactor_options options = {sizeof(longhaul_adafactor_options), 1e-30, 1e-3, 1};
  longhaul_error error = {};
  EXPECT_EQ(longhaul_adafactor(&options, &kUpdate, SIZE_MAX / 2, 8, arrays.weights.data(),
                               arrays.gradients.data(), arrays.first.data(), &error),
            LONGHAUL_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace longhaul::worker_api::optimizer_api_test
