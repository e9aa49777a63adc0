// The simulated nodes: what happens to the effects that an agent's core asks for.
#include <csignal>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

void World::Boot(size_t index) {
  SimNode& node = nodes_[index];
  CHECK(node.core == nullptr);
  ++node.life;
  AgentFacts facts;
  facts.slots = options_.processes_per_node;
  facts.cores = 96;
  facts.address = "10." + std::to_string(index >> 16 & 255) + "." +
                  std::to_string(index >> 8 & 255) + "." + std::to_string(index & 255);
  facts.host = node.id.value();
  facts.peer_port = options_.peers ? 1 : 0;
  node.core = std::make_unique<AgentCore>(node.id, node.life, facts);
  node.cut = node.disk_full = false;
  node.timer.reset();
  queue_.After(Delay(), [this, index, life = node.life] {
    if (nodes_[index].life == life) Connect(index);
  });
}

// The machine is gone with everything in its memory.
void World::Crash(size_t index, bool silent) {
  SimNode& node = nodes_[index];
  if (node.core == nullptr) return;
  for (auto& [id, worker] : node.workers) WorkerGoneFromEpoch(worker);
  node.workers.clear();
  LoseMemory(index);
  node.core.reset();
  ++node.life;  // voids whatever was planned for it
  if (!node.connected) return;
  node.connected = false;
  wire::Event event;
  event.set_at_ns(ToNanoseconds(queue_.now()));
  event.set_node(node.id.value());
  event.set_incarnation(node.life - 1);
  event.mutable_agent_disconnected()->set_reason(silent ? "silence" : "connection reset");
  queue_.After(silent ? options_.physics.silence : options_.physics.message,
               [this, event] { Feed(event); });
}

void World::Input(size_t index, const AgentInput& input) {
  if (nodes_[index].core == nullptr) return;
  std::vector<AgentEffect> effects = nodes_[index].core->Step(input, queue_.now());
  for (AgentEffect& effect : effects) {
    if (nodes_[index].core == nullptr) return;
    Carry(index, std::move(effect));
  }
  ArmTimer(index);
}

void World::ArmTimer(size_t index) {
  SimNode& node = nodes_[index];
  if (node.core == nullptr) return;
  const auto deadline = node.core->NextDeadline();
  if (!deadline.has_value() || (node.timer.has_value() && *node.timer <= *deadline)) return;
  node.timer = deadline;
  queue_.At(*deadline, [this, index, life = node.life, at = *deadline] {
    SimNode& fired = nodes_[index];
    if (fired.life != life || fired.timer != at) return;
    fired.timer.reset();
    Input(index, TimerFired{});
  });
}

void World::Carry(size_t index, AgentEffect effect) {
  const uint64_t life = nodes_[index].life;
  if (auto* send = std::get_if<Send>(&effect)) {
    ToController(index, std::move(send->message));
  } else if (const auto* open = std::get_if<OpenStoreAt>(&effect)) {
    const uint32_t port = 20'000 + static_cast<uint32_t>(open->epoch % 40'000);
    queue_.After(std::chrono::milliseconds(1), [this, index, life, order = *open, port] {
      if (nodes_[index].life == life)
        Input(index, StoreListening{order.job, order.epoch, port, ""});
    });
  } else if (const auto* spawn = std::get_if<SpawnWorker>(&effect)) {
    Spawn(index, *spawn);
  } else if (const auto* signal = std::get_if<SignalWorker>(&effect)) {
    SignalTo(index, signal->worker, signal->signal);
  } else if (const auto* persist = std::get_if<PersistPieces>(&effect)) {
    Persist(index, *persist);
  } else if (const auto* commit = std::get_if<WriteManifest>(&effect)) {
    Commit(index, *commit);
  } else if (const auto* tell = std::get_if<TellInterval>(&effect)) {
    if (tell->job.value() == job_id_ && tell->epoch == epoch_.epoch) epoch_.interval = tell->steps;
  } else if (const auto* probe = std::get_if<ProbeWorkersNow>(&effect)) {
    Probe(index, *probe);
  } else if (const auto* drop = std::get_if<DropJob>(&effect)) {
    if (drop->job.value() == job_id_) LoseMemory(index);
  } else if (const auto* copies = std::get_if<SendCopies>(&effect)) {
    SendTo(index, *copies);
  } else if (std::get_if<KillNode>(&effect) != nullptr) {
    Crash(index, /*silent=*/false);
  }
}

