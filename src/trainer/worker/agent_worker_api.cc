// The worker API of liblonghaul as a WorkerApi.
#include <cmath>
#include <utility>

#include "longhaul.h"
#include "trainer/worker/worker_api.h"

namespace longhaul::trainer {
namespace {

Status FromCode(int code, const longhaul_error& error) {
  return code == LONGHAUL_OK ? Status() : Status(static_cast<Code>(code), error.message);
}

class AgentWorkerApi final : public WorkerApi {
 public:
  explicit AgentWorkerApi(longhaul_worker* worker_api) : worker_api_(worker_api) {}
  ~AgentWorkerApi() override { longhaul_close(worker_api_); }

  std::string Config() override { return longhaul_config(worker_api_); }
  uint64_t Attempt() override { return longhaul_attempt(worker_api_); }

  Status Enter(Phase phase) override {
    static constexpr longhaul_phase_kind kKinds[] = {
        LONGHAUL_PHASE_RENDEZVOUS, LONGHAUL_PHASE_RESTORE, LONGHAUL_PHASE_STEPPING,
        LONGHAUL_PHASE_FINISHING};
    longhaul_error error{};
    return FromCode(longhaul_phase(worker_api_, kKinds[static_cast<size_t>(phase)], &error), error);
  }

  Status Register(const std::vector<StateTensor>& tensors) override {
    std::vector<longhaul_tensor> list;
    std::vector<longhaul_part> parts;
    for (const StateTensor& tensor : tensors) {
      list.push_back({tensor.name.c_str(), tensor.values.data(), tensor.values.size_bytes(), "F32",
                      tensor.shape.data(), tensor.shape.size()});
      longhaul_part& part = parts.emplace_back();
      if (tensor.part.has_value()) {
        part = {tensor.part->of.c_str(), tensor.part->shape.data(), tensor.part->offset.data()};
      }
    }
    longhaul_error error{};
    return FromCode(
        longhaul_register_parts(worker_api_, list.data(), parts.data(), list.size(), &error),
        error);
  }

  Result<uint64_t> Restore() override {
    longhaul_error error{};
    uint64_t step = 0;
    RETURN_IF_ERROR(FromCode(longhaul_restore(worker_api_, &step, &error), error));
    return step;
  }

  bool SnapshotDue(uint64_t step) override { return longhaul_snapshot_due(worker_api_, step) != 0; }

  Status Snapshot(uint64_t step) override {
    longhaul_error error{};
    return FromCode(longhaul_snapshot(worker_api_, step, &error), error);
  }

  Status Report(const StepReport& report) override {
    longhaul_step step{};
    step.step = report.step;
    step.data_ns = report.data_ns;
    step.evaluation_ns = report.evaluation_ns;
    step.communication_ns = report.communication_ns;
    step.loss = report.loss;
    step.validation_loss = report.validation_loss;
    step.gradient_norm = report.gradient_norm;
    step.tokens = report.tokens;
    step.flops = report.flops;
    longhaul_error error{};
    return FromCode(longhaul_report_step(worker_api_, &step, &error), error);
  }

  Status Finish(const std::string& result_json) override {
    longhaul_error error{};
    return FromCode(longhaul_result(worker_api_, result_json.c_str(), &error), error);
  }

  // The lease is read once. The number of samples is that of the data which this worker has opened.
  uint64_t Sample(uint64_t position, uint64_t samples) override {
    if (lease_.samples == 0) {
      longhaul_error error{};
      // Without a lease of the controller the order is still the same function of the position.
      if (longhaul_data_lease(worker_api_, &lease_, &error) != LONGHAUL_OK) lease_ = {};
      lease_.samples = samples;
    }
    return longhaul_sample(&lease_, position);
  }

 private:
  longhaul_worker* worker_api_;
  longhaul_lease lease_{};
};

}  // namespace

Result<std::unique_ptr<WorkerApi>> OpenAgentWorkerApi() {
  longhaul_error error{};
  longhaul_worker* worker_api = longhaul_open(&error);
  if (worker_api == nullptr) return Status(static_cast<Code>(error.code), error.message);
  return std::unique_ptr<WorkerApi>(new AgentWorkerApi(worker_api));
}

}  // namespace longhaul::trainer
