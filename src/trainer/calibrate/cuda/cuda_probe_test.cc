// Against a driver with scripted times: says nothing of real GPUs.
#include "trainer/calibrate/cuda/cuda_probe.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace longhaul::trainer {
namespace {

using planner::GpuFigure;
using planner::GpuOperator;
using spec::Precision;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

CudaPaths PathsOf(const std::string& library) {
  return {{library}, {library}, {library}, {library}, {library}};
}

// The scripted driver, held open so that its state can be set and asked.
class Fake {
 public:
  explicit Fake(const char* path = LONGHAUL_FAKE_CUDA) : handle_(dlopen(path, RTLD_NOW)) {
    EXPECT_NE(handle_, nullptr) << dlerror();
    Reset(8, 90);
  }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
  ~Fake() { dlclose(handle_); }

  void Reset(int gpus, int capability) { Get<void(int, int)>("fake_reset")(gpus, capability); }
  void Fail(const char* name, int after) { Get<void(const char*, int)>("fake_fail")(name, after); }
  int Calls(const char* name) { return Get<int(const char*)>("fake_calls")(name); }
  int Live() { return Get<int()>("fake_live")(); }
  int OpenGroups() { return Get<int()>("fake_open_groups")(); }

 private:
  template <typename Function>
  Function* Get(const char* name) {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }
  void* handle_;
};

Result<CudaResult> Quick(const char* path = LONGHAUL_FAKE_CUDA) {
  return MeasureGpus({PathsOf(path), true}, [](size_t, size_t, const std::string&) {});
}

const GpuFigure* Find(const planner::GpuFile& file, GpuOperator op, Precision precision,
                      double last) {
  const size_t at = planner::GpuSizeNames(op).empty() ? 0 : planner::GpuSizeNames(op).size() - 1;
  for (const GpuFigure& figure : file.figures) {
    if (figure.op == op && figure.precision == precision && figure.sizes[at] == last) {
      return &figure;
    }
  }
  return nullptr;
}

TEST(MeasureGpus, FindsTheScriptedTimes) {
  Fake fake;
  const auto result = Quick();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->notes, IsEmpty());
  const planner::GpuFile& file = result->file;
  EXPECT_EQ(file.machine, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(file.gpus, 8u);
  EXPECT_EQ(file.driver, "CUDA runtime 12040, NCCL 22105");
  const double gib = 1 << 30;
  const GpuFigure* product = Find(file, GpuOperator::kMatmul, Precision::kBf16, 14336);
  ASSERT_NE(product, nullptr);
  EXPECT_NEAR(product->seconds, 5e-6 + 2.0 * 4096 * 4096 * 14336 / 600e12, 1e-7);
  EXPECT_GE(product->repeats, 5u);
  const GpuFigure* fp8 = Find(file, GpuOperator::kMatmul, Precision::kFp8, 14336);
  ASSERT_NE(fp8, nullptr);
  EXPECT_NEAR(fp8->seconds, 5e-6 + 2.0 * 4096 * 4096 * 14336 / 1.2e15, 1e-7);
  EXPECT_NEAR(Find(file, GpuOperator::kStream, Precision::kBf16, gib)->seconds, gib / 1.25e12,
              1e-7);
  EXPECT_NEAR(Find(file, GpuOperator::kToHost, Precision::kBf16, gib)->seconds, gib / 40e9, 1e-6);
  EXPECT_NEAR(Find(file, GpuOperator::kLaunch, Precision::kBf16, 0)->seconds, 2e-6, 1e-9);
  // Two matmuls, and the scores through memory twice at the streams' rate of 2.5 TB/s.
  const double scores = 2.0 * 4096 * 4096 * 16;
  EXPECT_NEAR(Find(file, GpuOperator::kAttention, Precision::kBf16, 128)->seconds,
              1e-5 + 2 * 2.0 * 4096 * 4096 * 128 * 16 / 600e12 + 2 * scores / 2.5e12, 1e-6);
  // The slowest GPU's.
  const double sum = 256 << 20;
  EXPECT_NEAR(Find(file, GpuOperator::kAllReduce, Precision::kBf16, sum)->seconds,
              10e-6 + 1.25 * 2 * sum * 7 / 8 / 350e9, 1e-6);
  EXPECT_NEAR(Find(file, GpuOperator::kAllToAll, Precision::kBf16, sum)->seconds,
              1.25 * sum / 350e9, 1e-6);
  EXPECT_EQ(fake.Live(), 0);
}

TEST(MeasureGpus, MakesAFileThatPlanTakes) {
  Fake fake;
  const auto result = Quick();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto file = planner::ParseGpuFile(planner::ToJson(result->file));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto constants = planner::ConstantsOf(*file);
  ASSERT_TRUE(constants.ok()) << constants.status();
  EXPECT_EQ(constants->like, "h100-sxm");
  for (const auto& [op, collective] :
       {std::pair{GpuOperator::kAllReduce, planner::Collective::kAllReduce},
        std::pair{GpuOperator::kAllGather, planner::Collective::kAllGather}}) {
    const double bytes = 256 << 20;
    const double measured = Find(*file, op, Precision::kBf16, bytes)->seconds;
    EXPECT_NEAR(planner::CollectiveSeconds(constants->links, collective, bytes, {8, 1}), measured,
                0.02 * measured);
  }
  EXPECT_NEAR(constants->matrix.bandwidth_bytes_per_s, 2.5e12, 1e9);
}

TEST(MeasureGpus, GivesTheSameTwice) {
  Fake fake;
  const auto first = Quick();
  fake.Reset(8, 90);
  const auto second = Quick();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->file, second->file);
}

