#include "profiler/rank/kernel_classes.h"

#include <algorithm>

namespace longhaul::profiler {
namespace {

struct Pattern {
  std::string_view text;
  KernelClass kind;
};

using enum KernelClass;

// In order: "flash" before "gemm", for names that hold both.
constexpr auto kPatterns = std::to_array<Pattern>({
    {"nccl", kCommunication},
    {"rccl", kCommunication},
    {"hccl", kCommunication},
    {"deep_ep", kCommunication},
    {"nvshmem", kCommunication},
    {"one_shot_all_reduce", kCommunication},
    {"two_shot_all_reduce", kCommunication},
    {"multimem_", kCommunication},
    {"userbuffers", kCommunication},
    {"cross_device_reduce", kCommunication},
    {"gloo_", kCommunication},
    {"gloo:", kCommunication},
    {"mpi:", kCommunication},
    {"Memcpy", kCopy},
    {"Memset", kCopy},
    {"CopyHostToDevice", kCopy},
    {"CopyDeviceToHost", kCopy},
    {"flash", kAttention},
    {"fmha", kAttention},
    {"attention", kAttention},
    {"Attention", kAttention},
    {"sdpa", kAttention},
    {"softmax", kActivation},
    {"SoftMax", kActivation},
    {"SoftMaxForward", kActivation},
    {"layer_norm", kNorm},
    {"LayerNorm", kNorm},
    {"layernorm", kNorm},
    {"rms_norm", kNorm},
    {"rmsnorm", kNorm},
    {"RMSNorm", kNorm},
    {"GammaBeta", kNorm},
    {"batch_norm", kNorm},
    {"bn_fw", kNorm},
    {"bn_bw", kNorm},
    {"native_norm", kNorm},
    {"multi_tensor", kOptimizer},
    {"adam", kOptimizer},
    {"Adam", kOptimizer},
    {"sgd", kOptimizer},
    {"gemm", kMatrixProduct},
    {"Gemm", kMatrixProduct},
    {"GEMM", kMatrixProduct},
    {"cutlass", kMatrixProduct},
    {"nvjet", kMatrixProduct},
    {"Cijk_", kMatrixProduct},
    {"splitK", kMatrixProduct},
    {"cublas", kMatrixProduct},
    {"conv", kMatrixProduct},
    {"wgrad", kMatrixProduct},
    {"dgrad", kMatrixProduct},
    {"gelu", kActivation},
    {"Gelu", kActivation},
    {"silu", kActivation},
    {"swiglu", kActivation},
    {"sigmoid", kActivation},
    {"relu", kActivation},
    // Operators of a trace of a processor, where no kernel has a name of its own.
    {"aten::mm", kMatrixProduct},
    {"aten::addmm", kMatrixProduct},
    {"aten::bmm", kMatrixProduct},
    {"aten::baddbmm", kMatrixProduct},
    {"aten::", kElementwise},
    {"elementwise", kElementwise},
    {"reduce_kernel", kElementwise},
    {"index", kElementwise},
    {"triton_", kElementwise},
    {"cat_array", kElementwise},
    {"CatArray", kElementwise},
});

constexpr std::array<std::string_view, kKernelClasses> kClassNames = {
    "matrix products", "attention", "norms",         "activations", "optimizer",
    "elementwise",     "other",     "communication", "copies"};

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Without the case and the separators: "_allgather_base" and "AllGather_RING" alike.
std::string Folded(std::string_view text) {
  std::string folded;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z')
      folded.push_back(static_cast<char>(c + ('a' - 'A')));
    else if (c != '_' && c != ' ')
      folded.push_back(c);
  }
  return folded;
}

}  // namespace

std::string_view ToString(KernelClass kind) { return kClassNames[static_cast<size_t>(kind)]; }

KernelClass ClassOfKernel(std::string_view name) {
  for (const Pattern& pattern : kPatterns) {
    if (Contains(name, pattern.text)) return pattern.kind;
  }
  return kOther;
}

HtaClass HtaClassOf(std::string_view name) {
  if (Contains(name, "ncclKernel") || name.starts_with("nccl") || name.starts_with("hip") ||
      name.starts_with("hccl")) {
    return HtaClass::kCommunication;
  }
  if (name.starts_with("Memcpy") || name.starts_with("Memset") || name.starts_with("dma")) {
    return HtaClass::kMemory;
  }
  return HtaClass::kComputation;
}

std::string_view ToString(CollectiveKind kind) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "send",
       "receive", "send-receive", "barrier", "unknown"});
  return kNames[static_cast<size_t>(kind)];
}

CollectiveKind KindOfCollective(std::string_view note_name, std::string_view kernel_name) {
  const std::string name = Folded(note_name.empty() ? kernel_name : note_name);
  constexpr std::pair<std::string_view, CollectiveKind> kKinds[] = {
      {"allreduce", CollectiveKind::kAllReduce},
      {"allgather", CollectiveKind::kAllGather},
      {"reducescatter", CollectiveKind::kReduceScatter},
      {"alltoall", CollectiveKind::kAllToAll},
      {"broadcast", CollectiveKind::kBroadcast},
      {"sendrecv", CollectiveKind::kSendReceive},
      {"batchisend", CollectiveKind::kSendReceive},
      {"coalesced", CollectiveKind::kSendReceive},
      {"barrier", CollectiveKind::kBarrier},
      {"recv", CollectiveKind::kReceive},
      {"send", CollectiveKind::kSend},
      {"reduce", CollectiveKind::kReduce},
  };
  for (const auto& [text, kind] : kKinds) {
    if (Contains(name, text)) return kind;
  }
  return CollectiveKind::kUnknown;
}

bool IsSymmetric(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
         kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll ||
         kind == CollectiveKind::kBarrier;
}

KernelClass ClassCache::Of(const Event& event) {
  if (event.category == Category::kMemcpy || event.category == Category::kMemset) return kCopy;
  if (known_.size() < strings_.size()) known_.resize(strings_.size(), -1);
  int8_t& known = known_[event.name];
  if (known < 0) known = static_cast<int8_t>(ClassOfKernel(strings_[event.name]));
  return static_cast<KernelClass>(known);
}

}  // namespace longhaul::profiler
