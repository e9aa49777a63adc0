#include "planner/local/device_constants.h"

#include <gtest/gtest.h>

#include "planner/evaluate.h"
#include "planner/local/cost.h"

namespace longhaul::planner {
namespace {

// The general calculator with a core's constants and the local model with its figures tell the same
// compute, roughly.
TEST(ConstantsOf, BringTheCalculatorNearTheLocalModel) {
  MachineFacts facts;
  facts.cores = 2;
  facts.memory = Bytes(int64_t{16} << 30);
  facts.device = ShippedCpu(FlopsPerSecond(1e11));
  facts.device.cores = 2;
  const DeviceConstants constants = ConstantsOf(facts.device);
  const Status checked = spec::CheckDeviceCluster(constants.cluster);
  ASSERT_TRUE(checked.ok()) << checked;
  for (const uint32_t hidden : {256, 512, 1024}) {
    spec::ModelSpec built_in;
    built_in.hidden = hidden;
    built_in.sequence = 256;
    spec::Training training;
    training.layout.data = 2;
    training.batch = {16, 8};
    training.precision = spec::Precision::kFp32;
    training.software.fused_kernels = false;
    Evaluator evaluator(spec::FromBuiltIn(built_in), constants.cluster, constants.matrix,
                        constants.links, constants.stack);
    const StepBreakdown& parts = evaluator.Parts(training);
    const double general = (parts.forward + parts.backward).count();
    const double local = LocalCost(facts).Step(built_in, 16, {2}, 8).compute.count();
    EXPECT_NEAR(general / local, 1, 0.3) << hidden;
  }
}

}  // namespace
}  // namespace longhaul::planner
