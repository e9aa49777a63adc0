#include "trainer/calibrate/cuda/cuda_probe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace longhaul::trainer {
namespace {

using planner::GpuFigure;
using planner::GpuOperator;
using spec::Precision;

// Of driver_types.h, library_types.h, cublas_api.h, cublasLt.h and nccl.h.
constexpr int kToDevice = 1;
constexpr int kToHost = 2;
constexpr int kOnDevice = 3;
constexpr int kAttributeComputeUnits = 16;
constexpr int kAttributeMajor = 75;
constexpr int kAttributeMinor = 76;
constexpr int kFloat32 = 0;
constexpr int kFloat16 = 2;
constexpr int kBfloat16 = 14;
constexpr int kFloat8 = 28;  // e4m3
constexpr int kCompute32 = 68;
constexpr int kDefaultAlgorithm = -1;
constexpr int kTransposed = 1;
constexpr int kLtTransposeA = 3;
constexpr int kLtWorkspaceBytes = 1;
constexpr int kNcclBfloat16 = 9;
constexpr int kNcclSum = 0;

constexpr size_t kWorkspace = size_t{32} << 20;
constexpr int kWarmUps = 3;
constexpr size_t kLeastRepeats = 5;
constexpr size_t kMostRepeats = 200;
constexpr int kLaunches = 1000;  // short operations in a row

// Linear interpolation between the two nearest values.
double Quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

// A block of bf16 normals: sums of twelve uniform numbers. A GPU's power, and with it its clock,
// depends on the data, so the operands resemble real ones.
std::vector<uint16_t> Normals() {
  std::vector<uint16_t> block(size_t{1} << 18);
  uint64_t state = 1;
  for (uint16_t& value : block) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += static_cast<double>(state >> 11) * 0x1p-53;
    }
    value = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(sum)) >> 16);
  }
  return block;
}

// What a handle needs when it ends.
class Owned {
 public:
  Owned() = default;
  Owned(void* handle, int (*end)(void*)) : handle_(handle), end_(end) {}
  Owned(Owned&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), end_(other.end_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(end_, other.end_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ != nullptr) (void)end_(handle_);
  }
  void* get() const { return handle_; }

 private:
  void* handle_ = nullptr;
  int (*end_)(void*) = nullptr;
};

struct Gpu {
  int index = 0;
  Owned stream;
  Owned begin;
  Owned end;
  Owned from;  // operands, as large as any size needs
  Owned to;
};

class Gpus {
 public:
  explicit Gpus(const CudaLibraries& libraries) : libraries_(libraries), api_(libraries.api()) {}

  Status Open();
  // Sets `file` but its figures and date.
  Status Describe(planner::GpuFile& file);
  Result<GpuFigure> Measure(GpuFigure what, double budget_s);

  int gpus() const { return gpus_count_; }
  bool has_fp8() const { return libraries_.has_fp8() && capability_ >= 89; }
  bool has_bf16() const { return capability_ >= 80; }
  size_t memory() const { return memory_; }
  // Of streams, for what no kernel here measures.
  void set_stream_rate(double bytes_per_s) { stream_rate_ = bytes_per_s; }

 private:
  using Work = std::function<Status()>;

  Status Call(int code, const char* name) const {
    if (code == 0) return {};
    return InternalError(std::string(name) +
                         " failed: " + Printable(api_.cudaGetErrorString(code)) + " (" +
                         std::to_string(code) + ")");
  }
  Status CallBlas(int code, const char* name) const {
    if (code == 0) return {};
    return InternalError(std::string(name) + " failed with cuBLAS status " + std::to_string(code));
  }
  Status CallNccl(int code, const char* name) const {
    if (code == 0) return {};
    return InternalError(std::string(name) +
                         " failed: " + Printable(api_.ncclGetErrorString(code)) + " (" +
                         std::to_string(code) + ")");
  }

  Result<Owned> Memory(size_t bytes) const;
  Result<Owned> Event() const;
  Status OpenGpu(int index);
  Status Reserve(Gpu& gpu, size_t from, size_t to);
  Status FillWithNormals(Gpu& gpu, size_t bytes);
  // Seconds of one run of `work` on GPU 0, or on all where `all`.
  Result<double> Once(const Work& work, bool all);
  Status Repeat(const Work& work, bool all, double budget_s, double share, GpuFigure& figure);
  Status Matmul(GpuFigure& figure, double budget_s);
  Status MatmulFp8(GpuFigure& figure, double budget_s);
  Status Attention(GpuFigure& figure, double budget_s);
  Status Copy(GpuFigure& figure, double budget_s);
  Status Launch(GpuFigure& figure, double budget_s);
  Status Collective(GpuFigure& figure, double budget_s);
  Status OneCollective(GpuOperator op, int ranks, size_t elements);

