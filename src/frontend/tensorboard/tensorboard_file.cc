#include "frontend/tensorboard/tensorboard_file.h"

#include <filesystem>
#include <system_error>

#include "frontend/tensorboard/tensorboard_records.h"

namespace longhaul::frontend {
namespace {

Scalars ScalarsOf(const proto::StepNotification& step) {
  Scalars scalars;
  if (step.has_loss()) scalars.emplace_back("loss/training", step.loss());
  if (step.has_validation_loss()) {
    scalars.emplace_back("loss/validation", step.validation_loss());
  }
  if (step.gradient_norm() != 0) scalars.emplace_back("loss/gradient_norm", step.gradient_norm());
  if (step.tokens_per_second() > 0) {
    scalars.emplace_back("speed/tokens_per_second", step.tokens_per_second());
  }
  if (step.step_seconds() > 0) scalars.emplace_back("speed/step_seconds", step.step_seconds());
  scalars.emplace_back("goodput", step.goodput());
  return scalars;
}

}  // namespace

TensorBoardFile::TensorBoardFile(const std::string& run_directory)
    : folder_(run_directory + "/tensorboard") {}

void TensorBoardFile::Take(const proto::Notification& notification) {
  const Instant at = InstantFromNanoseconds(notification.at_ns());
  if (notification.has_attempt()) {
    // The steps after the restored one are done again.
    Append(RestartRecord(at, notification.attempt().restore().step() + 1), at);
  } else if (notification.has_step()) {
    Append(ScalarsRecord(at, notification.step().step(), ScalarsOf(notification.step())), at);
  }
}

void TensorBoardFile::Append(const std::string& record, Instant at) {
  if (!file_.is_open()) Open(at);
  if (!file_.is_open()) return;
  file_ << record << std::flush;
  if (!file_) {
    file_.close();
    file_.clear();
  }
}

void TensorBoardFile::Open(Instant at) {
  std::error_code ignored;
  std::filesystem::create_directory(folder_, ignored);
  const int64_t seconds = ToNanoseconds(at) / 1'000'000'000;
  std::string name = folder_ + "/events.out.tfevents." + std::to_string(seconds) + ".longhaul";
  if (name == newest_) return;  // of the file that could not be written: later
  file_.open(name, std::ios::binary | std::ios::trunc);
  if (!file_.is_open()) {
    file_.clear();
    return;
  }
  newest_ = std::move(name);
  file_ << VersionRecord(at);
}

}  // namespace longhaul::frontend
