// Maps the name of a kernel or operator to a class, by a table of patterns.
//
// A pattern is a text that the name contains; `^` before it means that the name begins with it, `$`
// after it that the name ends with it. Letters match in either case. The first matching pattern
// decides: those of the user's file in its order, then the built-in ones (rank/kernel_table.cc),
// which cover the names of NCCL and RCCL, DeepEP, NVSHMEM, symmetric memory, Transformer Engine's
// user buffers, the all-reduces of inference servers, cuBLAS, CUTLASS, flash attention, cuDNN,
// Triton as torch.compile names it, and PyTorch's own kernels and operators.
//
// The file (`longhaul profile --kernels FILE`) has a line for each pattern:
//
//   # comments and empty lines are left out
//   PATTERN = CLASS
//   PATTERN = communication DIMENSION
//
// The last `=` of a line separates the two. CLASS is one of KernelClassWords() or `host`, for an
// operator of a processor's trace that computes nothing itself: its time counts as its caller's.
// DIMENSION is tensor, context, expert, data, pipeline or world, for communication whose trace does
// not name its process group.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "profiler/rank/kernel_classes.h"

namespace longhaul::profiler {

// The table's result for a name.
struct KernelMatch {
  bool known = false;                      // some pattern matches
  KernelClass kind = KernelClass::kOther;  // kOther if none does, and for `host`
  bool host = false;                       // computes nothing itself
  std::string_view dimension;              // of communication: a constant text, may be empty

  friend bool operator==(const KernelMatch&, const KernelMatch&) = default;
};

class KernelTable {
 public:
  static constexpr size_t kMaxFileBytes = 256 << 10;
  static constexpr size_t kMaxPatterns = 1000;
  static constexpr size_t kMaxPatternBytes = 200;
  static constexpr size_t kMaxNameBytes = 4096;  // the part of a name that is compared

  // The built-in patterns alone.
  KernelTable() = default;
  // The patterns of a user's file before the built-in ones. kInvalidArgument names `file`, the
  // line, and the expected form.
  static Result<KernelTable> Parse(std::string_view text, std::string_view file);

  KernelMatch Find(std::string_view name) const;
  size_t own_patterns() const { return own_.size(); }

 private:
  struct Pattern {
    std::string text;  // in lower case, without its anchors
    bool at_start = false;
    bool at_end = false;
    KernelMatch match;
  };
  std::vector<Pattern> own_;
};

// "matrix-product, attention, ...": the classes that a file may name, for messages.
std::string KernelClassWords();

// The table's results for a trace's names, with one look-up per name. Keeps references to both.
class KernelNames {
 public:
  KernelNames(const KernelTable& table, const Strings& strings)
      : table_(table), strings_(strings) {}
  const KernelMatch& Of(uint32_t name);
  // The kind of a device event. Copies are recognized by their category.
  KernelClass ClassOf(const Event& event);

 private:
  const KernelTable& table_;
  const Strings& strings_;
  std::vector<std::optional<KernelMatch>> known_;
};

}  // namespace longhaul::profiler
