// Any text gives a sound model or a message, and a model is read back from its YAML.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/model/model_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::spec;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = ParseModel(text, "fuzz.yaml");
  if (!model.ok()) {
    CHECK(!model.status().message().empty());
    return 0;
  }
  CHECK(CheckModel(*model).ok());
  const std::string written = ToYaml(*model);
  const auto again = ParseModel(written, "again");
  CHECK(again.ok()) << again.status().message() << "\n" << written;
  CHECK(*again == *model) << written;
  return 0;
}