TEST(MeasureGpus, LeavesOutWhatAGpuLacks) {
  Fake fake;
  fake.Reset(1, 75);  // Turing: neither bf16 nor fp8
  const auto result = Quick();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->notes, Contains("collectives are not measured: there is one GPU"));
  for (const GpuFigure& figure : result->file.figures) {
    if (figure.op == GpuOperator::kMatmul) {
      EXPECT_EQ(figure.precision, Precision::kFp16);
    }
    EXPECT_LT(figure.op, GpuOperator::kAllReduce);
  }
}

TEST(MeasureGpus, GoesWithoutTheLibrariesThatMayBeMissing) {
  Fake fake(LONGHAUL_FAKE_CUDA_WITHOUT_LT);
  CudaPaths paths = PathsOf(LONGHAUL_FAKE_CUDA_WITHOUT_LT);
  paths.nccl = {"libno-such-nccl.so"};
  const auto result = MeasureGpus({paths, true}, [](size_t, size_t, const std::string&) {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->notes,
              Contains(HasSubstr("fp8 is not measured: " LONGHAUL_FAKE_CUDA_WITHOUT_LT
                                 " has no function cublasLtCreate")));
  EXPECT_THAT(result->notes, Contains("collectives are not measured: no libno-such-nccl.so on this "
                                      "machine"));
}

TEST(MeasureGpus, SaysWhichLibraryIsNotThere) {
  CudaPaths paths = PathsOf("libno-such.so");
  const auto result = MeasureGpus({paths, true}, [](size_t, size_t, const std::string&) {});
  EXPECT_EQ(result.status().code(), Code::kUnavailable);
  EXPECT_THAT(result.status().message(), HasSubstr("no libno-such.so on this machine"));
}

TEST(MeasureGpus, SaysThatThereIsNoGpu) {
  Fake fake;
  fake.Reset(0, 90);
  EXPECT_EQ(Quick().status().code(), Code::kUnavailable);
  EXPECT_THAT(Quick().status().message(), HasSubstr("shows no GPU"));
}

// Each call that is made fails at its first, second and last time: reported by name, nothing left
// over.
TEST(MeasureGpus, TellsEachCallThatFails) {
  constexpr auto kCalls = std::to_array<const char*>({
      "cuInit",
      "cuDeviceGetName",
      "cuDeviceTotalMem_v2",
      "cudaGetDeviceCount",
      "cudaSetDevice",
      "cudaDeviceGetAttribute",
      "cudaRuntimeGetVersion",
      "cudaMalloc",
      "cudaMallocHost",
      "cudaMemcpyAsync",
      "cudaMemsetAsync",
      "cudaStreamCreate",
      "cudaStreamSynchronize",
      "cudaEventCreate",
      "cudaEventRecord",
      "cudaEventSynchronize",
      "cudaEventElapsedTime",
      "cublasCreate_v2",
      "cublasSetStream_v2",
      "cublasGemmEx",
      "cublasGemmStridedBatchedEx",
      "cublasLtCreate",
      "cublasLtMatmulDescCreate",
      "cublasLtMatmulDescSetAttribute",
      "cublasLtMatrixLayoutCreate",
      "cublasLtMatmulPreferenceCreate",
      "cublasLtMatmulPreferenceSetAttribute",
      "cublasLtMatmulAlgoGetHeuristic",
      "cublasLtMatmul",
      "ncclGetVersion",
      "ncclCommInitAll",
      "ncclGroupStart",
      "ncclGroupEnd",
      "ncclAllReduce",
      "ncclAllGather",
      "ncclReduceScatter",
      "ncclSend",
      "ncclRecv",
  });
  Fake fake;
  ASSERT_TRUE(Quick().ok());
  std::array<int, kCalls.size()> counts{};
  for (size_t i = 0; i < kCalls.size(); ++i) counts[i] = fake.Calls(kCalls[i]);
  for (size_t i = 0; i < kCalls.size(); ++i) {
    ASSERT_GT(counts[i], 0) << kCalls[i] << " is never called";
    for (const int after : {0, 1, counts[i] - 1}) {
      if (after >= counts[i]) continue;
      SCOPED_TRACE(std::string(kCalls[i]) + " fails after " + std::to_string(after));
      fake.Reset(8, 90);
      fake.Fail(kCalls[i], after);
      const auto result = Quick();
      ASSERT_FALSE(result.ok());
      std::string name = kCalls[i];
      if (name.ends_with("_v2")) name.resize(name.size() - 3);
      EXPECT_THAT(result.status().message(), HasSubstr(name));
      EXPECT_EQ(fake.Live(), 0);
      EXPECT_EQ(fake.OpenGroups(), 0);
    }
  }
}

}  // namespace
}  // namespace longhaul::trainer
