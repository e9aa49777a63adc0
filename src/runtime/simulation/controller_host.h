// The controller in the simulated world: its service, the network between it and the agents, and
// the clients that submit jobs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/controller/controller.h"
#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

class FaultInjector;
class SimNodeChecks;
class SimNodes;

class ControllerHost {
 public:
  ControllerHost(World& world, SimNodes& machines, FaultInjector& faults, SimNodeChecks& checks)
      : world_(world),
        machines_(machines),
        faults_(faults),
        checks_(checks),
        controller_(world.options.controller) {}

  SimulationResult Run();
  // Acts as the service: logs the event, steps the controller, and sends its commands.
  void Feed(const proto::Event& event);
  void ToController(size_t node, proto::FromAgent message);
  void Connect(size_t node);
  void BreakStream(size_t node, const std::string& reason);
  // Nothing arrives at the node or from it for this long, and no stream ends until the silence is
  // noticed. `healed` is called when traffic flows again.
  void CutLink(size_t node, Duration lasts, std::function<void()> healed);
  // The controller runs again after `away`, or after a time that is drawn.
  void CrashController(std::optional<Duration> away = std::nullopt);

 private:
  void ArmTick();
  // Does `action` when a message of the stream arrives at `at`, or never if the stream ends before.
  void Arrive(size_t node, uint64_t stream, Instant at, std::function<void()> action);
  void TakeArrived(size_t node, uint64_t stream, const std::function<void()>& action);
  void HealLink(size_t node);
  Duration PauseOfRetry(SimNode& node);
  void ToAgent(size_t node, proto::Command command);
  void Acknowledge(size_t node);
  void RestartController();
  void SubmitJob();
  void PlanRival();
  void SubmitRival();
  void Watch(const proto::Notification& notification);
  void CheckRestore(const proto::AttemptNotification& attempt);
  void Look();
  void LookAtPlaces();
  void CompareUsage();

  World& world_;
  SimNodes& machines_;
  FaultInjector& faults_;
  SimNodeChecks& checks_;
  Controller controller_;
  std::optional<Instant> tick_;
  std::vector<std::pair<Instant, std::string>> log_;  // serialized, while it is short enough
  bool log_kept_ = true;
  std::optional<std::string> rival_;  // the present one
  uint64_t rivals_ = 0;
};

}  // namespace longhaul::runtime::simulation
