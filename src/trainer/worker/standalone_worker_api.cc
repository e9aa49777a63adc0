#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/permutation.h"
#include "io/clock.h"
#include "trainer/worker/worker_api.h"

namespace longhaul::trainer {
namespace {

class StandaloneWorkerApi final : public WorkerApi {
 public:
  StandaloneWorkerApi(std::string config, bool prints)
      : config_(std::move(config)), prints_(prints) {
    const auto json = nlohmann::json::parse(config_, nullptr, false);
    if (json.is_object() && json.contains("train")) seed_ = json["train"].value("seed", seed_);
  }

  std::string Config() override { return config_; }
  uint64_t Attempt() override { return 1; }
  Status Enter(Phase) override { return {}; }
  Status Register(const std::vector<StateTensor>&) override { return {}; }
  Result<uint64_t> Restore() override { return uint64_t{0}; }
  bool SnapshotDue(uint64_t) override { return false; }
  Status Snapshot(uint64_t) override { return {}; }
  Status Report(const StepReport& report) override {
    if (!prints_) return {};
    const auto wall = io::MonotonicNow() - started_;
    std::printf("step %llu loss %.4f norm %.3f", static_cast<unsigned long long>(report.step),
                report.loss, report.gradient_norm);
    if (!std::isnan(report.validation_loss))
      std::printf(" validation %.4f", report.validation_loss);
    std::printf(" communication %.1f ms at %.2f s\n",
                static_cast<double>(report.communication_ns) * 1e-6, ToSeconds(wall));
    std::fflush(stdout);
    return {};
  }
  Status Finish(const std::string& result_json) override {
    if (prints_) std::printf("%s\n", result_json.c_str());
    return {};
  }
  uint64_t Sample(uint64_t position, uint64_t samples) override {
    return Permutation(samples, seed_ + position / samples).At(position % samples);
  }

 private:
  std::string config_;
  bool prints_;
  uint64_t seed_ = 1;
  Instant started_ = io::MonotonicNow();
};

}  // namespace

std::unique_ptr<WorkerApi> OpenStandaloneWorkerApi(std::string config, bool prints) {
  return std::make_unique<StandaloneWorkerApi>(std::move(config), prints);
}

}  // namespace longhaul::trainer
