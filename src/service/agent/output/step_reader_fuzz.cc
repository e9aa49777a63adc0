// Any bytes in any cuts give rising steps, the same as all at once, and never more than a line.
//
// The first byte of an input chooses the preset, the second one how the rest is cut.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "service/agent/output/step_reader.h"

namespace {

using longhaul::InstantFromNanoseconds;
using longhaul::service::OutputStep;
using longhaul::service::StepReader;

std::vector<OutputStep> Read(StepReader reader, std::string_view text, size_t part) {
  std::vector<OutputStep> steps;
  const auto add = [&steps](const std::vector<OutputStep>& more) {
    steps.insert(steps.end(), more.begin(), more.end());
  };
  for (size_t at = 0; at < text.size(); at += part) {
    add(reader.Take(text.substr(at, part), InstantFromNanoseconds(1)));
  }
  add(reader.Finish());
  return steps;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto presets = longhaul::spec::StepPresets();
  const auto pattern = longhaul::spec::StepPattern::Parse(presets[data[0] % presets.size()].name);
  CHECK(pattern.ok());
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::vector<OutputStep> steps = Read(StepReader(*pattern), text, size_t{data[1]} + 1);
  std::optional<uint64_t> before;
  for (const OutputStep& step : steps) {
    CHECK(!before.has_value() || step.step > *before);
    CHECK(step.total == 0 || step.step <= step.total);
    before = step.step;
  }
  const std::vector<OutputStep> lines = Read(StepReader(*pattern), text, 1);
  const bool all = steps.size() < StepReader::kMostAtOnce;
  CHECK(!all || steps == lines);
  return 0;
}
