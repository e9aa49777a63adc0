// The training loop's side of the worker API (include/longhaul.h), as an interface with three
// implementations: the agent's in a job, lines on standard output when the trainer runs alone,
// memory in tests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace longhaul::trainer {

enum class Phase { kRendezvous, kRestore, kStepping, kFinishing };

// The place of a tensor in a global one whose other parts are on other ranks.
struct StatePart {
  std::string of;
  std::vector<int64_t> shape;   // of the global tensor
  std::vector<int64_t> offset;  // of the tensor in it
};

// A tensor of the training state, f32.
struct StateTensor {
  std::string name;
  std::span<float> values;
  std::vector<int64_t> shape;
  std::optional<StatePart> part = {};  // absent: whole, global under its own name
};

struct StepReport {
  uint64_t step = 0;
  int64_t data_ns = 0;
  int64_t evaluation_ns = 0;
  int64_t communication_ns = 0;
  double loss = 0;
  double validation_loss = 0;  // NaN: none at this step
  double gradient_norm = 0;
  uint64_t tokens = 0;
  double flops = 0;
};

class WorkerApi {
 public:
  virtual ~WorkerApi() = default;
  virtual std::string Config() = 0;  // JSON
  virtual uint64_t Attempt() = 0;
  virtual Status Enter(Phase phase) = 0;
  virtual Status Register(const std::vector<StateTensor>& tensors) = 0;
  // The step whose state is now in the registered tensors; 0: unchanged.
  virtual Result<uint64_t> Restore() = 0;
  virtual bool SnapshotDue(uint64_t step) = 0;
  virtual Status Snapshot(uint64_t step) = 0;
  virtual Status Report(const StepReport& report) = 0;
  virtual Status Finish(const std::string& result_json) = 0;
  // The sample at a global position of the run. Requires samples >= 1, the data set's size.
  virtual uint64_t Sample(uint64_t position, uint64_t samples) = 0;
};

// For a run without an agent: no snapshots, every step is a line on standard output from rank 0.
std::unique_ptr<WorkerApi> OpenStandaloneWorkerApi(std::string config, bool prints);

// The worker API of the agent that started this process. kNotFound when there is none.
Result<std::unique_ptr<WorkerApi>> OpenAgentWorkerApi();

}  // namespace longhaul::trainer
