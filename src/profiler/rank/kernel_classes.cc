#include "profiler/rank/kernel_classes.h"

#include <array>
#include <string>
#include <utility>

namespace longhaul::profiler {
namespace {

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

}  // namespace longhaul::profiler