  const CudaLibraries& libraries_;
  const CudaApi& api_;
  int gpus_count_ = 0;
  int capability_ = 0;  // 90: of Hopper
  size_t memory_ = 0;
  double stream_rate_ = 0;
  std::vector<uint16_t> normals_;
  std::vector<Gpu> gpu_;
  std::vector<size_t> from_bytes_;
  std::vector<size_t> to_bytes_;
  Owned blas_;
  std::vector<Owned> communicators_;
};

Result<Owned> Gpus::Memory(size_t bytes) const {
  void* memory = nullptr;
  RETURN_IF_ERROR(Call(api_.cudaMalloc(&memory, bytes), "cudaMalloc"));
  return Owned(memory, api_.cudaFree);
}

Result<Owned> Gpus::Event() const {
  void* event = nullptr;
  RETURN_IF_ERROR(Call(api_.cudaEventCreate(&event), "cudaEventCreate"));
  return Owned(event, api_.cudaEventDestroy);
}

Status Gpus::Open() {
  if (const int code = api_.cuInit(0); code != 0) {
    return Unavailable("cuInit failed (" + std::to_string(code) +
                       "): is the NVIDIA driver loaded, and may this user see the GPUs?");
  }
  if (const int code = api_.cudaGetDeviceCount(&gpus_count_); code != 0) {
    return Unavailable("cudaGetDeviceCount failed: " + Printable(api_.cudaGetErrorString(code)));
  }
  if (gpus_count_ < 1) return Unavailable("the NVIDIA driver shows no GPU");
  if (gpus_count_ > 1024) return InternalError("the driver shows more than 1,024 GPUs");
  RETURN_IF_ERROR(Call(api_.cudaSetDevice(0), "cudaSetDevice"));
  int major = 0;
  int minor = 0;
  RETURN_IF_ERROR(
      Call(api_.cudaDeviceGetAttribute(&major, kAttributeMajor, 0), "cudaDeviceGetAttribute"));
  RETURN_IF_ERROR(
      Call(api_.cudaDeviceGetAttribute(&minor, kAttributeMinor, 0), "cudaDeviceGetAttribute"));
  capability_ = 10 * major + minor;
  if (const int code = api_.cuDeviceTotalMem_v2(&memory_, 0); code != 0 || memory_ == 0) {
    return InternalError("cuDeviceTotalMem failed (" + std::to_string(code) + ")");
  }
  for (int i = 0; i < gpus_count_; ++i) RETURN_IF_ERROR(OpenGpu(i));
  RETURN_IF_ERROR(Call(api_.cudaSetDevice(0), "cudaSetDevice"));
  void* blas = nullptr;
  RETURN_IF_ERROR(CallBlas(api_.cublasCreate_v2(&blas), "cublasCreate"));
  blas_ = Owned(blas, api_.cublasDestroy_v2);
  return CallBlas(api_.cublasSetStream_v2(blas, gpu_[0].stream.get()), "cublasSetStream");
}

Status Gpus::OpenGpu(int index) {
  RETURN_IF_ERROR(Call(api_.cudaSetDevice(index), "cudaSetDevice"));
  Gpu gpu;
  gpu.index = index;
  void* stream = nullptr;
  RETURN_IF_ERROR(Call(api_.cudaStreamCreate(&stream), "cudaStreamCreate"));
  gpu.stream = Owned(stream, api_.cudaStreamDestroy);
  ASSIGN_OR_RETURN(gpu.begin, Event());
  ASSIGN_OR_RETURN(gpu.end, Event());
  gpu_.push_back(std::move(gpu));
  from_bytes_.push_back(0);
  to_bytes_.push_back(0);
  return {};
}

