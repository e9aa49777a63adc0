// One rank's trace in memory: events in columns, and the file's metadata.
//
// Times are whole nanoseconds since the Unix epoch (or the file's own base): Kineto writes 16
// digits and three decimals, more than a double can hold. A row takes 37 bytes, where its JSON
// takes 250 to 580. Rows are in the order of the file; `rank/links.h` sorts them as needed. Flow
// events, counters and Python frames are counted, not kept: correlations replace flows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/strings.h"

namespace longhaul::profiler {

enum class Category : uint8_t {
  kOther,  // of a plain Chrome trace, or unknown
  kCpuOp,
  kUserAnnotation,
  kGpuUserAnnotation,
  kRuntime,  // cudaLaunchKernel and similar calls
  kDriver,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,      // the device's view of a synchronisation
  kOverhead,  // the profiler's own
  kPython,
  kTrace,  // frames of the profiler: "PyTorch Profiler (0)"
};
constexpr size_t kCategories = 13;

// The category of Kineto's `cat`, old and new spelling.
Category CategoryOf(std::string_view text);
std::string_view ToString(Category category);

constexpr bool IsDevice(Category c) {
  return c == Category::kKernel || c == Category::kMemcpy || c == Category::kMemset;
}

constexpr int64_t kNoDuration = -1;  // the event has none, or an absurd one
constexpr int64_t kNoRank = -1;

// Process and thread of an event; a text is kept in pid_text or tid_text with a number of 0.
struct Track {
  int64_t pid = 0;
  int64_t tid = 0;
  uint32_t pid_text = 0;
  uint32_t tid_text = 0;

  friend bool operator==(const Track&, const Track&) = default;
};

// Kineto's data about a collective's kernel (since 2024).
struct CollectiveNote {
  uint32_t name = 0;  // "allreduce", "_allgather_base"
  uint32_t dtype = 0;
  uint32_t group_name = 0;
  uint32_t group_description = 0;
  uint32_t group_ranks = 0;  // "[0, 1, 2, 3]", perhaps cut with "..."
  int64_t in_elements = 0;
  int64_t out_elements = 0;
  int64_t group_size = 0;
  int64_t sequence = -1;
  int64_t source_rank = -1;
  int64_t destination_rank = -1;
  int64_t rank_start = -1;
  int64_t rank_stride = -1;
  int64_t cpu_ns = -1;  // of the process meanwhile; -1: unknown
};

// The built-in trainer's data about an operator of its model.
struct OperatorNote {
  uint32_t kind = 0;   // "matmul": the device file's, may be empty
  uint32_t sizes = 0;  // "[4.0,8.0,0.0]"
  bool backward = false;
  int64_t layer = -1;
  int64_t micro_batch = -1;
  int64_t cpu_ns = 0;
};

struct Event {
  int64_t start_ns = 0;
  int64_t duration_ns = kNoDuration;
  uint32_t name = 0;
  uint32_t track = 0;
  uint32_t correlation = 0;  // 0: none
  uint32_t external = 0;     // 0: none
  // Kernel: 1 + its index in `notes`, or 0. Copy: KiB moved, rounded up. Operator: the text of its
  // shapes, or 0. Annotation: 1 + its index in `operator_notes`, or 0.
  uint32_t detail = 0;
  Category category = Category::kOther;

  int64_t end_ns() const { return start_ns + (duration_ns > 0 ? duration_ns : 0); }
};

class EventTable {
 public:
  void Add(const Event& event);
  Event operator[](size_t row) const {
    return {start_[row],       duration_[row], name_[row],   track_[row],
            correlation_[row], external_[row], detail_[row], category_[row]};
  }
  size_t size() const { return start_.size(); }
  int64_t start_ns(size_t row) const { return start_[row]; }
  int64_t duration_ns(size_t row) const { return duration_[row]; }
  uint32_t name(size_t row) const { return name_[row]; }
  uint32_t track(size_t row) const { return track_[row]; }
  Category category(size_t row) const { return category_[row]; }
  void SetDuration(size_t row, int64_t duration_ns) { duration_[row] = duration_ns; }
  // Adds `by_ns` to every start; an overflow is clamped to the limits of 64 bits.
  void Shift(int64_t by_ns);
  // Frees unused capacity.
  void Shrink();
  size_t memory_bytes() const;

 private:
  std::vector<int64_t> start_, duration_;
  std::vector<uint32_t> name_, track_, correlation_, external_, detail_;
  std::vector<Category> category_;
};

// A process group as in `distributedInfo.pg_config`.
struct GroupConfig {
  std::string name;
  std::string description;
  std::vector<int64_t> ranks;
};

struct Metadata {
  int64_t rank = kNoRank;
  int64_t world_size = 0;
  int64_t base_time_ns = 0;
  std::string device_name;
  int64_t devices = 0;  // visible to the process
  std::string host;
  std::vector<GroupConfig> groups;
};

// One place where the file is malformed.
struct Damage {
  uint64_t byte = 0;
  uint64_t line = 0;
  std::string what;
};

struct ReadReport {
  static constexpr size_t kDamagesKept = 20;

  uint64_t json_bytes = 0;  // after decompression
  uint64_t file_bytes = 0;
  uint64_t events = 0;  // parsed objects of all kinds
  uint64_t python = 0;  // Python frames skipped
  uint64_t flows = 0;
  uint64_t damages = 0;  // places, of which the first few are kept
  uint64_t bytes_lost = 0;
  bool cut = false;   // the end of the file is missing
  bool full = false;  // the end exists, but is beyond the memory limit
  std::vector<Damage> kept;
};

struct RankTrace {
  std::string path;
  Metadata metadata;
  Strings strings;
  EventTable events;
  std::vector<Track> tracks;
  std::vector<CollectiveNote> notes;
  std::vector<OperatorNote> operator_notes;
  std::vector<size_t> host_rows_with_stream;  // rare; another tool may count them as the device's
  // For each row, the index of its object in the file's list; only with ReadOptions::places.
  std::vector<uint64_t> places;
  bool fractional_times = false;  // some `ts` had decimals
  ReadReport report;

  size_t memory_bytes() const;
};

}  // namespace longhaul::profiler
