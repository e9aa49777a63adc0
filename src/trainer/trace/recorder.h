// The activity of a rank in the traced steps of a job, as a Chrome trace (docs/trainer-trace.md).
//
// Steps, phases of a micro-batch, the model's operators, the kernels under them, messages between
// ranks: each is a span on the clock that all processes of a host share (CLOCK_MONOTONIC);
// operators and messages also have their CPU time, because ranks may have to share cores. Kept in
// memory and written once. Independent of libtorch (trace/torch_hooks.h uses it). A rank without
// tracing has no Recorder: RecordedPhase and RecordedOperator accept null and then do nothing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "trainer/parallel/group.h"
#include "trainer/parallel/mesh.h"

namespace longhaul::trainer {

// An operator of the model. `kind` and `sizes` are the device file's (docs/calibrate.md), so that
// measured times can be compared with the plan; an empty kind has no figure there.
struct OperatorLabel {
  const char* name = "";  // "attention.qkv"
  const char* kind = "";  // "matmul"
  int layer = -1;         // of the model; -1: of none
  std::array<double, 3> sizes{};
};

struct TracedMachine {
  std::string host;
  std::string processor;
  int cores = 1;
};

class Recorder final : public MessageObserver {
 public:
  Recorder(int rank, const Mesh& mesh, TracedMachine machine);

  void BeginStep(uint64_t step);
  void EndStep();
  size_t steps() const { return steps_; }

  // Nested spans of one thread: "forward", "backward", "optimizer", "data_load", ...
  void BeginPhase(const char* name, int micro_batch);
  void EndPhase();

  // A forward operator. The nodes of the graph made during it are numbered [first, after), and run
  // backward under the same label.
  void BeginOperator(const OperatorLabel& label, uint64_t first_node);
  void EndOperator(uint64_t after_node);
  // A node begins to run backward.
  void OnBackwardNode(uint64_t node);

  // For each operand `dimensions` holds its number of sizes, then the sizes.
  void OnKernel(const char* name, Instant begin, Instant end, std::span<const int64_t> dimensions);
  void OnMessage(const Group& group, const Message& message) override;

  std::string ToJson() const;

 private:
  struct Span {
    enum class Kind : uint8_t { kStep, kPhase, kOperator, kKernel, kMessage };
    Kind kind = Kind::kPhase;
    bool backward = false;
    int micro_batch = -1;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    int64_t cpu_ns = 0;
    std::string name;
    size_t detail = 0;  // index in labels_, messages_ or dimensions_
    size_t length = 0;  // in dimensions_
  };
  struct Made {  // nodes [first, after) of the graph
    uint64_t first = 0;
    uint64_t after = 0;
    size_t label = 0;
    int micro_batch = -1;
  };
  struct Sent {
    Message message;
    size_t group = 0;
  };

  void Open(Span span);
  void Close();
  void CloseBackward(Instant now, Instant cpu);
  int MicroBatch() const;
  size_t GroupOf(const Group& group);
  void Append(const Span& span, std::string& json) const;
  std::string Arguments(const Span& span) const;

  int rank_;
  Mesh mesh_;
  TracedMachine machine_;
  size_t steps_ = 0;
  std::vector<Span> spans_;
  std::vector<size_t> open_;  // in spans_
  std::vector<OperatorLabel> labels_;
  std::vector<Made> made_;    // by ascending node
  std::vector<Made> making_;  // operators that are open
  size_t running_ = 0;        // 1 + the index in spans_ of the running backward operator
  int64_t running_cpu_ns_ = 0;
  std::vector<int64_t> dimensions_;
  std::vector<Sent> messages_;
  std::vector<std::pair<std::string, std::vector<int>>> groups_;
  std::map<const Group*, size_t> known_groups_;
};

// Records a phase from construction to destruction. `recorder` may be null.
class RecordedPhase {
 public:
  RecordedPhase(Recorder* recorder, const char* name, int micro_batch = -1) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->BeginPhase(name, micro_batch);
  }
  RecordedPhase(const RecordedPhase&) = delete;
  RecordedPhase& operator=(const RecordedPhase&) = delete;
  ~RecordedPhase() {
    if (recorder_ != nullptr) recorder_->EndPhase();
  }

 private:
  Recorder* recorder_;
};

}  // namespace longhaul::trainer
