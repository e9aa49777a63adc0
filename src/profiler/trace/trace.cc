#include "profiler/trace/trace.h"

#include <limits>
#include <utility>

namespace longhaul::profiler {
namespace {

constexpr auto kNames = std::to_array<std::pair<std::string_view, Category>>({
    {"cpu_op", Category::kCpuOp},
    {"kernel", Category::kKernel},
    {"cuda_runtime", Category::kRuntime},
    {"gpu_memcpy", Category::kMemcpy},
    {"gpu_memset", Category::kMemset},
    {"user_annotation", Category::kUserAnnotation},
    {"gpu_user_annotation", Category::kGpuUserAnnotation},
    {"cuda_driver", Category::kDriver},
    {"python_function", Category::kPython},
    {"cuda_sync", Category::kSync},
    {"overhead", Category::kOverhead},
    {"Trace", Category::kTrace},
    // Before 2022.
    {"Operator", Category::kCpuOp},
    {"Kernel", Category::kKernel},
    {"Runtime", Category::kRuntime},
    {"Memcpy", Category::kMemcpy},
    {"Memset", Category::kMemset},
});

template <typename T>
size_t Held(const std::vector<T>& column) {
  return column.capacity() * sizeof(T);
}

}  // namespace

Category CategoryOf(std::string_view text) {
  for (const auto& [name, category] : kNames) {
    if (name == text) return category;
  }
  return Category::kOther;
}

std::string_view ToString(Category category) {
  for (const auto& [name, known] : kNames) {
    if (known == category) return name;
  }
  return "other";
}

void EventTable::Add(const Event& event) {
  start_.push_back(event.start_ns);
  duration_.push_back(event.duration_ns);
  name_.push_back(event.name);
  track_.push_back(event.track);
  correlation_.push_back(event.correlation);
  external_.push_back(event.external);
  detail_.push_back(event.detail);
  category_.push_back(event.category);
}

// Saturates: times come from files, and the shift from an estimate over them.
void EventTable::Shift(int64_t by_ns) {
  for (int64_t& start : start_) {
    if (__builtin_add_overflow(start, by_ns, &start)) {
      start = by_ns > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
    }
  }
}

void EventTable::Shrink() {
  start_.shrink_to_fit();
  duration_.shrink_to_fit();
  name_.shrink_to_fit();
  track_.shrink_to_fit();
  correlation_.shrink_to_fit();
  external_.shrink_to_fit();
  detail_.shrink_to_fit();
  category_.shrink_to_fit();
}

size_t EventTable::memory_bytes() const {
  return Held(start_) + Held(duration_) + Held(name_) + Held(track_) + Held(correlation_) +
         Held(external_) + Held(detail_) + Held(category_);
}

size_t RankTrace::memory_bytes() const {
  return strings.memory_bytes() + events.memory_bytes() + Held(tracks) + Held(notes) +
         Held(operator_notes);
}

}  // namespace longhaul::profiler
