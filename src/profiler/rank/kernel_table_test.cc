#include "profiler/rank/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "profiler/across/profiled_job.h"
#include "profiler/rank/summary.h"
#include "profiler/read/kineto_reader.h"

namespace longhaul::profiler {
namespace {

using testing::HasSubstr;

TEST(KernelTable, KnowsNamesOfTheField) {
  const struct {
    const char* name;
    KernelClass kind;
    const char* dimension = "";
  } kRows[] = {
      {"ncclDevKernel_AllGather_RING_LL(x)", KernelClass::kCommunication},
      {"void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*)",
       KernelClass::kCommunication, "expert"},
      {"void dpsk::ep::internode::cached_notify<false>(int, int)", KernelClass::kCommunication,
       "expert"},
      {"void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)",
       KernelClass::kCommunication, "expert"},
      {"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(void*)",
       KernelClass::kCommunication, "expert"},
      {"void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*)", KernelClass::kOther},
      {"nvshmemi_transfer_rma_p2p", KernelClass::kCommunication},
      {"void vllm::cross_device_reduce_1stage<__half, 8>", KernelClass::kCommunication},
      {"void tensorrt_llm::kernels::oneShotAllReduceKernel<float>", KernelClass::kCommunication},
      {"multimem_all_reduce_kernel<c10::BFloat16>", KernelClass::kCommunication},
      {"kuserbuffers_pushrecv", KernelClass::kCommunication},
      {"MyLibraryAllToAll", KernelClass::kCommunication},
      {"Memcpy DtoH (Device -> Pinned)", KernelClass::kCopy},
      {"void cutlass::Kernel<cutlass_80_tensorop>", KernelClass::kMatrixProduct},
      {"Cijk_Ailk_Bljk_HHS", KernelClass::kMatrixProduct},
      {"flash_fwd_kernel<gemm>", KernelClass::kAttention},
      {"void cudnn::ops::convertTensor_kernel<float>", KernelClass::kElementwise},
      {"triton_per_fused_native_layer_norm_3", KernelClass::kNorm},
      {"triton_poi_fused_wait_tensor_all_gather_into_tensor_0", KernelClass::kElementwise},
      {"vectorized_elementwise_kernel<4>", KernelClass::kElementwise},
      {"aten::mm", KernelClass::kMatrixProduct},
      {"aten::mul", KernelClass::kElementwise},
      {"whatever", KernelClass::kOther},
  };
  const KernelTable table;
  for (const auto& row : kRows) {
    EXPECT_EQ(table.Find(row.name).kind, row.kind) << row.name;
    EXPECT_EQ(table.Find(row.name).dimension, row.dimension) << row.name;
  }
  EXPECT_TRUE(table.Find("aten::view").host);
  EXPECT_TRUE(table.Find("AddmmBackward0").host);
  EXPECT_FALSE(table.Find("whatever").known);
}

TEST(KernelTable, AFilesPatternsComeFirstInItsOrder) {
  const Result<KernelTable> table = KernelTable::Parse(
      "# ours\n"
      "\n"
      "^mine::a2a = communication expert\r\n"
      "  MINE:: = norm\n"
      "a == b = optimizer\n"
      "gemm_tail$ = elementwise\n"
      "aten::mm = host",
      "k.txt");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->own_patterns(), 5u);
  EXPECT_EQ(table->Find("Mine::A2A_send").kind, KernelClass::kCommunication);
  EXPECT_EQ(table->Find("Mine::A2A_send").dimension, "expert");
  EXPECT_EQ(table->Find("void mine::a2a").kind, KernelClass::kNorm);
  EXPECT_EQ(table->Find("x a == b y").kind, KernelClass::kOptimizer);
  EXPECT_EQ(table->Find("gemm_tail").kind, KernelClass::kElementwise);
  EXPECT_EQ(table->Find("gemm_tail<4>").kind, KernelClass::kMatrixProduct);
  EXPECT_TRUE(table->Find("aten::mm").host);
}

TEST(KernelTable, RefusesWhatItCannotReadWithFileAndLine) {
  const struct {
    std::string text;
    const char* says;
  } kRows[] = {
      {"gemm = matrix-product\nfoo = speed\n", "k.txt:2: unknown class speed, expected one of"},
      {"foo norm\n", "k.txt:1: foo norm has no '='"},
      {"foo = \n", "k.txt:1: unknown class"},
      {" = norm\n", "k.txt:1: the pattern is empty"},
      {"^$ = norm\n", "k.txt:1: the pattern is empty"},
      {"foo = norm expert\n", "k.txt:1: class norm has no dimension"},
      {"foo = communication sideways\n", "k.txt:1: unknown dimension sideways"},
      {std::string(201, 'a') + " = norm\n", "k.txt:1: the pattern has 201 bytes, the limit is 200"},
      {std::string(KernelTable::kMaxFileBytes + 1, '#'), "the limit is 262144"},
  };
  for (const auto& row : kRows) {
    const Status status = KernelTable::Parse(row.text, "k.txt").status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.says;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.says));
  }
  std::string many;
  for (size_t i = 0; i <= KernelTable::kMaxPatterns; ++i) many += "a = norm\n";
  EXPECT_THAT(std::string(KernelTable::Parse(many, "k.txt").status().message()),
              HasSubstr("k.txt:1001: the file has more than 1000 patterns"));
}

