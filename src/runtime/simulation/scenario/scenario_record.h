// What a run observed of the faults of a scenario.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace longhaul::runtime::simulation {

struct ScenarioFaultRecord {
  Instant at{};                     // when it happened
  std::string node;                 // that it happened to; empty: to none
  uint64_t step = 0;                // the highest step that was done then
  std::optional<Instant> new_step;  // when the first step above that one was done
  uint64_t steps_again = 0;  // steps done again since then, until the next fault of the scenario
};

struct ScenarioRecord {
  std::optional<Instant> first_step;            // when the job did its first one
  std::vector<ScenarioFaultRecord> faults;      // those that happened, in the order of the file
  std::vector<std::vector<std::string>> gangs;  // the nodes of each attempt, by place
};

}  // namespace longhaul::runtime::simulation
