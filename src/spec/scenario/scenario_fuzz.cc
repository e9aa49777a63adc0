// The file of a scenario: what is accepted is within its limits, and each fault can happen.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/scenario/scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto scenario = spec::ParseScenario(text, "scenario.yaml");
  if (!scenario.ok()) {
    CHECK(scenario.status().message().starts_with("scenario.yaml:"));
    return 0;
  }
  CHECK(scenario->nodes >= 1 && scenario->nodes <= 64 && scenario->spares <= 64);
  CHECK(scenario->workers() >= 1 && scenario->workers() <= 256);
  CHECK(scenario->steps >= 1 && scenario->steps <= 100'000);
  CHECK(scenario->step >= std::chrono::milliseconds(1));
  CHECK(scenario->snapshot_every >= 1);
  CHECK(scenario->faults.size() <= 64);
  uint64_t step = 0;
  for (const spec::ScenarioFault& fault : scenario->faults) {
    CHECK(fault.rank < scenario->workers() && fault.node <= scenario->nodes);
    CHECK(step > 0 || fault.at_step.has_value()) << "the first fault has a step";
    if (fault.at_step.has_value()) {
      CHECK(*fault.at_step >= step && *fault.at_step >= 1 && *fault.at_step <= scenario->steps);
      step = *fault.at_step;
    }
    CHECK(fault.lasts >= Duration(0) && fault.lasts <= std::chrono::minutes(10));
    CHECK(!spec::NameOf(fault.kind).empty());
    (void)spec::TargetOf(fault);
  }
  return 0;
}