Status Gpus::Describe(planner::GpuFile& file) {
  char name[256] = {};
  if (const int code = api_.cuDeviceGetName(name, sizeof name - 1, 0); code != 0) {
    return InternalError("cuDeviceGetName failed (" + std::to_string(code) + ")");
  }
  file.machine = Printable(name, 200);
  int units = 0;
  RETURN_IF_ERROR(Call(api_.cudaDeviceGetAttribute(&units, kAttributeComputeUnits, 0),
                       "cudaDeviceGetAttribute"));
  int runtime = 0;
  RETURN_IF_ERROR(Call(api_.cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"));
  file.driver = "CUDA runtime " + std::to_string(runtime);
  if (libraries_.has_collectives()) {
    int nccl = 0;
    RETURN_IF_ERROR(CallNccl(api_.ncclGetVersion(&nccl), "ncclGetVersion"));
    file.driver += ", NCCL " + std::to_string(nccl);
  }
  file.gpus = static_cast<uint32_t>(gpus_count_);
  file.memory = Bytes(static_cast<int64_t>(memory_));
  file.compute_units = static_cast<uint32_t>(std::max(units, 1));
  return {};
}

// Buffers only grow, so that the largest size decides.
Status Gpus::Reserve(Gpu& gpu, size_t from, size_t to) {
  const auto index = static_cast<size_t>(gpu.index);
  RETURN_IF_ERROR(Call(api_.cudaSetDevice(gpu.index), "cudaSetDevice"));
  if (from > from_bytes_[index]) {
    gpu.from = Owned();
    from_bytes_[index] = 0;
    ASSIGN_OR_RETURN(gpu.from, Memory(from));
    RETURN_IF_ERROR(FillWithNormals(gpu, from));
    from_bytes_[index] = from;
  }
  if (to > to_bytes_[index]) {
    gpu.to = Owned();
    to_bytes_[index] = 0;
    ASSIGN_OR_RETURN(gpu.to, Memory(to));
    to_bytes_[index] = to;
  }
  return {};
}

// The same block again and again.
Status Gpus::FillWithNormals(Gpu& gpu, size_t bytes) {
  if (normals_.empty()) normals_ = Normals();
  const size_t block = 2 * normals_.size();
  auto* to = static_cast<char*>(gpu.from.get());
  for (size_t done = 0; done < bytes; done += block) {
    RETURN_IF_ERROR(
        Call(api_.cudaMemcpyAsync(to + done, normals_.data(), std::min(block, bytes - done),
                                  kToDevice, gpu.stream.get()),
             "cudaMemcpyAsync"));
  }
  return Call(api_.cudaStreamSynchronize(gpu.stream.get()), "cudaStreamSynchronize");
}

// Events on the stream measure the GPU's time without the host's. For a collective, the slowest GPU
// determines the time.
Result<double> Gpus::Once(const Work& work, bool all) {
  const size_t count = all ? gpu_.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(Call(api_.cudaSetDevice(gpu_[i].index), "cudaSetDevice"));
    RETURN_IF_ERROR(
        Call(api_.cudaEventRecord(gpu_[i].begin.get(), gpu_[i].stream.get()), "cudaEventRecord"));
  }
  RETURN_IF_ERROR(work());
  for (size_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(Call(api_.cudaSetDevice(gpu_[i].index), "cudaSetDevice"));
    RETURN_IF_ERROR(
        Call(api_.cudaEventRecord(gpu_[i].end.get(), gpu_[i].stream.get()), "cudaEventRecord"));
  }
  double slowest = 0;
  for (size_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(Call(api_.cudaEventSynchronize(gpu_[i].end.get()), "cudaEventSynchronize"));
    float milliseconds = 0;
    RETURN_IF_ERROR(
        Call(api_.cudaEventElapsedTime(&milliseconds, gpu_[i].begin.get(), gpu_[i].end.get()),
             "cudaEventElapsedTime"));
    slowest = std::max(slowest, 1e-3 * static_cast<double>(milliseconds));
  }
  RETURN_IF_ERROR(Call(api_.cudaSetDevice(0), "cudaSetDevice"));
  return slowest;
}

// `share`: of a run's time that one operation takes.
Status Gpus::Repeat(const Work& work, bool all, double budget_s, double share, GpuFigure& figure) {
  constexpr double kLeast = 1e-9;  // an event's step may hide what is shorter
  for (int i = 0; i < kWarmUps; ++i) RETURN_IF_ERROR(Once(work, all).status());
  std::vector<double> times;
  double used = 0;
  // The median is robust against a single slow run; the quartiles show how far it can be trusted.
  while (times.size() < kLeastRepeats || (used < budget_s && times.size() < kMostRepeats)) {
    ASSIGN_OR_RETURN(const double seconds, Once(work, all));
    used += seconds;
    times.push_back(std::max(kLeast, share * seconds));
  }
  std::sort(times.begin(), times.end());
  figure.repeats = static_cast<uint32_t>(times.size());
  figure.seconds = Quantile(times, 0.5);
  figure.spread = (Quantile(times, 0.75) - Quantile(times, 0.25)) / figure.seconds;
  return {};
}

Result<GpuFigure> Gpus::Measure(GpuFigure what, double budget_s) {
  Status status;
  switch (what.op) {
    case GpuOperator::kMatmul:
      status =
          what.precision == Precision::kFp8 ? MatmulFp8(what, budget_s) : Matmul(what, budget_s);
      break;
    case GpuOperator::kAttention:
      status = Attention(what, budget_s);
      break;
    case GpuOperator::kStream:
    case GpuOperator::kToDevice:
    case GpuOperator::kToHost:
      status = Copy(what, budget_s);
      break;
    case GpuOperator::kLaunch:
      status = Launch(what, budget_s);
      break;
    default:
      status = Collective(what, budget_s);
  }
  if (!status.ok()) return status;
  return what;
}

// cuBLAS counts columns first: y^T = W^T x^T is the product of the same numbers.
Status Gpus::Matmul(GpuFigure& figure, double budget_s) {
  const auto m = static_cast<int>(figure.sizes[0]);
  const auto n = static_cast<int>(figure.sizes[1]);
  const auto k = static_cast<int>(figure.sizes[2]);
  const int type = figure.precision == Precision::kFp16   ? kFloat16
                   : figure.precision == Precision::kBf16 ? kBfloat16
                                                          : kFloat32;
  const size_t element = type == kFloat32 ? 4 : 2;
  const size_t weights = element * static_cast<size_t>(n) * static_cast<size_t>(k);
  const size_t rows = element * static_cast<size_t>(m) * static_cast<size_t>(k);
  Gpu& gpu = gpu_[0];
  RETURN_IF_ERROR(
      Reserve(gpu, weights + rows, element * static_cast<size_t>(m) * static_cast<size_t>(n)));
  const float one = 1;
  const float zero = 0;
  const auto* w = static_cast<const char*>(gpu.from.get());
  return Repeat(
      [&] {
        return CallBlas(
            api_.cublasGemmEx(blas_.get(), kTransposed, 0, n, m, k, &one, w, type, k, w + weights,
                              type, k, &zero, gpu.to.get(), type, n, kCompute32, kDefaultAlgorithm),
            "cublasGemmEx");
      },
      false, budget_s, 1, figure);
}

Status Gpus::MatmulFp8(GpuFigure& figure, double budget_s) {
  const auto m = static_cast<uint64_t>(figure.sizes[0]);
  const auto n = static_cast<uint64_t>(figure.sizes[1]);
  const auto k = static_cast<uint64_t>(figure.sizes[2]);
  Gpu& gpu = gpu_[0];
  RETURN_IF_ERROR(Reserve(gpu, (m + n) * k, 2 * m * n + kWorkspace));
  void* made = nullptr;
  RETURN_IF_ERROR(CallBlas(api_.cublasLtCreate(&made), "cublasLtCreate"));
  const Owned handle(made, api_.cublasLtDestroy);
  RETURN_IF_ERROR(CallBlas(api_.cublasLtMatmulDescCreate(&made, kCompute32, kFloat32),
                           "cublasLtMatmulDescCreate"));
  const Owned description(made, api_.cublasLtMatmulDescDestroy);
  const int32_t transposed = kTransposed;  // the only form that fp8 has
  RETURN_IF_ERROR(CallBlas(
      api_.cublasLtMatmulDescSetAttribute(made, kLtTransposeA, &transposed, sizeof transposed),
      "cublasLtMatmulDescSetAttribute"));
  const auto layout = [&](int type, uint64_t rows, uint64_t columns) -> Result<Owned> {
    void* matrix = nullptr;
    RETURN_IF_ERROR(CallBlas(
        api_.cublasLtMatrixLayoutCreate(&matrix, type, rows, columns, static_cast<int64_t>(rows)),
        "cublasLtMatrixLayoutCreate"));
    return Owned(matrix, api_.cublasLtMatrixLayoutDestroy);
  };
  ASSIGN_OR_RETURN(const Owned a, layout(kFloat8, k, n));
  ASSIGN_OR_RETURN(const Owned b, layout(kFloat8, k, m));
  ASSIGN_OR_RETURN(const Owned d, layout(kBfloat16, n, m));
  RETURN_IF_ERROR(
      CallBlas(api_.cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate"));
  const Owned preference(made, api_.cublasLtMatmulPreferenceDestroy);
  const size_t workspace = kWorkspace;
  RETURN_IF_ERROR(CallBlas(api_.cublasLtMatmulPreferenceSetAttribute(made, kLtWorkspaceBytes,
                                                                     &workspace, sizeof workspace),
                           "cublasLtMatmulPreferenceSetAttribute"));
  CublasLtHeuristic best{};
  int found = 0;
  RETURN_IF_ERROR(CallBlas(
      api_.cublasLtMatmulAlgoGetHeuristic(handle.get(), description.get(), a.get(), b.get(),
                                          d.get(), d.get(), preference.get(), 1, &best, &found),
      "cublasLtMatmulAlgoGetHeuristic"));
  if (found < 1) return InternalError("cublasLt has no fp8 product of this size");
  const float one = 1;
  const float zero = 0;
  auto* from = static_cast<char*>(gpu.from.get());
  auto* to = static_cast<char*>(gpu.to.get());
  return Repeat(
      [&] {
        return CallBlas(
            api_.cublasLtMatmul(handle.get(), description.get(), &one, from, a.get(), from + n * k,
                                b.get(), &zero, to, d.get(), to, d.get(), best.algorithm,
                                to + 2 * m * n, kWorkspace, gpu.stream.get()),
            "cublasLtMatmul");
      },
      false, budget_s, 1, figure);
}

// Scores and values for each head, then the bytes of a softmax between: read, written, read.
Status Gpus::Attention(GpuFigure& figure, double budget_s) {
  const auto heads = static_cast<int>(figure.sizes[0]);
  const auto s = static_cast<int>(figure.sizes[1]);
  const auto d = static_cast<int>(figure.sizes[2]);
  const long long rows = static_cast<long long>(s) * d;
  const long long scores = static_cast<long long>(s) * s;
  const auto all_rows = static_cast<size_t>(2 * rows * heads);
  const auto all_scores = static_cast<size_t>(2 * scores * heads);
  Gpu& gpu = gpu_[0];
  RETURN_IF_ERROR(Reserve(gpu, 2 * all_rows, all_scores + all_rows));
  const int type = figure.precision == Precision::kFp16 ? kFloat16 : kBfloat16;
  const float one = 1;
  const float zero = 0;
  const auto* q = static_cast<const char*>(gpu.from.get());
  auto* p = static_cast<char*>(gpu.to.get());
  const auto work = [&]() -> Status {
    RETURN_IF_ERROR(CallBlas(
        api_.cublasGemmStridedBatchedEx(blas_.get(), kTransposed, 0, s, s, d, &one, q, type, d,
                                        rows, q + all_rows, type, d, rows, &zero, p, type, s,
                                        scores, heads, kCompute32, kDefaultAlgorithm),
        "cublasGemmStridedBatchedEx"));
    return CallBlas(api_.cublasGemmStridedBatchedEx(
                        blas_.get(), 0, 0, d, s, s, &one, q, type, d, rows, p, type, s, scores,
                        &zero, p + all_scores, type, d, rows, heads, kCompute32, kDefaultAlgorithm),
                    "cublasGemmStridedBatchedEx");
  };
  RETURN_IF_ERROR(Repeat(work, false, budget_s, 1, figure));
  if (stream_rate_ > 0) figure.seconds += 2 * static_cast<double>(all_scores) / stream_rate_;
  return {};
}

Status Gpus::Copy(GpuFigure& figure, double budget_s) {
  const auto bytes = static_cast<size_t>(figure.sizes[0]);
  Gpu& gpu = gpu_[0];
  RETURN_IF_ERROR(Reserve(gpu, bytes, bytes));
  Owned pinned;
  void* from = gpu.from.get();
  void* to = gpu.to.get();
  int kind = kOnDevice;
  if (figure.op != GpuOperator::kStream) {
    void* memory = nullptr;
    RETURN_IF_ERROR(Call(api_.cudaMallocHost(&memory, bytes), "cudaMallocHost"));
    pinned = Owned(memory, api_.cudaFreeHost);
    const bool there = figure.op == GpuOperator::kToDevice;
    kind = there ? kToDevice : kToHost;
    (there ? from : to) = memory;
  }
  return Repeat(
      [&] {
        return Call(api_.cudaMemcpyAsync(to, from, bytes, kind, gpu.stream.get()),
                    "cudaMemcpyAsync");
      },
      false, budget_s, 1, figure);
}

// One launch is shorter than the resolution of an event, so many are measured in a row.
Status Gpus::Launch(GpuFigure& figure, double budget_s) {
  Gpu& gpu = gpu_[0];
  RETURN_IF_ERROR(Reserve(gpu, 0, 4096));
  return Repeat(
      [&]() -> Status {
        for (int i = 0; i < kLaunches; ++i) {
          RETURN_IF_ERROR(
              Call(api_.cudaMemsetAsync(gpu.to.get(), 0, 4, gpu.stream.get()), "cudaMemsetAsync"));
        }
        return {};
      },
      false, budget_s, 1.0 / kLaunches, figure);
}

// One thread drives all GPUs, so the calls form an NCCL group; outside of a group the first call
// would block until the others are made.
Status Gpus::OneCollective(GpuOperator op, int ranks, size_t elements) {
  const size_t piece = elements / static_cast<size_t>(ranks);
  RETURN_IF_ERROR(CallNccl(api_.ncclGroupStart(), "ncclGroupStart"));
  Status status;
  for (int i = 0; i < ranks && status.ok(); ++i) {
    const Gpu& gpu = gpu_[static_cast<size_t>(i)];
    void* communicator = communicators_[static_cast<size_t>(i)].get();
    const auto* from = static_cast<const char*>(gpu.from.get());
    auto* to = static_cast<char*>(gpu.to.get());
    void* stream = gpu.stream.get();
    if (op == GpuOperator::kAllReduce) {
      status = CallNccl(
          api_.ncclAllReduce(from, to, elements, kNcclBfloat16, kNcclSum, communicator, stream),
          "ncclAllReduce");
    } else if (op == GpuOperator::kAllGather) {
      status = CallNccl(api_.ncclAllGather(from, to, piece, kNcclBfloat16, communicator, stream),
                        "ncclAllGather");
    } else if (op == GpuOperator::kReduceScatter) {
      status = CallNccl(
          api_.ncclReduceScatter(from, to, piece, kNcclBfloat16, kNcclSum, communicator, stream),
          "ncclReduceScatter");
    } else {
      for (int peer = 0; peer < ranks && status.ok(); ++peer) {
        const size_t at = 2 * piece * static_cast<size_t>(peer);
        status = CallNccl(
            api_.ncclSend(from + at, piece, kNcclBfloat16, peer, communicator, stream), "ncclSend");
        if (!status.ok()) break;
        status = CallNccl(api_.ncclRecv(to + at, piece, kNcclBfloat16, peer, communicator, stream),
                          "ncclRecv");
      }
    }
  }
  // A group that was begun is ended, also where a call in it failed.
  const Status ended = CallNccl(api_.ncclGroupEnd(), "ncclGroupEnd");
  return status.ok() ? ended : status;
}

Status Gpus::Collective(GpuFigure& figure, double budget_s) {
  const auto ranks = static_cast<int>(figure.sizes[0]);
  const auto bytes = static_cast<size_t>(figure.sizes[1]);
  if (communicators_.empty()) {
    std::vector<void*> made(static_cast<size_t>(ranks), nullptr);
    std::vector<int> devices;
    for (int i = 0; i < ranks; ++i) devices.push_back(i);
    RETURN_IF_ERROR(
        CallNccl(api_.ncclCommInitAll(made.data(), ranks, devices.data()), "ncclCommInitAll"));
    for (void* communicator : made) communicators_.emplace_back(communicator, api_.ncclCommDestroy);
  }
  for (Gpu& gpu : gpu_) RETURN_IF_ERROR(Reserve(gpu, bytes, bytes));
  RETURN_IF_ERROR(Call(api_.cudaSetDevice(0), "cudaSetDevice"));
  return Repeat([&] { return OneCollective(figure.op, ranks, bytes / 2); }, true, budget_s, 1,
                figure);
}

// Every figure to measure, in this order: streams first, since attention needs their rate.
std::vector<GpuFigure> Figures(const Gpus& gpus, const CudaLibraries& libraries, bool quick) {
  std::vector<GpuFigure> figures;
  const auto add = [&](GpuOperator op, Precision precision, std::array<double, 3> sizes) {
    figures.push_back({op, precision, sizes, 0, 0, 0});
  };
  // Copies need memory at both ends, and leave most of the GPU's memory free.
  double most = 1 << 30;
  while (most > double(gpus.memory()) / 8) most /= 2;
  for (const GpuOperator op :
       {GpuOperator::kStream, GpuOperator::kToDevice, GpuOperator::kToHost}) {
    for (const double bytes : {most / 16, most}) add(op, Precision::kBf16, {bytes, 0, 0});
  }
  add(GpuOperator::kLaunch, Precision::kBf16, {});
  std::vector<Precision> precisions = {Precision::kFp16};
  if (gpus.has_bf16()) precisions.insert(precisions.begin(), Precision::kBf16);
  if (gpus.has_fp8()) precisions.push_back(Precision::kFp8);
  // A layer's matmuls: widths of small and large models and their shards, rows of a micro-batch.
  const std::vector<double> rows =
      quick ? std::vector<double>{4096} : std::vector<double>{1024, 2048, 4096, 8192};
  const std::pair<double, double> kWidths[] = {{4096, 4096}, {1024, 4096}, {4096, 14336},
                                               {8192, 8192}, {2048, 8192}, {7168, 8192}};
  for (const Precision precision : precisions) {
    for (const double m : rows) {
      for (const auto& [n, k] : kWidths) add(GpuOperator::kMatmul, precision, {m, n, k});
    }
  }
  for (const double sequence :
       quick ? std::vector<double>{4096} : std::vector<double>{1024, 4096, 8192}) {
    add(GpuOperator::kAttention, precisions.front(), {16, sequence, 128});
  }
  if (!libraries.has_collectives() || gpus.gpus() < 2 || !gpus.has_bf16()) return figures;
  for (const GpuOperator op : {GpuOperator::kAllReduce, GpuOperator::kAllGather,
                               GpuOperator::kReduceScatter, GpuOperator::kAllToAll}) {
    // Whole pieces for every rank.
    const double unit = 2 * gpus.gpus();
    for (const double bytes : {double(1 << 14), double(16 << 20), double(256 << 20)}) {
      add(op, Precision::kBf16, {double(gpus.gpus()), std::ceil(bytes / unit) * unit, 0});
    }
  }
  return figures;
}

std::string Name(const GpuFigure& figure) {
  std::string text(planner::GpuOperatorName(figure.op));
  for (size_t i = 0; i < planner::GpuSizeNames(figure.op).size(); ++i) {
    text += (i == 0 ? " " : " x ") + WithThousands(static_cast<int64_t>(figure.sizes[i]));
  }
  return text;
}

}  // namespace

Result<CudaResult> MeasureGpus(const CudaOptions& options, const CudaProgress& progress) {
  ASSIGN_OR_RETURN(const auto libraries, CudaLibraries::Open(options.paths));
  Gpus gpus(*libraries);
  RETURN_IF_ERROR(gpus.Open());
  CudaResult result;
  result.notes = libraries->notes();
  if (gpus.gpus() == 1) result.notes.emplace_back("collectives are not measured: there is one GPU");
  RETURN_IF_ERROR(gpus.Describe(result.file));
  result.file.quick = options.quick;
  const std::vector<GpuFigure> figures = Figures(gpus, *libraries, options.quick);
  const double budget_s = options.quick ? 0.1 : 1;
  for (size_t i = 0; i < figures.size(); ++i) {
    progress(i, figures.size(), Name(figures[i]));
    const Result<GpuFigure> figure = gpus.Measure(figures[i], budget_s);
    if (!figure.ok()) return figure.status().WithContext(Name(figures[i]));
    if (figure->op == GpuOperator::kStream) {
      gpus.set_stream_rate(2 * figure->sizes[0] / figure->seconds);
    }
    result.file.figures.push_back(*figure);
  }
  return result;
}

}  // namespace longhaul::trainer
