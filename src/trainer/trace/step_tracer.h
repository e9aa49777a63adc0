// Turns recording on for the steps that the job names and writes the file after them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "spec/job/job.h"
#include "trainer/parallel/communicators.h"
#include "trainer/trace/recorder.h"
#include "trainer/trace/torch_hooks.h"

namespace longhaul::trainer {

class StepTracer {
 public:
  // Writes DIRECTORY/rank-R.json. `groups` outlives this object.
  StepTracer(const spec::TraceSpec& trace, Communicators& groups, std::string directory);
  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;
  ~StepTracer();

  // The recorder of a step to be traced, else null. End marks the end of the step; after the last
  // one it writes the file.
  Recorder* Begin(uint64_t step);
  Status End(uint64_t step);

 private:
  void Stop();

  const spec::TraceSpec trace_;
  Communicators& groups_;
  std::string directory_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<TorchHooks> hooks_;
};

}  // namespace longhaul::trainer
