// Any bytes as DeepSpeed's JSON: read or refused; what is read becomes a question or a refusal.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/configs/run_config.h"
#include "spec/cluster/device_cluster.h"
#include "spec/model/model_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::planner;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = configs::ReadRunConfig(flags::Framework::kDeepSpeed, text, "fuzz");
  if (!config.ok()) return 0;
  const auto cluster = spec::ParseClusterName("h100-sxm:64");
  const auto model = spec::FindModel("llama-3.1-8b");
  for (const auto& given : {std::optional<spec::Model>(), std::optional<spec::Model>(*model)}) {
    const auto question = configs::QuestionOf(*config, given, *cluster);
    if (question.ok() && question->training.layout.devices() != 64) std::abort();
  }
  return 0;
}