void World::LoseMemory(size_t index) {
  SimNode& node = nodes_[index];
  node.last_missed_seal = sealed_;
  node.copies.clear();
  node.memory_since = queue_.now();
}

// To the peer's memory, which keeps the two newest of each rank.
void World::SendTo(size_t index, const SendCopies& order) {
  queue_.After(Around(options_.physics.copy), [this, index, life = nodes_[index].life, order] {
    SimNode& node = nodes_[index];
    if (node.life != life) return;
    const std::string& holder = order.start->peer_node();
    const auto peer = index_.find(holder);
    CopiesSent answer{order.job, order.epoch, order.step, holder, options_.physics.copy, ""};
    if (peer == index_.end() || nodes_[peer->second].core == nullptr) {
      answer.error = "the other agent is away";
    } else if (!Holds(node, order.step) || node.damaged.contains(order.step)) {
      answer.error = "the hash differs before it is sent";
    } else {
      auto& copies = nodes_[peer->second].copies;
      for (const uint32_t rank : order.ranks) {
        copies[{order.step, rank}] = false;
        uint32_t newer = 0;
        for (auto copy = copies.rbegin(); copy != copies.rend();) {
          const bool drop = copy->first.second == rank && ++newer > 2;
          copy = drop ? std::make_reverse_iterator(copies.erase(std::next(copy).base()))
                      : std::next(copy);
        }
      }
    }
    Input(index, answer);
  });
}

void World::Spawn(size_t index, const SpawnWorker& order) {
  queue_.After(Around(options_.physics.fork), [this, index, life = nodes_[index].life, order] {
    SimNode& node = nodes_[index];
    if (node.life != life) return;
    for (const auto& [id, worker] : node.workers) {
      if (id.job == order.worker.job && id.rank == order.worker.rank) {
        audit_.Violate(node.id.value() + " runs rank " + std::to_string(id.rank) +
                       " twice: epochs " + std::to_string(id.epoch) + " and " +
                       std::to_string(order.worker.epoch));
      }
    }
    SimWorker& worker = node.workers[order.worker];
    worker.id = order.worker;
    worker.start = order.start;
    worker.life = life;
    Input(index,
          WorkerForked{order.worker, static_cast<int64_t>(1000 + order.worker.rank), "", false});
    if (IsRival(order.worker)) {
      return Die(index, order.worker, 0, 0, Around(options_.physics.rival));
    }
    EnterPhase(index, order.worker, wire::PhaseEntered::START_UP);
  });
}

void World::SignalTo(size_t index, const WorkerId& id, int signal) {
  const auto found = nodes_[index].workers.find(id);
  if (found == nodes_[index].workers.end()) return;
  SimWorker& worker = found->second;
  if (signal == SIGCONT) {
    if (!worker.stopped) return;
    worker.stopped = false;
    const bool counts = !IsRival(id) && id.epoch == epoch_.epoch;
    if (counts && !worker.hung) --epoch_.stopped;
    if (worker.pending_signal != 0)
      return Die(index, id, 143, 0, Around(std::chrono::milliseconds(5)));
    if (epoch_.waiting && epoch_.stopped == 0) BeginStretch();
    return;
  }
  if (signal == SIGSTOP) {
    if (worker.stopped) return;
    worker.stopped = true;
    if (!IsRival(id) && id.epoch == epoch_.epoch && !worker.hung) ++epoch_.stopped;
    return;
  }
  if (signal == SIGKILL) return Die(index, id, -1, SIGKILL, Around(std::chrono::milliseconds(2)));
  if (worker.stopped) {
    worker.pending_signal = signal;
  } else if (!worker.hung) {
    Die(index, id, 143, 0, Around(std::chrono::milliseconds(50)));
  }
}

