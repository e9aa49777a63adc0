// What kind of work a kernel is, by its name.
//
// A table of patterns, the first that matches decides; what matches none is "other", and how much
// time that is gets shown. Names are those of NCCL and RCCL, cuBLAS, CUTLASS, flash attention,
// cuDNN, Triton as torch.compile names it, PyTorch's own kernels, and of the libraries that move
// bytes beside NCCL (DeepEP, NVSHMEM, symmetric memory, Transformer Engine's user buffers).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "profiler/trace/trace.h"

namespace longhaul::profiler {

enum class KernelClass : uint8_t {
  kMatrixProduct,
  kAttention,
  kNorm,
  kActivation,
  kOptimizer,
  kElementwise,
  kOther,
  kCommunication,
  kCopy,
};
constexpr size_t kKernelClasses = 9;
constexpr size_t kComputeClasses = 7;  // those before kCommunication

std::string_view ToString(KernelClass kind);
KernelClass ClassOfKernel(std::string_view name);
// HolisticTraceAnalysis' three classes (its utils/utils.py, get_kernel_type).
enum class HtaClass : uint8_t { kComputation, kCommunication, kMemory };
HtaClass HtaClassOf(std::string_view name);

// Collectives as the traces name them.
enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kSend,
  kReceive,
  kSendReceive,  // a kernel that may do either, or both
  kBarrier,
  kUnknown,
};
std::string_view ToString(CollectiveKind kind);
// By the note's name ("_allgather_base"), or by the kernel's when there is no note.
CollectiveKind KindOfCollective(std::string_view note_name, std::string_view kernel_name);
// Whether all ranks end together.
bool IsSymmetric(CollectiveKind kind);

// The class of every event's name, looked up once a name.
class ClassCache {
 public:
  explicit ClassCache(const Strings& strings) : strings_(strings) {}
  KernelClass Of(const Event& event);

 private:
  const Strings& strings_;
  std::vector<int8_t> known_;
};

}  // namespace longhaul::profiler
