// What breaks: kinds by their rates, at times and places drawn from the seed, alone and in company.
#include "runtime/simulation/faults.h"

#include <cmath>
#include <csignal>

#include "runtime/simulation/controller_host.h"
#include "runtime/simulation/nodes.h"
#include "runtime/simulation/training.h"

namespace longhaul::runtime::simulation {
namespace {

constexpr double kCompany = 0.10;         // a second fault at the same moment
constexpr double kDuringRecovery = 0.15;  // a second one within the next half minute

}  // namespace

// Faults are a Poisson process: the time to the next one is exponential, and its kind is drawn in
// proportion to the rates. The rates are those of 2,048 nodes, scaled to this cluster.
void FaultInjector::PlanFault() {
  double rate_per_s = 0;
  for (const FaultRate& rate : kFaultRates) rate_per_s += rate.per_54_days;
  rate_per_s *= world_.options.fault_factor * static_cast<double>(world_.options.nodes) / 2048 /
                (54.0 * 86'400);
  if (!(rate_per_s > 0)) return;
  // The bound keeps the time representable when the rates are very small.
  const double wait_s = std::min(world_.random.Exponential(1 / rate_per_s), 1e8);
  world_.queue.After(DurationFromSeconds(wait_s), [this] {
    PlanFault();
    const auto draw = [this] {
      double total = 0;
      for (const FaultRate& rate : kFaultRates) total += rate.per_54_days;
      double left = world_.random.Uniform() * total;
      for (const FaultRate& rate : kFaultRates) {
        left -= rate.per_54_days;
        if (left < 0) return rate.kind;
      }
      return FaultKind::kNodeCrash;
    };
    Strike(draw());
    if (world_.random.Uniform() < kCompany) Strike(draw());
    if (world_.random.Uniform() < kDuringRecovery) {
      const FaultKind kind = draw();
      world_.queue.After(DurationFromSeconds(30 * world_.random.Uniform()),
                         [this, kind] { Strike(kind); });
    }
  });
}

void FaultInjector::PlanFlap() {
  if (world_.options.flaps_after <= Duration(0) || world_.job_over) return;
  const size_t index = world_.options.flapping_node;
  world_.queue.After(world_.options.flaps_after, [this, index] {
    if (world_.nodes[index].core != nullptr) machines_.Crash(index, /*silent=*/true);
    world_.queue.After(world_.Around(std::chrono::minutes(2)), [this, index] {
      if (world_.nodes[index].core == nullptr) machines_.Boot(index);
      PlanFlap();
    });
  });
}

// A node of the present attempt, because a fault elsewhere would seldom have an effect.
std::optional<size_t> FaultInjector::PickGangNode() {
  if (world_.attempt.places.empty()) return std::nullopt;
  auto place = world_.attempt.places.begin();
  std::advance(place, static_cast<long>(world_.random.Below(world_.attempt.places.size())));
  if (world_.nodes[place->second].core == nullptr) return std::nullopt;
  return place->second;
}

SimWorker* FaultInjector::PickWorker(size_t index) {
  for (auto& [id, worker] : world_.nodes[index].workers) {
    if (!worker.dying) return &worker;
  }
  return nullptr;
}

// The place may be gone by now; then nothing happens, and nothing is counted.
void FaultInjector::Strike(FaultKind kind) {
  if (world_.job_over) return;
  const auto count = [&] {
    ++world_.result.faults[std::string(kFaultRates[static_cast<size_t>(kind)].name)];
  };
  if (kind == FaultKind::kControllerCrash) {
    if (world_.controller_up) count();
    return host_.CrashController();
  }
  if (kind == FaultKind::kDiskFlip) {
    if (world_.disk.empty()) return;
    // The newest checkpoint, because a recovery reads that one first.
    world_.disk.rbegin()->second = true;
    return count();
  }
  const auto picked = PickGangNode();
  if (!picked.has_value()) return;
  const size_t index = *picked;
  SimNode& node = world_.nodes[index];
  if (kind == FaultKind::kNodeCrash || kind == FaultKind::kAgentRestart) {
    const Duration away = kind == FaultKind::kNodeCrash
                              ? world_.Around(world_.options.physics.repair)
                              : world_.Around(std::chrono::milliseconds(700));
    machines_.Crash(index, /*silent=*/kind == FaultKind::kNodeCrash);
    world_.queue.After(away, [this, index] {
      if (world_.nodes[index].core == nullptr) machines_.Boot(index);
    });
    return count();
  }
  if (kind == FaultKind::kLinkBreak) {
    node.cut = true;
    host_.BreakStream(index, "connection reset");
    world_.queue.After(world_.Around(std::chrono::milliseconds(1500)),
                       [this, index, life = node.life] {
                         if (world_.nodes[index].life == life) world_.nodes[index].cut = false;
                       });
    return count();
  }
  if (kind == FaultKind::kDiskFull) {
    // It matters where rank 0 is: that node writes the checkpoints.
    const auto writer = world_.attempt.places.find(0);
    if (writer == world_.attempt.places.end()) return;
    world_.nodes[writer->second].disk_full = true;
    return count();
  }
  SimWorker* worker = PickWorker(index);
  if (worker == nullptr) return;
  if (kind == FaultKind::kMemoryFlip) {
    const uint64_t newest = std::max(world_.seals[0].step, world_.seals[1].step);
    if (!node.copies.empty() && world_.random.Below(2) == 0) {
      node.copies.rbegin()->second.damaged = true;
      return count();
    }
    if (newest == 0 || !world_.Holds(node, newest)) return;
    node.damaged.insert(newest);
    return count();
  }
  count();
  if (kind == FaultKind::kWorkerCrash) {
    machines_.Die(index, worker->id, -1, world_.random.Uniform() < 0.5 ? SIGKILL : SIGSEGV,
                  Duration(0));
  } else if (kind == FaultKind::kWorkerError) {
    machines_.Die(index, worker->id, 1, 0, Duration(0));
  } else if (kind == FaultKind::kWorkerStopped) {
    machines_.SignalTo(index, worker->id, SIGSTOP);
  } else if (kind == FaultKind::kWorkerHang && !worker->hung) {
    worker->hung = true;
    const bool counts = !world_.IsRival(worker->id) && worker->id.attempt == world_.attempt.attempt;
    if (counts && !worker->stopped) training_.StopStretch();
  }
}

// Chaos that the controller asked for (`--inject`).
void FaultInjector::Inject(size_t index, const proto::InjectFault& order) {
  const proto::PlannedFault& fault = order.fault();
  const WorkerId id{JobId(order.job_id()), order.attempt(), fault.target()};
  switch (fault.kind()) {
    case proto::PlannedFault::KILL_WORKER:
      return machines_.Die(index, id, -1, SIGKILL, Duration(0));
    case proto::PlannedFault::KILL_AGENT:
    case proto::PlannedFault::KILL_NODE:  // a simulated node loses its memory either way
      machines_.Crash(index, /*silent=*/false);
      return world_.queue.After(std::chrono::milliseconds(200), [this, index] {
        if (world_.nodes[index].core == nullptr) machines_.Boot(index);
      });
    case proto::PlannedFault::STOP_WORKER:
      machines_.SignalTo(index, id, SIGSTOP);
      return world_.queue.After(Duration(fault.duration_ns()),
                                [this, index, id] { machines_.SignalTo(index, id, SIGCONT); });
    default:
      return;
  }
}

}  // namespace longhaul::runtime::simulation
