#include "bin/tools/simulate_scenario.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "bin/command.h"
#include "io/files/file.h"
#include "proto/json.h"
#include "runtime/simulation/scenario/scenario_run.h"

namespace longhaul::bin {
namespace {

using nlohmann::ordered_json;
using runtime::simulation::ScenarioFaultRecord;
using runtime::simulation::SimulationResult;

constexpr size_t kMostBytes = size_t{1} << 20;

ordered_json ToJson(const spec::ScenarioFault& fault) {
  ordered_json json;
  json["fault"] = spec::NameOf(fault.kind);
  json["target"] = spec::TargetOf(fault);
  json["line"] = fault.line;
  if (fault.at_step.has_value()) {
    json["at_step"] = *fault.at_step;
  } else {
    json["after_s"] = ToSeconds(fault.after);
  }
  json["rank"] = fault.rank;
  json["node"] = fault.node;
  json["for_s"] = ToSeconds(fault.lasts);
  json["delay_s"] = ToSeconds(fault.delay);
  json["rate_bits_per_s"] = fault.rate_bits_per_s;
  return json;
}

// The file as it was understood: what the laboratory runs.
ordered_json ToJson(const spec::Scenario& scenario) {
  ordered_json json;
  json["name"] = scenario.name;
  json["nodes"] = scenario.nodes;
  json["spares"] = scenario.spares;
  json["processes_per_node"] = scenario.processes_per_node;
  json["steps"] = scenario.steps;
  json["step_s"] = ToSeconds(scenario.step);
  json["snapshot_every"] = scenario.snapshot_every;
  json["faults"] = ordered_json::array();
  for (const spec::ScenarioFault& fault : scenario.faults) json["faults"].push_back(ToJson(fault));
  return json;
}

std::string CauseOf(const proto::Fault& fault) {
  return Printable(fault.class_name() + ": " + fault.what(), 300);
}

ordered_json ToJson(const spec::Scenario& scenario, const SimulationResult& result) {
  const auto causes = runtime::simulation::CausesOf(scenario, result);
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < result.scenario.faults.size(); ++i) {
    const ScenarioFaultRecord& record = result.scenario.faults[i];
    ordered_json json;
    json["fault"] = spec::NameOf(scenario.faults[i].kind);
    json["target"] = spec::TargetOf(scenario.faults[i]);
    json["node"] = record.node;
    json["time_s"] = ToSeconds(record.at - result.scenario.first_step.value_or(record.at));
    json["step"] = record.step;
    json["new_step_s"] = nullptr;
    if (record.new_step.has_value()) json["new_step_s"] = ToSeconds(*record.new_step - record.at);
    json["steps_again"] = record.steps_again;
    json["causes"] = ordered_json::array();
    for (const int cause : causes[i])
      json["causes"].push_back(CauseOf(result.status.faults(cause)));
    list.push_back(json);
  }
  return list;
}

ordered_json ToJson(const spec::Scenario& scenario, const SimulationResult& result, uint64_t seed,
                    std::optional<bool> same) {
  ordered_json json;
  json["side"] = "simulated";
  json["seed"] = seed;
  json["scenario"] = ToJson(scenario);
  json["state"] = proto::ToJson(result.status)["state"];
  json["reason"] = result.status.reason();
  json["restarts"] = result.status.restarts();
  json["last_step"] = result.status.highest_step();
  json["steps_taken"] = result.steps_taken;
  json["gangs"] = result.scenario.gangs;
  json["faults"] = ToJson(scenario, result);
  json["recorded"] = ordered_json::array();
  for (const proto::Fault& fault : result.status.faults()) {
    json["recorded"].push_back(proto::ToJson(fault));
  }
  json["invariants_hold"] = result.violations.empty();
  json["violations"] = result.violations;
  json["log_hash"] = result.log_hash;
  if (same.has_value()) json["second_run_identical"] = *same;
  return json;
}

void Print(const spec::Scenario& scenario, const SimulationResult& result, uint64_t seed,
           std::optional<bool> same) {
  std::printf("Simulated: %s, %u nodes and %u spares, %u workers, %llu steps of %s, seed %llu\n",
              scenario.name.c_str(), scenario.nodes, scenario.spares, scenario.workers(),
              static_cast<unsigned long long>(scenario.steps), ToString(scenario.step).c_str(),
              static_cast<unsigned long long>(seed));
  std::printf("%9s  %6s  %-28s  %9s  %10s  %s\n", "time", "step", "fault", "new step", "done again",
              "recorded cause");
  const auto causes = runtime::simulation::CausesOf(scenario, result);
  for (size_t i = 0; i < result.scenario.faults.size(); ++i) {
    const ScenarioFaultRecord& record = result.scenario.faults[i];
    std::string what(spec::NameOf(scenario.faults[i].kind));
    if (!spec::TargetOf(scenario.faults[i]).empty()) {
      what += " " + spec::TargetOf(scenario.faults[i]);
    }
    std::string new_step = "-";
    if (record.new_step.has_value()) {
      new_step.clear();
      AppendFormat(&new_step, "%.3f s", ToSeconds(*record.new_step - record.at));
    }
    std::vector<std::string> texts;
    for (const int cause : causes[i]) texts.push_back(CauseOf(result.status.faults(cause)));
    std::printf("%7.3f s  %6llu  %-28s  %9s  %10llu  %s\n",
                ToSeconds(record.at - result.scenario.first_step.value_or(record.at)),
                static_cast<unsigned long long>(record.step), what.c_str(), new_step.c_str(),
                static_cast<unsigned long long>(record.steps_again),
                texts.empty() ? "none" : Join(texts, "; ").c_str());
  }
  std::printf("%u restarts, %llu of %llu steps, %llu done again; %s%s\n", result.status.restarts(),
              static_cast<unsigned long long>(result.status.highest_step()),
              static_cast<unsigned long long>(scenario.steps),
              static_cast<unsigned long long>(result.steps_taken - result.status.highest_step()),
              result.violations.empty() ? "all invariants hold" : "an invariant is VIOLATED",
              !same.has_value() ? ""
              : *same           ? "; the second run is identical"
                                : "; the second run DIFFERS");
}

}  // namespace

