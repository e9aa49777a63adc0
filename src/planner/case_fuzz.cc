// Any line gives one line of JSON with the case's id and either an error or a figure.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "planner/case.h"

namespace {

using namespace longhaul;
using namespace longhaul::planner;

// Stands for the calculator: any pure function of the question does.
Evaluation Evaluate(const Question& question) {
  CHECK(CheckModel(question.model).ok());
  CHECK(CheckDeviceCluster(question.cluster).ok());
  CHECK(CheckTraining(question.model, question.cluster, question.training).ok());
  Evaluation evaluation;
  evaluation.step = Seconds(1.0 / question.training.batch.micro);
  evaluation.peak_allocated = Bytes(int64_t{1} << 30) * question.training.batch.micro;
  evaluation.fits = evaluation.peak_allocated <= question.cluster.device.memory;
  evaluation.stages.resize(1);
  return evaluation;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const std::string answer = AnswerCase(line, Evaluate, [](const Case&, const Evaluation& e) {
    return StepBand{e.step, e.step};
  });
  CHECK(answer.find('\n') == std::string::npos) << answer;
  const auto json = nlohmann::json::parse(answer, nullptr, false);
  CHECK(json.is_object() && json.contains("case")) << answer;
  CHECK(json.contains("error") != json.contains("step_seconds")) << answer;
  if (json.contains("error")) CHECK(!json["error"].get<std::string>().empty());
  return 0;
}
