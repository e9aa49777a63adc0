// One rank's trace reduced for the job's analysis: steps, a ledger of time, collectives, work.
//
// The device's time from the first step's first kernel to the last step's end is divided into
// segments, each of one kind, so that their sum is the wall time by construction. Where several
// activities overlap, computation hides communication, which hides copies; the rest is idle, and is
// assigned to the host (the next kernel was launched late), to the input pipeline (the host waited
// in a data loader), to the gap between kernels (launched early enough, began within 30 us) or to a
// dependency (waited for an event or another stream). A kernel belongs to the step in which the
// host launched it; a step's time runs from its first kernel to the next step's first. A summary
// keeps each segment and each call of a collective, so a job's summaries grow with its traces:
// where they do not fit into memory, they cover only some steps (report/read_job.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "profiler/rank/intervals.h"
#include "profiler/rank/kernel_classes.h"
#include "profiler/rank/kernel_table.h"
#include "profiler/trace/trace.h"

namespace longhaul::profiler {

// kWeights: gradients of the weights where they are a separate pass (zero-bubble schedules).
enum class Phase : uint8_t { kForward, kBackward, kWeights, kOptimizer, kUnknown };
inline bool IsBackward(Phase phase) {
  return phase == Phase::kBackward || phase == Phase::kWeights;
}
constexpr size_t kPhases = 5;
std::string_view ToString(Phase phase);

// The use of a nanosecond. The first seven are KernelClass's.
enum class Spent : uint8_t {
  kMatrixProduct,
  kAttention,
  kNorm,
  kActivation,
  kOptimizer,
  kElementwise,
  kOtherCompute,
  kExposed,  // exposed communication
  kCopy,
  kHost,
  kInput,
  kGap,
  kDependency,
};
constexpr size_t kSpentKinds = 13;
std::string_view ToString(Spent spent);
constexpr bool IsCompute(Spent spent) { return spent < Spent::kExposed; }
constexpr bool IsIdle(Spent spent) { return spent > Spent::kCopy; }

constexpr int64_t kNotLaunched = INT64_MIN;

struct Segment {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int32_t collective = -1;  // of kExposed: index in `collectives`
  Spent spent = Spent::kOtherCompute;
  Phase phase = Phase::kUnknown;
  int64_t launch_ns = kNotLaunched;  // of its first event; see rank/host_time.h
};

struct Step {
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct LocalGroup {
  std::string name;
  std::string description;
  std::vector<int64_t> ranks;  // empty: unknown
  int64_t size = 0;
};

struct Collective {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  // The earliest time at which it could begin: after its launch and all computation launched before
  // it. NCCL's stream waits for the stream that calls it.
  int64_t ready_ns = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  int64_t sequence = -1;
  int64_t peer = -1;   // of send and receive: the global rank of the peer
  uint32_t group = 0;  // in `groups`
  uint32_t track = 0;  // calls of one stream follow each other
  CollectiveKind kind = CollectiveKind::kUnknown;
  Phase phase = Phase::kUnknown;
  int64_t cpu_ns = -1;  // of the process meanwhile; -1: unknown
  int64_t launch_ns = kNotLaunched;
  bool passed = false;  // computation launched after it began before its end
};

// One execution of an operator of the model, as the built-in trainer records it.
struct ModelOperator {
  std::string name;  // "attention.qkv"
  std::string kind;  // of the device file: "matmul"; may be empty
  std::array<double, 3> sizes{};
  bool backward = false;
  int64_t layer = -1;
  int64_t micro_batch = -1;
  size_t step = 0;  // index in `steps`
  int64_t begin_ns = 0;
  int64_t wall_ns = 0;
  int64_t cpu_ns = 0;
};

struct KernelTotal {
  std::string name;
  KernelClass kind = KernelClass::kOther;
  uint64_t count = 0;
  int64_t total_ns = 0;
};

// An operator with its shapes: its time and its work.
struct OperatorTotal {
  std::string name;
  std::string shapes;
  uint64_t count = 0;
  int64_t total_ns = 0;
  double flops = 0;  // 0: unknown
  double bytes = 0;
};

struct RankSummary {
  std::string path;
  Metadata metadata;
  ReadReport report;
  std::vector<Step> steps;
  std::vector<Segment> segments;
  std::vector<LocalGroup> groups;
  std::vector<Collective> collectives;  // by start
  std::vector<KernelTotal> kernels;     // by time, longest first
  std::vector<OperatorTotal> operators;
  std::vector<ModelOperator> model_operators;  // by begin
  Intervals host_waits;                        // the waits of the launching host for the device
  Intervals host_input;                        // its waits for data
  int64_t between_steps_ns = -1;  // from a step's annotation to the next, median; -1: unknown
  int64_t mapped_ns = 0;          // kernel time of the known operators
  int64_t kernel_ns = 0;          // sum of all kernels' durations
  int64_t communication_ns = 0;   // union of collectives, hidden or not
  size_t trace_memory_bytes = 0;
};

// Steps by their numbers, from the first to the last: see rank/step_window.h.
struct StepWindow {
  int64_t first = 0;
  int64_t last = INT64_MAX;

  friend bool operator==(const StepWindow&, const StepWindow&) = default;
};

struct SummaryOptions {
  std::string step_annotation;  // prefix of the steps' annotations; empty: the usual ones
  StepWindow steps;             // only these
  KernelTable kernels;          // maps names to classes
};

// Returns kNotFound, with the trace's path, if none of the requested steps is in it.
Result<RankSummary> Summarize(const RankTrace& trace, const SummaryOptions& options);
// The same for all steps.
RankSummary Summarize(const RankTrace& trace);

// The bytes of the parts that grow with the steps.
size_t MemoryOf(const RankSummary& summary);

}  // namespace longhaul::profiler