void World::Die(size_t index, const WorkerId& id, int exit_code, int signal, Duration delay) {
  const auto found = nodes_[index].workers.find(id);
  if (found == nodes_[index].workers.end() || (found->second.dying && signal != SIGKILL)) return;
  // A rival's end is planned long before: that keeps nothing else from ending it.
  found->second.dying = !IsRival(id) || exit_code != 0;
  queue_.After(delay, [this, index, id, exit_code, signal, life = nodes_[index].life] {
    SimNode& node = nodes_[index];
    const auto worker = node.workers.find(id);
    if (node.life != life || worker == node.workers.end()) return;
    WorkerGoneFromEpoch(worker->second);
    node.workers.erase(worker);
    Input(index, WorkerGone{id, exit_code, signal, signal == 0 ? "simulated" : "", 0});
  });
}

void World::Persist(size_t index, const PersistPieces& order) {
  SimNode& node = nodes_[index];
  PiecesPersisted answer{order.job, order.epoch, order.step, {}, options_.physics.persist,
                         "",        false};
  const bool good = Holds(node, order.step) && !node.damaged.contains(order.step);
  if (!good) answer.error = "the snapshot in memory failed its checksum";
  answer.overtaken = !Holds(node, order.step);
  for (const uint32_t rank : order.ranks) {
    auto& file = answer.files.emplace_back();
    file.set_name("rank-" + std::to_string(rank));
    file.set_bytes(1);
    file.set_rank(rank);
  }
  if (node.disk_full) answer.error = "no space left on device";
  node.disk_full = false;
  if (!answer.error.empty()) answer.files.clear();
  const bool slow = index == options_.slow_disk_node && options_.slow_disk > 0;
  const Duration takes = options_.physics.persist * (slow ? options_.slow_disk : 1);
  queue_.After(Around(takes), [this, index, life = node.life, answer] {
    if (nodes_[index].life == life) Input(index, answer);
  });
}

void World::Commit(size_t index, const WriteManifest& order) {
  queue_.After(Around(options_.physics.manifest), [this, index, life = nodes_[index].life, order] {
    if (nodes_[index].life != life) return;
    const wire::CommitSnapshot& commit = order.commit;
    if (commit.step() > audit_.step() && commit.step() > audit_.highest_step()) {
      audit_.Violate("committed step " + std::to_string(commit.step()) + " was never taken");
    }
    std::set<uint32_t> served;
    for (const auto& file : commit.files()) {
      served.insert(file.rank());
      served.insert(file.also().begin(), file.also().end());
    }
    if (options_.sharded && served.size() != commit.world()) {
      audit_.Violate("step " + std::to_string(commit.step()) + " is committed with the state of " +
                     std::to_string(served.size()) + " ranks of " + std::to_string(commit.world()));
    }
    disk_[commit.step()] = {commit.epoch(), false};
    while (disk_.size() > 8) disk_.erase(disk_.begin());
    Input(index, ManifestWritten{JobId(commit.job_id()), commit.epoch(), commit.step(), ""});
  });
}

void World::Probe(size_t index, const ProbeWorkersNow& order) {
  ProbedWorkers answer{order.job, order.epoch, {}};
  for (const uint32_t rank : order.ranks) {
    const WorkerId id{order.job, order.epoch, rank};
    auto& told = answer.workers.emplace_back();
    told.set_rank(rank);
    const auto found = nodes_[index].workers.find(id);
    if (found == nodes_[index].workers.end()) {
      told.set_process_state("gone");
      continue;
    }
    told.set_process_state(found->second.stopped ? "T" : "R");
    if (found->second.stopped && order.resume_stopped) {
      told.set_resumed(true);
      SignalTo(index, id, SIGCONT);
    }
  }
  queue_.After(std::chrono::milliseconds(5), [this, index, life = nodes_[index].life, answer] {
    if (nodes_[index].life == life) Input(index, answer);
  });
}

}  // namespace longhaul::runtime::simulation
