#include "planner/local/gpu/gpu_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/evaluate.h"
#include "spec/cluster/device_cluster.h"
#include "spec/model/model_reader.h"

namespace longhaul::planner::gpu_file_test {
namespace {

using spec::Precision;
using testing::HasSubstr;

// A machine of 8 GPUs that reach `share` of what the shipped h100-sxm does.
GpuFile Example(double share) {
  GpuFile file;
  file.machine = "NVIDIA H100 80GB HBM3";
  file.measured_at = "2026-01-02T03:04:05Z";
  file.driver = "CUDA 12.4, NCCL 2.21";
  file.gpus = 8;
  const spec::DeviceCluster cluster = *spec::ParseClusterName("h100-sxm:8");
  file.memory = cluster.device.memory;
  file.compute_units = cluster.device.compute_units;
  const DeviceMatrix matrix = ShippedMatrix(cluster.device);
  const auto add = [&file](GpuOperator op, Precision precision, std::array<double, 3> sizes,
                           double seconds) {
    file.figures.push_back({op, precision, sizes, seconds, 0.01, 20});
  };
  for (const double m : {4096.0, 8192.0, 16384.0}) {
    MatmulConstants slower = matrix.product(Precision::kBf16);
    slower.sustained_flops_per_s *= share;
    add(GpuOperator::kMatmul, Precision::kBf16, {m, 4096, 4096},
        MatmulSeconds(matrix, slower, m, 4096, 4096));
  }
  const double gib = 1 << 30;
  add(GpuOperator::kStream, Precision::kBf16, {gib, 0, 0},
      2 * gib / (share * matrix.bandwidth_bytes_per_s));
  Links links = ShippedLinks(cluster);
  links.island_bytes_per_s *= share;
  links.island_reduce_bytes_per_s *= share;
  for (const double bytes : {1024.0, gib}) {
    add(GpuOperator::kAllReduce, Precision::kBf16, {8, bytes, 0},
        CollectiveSeconds(links, Collective::kAllReduce, bytes, {8, 1}));
    add(GpuOperator::kAllGather, Precision::kBf16, {8, bytes, 0},
        CollectiveSeconds(links, Collective::kAllGather, bytes, {8, 1}));
  }
  return file;
}

TEST(GpuFile, ComesBackAsItWasWritten) {
  const auto read = ParseGpuFile(ToJson(Example(0.9)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Example(0.9));
  EXPECT_EQ(ToJson(*read), ToJson(Example(0.9)));
}

TEST(GpuFile, FitsTheLevelsThatWereMeasured) {
  const spec::DeviceCluster cluster = *spec::ParseClusterName("h100-sxm:8");
  const DeviceMatrix shipped = ShippedMatrix(cluster.device);
  const Links links = ShippedLinks(cluster);
  for (const double share : {1.0, 0.8}) {
    const auto constants = ConstantsOf(Example(share));
    ASSERT_TRUE(constants.ok()) << constants.status();
    EXPECT_EQ(constants->like, "h100-sxm");
    EXPECT_NEAR(constants->matrix.product(Precision::kBf16).sustained_flops_per_s /
                    shipped.product(Precision::kBf16).sustained_flops_per_s,
                share, 0.02);
    EXPECT_NEAR(constants->matrix.bandwidth_bytes_per_s / shipped.bandwidth_bytes_per_s, share,
                1e-9);
    EXPECT_NEAR(constants->links.island_bytes_per_s / links.island_bytes_per_s, share, 0.01);
    EXPECT_NEAR(constants->links.island_reduce_bytes_per_s / links.island_reduce_bytes_per_s, share,
                0.01);
    EXPECT_NEAR(constants->links.island_latency_s, links.island_latency_s, 1e-6);
  }
}

// A step on GPUs with slower links takes longer where a layout uses them.
TEST(GpuFile, CollectivesDecideAStep) {
  const auto fast = ConstantsOf(Example(1));
  GpuFile file = Example(1);
  for (GpuFigure& figure : file.figures) {
    if (figure.sizes[1] > 1e6) figure.seconds *= figure.op >= GpuOperator::kAllReduce ? 4 : 1;
  }
  const auto slow = ConstantsOf(file);
  ASSERT_TRUE(fast.ok() && slow.ok());
  const spec::Model model = *spec::FindModel("llama-3.1-8b");
  spec::Training training;
  training.layout.tensor = 8;
  training.layout.sequence_parallel = true;
  training.batch = {64, 1};
  const SoftwareStack stack = StackFor("megatron-core", "");
  Evaluator a(model, fast->cluster, fast->matrix, fast->links, stack);
  Evaluator b(model, slow->cluster, slow->matrix, slow->links, stack);
  EXPECT_GT(b.StepSeconds(training).count(), 1.1 * a.StepSeconds(training).count());
}

TEST(GpuFile, TakesWholeMachinesOnly) {
  EXPECT_EQ(ConstantsOf(Example(1), 64)->cluster.devices, 64u);
  EXPECT_THAT(ConstantsOf(Example(1), 12).status().message(),
              HasSubstr("12 GPUs do not fill machines of 8"));
}

TEST(GpuFile, SaysWhatIsWrongAndWhere) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = ToJson(Example(1));
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const struct {
    std::string text;
    const char* want;
  } kRows[] = {
      {"", "not JSON, or cut off"},
      {"{}", "format is not"},
      {with("\"version\": 1", "\"version\": 2"), "version 2 is not known here"},
      {with("\"gpus\": 8", "\"gpus\": 0"), "gpus must be a number from 1"},
      {with("\"gpus\"", "\"crads\""), "gpus is missing"},
      {with("\"quick\": false", "\"quick\": 1"), "quick must be true or false"},
      {with("\"operator\":\"stream\"", "\"operator\":\"straem\""), "did you mean stream?"},
      {with("\"precision\":\"bf16\"", "\"precision\":\"bf61\""), "did you mean bf16?"},
      {with("\"m\":4096.0", "\"m\":-1"), "figures[0].m must be a number from 1"},
      {with("\"ranks\":8.0", "\"ranks\":1"), "ranks must be 2 or more"},
      {with("\"operator\":\"stream\",", "\"operator\":\"to_host\","), "fewer than three products"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT(ParseGpuFile(row.text).status().message(), HasSubstr(row.want));
  }
}

}  // namespace
}  // namespace longhaul::planner::gpu_file_test
