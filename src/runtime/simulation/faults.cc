// What breaks: kinds by their rates, at times and places drawn from the seed, alone and in company.
#include <cmath>
#include <csignal>

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {
namespace {

constexpr double kCompany = 0.10;         // a second fault at the same moment
constexpr double kDuringRecovery = 0.15;  // a second one within the next half minute

}  // namespace

void World::PlanFault() {
  double rate_per_s = 0;
  for (const FaultRate& rate : kFaultRates) rate_per_s += rate.per_54_days;
  rate_per_s *=
      options_.fault_factor * static_cast<double>(options_.nodes) / 2048 / (54.0 * 86'400);
  if (!(rate_per_s > 0)) return;
  const double wait_s = std::min(random_.Exponential(1 / rate_per_s), 1e8);
  queue_.After(DurationFromSeconds(wait_s), [this] {
    PlanFault();
    const auto draw = [this] {
      double total = 0;
      for (const FaultRate& rate : kFaultRates) total += rate.per_54_days;
      double left = random_.Uniform() * total;
      for (const FaultRate& rate : kFaultRates) {
        left -= rate.per_54_days;
        if (left < 0) return rate.kind;
      }
      return FaultKind::kNodeCrash;
    };
    Strike(draw());
    if (random_.Uniform() < kCompany) Strike(draw());
    if (random_.Uniform() < kDuringRecovery) {
      const FaultKind kind = draw();
      queue_.After(DurationFromSeconds(30 * random_.Uniform()), [this, kind] { Strike(kind); });
    }
  });
}

void World::PlanFlap() {
  if (options_.flaps_after <= Duration(0) || job_over_) return;
  const size_t index = options_.flapping_node;
  queue_.After(options_.flaps_after, [this, index] {
    if (nodes_[index].core != nullptr) Crash(index, /*silent=*/true);
    queue_.After(Around(std::chrono::minutes(2)), [this, index] {
      if (nodes_[index].core == nullptr) Boot(index);
      PlanFlap();
    });
  });
}

std::optional<size_t> World::PickGangNode() {
  if (epoch_.places.empty()) return std::nullopt;
  auto place = epoch_.places.begin();
  std::advance(place, static_cast<long>(random_.Below(epoch_.places.size())));
  if (nodes_[place->second].core == nullptr) return std::nullopt;
  return place->second;
}

SimWorker* World::PickWorker(size_t index) {
  for (auto& [id, worker] : nodes_[index].workers) {
    if (!worker.dying) return &worker;
  }
  return nullptr;
}

// The place may be gone by now; then nothing happens, and nothing is counted.
void World::Strike(FaultKind kind) {
  if (job_over_) return;
  const auto count = [&] {
    ++result_.faults[std::string(kFaultRates[static_cast<size_t>(kind)].name)];
  };
  if (kind == FaultKind::kControllerCrash) {
    if (controller_up_) count();
    return CrashController();
  }
  if (kind == FaultKind::kDiskFlip) {
    if (disk_.empty()) return;
    disk_.rbegin()->second.second = true;
    return count();
  }
  const auto picked = PickGangNode();
  if (!picked.has_value()) return;
  const size_t index = *picked;
  SimNode& node = nodes_[index];
  if (kind == FaultKind::kNodeCrash || kind == FaultKind::kAgentRestart) {
    const Duration away = kind == FaultKind::kNodeCrash ? Around(options_.physics.repair)
                                                        : Around(std::chrono::milliseconds(700));
    Crash(index, /*silent=*/kind == FaultKind::kNodeCrash);
    queue_.After(away, [this, index] {
      if (nodes_[index].core == nullptr) Boot(index);
    });
    return count();
  }
  if (kind == FaultKind::kLinkBreak) {
    node.cut = true;
    BreakStream(index, "connection reset");
    queue_.After(Around(std::chrono::milliseconds(1500)), [this, index, life = node.life] {
      if (nodes_[index].life == life) nodes_[index].cut = false;
    });
    return count();
  }
  if (kind == FaultKind::kDiskFull) {
    // It matters where rank 0 is: that node writes the checkpoints.
    const auto writer = epoch_.places.find(0);
    if (writer == epoch_.places.end()) return;
    nodes_[writer->second].disk_full = true;
    return count();
  }
  SimWorker* worker = PickWorker(index);
  if (worker == nullptr) return;
  if (kind == FaultKind::kMemoryFlip) {
    const uint64_t newest = std::max(seals_[0].step, seals_[1].step);
    if (!node.copies.empty() && random_.Below(2) == 0) {
      node.copies.rbegin()->second = true;
      return count();
    }
    if (newest == 0 || !Holds(node, newest)) return;
    node.damaged.insert(newest);
    return count();
  }
  count();
  if (kind == FaultKind::kWorkerCrash) {
    Die(index, worker->id, -1, random_.Uniform() < 0.5 ? SIGKILL : SIGSEGV, Duration(0));
  } else if (kind == FaultKind::kWorkerError) {
    Die(index, worker->id, 1, 0, Duration(0));
  } else if (kind == FaultKind::kWorkerStopped) {
    SignalTo(index, worker->id, SIGSTOP);
  } else if (kind == FaultKind::kWorkerHang && !worker->hung) {
    worker->hung = true;
    const bool counts = !IsRival(worker->id) && worker->id.epoch == epoch_.epoch;
    if (counts && !worker->stopped) ++epoch_.stopped;
  }
}

// Chaos that the controller asked for (`--inject`).
void World::Inject(size_t index, const wire::InjectFault& order) {
  const wire::PlannedFault& fault = order.fault();
  const WorkerId id{JobId(order.job_id()), order.epoch(), fault.target()};
  switch (fault.kind()) {
    case wire::PlannedFault::KILL_WORKER:
      return Die(index, id, -1, SIGKILL, Duration(0));
    case wire::PlannedFault::KILL_AGENT:
    case wire::PlannedFault::KILL_NODE:  // a simulated node loses its memory either way
      Crash(index, /*silent=*/false);
      return queue_.After(std::chrono::milliseconds(200), [this, index] {
        if (nodes_[index].core == nullptr) Boot(index);
      });
    case wire::PlannedFault::STOP_WORKER:
      SignalTo(index, id, SIGSTOP);
      return queue_.After(Duration(fault.duration_ns()),
                          [this, index, id] { SignalTo(index, id, SIGCONT); });
    default:
      return;
  }
}

}  // namespace longhaul::runtime::simulation
