#include "runtime/simulation/scenario/scenario_player.h"

#include <csignal>

#include "runtime/simulation/controller_host.h"
#include "runtime/simulation/nodes.h"
#include "runtime/simulation/training.h"

namespace longhaul::runtime::simulation {
namespace {

// The laboratory looks for a target as often.
constexpr Duration kLookAgain = std::chrono::milliseconds(10);

}  // namespace

void ScenarioPlayer::Plan() {
  if (!world_.options.scenario.has_value()) return;
  world_.on_step = [this](uint64_t step) { OnStep(step); };
  world_.on_attempt = [this](const proto::AttemptNotification& attempt) {
    gang_.assign(attempt.gang().begin(), attempt.gang().end());
    record_.gangs.push_back(gang_);
  };
}

void ScenarioPlayer::OnStep(uint64_t step) {
  if (step <= highest_ && !record_.faults.empty()) ++record_.faults.back().steps_again;
  if (!record_.first_step.has_value()) record_.first_step = world_.queue.now();
  highest_ = std::max(highest_, step);
  for (ScenarioFaultRecord& fault : record_.faults) {
    if (step > fault.step && !fault.new_step.has_value()) fault.new_step = world_.queue.now();
  }
  PlanNext();
}

void ScenarioPlayer::PlanNext() {
  const auto& faults = world_.options.scenario->faults;
  if (planned_ || next_ >= faults.size()) return;
  const spec::ScenarioFault& fault = faults[next_];
  if (fault.at_step.has_value() && highest_ < *fault.at_step) return;
  planned_ = true;
  // Not within the step that is being reported.
  world_.queue.After(fault.at_step.has_value() ? Duration(0) : fault.after, [this] { Strike(); });
}

void ScenarioPlayer::Strike() {
  if (world_.job_over) return;
  if (!TryStrike(world_.options.scenario->faults[next_])) {
    return world_.queue.After(kLookAgain, [this] { Strike(); });
  }
  ++next_;
  planned_ = false;
  PlanNext();
}

std::optional<size_t> ScenarioPlayer::NodeAt(uint32_t place) const {
  if (place >= gang_.size()) return std::nullopt;
  const size_t index = world_.index.at(gang_[place]);
  if (world_.nodes[index].core == nullptr) return std::nullopt;
  return index;
}

bool ScenarioPlayer::TryStrike(const spec::ScenarioFault& fault) {
  using Kind = spec::ScenarioFaultKind;
  const bool of_node = fault.node > 0;
  const bool of_worker = spec::TargetOf(fault).starts_with("worker");
  const auto node =
      of_node ? NodeAt(fault.node - 1) : NodeAt(fault.rank / world_.options.processes_per_node);
  if ((of_node || of_worker) && !node.has_value()) return false;
  if (fault.kind == Kind::kKillController && !world_.controller_up) return false;
  ScenarioFaultRecord record;
  record.at = world_.queue.now();
  record.step = highest_;
  if (node.has_value() && (of_node || of_worker)) record.node = world_.nodes[*node].id.value();
  if (of_worker) {
    if (!StrikeWorker(fault, *node)) return false;
  } else if (fault.kind == Kind::kKillAgent) {
    machines_.KillAgent(*node);
    BootAfter(fault.lasts, *node);
  } else if (fault.kind == Kind::kPowerOff) {
    machines_.PowerOff(*node);
    BootAfter(fault.lasts, *node);
  } else if (fault.kind == Kind::kCutLink) {
    CutLink(fault, *node);
  } else if (fault.kind == Kind::kSlowLink) {
    world_.nodes[*node].link_delay = fault.delay;
    world_.queue.After(fault.lasts,
                       [this, index = *node] { world_.nodes[index].link_delay = Duration(0); });
  } else if (fault.kind == Kind::kKillController) {
    host_.CrashController(fault.lasts + world_.options.controller_start);
  } else {
    world_.disk_full_until = std::max(world_.disk_full_until, world_.queue.now() + fault.lasts);
  }
  record_.faults.push_back(record);
  return true;
}

bool ScenarioPlayer::StrikeWorker(const spec::ScenarioFault& fault, size_t index) {
  for (const auto& [id, worker] : world_.nodes[index].workers) {
    if (id.rank != fault.rank) continue;
    // The laboratory knows a process once its program runs.
    if (worker.phase < proto::PhaseEntered::RENDEZVOUS) continue;
    if (fault.kind != spec::ScenarioFaultKind::kStopWorker) {
      machines_.Die(index, id, -1, SIGKILL, Duration(0));
      return true;
    }
    const WorkerId stopped = id;
    machines_.SignalTo(index, stopped, SIGSTOP);
    world_.queue.After(fault.lasts,
                       [this, index, stopped] { machines_.SignalTo(index, stopped, SIGCONT); });
    return true;
  }
  return false;
}

// The workers exchange their gradients over the link too, unless all of them are on one node.
void ScenarioPlayer::CutLink(const spec::ScenarioFault& fault, size_t index) {
  const uint64_t attempt = world_.attempt.attempt;
  const bool exchanges = gang_.size() > 1 && world_.in_attempt[index];
  if (exchanges) training_.StopStretch();
  host_.CutLink(index, fault.lasts, [this, attempt, exchanges] {
    if (!exchanges || world_.attempt.attempt != attempt || world_.attempt.stopped == 0) return;
    if (--world_.attempt.stopped == 0) training_.ContinueStretch();
  });
}

void ScenarioPlayer::BootAfter(Duration away, size_t index) {
  world_.queue.After(away + world_.options.agent_start, [this, index] {
    if (world_.nodes[index].core == nullptr) machines_.Boot(index);
  });
}

}  // namespace longhaul::runtime::simulation