void AddScenarioOption(CLI::App& command, std::string& file) {
  CLI::Option* scenario =
      command.add_option("--scenario", file,
                         "Run the job and the faults of this file (docs/scenarios.md), with the\n"
                         "times of a laboratory on one machine");
  for (const char* other :
       {"--nodes", "--spares", "--minimum-nodes", "--procs", "--days", "--seeds", "--fault-factor",
        "--steps", "--inject", "--trace", "--replay"}) {
    scenario->excludes(command.get_option(other));
  }
}

int RunScenario(const ScenarioFlags& flags) {
  const auto text = io::ReadText(flags.file, kMostBytes);
  if (!text.ok()) {
    Fail(text.status().WithContext("--scenario"));
    return kExitUsage;
  }
  const auto scenario = spec::ParseScenario(*text, flags.file);
  if (!scenario.ok()) {
    Fail(scenario.status());
    return kExitUsage;
  }
  auto options = runtime::simulation::OptionsOf(*scenario, flags.seed);
  std::ofstream log;
  if (!flags.log.empty()) {
    log.open(flags.log, std::ios::trunc);
    if (!log) return Fail(PermissionDenied("cannot write the log " + flags.log));
    options.on_event = [&log](const proto::Event& event, Instant now) {
      ordered_json line = proto::ToJson(event);
      line["now_ns"] = ToNanoseconds(now);
      log << line.dump() << "\n";
    };
  }
  const SimulationResult result = Simulate(options);
  options.on_event = nullptr;
  std::optional<bool> same;
  if (flags.twice) {
    const SimulationResult again = Simulate(options);
    same = again.log_hash == result.log_hash && again.state_hash == result.state_hash;
  }
  if (flags.json) {
    std::printf("%s\n", ToJson(*scenario, result, flags.seed, same).dump().c_str());
  } else {
    Print(*scenario, result, flags.seed, same);
  }
  for (const std::string& violation : result.violations) {
    std::fprintf(stderr,
                 "longhaul: invariant violated: %s\n  again: longhaul simulate --scenario %s "
                 "--seed %llu\n",
                 violation.c_str(), flags.file.c_str(),
                 static_cast<unsigned long long>(flags.seed));
  }
  const bool complete = result.status.highest_step() == scenario->steps &&
                        result.scenario.faults.size() == scenario->faults.size();
  if (!complete) {
    std::fprintf(stderr,
                 "longhaul: %zu of %zu faults happened, and the job ended at step %llu: %s\n",
                 result.scenario.faults.size(), scenario->faults.size(),
                 static_cast<unsigned long long>(result.status.highest_step()),
                 result.status.reason().c_str());
  }
  return result.violations.empty() && complete && same.value_or(true) ? kExitOk : kExitFailure;
}

}  // namespace longhaul::bin
