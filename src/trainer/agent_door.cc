// The door of liblonghaul as a JobDoor.
#include <cmath>
#include <utility>

#include "longhaul.h"
#include "trainer/job_door.h"

namespace longhaul::trainer {
namespace {

Status FromCode(int code, const longhaul_error& error) {
  return code == LONGHAUL_OK ? Status() : Status(static_cast<Code>(code), error.message);
}

class AgentDoor final : public JobDoor {
 public:
  explicit AgentDoor(longhaul_door* door) : door_(door) {}
  ~AgentDoor() override { longhaul_close(door_); }

  std::string Config() override { return longhaul_config(door_); }
  uint64_t Epoch() override { return longhaul_epoch(door_); }

  Status Enter(Phase phase) override {
    static constexpr longhaul_phase_kind kKinds[] = {
        LONGHAUL_PHASE_RENDEZVOUS, LONGHAUL_PHASE_RESTORE, LONGHAUL_PHASE_STEPPING,
        LONGHAUL_PHASE_FINISHING};
    longhaul_error error{};
    return FromCode(longhaul_phase(door_, kKinds[static_cast<size_t>(phase)], &error), error);
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
    return FromCode(longhaul_register_parts(door_, list.data(), parts.data(), list.size(), &error),
                    error);
  }

  Result<uint64_t> Restore() override {
    longhaul_error error{};
    uint64_t step = 0;
    RETURN_IF_ERROR(FromCode(longhaul_restore(door_, &step, &error), error));
    return step;
  }

  bool SnapshotDue(uint64_t step) override { return longhaul_snapshot_due(door_, step) != 0; }

  Status Snapshot(uint64_t step) override {
    longhaul_error error{};
    return FromCode(longhaul_snapshot(door_, step, &error), error);
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
    return FromCode(longhaul_report_step(door_, &step, &error), error);
  }

  Status Finish(const std::string& result_json) override {
    longhaul_error error{};
    return FromCode(longhaul_result(door_, result_json.c_str(), &error), error);
  }

  uint64_t Sample(uint64_t position, uint64_t samples) override {
    if (lease_.samples == 0) {
      longhaul_error error{};
      // Without a lease of the controller the order is still the same function of the position.
      if (longhaul_data_lease(door_, &lease_, &error) != LONGHAUL_OK) lease_ = {};
      lease_.samples = samples;
    }
    return longhaul_sample(&lease_, position);
  }

 private:
  longhaul_door* door_;
  longhaul_lease lease_{};
};

}  // namespace

Result<std::unique_ptr<JobDoor>> OpenAgentDoor() {
  longhaul_error error{};
  longhaul_door* door = longhaul_open(&error);
  if (door == nullptr) return Status(static_cast<Code>(error.code), error.message);
  return std::unique_ptr<JobDoor>(new AgentDoor(door));
}

}  // namespace longhaul::trainer
