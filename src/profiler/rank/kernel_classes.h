// The classes of work that kernels do, and the kinds of collectives.
//
// rank/kernel_table.h has the patterns that find the class of a name. A name without a matching
// pattern is "other", and the report shows the time of this class.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

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

}  // namespace longhaul::profiler
