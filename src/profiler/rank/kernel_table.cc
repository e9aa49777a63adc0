#include "profiler/rank/kernel_table.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace longhaul::profiler {
namespace {

using enum KernelClass;

struct BuiltIn {
  std::string_view pattern;  // in lower case
  KernelClass kind;
  std::string_view dimension = {};
};

// In order: what moves bytes between ranks, then copies, then what computes; "flash" before "gemm",
// for names that hold both. Words that other names hold too ("all_reduce", "copy") come last.
constexpr auto kBuiltIn = std::to_array<BuiltIn>({
    // Exchanges of experts' tokens: DeepEP (in DeepSeek's own traces "dpsk::ep"), pplx-kernels,
    // TensorRT-LLM. Their layouts are computed locally.
    {"get_dispatch_layout", kOther},
    {"deep_ep::", kCommunication, "expert"},
    {"dpsk::ep::", kCommunication, "expert"},
    {"pplx::", kCommunication, "expert"},
    {"moealltoall", kCommunication, "expert"},
    {"moe_comm", kCommunication, "expert"},
    // NCCL, RCCL, and libraries with their interface.
    {"nccl", kCommunication},
    {"rccl", kCommunication},
    {"hccl", kCommunication},
    {"oneccl", kCommunication},
    {"msccl", kCommunication},
    // One-sided transfers.
    {"nvshmem", kCommunication},
    {"rocshmem", kCommunication},
    {"roc_shmem", kCommunication},
    // PyTorch's symmetric memory, vLLM, SGLang, AITER, FlashInfer and TensorRT-LLM.
    {"one_shot_all_reduce", kCommunication},
    {"two_shot_all_reduce", kCommunication},
    {"oneshotallreduce", kCommunication},
    {"twoshotallreduce", kCommunication},
    {"multimem_", kCommunication},
    {"symmetric_memory", kCommunication},
    {"cross_device_reduce", kCommunication},
    {"quickreduce", kCommunication},
    {"allreduce_fusion", kCommunication},
    {"allreduce_prototype", kCommunication},
    {"lamport", kCommunication},
    // Transformer Engine and Apex.
    {"userbuffers", kCommunication},
    {"push_pull_halos", kCommunication},
    // Annotations of a processor's collectives.
    {"gloo_", kCommunication},
    {"gloo:", kCommunication},
    {"mpi:", kCommunication},

    {"memcpy", kCopy},
    {"memset", kCopy},
    {"copyhosttodevice", kCopy},
    {"copydevicetohost", kCopy},

    {"flash", kAttention},
    {"fmha", kAttention},
    {"attention", kAttention},
    {"sdpa", kAttention},
    {"softmax", kActivation},
    {"layer_norm", kNorm},
    {"layernorm", kNorm},
    {"rms_norm", kNorm},
    {"rmsnorm", kNorm},
    {"gammabeta", kNorm},
    {"batch_norm", kNorm},
    {"batchnorm", kNorm},
    {"group_norm", kNorm},
    {"groupnorm", kNorm},
    {"bn_fw", kNorm},
    {"bn_bw", kNorm},
    {"native_norm", kNorm},
    {"multi_tensor", kOptimizer},
    {"adam", kOptimizer},
    {"sgd", kOptimizer},
    {"gemm", kMatrixProduct},
    {"cutlass", kMatrixProduct},
    {"nvjet", kMatrixProduct},
    {"cijk_", kMatrixProduct},
    {"splitk", kMatrixProduct},
    {"cublas", kMatrixProduct},
    {"convert", kElementwise},  // not a convolution
    {"conv", kMatrixProduct},
    {"wgrad", kMatrixProduct},
    {"dgrad", kMatrixProduct},
    {"gelu", kActivation},
    {"silu", kActivation},
    {"swiglu", kActivation},
    {"sigmoid", kActivation},
    {"relu", kActivation},

    // Operators of a trace of a processor, where no kernel has a name of its own.
    {"aten::mm$", kMatrixProduct},
    {"aten::mv$", kMatrixProduct},
    {"aten::dot$", kMatrixProduct},
    {"aten::bmm", kMatrixProduct},
    {"aten::addmm", kMatrixProduct},
    {"aten::addmv", kMatrixProduct},
    {"aten::addbmm", kMatrixProduct},
    {"aten::baddbmm", kMatrixProduct},
    {"aten::_addmm", kMatrixProduct},
    {"aten::_int_mm", kMatrixProduct},
    {"aten::_scaled_mm", kMatrixProduct},
    {"aten::_grouped_mm", kMatrixProduct},
    {"aten::matmul", kMatrixProduct},
    {"aten::linear", kMatrixProduct},
    {"aten::einsum", kMatrixProduct},
    {"mkldnn_linear", kMatrixProduct},
    {"linear_pointwise", kMatrixProduct},
    {"aten::", kElementwise},

    {"triton_", kElementwise},
    // Collectives whose library is none of the above.
    {"all_reduce", kCommunication},
    {"allreduce", kCommunication},
    {"all_gather", kCommunication},
    {"allgather", kCommunication},
    {"reduce_scatter", kCommunication},
    {"reducescatter", kCommunication},
    {"all_to_all", kCommunication},
    {"alltoall", kCommunication},
    {"elementwise", kElementwise},
    {"reduce_kernel", kElementwise},
    {"index", kElementwise},
    {"cat_array", kElementwise},
    {"catarray", kElementwise},
    {"transpose", kElementwise},
    {"cast_", kElementwise},
    {"_copy_", kElementwise},
    {"rotary", kElementwise},
});

// Operators of PyTorch that compute nothing themselves: they make views, allocate, dispatch, or
// are nodes of autograd's graph. On a processor their own time is overhead of the host.
constexpr auto kHost = std::to_array<std::string_view>({
    "aten::_reshape_alias$",
    "aten::_to_copy$",
    "aten::_unsafe_view$",
    "aten::alias$",
    "aten::as_strided",
    "aten::chunk$",
    "aten::clone$",
    "aten::contiguous$",
    "aten::detach",
    "aten::empty",
    "aten::expand",
    "aten::flatten$",
    "aten::item$",
    "aten::lift_fresh$",
    "aten::narrow$",
    "aten::new_empty",
    "aten::permute$",
    "aten::result_type$",
    "aten::reshape",
    "aten::resize_",
    "aten::resolve_conj$",
    "aten::resolve_neg$",
    "aten::select$",
    "aten::set_$",
    "aten::slice$",
    "aten::split",
    "aten::squeeze",
    "aten::t$",
    "aten::to$",
    "aten::transpose$",
    "aten::unbind$",
    "aten::unflatten$",
    "aten::unsafe_split",
    "aten::unsqueeze",
    "aten::view",
    "backward0$",
    "backward1$",
    "torch::autograd::accumulategrad$",
    "torch::autograd::copybackwards$",
    "torch::autograd::copyslices$",
    "torch::autograd::graphroot$",
});

// In the order of KernelClass.
constexpr std::array<std::string_view, kKernelClasses> kWords = {
    "matrix-product", "attention", "norm",          "activation", "optimizer",
    "elementwise",    "other",     "communication", "copy"};
constexpr auto kDimensionWords =
    std::to_array<std::string_view>({"tensor", "context", "expert", "data", "pipeline", "world"});

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

// `text` and `name` in lower case.
bool Matches(std::string_view name, std::string_view text, bool at_start, bool at_end) {
  if (at_start && at_end) return name == text;
  if (at_start) return name.starts_with(text);
  if (at_end) return name.ends_with(text);
  return name.find(text) != name.npos;
}

// Built-in patterns have only the anchor at the end; they are constants, so it is taken off here
// and not in a table.
bool MatchesBuiltIn(std::string_view name, std::string_view pattern) {
  const bool at_end = pattern.ends_with('$');
  return Matches(name, at_end ? pattern.substr(0, pattern.size() - 1) : pattern, false, at_end);
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

template <size_t size>
std::string Listed(const std::array<std::string_view, size>& words) {
  std::string list;
  for (const std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return list;
}

Result<KernelMatch> ParseClass(std::string_view text) {
  const size_t space = text.find_first_of(" \t");
  const std::string_view word = text.substr(0, space);
  const std::string_view rest = space == text.npos ? "" : Trimmed(text.substr(space));
  KernelMatch match;
  match.known = true;
  if (word == "host") {
    match.host = true;
  } else {
    const auto found = std::find(kWords.begin(), kWords.end(), word);
    if (found == kWords.end()) {
      return InvalidArgument("unknown class " + Printable(word, 60) + ", expected one of " +
                             KernelClassWords());
    }
    match.kind = static_cast<KernelClass>(found - kWords.begin());
  }
  if (rest.empty()) return match;
  if (match.kind != kCommunication) {
    return InvalidArgument("class " + std::string(word) + " has no dimension, but " +
                           Printable(rest, 60) + " follows it");
  }
  const auto found = std::find(kDimensionWords.begin(), kDimensionWords.end(), rest);
  if (found == kDimensionWords.end()) {
    return InvalidArgument("unknown dimension " + Printable(rest, 60) + ", expected one of " +
                           Listed(kDimensionWords));
  }
  match.dimension = *found;
  return match;
}

}  // namespace

Result<KernelTable> KernelTable::Parse(std::string_view text, std::string_view file) {
  const auto refuse = [file](size_t line, const std::string& what) {
    return InvalidArgument(std::string(file) + ":" + std::to_string(line) + ": " + what);
  };
  if (text.size() > kMaxFileBytes) {
    return InvalidArgument(std::string(file) + " has " + std::to_string(text.size()) +
                           " bytes, the limit is " + std::to_string(kMaxFileBytes));
  }
  KernelTable table;
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = text.find('\n');
    const std::string_view line = Trimmed(text.substr(0, end));
    text = end == text.npos ? "" : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    // The last '=' separates, since names of kernels may contain one.
    const size_t equals = line.rfind('=');
    if (equals == line.npos) {
      return refuse(number, Printable(line, 60) + " has no '=', expected PATTERN = CLASS");
    }
    std::string_view written = Trimmed(line.substr(0, equals));
    const Result<KernelMatch> match = ParseClass(Trimmed(line.substr(equals + 1)));
    if (!match.ok()) return refuse(number, std::string(match.status().message()));
    Pattern pattern;
    pattern.match = *match;
    pattern.at_start = written.starts_with('^');
    if (pattern.at_start) written.remove_prefix(1);
    pattern.at_end = written.ends_with('$');
    if (pattern.at_end) written.remove_suffix(1);
    if (written.empty()) return refuse(number, "the pattern is empty, expected a part of a name");
    if (written.size() > kMaxPatternBytes) {
      return refuse(number, "the pattern has " + std::to_string(written.size()) +
                                " bytes, the limit is " + std::to_string(kMaxPatternBytes));
    }
    if (table.own_.size() == kMaxPatterns) {
      return refuse(number, "the file has more than " + std::to_string(kMaxPatterns) + " patterns");
    }
    pattern.text.assign(written);
    std::transform(pattern.text.begin(), pattern.text.end(), pattern.text.begin(), Lower);
    table.own_.push_back(std::move(pattern));
  }
  return table;
}

// The user's patterns decide before the built-in ones, and views before operators: "aten::" would
// match all of them. Linear in the patterns; KernelNames asks once for each distinct name.
KernelMatch KernelTable::Find(std::string_view name) const {
  std::string lower(name.substr(0, kMaxNameBytes));
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  for (const Pattern& own : own_) {
    if (Matches(lower, own.text, own.at_start, own.at_end)) return own.match;
  }
  for (const std::string_view pattern : kHost) {
    if (MatchesBuiltIn(lower, pattern)) return {true, kOther, true, {}};
  }
  for (const BuiltIn& row : kBuiltIn) {
    if (MatchesBuiltIn(lower, row.pattern)) return {true, row.kind, false, row.dimension};
  }
  return {};
}

std::string KernelClassWords() { return Listed(kWords) + ", host"; }

const KernelMatch& KernelNames::Of(uint32_t name) {
  if (known_.size() < strings_.size()) known_.resize(strings_.size());
  std::optional<KernelMatch>& known = known_[name];
  if (!known.has_value()) known = table_.Find(strings_[name]);
  return *known;
}

KernelClass KernelNames::ClassOf(const Event& event) {
  if (event.category == Category::kMemcpy || event.category == Category::kMemset) return kCopy;
  return Of(event.name).kind;
}

}  // namespace longhaul::profiler
