#include "bin/tools/simulate_command.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "bin/other_program.h"
#include "bin/tools/replay/replay_command.h"
#include "bin/tools/simulate_scenario.h"
#include "bin/tools/simulate_trace.h"
#include "io/clock.h"
#include "proto/json.h"
#include "runtime/simulation/simulation.h"
#include "spec/job/fault_plan.h"

namespace longhaul::bin {
namespace {

using runtime::simulation::SimulationOptions;
using runtime::simulation::SimulationResult;

struct SimulateFlags {
  uint32_t nodes = 2048;
  uint32_t minimum_nodes = 0;
  uint32_t spares = 0;
  uint32_t processes = 1;
  double days = 54;
  uint64_t seeds = 1;
  uint64_t seed = 1;
  double fault_factor = 1;
  uint64_t steps = 0;
  std::string inject;
  std::string scenario;
  std::string log;
  bool twice = false;
  bool json = false;
  TraceFlags trace;
  ReplayFlags replay;
};

// The runtime's form of a planned fault.
proto::PlannedFault ToProto(const spec::PlannedFault& fault) {
  proto::PlannedFault planned;
  switch (fault.kind) {
    case spec::FaultKind::kKillWorker:
      planned.set_kind(proto::PlannedFault::KILL_WORKER);
      break;
    case spec::FaultKind::kKillAgent:
      planned.set_kind(proto::PlannedFault::KILL_AGENT);
      break;
    case spec::FaultKind::kKillNode:
      planned.set_kind(proto::PlannedFault::KILL_NODE);
      break;
    case spec::FaultKind::kKillController:
      planned.set_kind(proto::PlannedFault::KILL_CONTROLLER);
      break;
    case spec::FaultKind::kStopWorker:
      planned.set_kind(proto::PlannedFault::STOP_WORKER);
      break;
  }
  planned.set_target(fault.target);
  planned.set_step(fault.step);
  planned.set_duration_ns(fault.duration.count());
  return planned;
}

Result<SimulationOptions> OptionsOf(const SimulateFlags& flags) {
  SimulationOptions options;
  options.nodes = flags.nodes;
  if (flags.spares > 0) options.spares = flags.spares;
  options.minimum_nodes = flags.minimum_nodes;
  options.processes_per_node = flags.processes;
  options.length = DurationFromSeconds(flags.days * 86'400);
  options.fault_factor = flags.fault_factor;
  options.total_steps = flags.steps;
  if (!flags.inject.empty()) {
    ASSIGN_OR_RETURN(const auto plan, spec::ParseFaultPlan(flags.inject));
    for (const spec::PlannedFault& fault : plan) options.planned.push_back(ToProto(fault));
  }
  return options;
}

// The totals are in thousandths.
double TotalHours(runtime::AcceleratorTime total) { return runtime::ToHours(total / 1'000); }

nlohmann::ordered_json ToJson(uint64_t seed, const SimulationResult& result, double cpu_s) {
  nlohmann::ordered_json json;
  json["simulated"] = true;
  json["seed"] = seed;
  json["invariants_hold"] = result.violations.empty();
  json["violations"] = result.violations;
  json["events"] = result.events;
  json["attempts"] = result.attempts;
  json["faults"] = result.faults;
  json["controller_replays"] = result.replays;
  json["steps_taken"] = result.steps_taken;
  json["log_hash"] = result.log_hash;
  json["state_hash"] = result.state_hash;
  json["cpu_seconds"] = cpu_s;
  json["usage_accelerator_seconds"] = TotalHours(result.usage.held) * 3600;
  json["ledger_accelerator_seconds"] = TotalHours(result.usage.ledgers) * 3600;
  json["leaving_accelerator_seconds"] = TotalHours(result.usage.difference.leaving) * 3600;
  json["without_nodes_accelerator_seconds"] =
      TotalHours(result.usage.difference.without_nodes) * 3600;
  json["job"] = proto::ToJson(result.status);
  json["job"].erase("faults");
  return json;
}

void PrintRow(uint64_t seed, const SimulationResult& result, double cpu_s, bool same) {
  uint64_t faults = 0;
  for (const auto& [name, count] : result.faults) faults += count;
  std::printf("%6llu  %10s  %7llu  %8llu  %9s  %8.3f %%  %016llx  %7.1f s  %s\n",
              static_cast<unsigned long long>(seed),
              WithThousands(static_cast<int64_t>(result.events)).c_str(),
              static_cast<unsigned long long>(faults),
              static_cast<unsigned long long>(result.attempts),
              WithThousands(static_cast<int64_t>(result.status.highest_step())).c_str(),
              result.status.ledger().goodput() * 100,
              static_cast<unsigned long long>(result.log_hash), cpu_s,
              !result.violations.empty() ? "VIOLATED"
              : same                     ? "all hold"
                                         : "LOGS DIFFER");
  std::fflush(stdout);
}

// The accounting of all seeds beside the goodput ledgers.
void PrintUsage(const runtime::Controller::UsageTotals& usage) {
  std::printf(
      "accelerator-hours: %.6f by the accounting; %.6f by the goodput ledgers, of which %.6f "
      "without nodes, and %.6f in the queue while leaving nodes.\n",
      TotalHours(usage.held), TotalHours(usage.ledgers), TotalHours(usage.difference.without_nodes),
      TotalHours(usage.difference.leaving));
}

// Runs one seed; a violation is reported with the command that reproduces it.
bool RunSeed(SimulationOptions options, const SimulateFlags& flags, uint64_t seed,
             SimulationResult* total) {
  options.seed = seed;
  std::ofstream log;
  if (!flags.log.empty()) {
    log.open(flags.log, seed == flags.seed ? std::ios::trunc : std::ios::app);
    options.on_event = [&log](const proto::Event& event, Instant now) {
      nlohmann::ordered_json line = proto::ToJson(event);
      line["now_ns"] = ToNanoseconds(now);
      log << line.dump() << "\n";
    };
  }
  const bool live = isatty(STDERR_FILENO) == 1 && !flags.json;
  if (live) {
    options.on_progress = [seed, &options](Duration passed) {
      std::fprintf(stderr, "\rseed %llu: %s of %s simulated   ",
                   static_cast<unsigned long long>(seed), ToString(passed).c_str(),
                   ToString(options.length).c_str());
    };
  }
  const Instant begin = io::ThreadCpuTime();
  const SimulationResult result = Simulate(options);
  const double cpu_s = ToSeconds(io::ThreadCpuTime() - begin);
  bool same = true;
  if (flags.twice) {
    options.on_event = nullptr;
    const SimulationResult again = Simulate(options);
    same = again.log_hash == result.log_hash && again.state_hash == result.state_hash;
  }
  if (live) std::fprintf(stderr, "\r%60s\r", "");
  if (flags.json) {
    nlohmann::ordered_json json = ToJson(seed, result, cpu_s);
    if (flags.twice) json["second_run_identical"] = same;
    std::printf("%s\n", json.dump().c_str());
  } else {
    PrintRow(seed, result, cpu_s, same);
  }
  for (const std::string& violation : result.violations) {
    std::fprintf(
        stderr,
        "longhaul: invariant violated: %s\n  again: longhaul simulate --nodes %u --days %g "
        "--seed %llu --fault-factor %g --procs %u\n",
        violation.c_str(), flags.nodes, flags.days, static_cast<unsigned long long>(seed),
        flags.fault_factor, flags.processes);
  }
  for (const auto& [name, count] : result.faults) total->faults[name] += count;
  total->usage.held += result.usage.held;
  total->usage.ledgers += result.usage.ledgers;
  total->usage.difference.leaving += result.usage.difference.leaving;
  total->usage.difference.without_nodes += result.usage.difference.without_nodes;
  return result.violations.empty() && same;
}

int RunSimulate(const SimulateFlags& flags) {
  Result<SimulationOptions> options = OptionsOf(flags);
  if (!options.ok()) {
    Fail(options.status().WithContext("--inject"));
    return kExitUsage;
  }
  const uint32_t spares = flags.spares > 0 ? flags.spares : std::max(1u, flags.nodes / 40);
  if (spares >= flags.nodes) {
    Fail(InvalidArgument("--spares " + std::to_string(spares) + " leaves no node of --nodes " +
                         std::to_string(flags.nodes) + " for the job"));
    return kExitUsage;
  }
  if (flags.minimum_nodes > flags.nodes - spares) {
    Fail(InvalidArgument("--minimum-nodes " + std::to_string(flags.minimum_nodes) +
                         " is above the " + std::to_string(flags.nodes - spares) +
                         " nodes that the job is planned for"));
    return kExitUsage;
  }
  if (!flags.log.empty() && !std::ofstream(flags.log, std::ios::app)) {
    return Fail(PermissionDenied("cannot write the log " + flags.log));
  }
  if (!flags.json) {
    std::printf("Simulated: %u nodes (%u spare), %g days, fault rates of Llama 3's training x %g\n",
                flags.nodes, spares, flags.days, flags.fault_factor);
    std::printf("%6s  %10s  %7s  %8s  %9s  %10s  %-16s  %9s  %s\n", "seed", "events", "faults",
                "attempts", "steps", "goodput", "log hash", "CPU time", "invariants");
  }
  bool good = true;
  SimulationResult total;
  for (uint64_t seed = flags.seed; seed < flags.seed + flags.seeds; ++seed) {
    good = RunSeed(*options, flags, seed, &total) && good;
  }
  if (!flags.json) {
    std::vector<std::string> faults;
    for (const auto& [name, count] : total.faults) {
      faults.push_back(name + " " + std::to_string(count));
    }
    std::printf("faults: %s.\n", Join(faults, ", ").c_str());
    PrintUsage(total.usage);
    std::printf("%s\n", good ? "All invariants hold." : "Some invariant was violated.");
  }
  return good ? kExitOk : kExitFailure;
}

// The replay's options with those that it shares with other simulations.
ReplayFlags WithShared(const SimulateFlags& flags) {
  ReplayFlags replay = flags.replay;
  replay.days = flags.days;
  replay.factor = flags.fault_factor;
  replay.seed = flags.seed;
  replay.seeds = flags.seeds;
  replay.json = flags.json;
  return replay;
}

}  // namespace

void AddSimulateCommand(CLI::App& app, Action& action) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command = AddOwnCommand(app, kSimulate);
  command->add_option("--nodes", flags->nodes, "Set the number of nodes, spares included")
      ->check(CLI::Range(2u, 100'000u))
      ->capture_default_str();
  command->add_option("--spares", flags->spares,
                      "Keep this many nodes outside the gang (default: one in forty)");
  command->add_option("--minimum-nodes", flags->minimum_nodes,
                      "The job is elastic from so many nodes up to all, and jobs of higher\n"
                      "priority come and go");
  command
      ->add_option("--procs", flags->processes,
                   "Set the processes per node; one stands for all of its accelerators")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command->add_option("--days", flags->days, "Simulate this many days")
      ->check(CLI::Range(0.02, 3650.0))
      ->capture_default_str();
  command->add_option("--seeds", flags->seeds, "Run this many seeds, from --seed on")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Start with this seed")->capture_default_str();
  command
      ->add_option("--fault-factor", flags->fault_factor, "Multiply the fault rates; 0: no faults")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--steps", flags->steps,
                      "End the job after this many steps (default: never)");
  command->add_option("--inject", flags->inject, "Inject faults, as in `longhaul run`");
  command->add_option("--log", flags->log,
                      "Write every logged event to this file, one JSON object per line");
  command->add_flag("--twice", flags->twice, "Run each seed twice and compare the logs");
  command->add_flag("--json", flags->json, "Print one JSON object per seed");
  AddTraceOptions(*command, flags->trace);
  AddReplayOptions(*command, flags->replay);
  AddScenarioOption(*command, flags->scenario);
  command->footer(
      "Examples:\n"
      "  longhaul simulate --nodes 2048 --days 54 --seeds 20\n"
      "  longhaul simulate --nodes 64 --days 1 --seed 7 --fault-factor 100 --twice\n"
      "  longhaul simulate --nodes 8 --days 0.1 --fault-factor 0 --steps 300 \\\n"
      "      --inject 'kill worker 1 at step 40; kill agent 2 at step 90'\n"
      "  longhaul simulate --scenario tests/lab/scenarios/worker-killed.yaml --twice\n"
      "  longhaul simulate --replay llama3 --seeds 50 --sensitivity sensitivity.svg\n"
      "  longhaul simulate --trace philly.csv --month 2017-10 --svg use.svg");
  command->callback([command, flags, &action] {
    if (command->count("--nodes") > 0) flags->replay.nodes = flags->nodes;
    if (command->count("--spares") > 0) flags->replay.spares = flags->spares;
    action = [flags] {
      flags->trace.json = flags->json;
      if (!flags->scenario.empty()) {
        return RunScenario({flags->scenario, flags->seed, flags->log, flags->twice, flags->json});
      }
      if (!flags->replay.source.empty()) return RunReplay(WithShared(*flags));
      return flags->trace.file.empty() ? RunSimulate(*flags) : RunTrace(flags->trace);
    };
  });
}

}  // namespace longhaul::bin
