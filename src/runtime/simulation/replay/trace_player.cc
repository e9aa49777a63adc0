#include "runtime/simulation/replay/trace_player.h"

#include "runtime/simulation/controller_host.h"
#include "runtime/simulation/nodes.h"
#include "runtime/simulation/replay/published.h"
#include "runtime/simulation/training.h"

namespace longhaul::runtime::simulation {
namespace {

constexpr Duration kTryAgain = std::chrono::seconds(1);

}  // namespace

void TracePlayer::Plan() {
  for (const TracedFault& fault : world_.options.trace) {
    world_.queue.After(fault.at, [this, &fault] { Strike(fault); });
  }
}

std::optional<size_t> TracePlayer::NodeAt(uint32_t place) const {
  const auto found = world_.attempt.places.find((place - 1) * world_.options.processes_per_node);
  if (found == world_.attempt.places.end()) return std::nullopt;
  if (world_.nodes[found->second].core == nullptr) return std::nullopt;
  return found->second;
}

SimWorker* TracePlayer::WorkerOn(size_t node) {
  for (auto& [id, worker] : world_.nodes[node].workers) {
    const bool present = id.attempt == world_.attempt.attempt && !world_.IsRival(id);
    if (present && !worker.dying && !worker.hung) return &worker;
  }
  return nullptr;
}

void TracePlayer::Strike(const TracedFault& fault) {
  if (world_.job_over) return;
  const auto node = NodeAt(fault.node);
  const bool of_machine = fault.scope == FaultScope::kNode || fault.scope == FaultScope::kRack;
  if (!node.has_value() || (!of_machine && WorkerOn(*node) == nullptr)) {
    return world_.queue.After(kTryAgain, [this, &fault] { Strike(fault); });
  }
  // Damage that is not seen interrupts nothing until it is found.
  const bool hidden = fault.scope == FaultScope::kState && fault.silent;
  if (!hidden) world_.record.Struck(world_.queue.now(), fault.cause);
  switch (fault.scope) {
    case FaultScope::kProcess:
    case FaultScope::kDevice:
    case FaultScope::kLink:
      return StrikeWorker(fault, *node);
    case FaultScope::kStorage:
      world_.nodes[world_.attempt.places.begin()->second].disk_full = true;
      return StrikeWorker(fault, *node);
    case FaultScope::kSlowDevice:
      return SlowDown(fault, *node);
    case FaultScope::kNode:
      return fault.notice > Duration(0) ? Maintain(fault, *node) : StrikeMachine(fault, *node);
    case FaultScope::kRack: {
      StrikeMachine(fault, *node);
      const auto other = NodeAt(((fault.node - 1) ^ 1) + 1);  // racks have two machines
      static_assert(kNodesOfARack == 2);
      if (other.has_value()) StrikeMachine(fault, *other);
      return;
    }
    case FaultScope::kState:
      return Damage(fault, *node);
    case FaultScope::kJob:
      return Interrupt(fault);
  }
}

void TracePlayer::StrikeWorker(const TracedFault& fault, size_t index) {
  SimWorker* worker = WorkerOn(index);
  if (worker == nullptr) return;
  if (fault.repair > Duration(0)) Break(fault, index);
  if (!fault.silent) return machines_.Die(index, worker->id, 1, 0, Duration(0));
  worker->hung = true;
  if (!worker->stopped) training_.StopStretch();
}

void TracePlayer::Break(const TracedFault& fault, size_t index) {
  SimNode& node = world_.nodes[index];
  node.broken_until = world_.queue.now() + fault.repair;
  node.broken_silently = fault.silent;
  node.broken_link = fault.scope == FaultScope::kLink;
  const bool at_once = world_.random.Uniform() < kHangsAtOnce;
  node.hangs_in = node.broken_link ? proto::PhaseEntered::RENDEZVOUS
                  : at_once        ? proto::PhaseEntered::START_UP
                                   : proto::PhaseEntered::STEPPING;
  node.check_shows = world_.random.Uniform() < world_.options.check_shows;
  if (world_.options.operator_reaction < fault.repair) {
    world_.queue.After(world_.options.operator_reaction, [this, index] { Cordon(index, true); });
    world_.queue.After(fault.repair, [this, index] { Cordon(index, false); });
  }
}

void TracePlayer::StrikeMachine(const TracedFault& fault, size_t index) {
  machines_.Crash(index, fault.silent);
  world_.queue.After(fault.repair, [this, index] {
    if (world_.nodes[index].core == nullptr) machines_.Boot(index);
  });
}

// The node is drained when the maintenance is announced, and is away after the notice.
void TracePlayer::Maintain(const TracedFault& fault, size_t index) {
  Cordon(index, true);
  world_.queue.After(fault.notice, [this, index, &fault] {
    if (world_.nodes[index].core != nullptr) machines_.Crash(index, /*silent=*/false);
    world_.queue.After(fault.repair, [this, index] {
      if (world_.nodes[index].core == nullptr) machines_.Boot(index);
      Cordon(index, false);
    });
  });
}

void TracePlayer::SlowDown(const TracedFault& fault, size_t index) {
  world_.slow_nodes.insert(index);
  world_.queue.After(fault.notice, [this, index, &fault] {
    world_.slow_nodes.erase(index);
    if (world_.in_attempt[index]) StrikeWorker(fault, index);
  });
}

void TracePlayer::Interrupt(const TracedFault& fault) {
  world_.outage_until = std::max(world_.outage_until, world_.queue.now() + fault.repair);
  if (!fault.silent) {
    constexpr uint32_t kFailing = 4;
    for (uint32_t place = 1; place <= kFailing; ++place) {
      const auto node = NodeAt(place);
      SimWorker* worker = node.has_value() ? WorkerOn(*node) : nullptr;
      if (worker != nullptr) machines_.Die(*node, worker->id, 1, 0, Duration(0));
    }
    return;
  }
  training_.StopStretch();
  world_.queue.After(fault.repair, [this, attempt = world_.attempt.attempt] {
    if (world_.attempt.attempt != attempt || world_.attempt.stopped == 0) return;
    if (--world_.attempt.stopped == 0) training_.ContinueStretch();
  });
}

// NaN ends the worker that finds it (as Megatron-LM's check of losses does by default). Damage that
// shows later is found after `repair`; an operator then goes back to a checkpoint from before it,
// so the work since then and since that checkpoint is done again.
void TracePlayer::Damage(const TracedFault& fault, size_t index) {
  if (!fault.silent) return StrikeWorker(fault, index);
  world_.queue.After(fault.repair, [this, &fault] {
    if (world_.job_over) return;
    world_.record.Struck(world_.queue.now(), fault.cause);
    const Duration since_checkpoint =
        world_.options.physics.step * static_cast<int64_t>(world_.attempt.interval) +
        world_.options.physics.persist;
    world_.record.RedoneByHand(fault.cause, fault.repair + since_checkpoint);
    const auto node = NodeAt(fault.node);
    SimWorker* worker = node.has_value() ? WorkerOn(*node) : nullptr;
    if (worker != nullptr) machines_.Die(*node, worker->id, 1, 0, Duration(0));
  });
}

void TracePlayer::Cordon(size_t index, bool cordoned) {
  proto::Event event;
  event.set_at_ns(ToNanoseconds(world_.queue.now()));
  proto::NodeCordoned& order = *event.mutable_node_cordoned();
  order.set_target(world_.nodes[index].id.value());
  order.set_cordoned(cordoned);
  order.set_drain(cordoned);
  order.set_reason(cordoned ? "maintenance or a broken part" : "repaired");
  host_.Feed(event);
}

}  // namespace longhaul::runtime::simulation
