// Any text gives a config.json that the training engine computes, or a message that names the
// source.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "training/hugging_face/read_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::training;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ReadConfig(text, "fuzz.json");
  if (!config.ok()) {
    CHECK(config.status().message().starts_with("fuzz.json")) << config.status().message();
    return 0;
  }
  CHECK(CheckTrainable(config->model).ok());
  CHECK(config->text == text);
  CHECK(config->model.norm_epsilon > 0 && config->model.rope_theta > 0);
  return 0;
}
