#include "trainer/trace/step_tracer.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "io/files/file.h"
#include "trainer/calibrate/peak.h"

namespace longhaul::trainer {
namespace {

TracedMachine ThisMachine() {
  TracedMachine machine;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) machine.host = name.data();
  machine.cores = UsableCores();
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    machine.processor = Trim(std::string_view(line).substr(colon + 1));
    break;
  }
  return machine;
}

}  // namespace

StepTracer::StepTracer(const spec::TraceSpec& trace, Communicators& groups, std::string directory)
    : trace_(trace), groups_(groups), directory_(std::move(directory)) {}

StepTracer::~StepTracer() { Stop(); }

Recorder* StepTracer::Begin(uint64_t step) {
  const bool traced =
      trace_.first_step > 0 && step >= trace_.first_step && step < trace_.first_step + trace_.steps;
  if (!traced) return nullptr;
  if (recorder_ == nullptr) {
    recorder_ = std::make_unique<Recorder>(groups_.world().rank(), groups_.mesh(), ThisMachine());
    hooks_ = std::make_unique<TorchHooks>(*recorder_);
    groups_.Watch(recorder_.get());
  }
  recorder_->BeginStep(step);
  return recorder_.get();
}

Status StepTracer::End(uint64_t step) {
  if (recorder_ == nullptr) return {};
  recorder_->EndStep();
  if (step + 1 < trace_.first_step + trace_.steps) return {};
  const std::string json = recorder_->ToJson();
  Stop();
  io::FileSystem& files = io::PosixFileSystem();
  RETURN_IF_ERROR(files.MakeDirectories(directory_));
  const std::string path = directory_ + "/rank-" + std::to_string(groups_.world().rank()) + ".json";
  return io::WriteTextAtomically(files, path, json);
}

void StepTracer::Stop() {
  if (recorder_ == nullptr) return;
  groups_.Watch(nullptr);
  hooks_.reset();
  recorder_.reset();
}

}  // namespace longhaul::trainer
