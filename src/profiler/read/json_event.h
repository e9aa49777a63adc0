// One object of `traceEvents`, from its text: the fields that the profiler uses, the rest skipped.
//
// A scanner for this schema, in one pass and without a tree: a trace has gigabytes of objects of
// 300 bytes, of which a dozen fields are used. In contrast to a JSON library it accepts the
// errors of real profilers' files: bytes that are not UTF-8, NaN, empty members (", }"), unknown
// fields of any form. It rejects a line end in a string, so that the effect of a lost quote is
// short.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::profiler {

// The number of readable bytes required after `end` of any text given to these functions.
constexpr size_t kScanPadding = 64;

struct RawEvent {
  char phase = 0;
  std::string_view category;
  std::string_view name;      // between the quotes, escapes unchanged
  std::string_view pid, tid;  // as written, quotes included
  bool has_time = false;
  bool has_duration = false;
  bool fraction = false;  // of the start
  int64_t time_ns = 0;
  int64_t duration_ns = 0;

  // Of `args`.
  int64_t correlation = 0;
  int64_t external = 0;
  int64_t bytes = 0;
  bool has_stream = false;
  std::string_view shapes;  // raw value of "Input Dims"
  std::string_view types;   // raw value of "Input type"
  std::string_view labels;  // of metadata: "name" or "labels"
  bool has_note = false;
  std::string_view collective, dtype, group_name, group_description, group_ranks;
  int64_t in_elements = 0, out_elements = 0, group_size = 0, sequence = -1;
  int64_t source_rank = -1, destination_rank = -1, rank_start = -1, rank_stride = -1;
  // Of the built-in trainer (docs/trainer-trace.md).
  bool has_operator = false;
  std::string_view model_operator;  // the device file's kind
  std::string_view sizes;           // "[4.0,8.0,0.0]"
  std::string_view direction;
  int64_t layer = -1, micro_batch = -1, cpu_ns = -1;
};

enum class Scan {
  kOk,
  kNeedMore,  // the text ends inside
  kBad,
};

struct ScanResult {
  Scan scan = Scan::kBad;
  const char* at = nullptr;    // after the text that was read, or at the error
  const char* what = nullptr;  // of kBad: the reason
};

// Requires that `begin` points to '{' and kScanPadding readable bytes after `end`. The views of
// `event` point into the text.
ScanResult ScanEvent(const char* begin, const char* end, RawEvent* event);

// The end of any value. Requires begin < end.
ScanResult SkipValue(const char* begin, const char* end);

// Returns the position after spaces, tabs and line ends.
inline const char* SkipSpace(const char* p, const char* end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
  return p;
}

// A number of microseconds as nanoseconds; false if it is not a number or is beyond 290 years.
bool ParseMicroseconds(std::string_view text, int64_t* nanoseconds, bool* fraction);

// The text of a JSON string without its escapes; invalid escapes are kept.
std::string Unescape(std::string_view raw);

}  // namespace longhaul::profiler
