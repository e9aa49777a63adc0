#include "runtime/simulation/replay/sensitivity.h"

#include <functional>
#include <utility>

namespace longhaul::runtime::simulation {

std::vector<Variant> SensitivityVariants(const ReplaySettings& settings,
                                         const TraceOptions& trace) {
  std::vector<Variant> variants = {{"", "", settings, trace}};
  const auto add = [&](std::string constant, std::string value,
                       const std::function<void(ReplaySettings&, TraceOptions&)>& change) {
    Variant& variant =
        variants.emplace_back(Variant{std::move(constant), std::move(value), settings, trace});
    change(variant.settings, variant.trace);
  };
  using Settings = ReplaySettings&;
  using Trace = TraceOptions&;
  add("group set-up", "15 s", [](Settings s, Trace) { s.physics.group_init = 15s; });
  add("group set-up", "60 s", [](Settings s, Trace) { s.physics.group_init = 60s; });
  add("step", "3 s", [](Settings s, Trace) { s.physics.step = 3s; });
  add("step", "12 s", [](Settings s, Trace) { s.physics.step = 12s; });
  add("stop for a snapshot", "25 ms", [](Settings s, Trace) { s.physics.snapshot_block = 25ms; });
  add("stop for a snapshot", "500 ms", [](Settings s, Trace) { s.physics.snapshot_block = 500ms; });
  add("start of a process", "1 s", [](Settings s, Trace) { s.physics.start_up = 1s; });
  add("start of a process", "10 s", [](Settings s, Trace) { s.physics.start_up = 10s; });
  add("restore from memory", "5 s", [](Settings s, Trace) { s.physics.restore_memory = 5s; });
  add("silent machine is noticed", "10 s", [](Settings s, Trace) { s.physics.silence = 10s; });
  add("least limit of a hang", "60 s", [](Settings s, Trace) { s.controller.hang_floor = 60s; });
  add("operator's reaction", "5 min", [](Settings s, Trace) { s.operator_reaction = 5min; });
  add("operator's reaction", "30 min", [](Settings s, Trace) { s.operator_reaction = 30min; });
  add("hangs that a node check finds", "0 %", [](Settings s, Trace) { s.check_shows = 0; });
  add("hangs that a node check finds", "100 %", [](Settings s, Trace) { s.check_shows = 1; });
  add("hangs that a restart doesn't cure", "0 %", [](Settings, Trace t) { t.persistent = 0; });
  add("hangs that a restart doesn't cure", "50 %", [](Settings, Trace t) { t.persistent = 0.5; });
  add("repair of a machine", "30 min", [](Settings, Trace t) { t.repair = 30min; });
  add("repair of a machine", "24 h", [](Settings, Trace t) { t.repair = 24h; });
  add("spares", "1", [](Settings s, Trace) { s.spares = 1; });
  add("spares", "4", [](Settings s, Trace) { s.spares = 4; });
  add("failures", "x 0.5", [](Settings, Trace t) { t.factor *= 0.5; });
  add("failures", "x 2", [](Settings, Trace t) { t.factor *= 2; });
  add("maintenance", "unannounced", [](Settings, Trace t) { t.announced = false; });
  add("times", "Weibull 0.7", [](Settings, Trace t) { t.weibull = kWeibullShape; });
  add("places", "lemons", [](Settings, Trace t) { t.lemons = true; });
  add("places", "10 % again", [](Settings, Trace t) { t.offenders = kOffenders; });
  add("switches and power", "whole racks", [](Settings, Trace t) { t.racks = true; });
  return variants;
}

double EffectiveTimeOf(const Variant& variant, uint64_t seed) {
  std::vector<TracedFault> trace = GenerateFaultTrace(variant.trace, seed);
  const SimulationResult result =
      Simulate(ReplaySimulation(variant.settings, std::move(trace), seed));
  return PartsOf(result, variant.settings.length).Effective();
}

}  // namespace longhaul::runtime::simulation