// A published training trace of DeepSeek's in small: an exchange of experts' tokens beside a
// product, without any note of a collective.
constexpr const char* kExperts = R"json([
{"ph":"X","cat":"kernel","name":"void cutlass::device_kernel<GemmKernel>","tid":7,"ts":0,"dur":40},
{"ph":"X","cat":"kernel","name":"void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*)",
 "tid":9,"ts":30,"dur":30},
{"ph":"X","cat":"kernel","name":"house_kernel","tid":7,"ts":60,"dur":5},
{"ph":"X","cat":"kernel","name":"void dpsk::ep::internode::combine<false>(int4*)","tid":9,"ts":65,
 "dur":35}
])json";

int64_t SpentUs(const RankSummary& summary, Spent spent) {
  int64_t ns = 0;
  for (const Segment& segment : summary.segments) {
    if (segment.spent == spent) ns += segment.end_ns - segment.begin_ns;
  }
  return ns / 1000;
}

TEST(KernelTable, ExpertExchangesAreCommunicationOfTheExpertDimension) {
  const auto source = OpenBytes(kExperts);
  const RankTrace trace = ReadKineto(*source, "rank-0").value();
  const RankSummary summary = Summarize(trace);
  EXPECT_EQ(SpentUs(summary, Spent::kExposed), 55);  // 20 beside nothing, and 35
  EXPECT_EQ(SpentUs(summary, Spent::kMatrixProduct), 40);
  EXPECT_EQ(SpentUs(summary, Spent::kOtherCompute), 5);
  ASSERT_EQ(summary.collectives.size(), 2u);
  std::vector<RankSummary> ranks;
  ranks.push_back(summary);
  const ProfiledJob job = AssembleJob(std::move(ranks)).value();
  EXPECT_EQ(job.DimensionOf(0, 0), Dimension::kExpert);
}

TEST(KernelTable, ATraceIsReadByTheUsersPatterns) {
  const auto source = OpenBytes(kExperts);
  SummaryOptions options;
  options.kernels = KernelTable::Parse("house_ = communication tensor\n", "k.txt").value();
  const RankSummary summary = Summarize(ReadKineto(*source, "rank-0").value(), options).value();
  EXPECT_EQ(SpentUs(summary, Spent::kOtherCompute), 0);
  EXPECT_EQ(SpentUs(summary, Spent::kExposed), 60);
}

// The trace itself (github.com/deepseek-ai/profile-data, train.json), where a folder of samples
// has it as deepseek_train.json.
TEST(KernelTable, DeepSeeksPublishedTrainingTraceIsNotOtherCompute) {
  const char* set = std::getenv("LONGHAUL_KINETO_SAMPLES");
  const std::string path =
      std::string(set != nullptr ? set : "../shared/data/kineto") + "/deepseek_train.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const auto file = OpenFile(path).value();
  const RankSummary summary = Summarize(ReadKineto(*file, path).value());
  std::map<KernelClass, double> ms;
  for (const KernelTotal& kernel : summary.kernels) {
    ms[kernel.kind] += static_cast<double>(kernel.total_ns) / 1e6;
  }
  // Sums of the file's kernels named dpsk::ep::internode.
  EXPECT_NEAR(ms[KernelClass::kCommunication], 113.03, 0.01);
  EXPECT_LT(ms[KernelClass::kOther], 20);
}

}  // namespace
}  // namespace longhaul::profiler
