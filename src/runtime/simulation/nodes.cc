// The simulated nodes: what happens to the effects that an agent's core asks for.
#include "runtime/simulation/nodes.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "runtime/simulation/controller_host.h"
#include "runtime/simulation/faults.h"
#include "runtime/simulation/replay/published.h"
#include "runtime/simulation/training.h"

namespace longhaul::runtime::simulation {

namespace {

constexpr Duration kForkServerStart = std::chrono::seconds(1);  // assumption

}  // namespace

// A new life of the agent. Everything that was planned for the earlier one compares the life and
// has no effect.
void SimNodes::Boot(size_t index) {
  SimNode& node = world_.nodes[index];
  CHECK(node.core == nullptr);
  ++node.life;
  node.booted = world_.queue.now();
  AgentFacts facts;
  facts.slots = world_.options.processes_per_node;
  facts.cores = 96;
  facts.address = "10." + std::to_string(index >> 16 & 255) + "." +
                  std::to_string(index >> 8 & 255) + "." + std::to_string(index & 255);
  facts.host = node.id.value();
  facts.peer_port = world_.options.peers ? 1 : 0;
  if (std::exchange(node.memory_left, false)) facts.held = HeldBy(node);
  node.core = std::make_unique<AgentCore>(node.id, node.life, facts);
  node.cut = node.silent = node.disk_full = false;
  node.held_back.clear();
  node.timer.reset();
  world_.queue.After(world_.Delay(), [this, index, life = node.life] {
    if (world_.nodes[index].life == life) host_.Connect(index);
  });
}

// The machine is gone with everything in its memory.
void SimNodes::Crash(size_t index, bool silent) {
  if (world_.nodes[index].core == nullptr) return;
  LoseMemory(index);
  End(index, silent, false);
}

void SimNodes::PowerOff(size_t index) {
  if (world_.nodes[index].core == nullptr) return;
  LoseMemory(index);
  End(index, true, true);
}

void SimNodes::KillAgent(size_t index) {
  if (world_.nodes[index].core == nullptr) return;
  world_.nodes[index].memory_left = true;
  End(index, false, false);
}

// What is in the memory of a node whose agent has died: its own ranks, and copies for others.
std::vector<AgentFacts::HeldSnapshot> SimNodes::HeldBy(const SimNode& node) const {
  std::vector<AgentFacts::HeldSnapshot> held;
  for (const SimSeal& seal : world_.seals) {
    if (seal.step == 0) continue;
    for (const auto& [rank, place] : seal.places) {
      const bool own = world_.nodes[place].id == node.id && world_.Holds(node, seal.step);
      if (own) held.push_back({JobId(world_.job_id), rank, seal.step, seal.attempt, false});
    }
  }
  for (const auto& [key, copy] : node.copies) {
    held.push_back({JobId(world_.job_id), key.second, key.first, copy.attempt, true});
  }
  return held;
}

void SimNodes::End(size_t index, bool silent, bool unseen) {
  SimNode& node = world_.nodes[index];
  for (auto& [id, worker] : node.workers) training_.WorkerGoneFromAttempt(worker, unseen);
  node.workers.clear();
  node.core.reset();
  ++node.life;  // voids whatever was planned for it
  if (!node.connected) return;
  node.connected = false;
  proto::Event event;
  event.set_at_ns(ToNanoseconds(world_.queue.now()));
  event.set_node(node.id.value());
  event.set_incarnation(node.life - 1);
  event.mutable_agent_disconnected()->set_reason(silent ? "silence" : "connection reset");
  world_.queue.After(silent ? world_.options.physics.silence : world_.options.physics.message,
                     [this, event] { host_.Feed(event); });
}

// An effect can end the agent (KillNode), so it is looked up again before each of them.
void SimNodes::Input(size_t index, const AgentInput& input) {
  if (world_.nodes[index].core == nullptr) return;
  std::vector<AgentEffect> effects = world_.nodes[index].core->Step(input, world_.queue.now());
  for (AgentEffect& effect : effects) {
    if (world_.nodes[index].core == nullptr) return;
    Carry(index, std::move(effect));
  }
  ArmTimer(index);
}

void SimNodes::ArmTimer(size_t index) {
  SimNode& node = world_.nodes[index];
  if (node.core == nullptr) return;
  const auto deadline = node.core->NextDeadline();
  if (!deadline.has_value() || (node.timer.has_value() && *node.timer <= *deadline)) return;
  node.timer = deadline;
  world_.queue.At(*deadline, [this, index, life = node.life, at = *deadline] {
    SimNode& fired = world_.nodes[index];
    if (fired.life != life || fired.timer != at) return;
    fired.timer.reset();
    Input(index, TimerFired{});
  });
}

void SimNodes::Carry(size_t index, AgentEffect effect) {
  const uint64_t life = world_.nodes[index].life;
  if (auto* send = std::get_if<Send>(&effect)) {
    host_.ToController(index, std::move(send->message));
  } else if (const auto* find = std::get_if<FindTorch>(&effect)) {
    world_.queue.After(std::chrono::milliseconds(1), [this, index, life, job = find->job] {
      if (world_.nodes[index].life == life) Input(index, TorchFound{job, ""});
    });
  } else if (const auto* open = std::get_if<OpenStoreAt>(&effect)) {
    const uint32_t port = 20'000 + static_cast<uint32_t>(open->attempt % 40'000);
    world_.queue.After(std::chrono::milliseconds(1), [this, index, life, order = *open, port] {
      if (world_.nodes[index].life == life)
        Input(index, StoreListening{order.job, order.attempt, port, ""});
    });
  } else if (const auto* spawn = std::get_if<SpawnWorker>(&effect)) {
    Spawn(index, *spawn);
  } else if (const auto* signal = std::get_if<SignalWorker>(&effect)) {
    SignalTo(index, signal->worker, signal->signal);
  } else if (const auto* persist = std::get_if<PersistPieces>(&effect)) {
    Persist(index, *persist);
  } else if (const auto* commit = std::get_if<WriteManifest>(&effect)) {
    Commit(index, *commit);
  } else if (const auto* interval = std::get_if<SendInterval>(&effect)) {
    if (interval->job.value() == world_.job_id && interval->attempt == world_.attempt.attempt)
      world_.attempt.interval = interval->steps;
  } else if (const auto* probe = std::get_if<ProbeWorkersNow>(&effect)) {
    Probe(index, *probe);
  } else if (const auto* sample = std::get_if<SampleWorkersNow>(&effect)) {
    Sample(index, *sample);
  } else if (const auto* drop = std::get_if<DropJob>(&effect)) {
    if (drop->job.value() == world_.job_id) LoseMemory(index);
  } else if (const auto* copies = std::get_if<SendCopies>(&effect)) {
    SendTo(index, *copies);
  } else if (std::get_if<KillNode>(&effect) != nullptr) {
    Crash(index, /*silent=*/false);
  }
}

void SimNodes::LoseMemory(size_t index) {
  SimNode& node = world_.nodes[index];
  node.last_missed_seal = world_.sealed;
  node.copies.clear();
  node.memory_since = world_.queue.now();
}

// The holder reports the copy at once. The sender learns of it a message later, unless it has ended
// by then.
void SimNodes::SendTo(size_t index, const SendCopies& order) {
  world_.queue.After(
      world_.Around(world_.options.physics.copy),
      [this, index, life = world_.nodes[index].life, order] {
        SimNode& node = world_.nodes[index];
        if (node.life != life) return;
        const std::string& holder = order.start->peer_node();
        const auto peer = world_.index.find(holder);
        CopiesSent answer{order.job, order.attempt, order.step, holder, world_.options.physics.copy,
                          ""};
        if (peer == world_.index.end() || world_.nodes[peer->second].core == nullptr ||
            world_.nodes[peer->second].silent || node.silent) {
          answer.error = "the other agent is away";
        } else if (!world_.Holds(node, order.step) || node.damaged.contains(order.step)) {
          answer.error = "the hash differs before it is sent";
        } else {
          Receive(peer->second, order);
        }
        world_.queue.After(world_.options.physics.message, [this, index, life, answer] {
          if (world_.nodes[index].life == life) Input(index, answer);
        });
      });
}

// Into the memory, which keeps the two newest of each rank.
void SimNodes::Receive(size_t index, const SendCopies& order) {
  auto& copies = world_.nodes[index].copies;
  for (const uint32_t rank : order.ranks) {
    copies[{order.step, rank}] = {order.attempt, false, world_.queue.now()};
    std::set<std::pair<uint64_t, uint64_t>> kept;  // by attempt and step
    for (const auto& [key, copy] : copies) {
      if (key.second == rank) kept.emplace(copy.attempt, key.first);
    }
    if (kept.size() > 2) copies.erase({kept.begin()->second, rank});
    Input(index, CopyReceived{order.job, rank, order.attempt, order.step});
  }
}

void SimNodes::Spawn(size_t index, const SpawnWorker& order) {
  const Duration cold = world_.options.cold_fork;
  const bool is_cold =
      cold > Duration(0) && world_.queue.now() < world_.nodes[index].booted + kForkServerStart;
  world_.queue.After(
      world_.Around(is_cold ? cold : world_.options.physics.fork),
      [this, index, life = world_.nodes[index].life, order] {
        SimNode& node = world_.nodes[index];
        if (node.life != life) return;
        for (const auto& [id, worker] : node.workers) {
          if (id.job == order.worker.job && id.rank == order.worker.rank) {
            world_.audit.Violate(node.id.value() + " runs rank " + std::to_string(id.rank) +
                                 " twice: attempts " + std::to_string(id.attempt) + " and " +
                                 std::to_string(order.worker.attempt));
          }
        }
        SimWorker& worker = node.workers[order.worker];
        worker.id = order.worker;
        worker.start = order.start;
        worker.life = life;
        Input(index, WorkerForked{order.worker, static_cast<int64_t>(1000 + order.worker.rank), "",
                                  false});
        if (world_.IsRival(order.worker)) {
          return Die(index, order.worker, 0, 0, world_.Around(world_.options.physics.rival));
        }
        training_.EnterPhase(index, order.worker, proto::PhaseEntered::START_UP);
      });
}

// A stopped process does not handle a signal until it is continued, except SIGKILL. A hung one
// ignores SIGTERM.
void SimNodes::SignalTo(size_t index, const WorkerId& id, int signal) {
  const auto found = world_.nodes[index].workers.find(id);
  if (found == world_.nodes[index].workers.end()) return;
  SimWorker& worker = found->second;
  if (signal == SIGCONT) {
    if (!worker.stopped) return;
    worker.stopped = false;
    const bool counts = !world_.IsRival(id) && id.attempt == world_.attempt.attempt;
    if (counts && !worker.hung) --world_.attempt.stopped;
    // The signal that arrived while the process was stopped takes effect now.
    if (worker.pending_signal != 0)
      return Die(index, id, 143, 0, world_.Around(std::chrono::milliseconds(5)));
    if (counts && world_.attempt.stopped == 0) training_.ContinueStretch();
    return;
  }
  if (signal == SIGSTOP) {
    if (worker.stopped) return;
    worker.stopped = true;
    if (!world_.IsRival(id) && id.attempt == world_.attempt.attempt && !worker.hung)
      training_.StopStretch();
    return;
  }
  if (signal == SIGKILL)
    return Die(index, id, -1, SIGKILL, world_.Around(std::chrono::milliseconds(2)));
  if (worker.stopped) {
    worker.pending_signal = signal;
  } else if (!worker.hung) {
    Die(index, id, 143, 0, world_.Around(std::chrono::milliseconds(50)));
  }
}

void SimNodes::Die(size_t index, const WorkerId& id, int exit_code, int signal, Duration delay) {
  const auto found = world_.nodes[index].workers.find(id);
  if (found == world_.nodes[index].workers.end() || (found->second.dying && signal != SIGKILL))
    return;
  // A rival's end is planned long before: that keeps nothing else from ending it.
  found->second.dying = !world_.IsRival(id) || exit_code != 0;
  world_.queue.After(delay, [this, index, id, exit_code, signal, life = world_.nodes[index].life] {
    SimNode& node = world_.nodes[index];
    const auto worker = node.workers.find(id);
    if (node.life != life || worker == node.workers.end()) return;
    training_.WorkerGoneFromAttempt(worker->second);
    node.workers.erase(worker);
    Input(index, WorkerGone{id, exit_code, signal, signal == 0 ? "simulated" : "", 0});
  });
}

// Whether the write succeeds is decided when it begins.
void SimNodes::Persist(size_t index, const PersistPieces& order) {
  SimNode& node = world_.nodes[index];
  PiecesPersisted answer{order.job, order.attempt, order.step, {}, world_.options.physics.persist,
                         "",        false};
  const bool good = world_.Holds(node, order.step) && !node.damaged.contains(order.step);
  if (!good) answer.error = "the snapshot in memory failed its checksum";
  // A step that the memory no longer holds was replaced by newer ones; that is no damage.
  answer.overtaken = !world_.Holds(node, order.step);
  for (const uint32_t rank : order.ranks) {
    auto& file = answer.files.emplace_back();
    file.set_name("rank-" + std::to_string(rank));
    file.set_bytes(1);
    file.set_rank(rank);
  }
  if (node.disk_full || world_.queue.now() < world_.disk_full_until)
    answer.error = "no space left on device";
  node.disk_full = false;
  if (!answer.error.empty()) answer.files.clear();
  const bool slow = index == world_.options.slow_disk_node && world_.options.slow_disk > 0;
  const Duration takes = world_.options.physics.persist * (slow ? world_.options.slow_disk : 1);
  world_.queue.After(world_.Around(takes), [this, index, life = node.life, answer] {
    if (world_.nodes[index].life == life) Input(index, answer);
  });
}

// As checkpoint::Collect: first those of a history that the run has left, then the oldest.
void SimNodes::RemoveOldCheckpoints(const WriteManifest& order) {
  std::vector<SimCheckpoint> newest_first;
  for (auto each = world_.disk.rbegin(); each != world_.disk.rend(); ++each) {
    newest_first.push_back(each->first);
  }
  std::stable_partition(
      newest_first.begin(), newest_first.end(), [&order](const SimCheckpoint& one) {
        return one.attempt >= order.start->attempt() || one.step <= order.start->restore().step();
      });
  const auto& used = order.protected_steps;
  const size_t keep = std::max<size_t>(1, order.start->job().snapshot().keep());
  bool good = false;  // one that stays
  for (size_t i = 0; i < newest_first.size(); ++i) {
    const bool damaged = world_.disk.at(newest_first[i]);
    const bool in_use = std::find(used.begin(), used.end(), newest_first[i].step) != used.end();
    if (i < keep || in_use || (!good && !damaged)) {
      good = good || !damaged;
    } else {
      world_.disk.erase(newest_first[i]);
    }
  }
}

void SimNodes::Commit(size_t index, const WriteManifest& order) {
  world_.queue.After(
      world_.Around(world_.options.physics.manifest),
      [this, index, life = world_.nodes[index].life, order] {
        if (world_.nodes[index].life != life) return;
        const proto::CommitSnapshot& commit = order.commit;
        // A rollback lowers the present step, so the highest one that was ever reached counts too.
        if (commit.step() > world_.audit.step() && commit.step() > world_.audit.highest_step()) {
          world_.audit.Violate("committed step " + std::to_string(commit.step()) +
                               " was never taken");
        }
        std::set<uint32_t> served;
        for (const auto& file : commit.files()) {
          served.insert(file.rank());
          served.insert(file.also().begin(), file.also().end());
        }
        // A file may serve several ranks (`also`); together the files must serve all of them, or
        // the checkpoint cannot be restored.
        if (world_.options.sharded && served.size() != commit.world()) {
          world_.audit.Violate("step " + std::to_string(commit.step()) +
                               " is committed with the state of " + std::to_string(served.size()) +
                               " ranks of " + std::to_string(commit.world()));
        }
        world_.disk[{commit.step(), commit.attempt()}] = false;
        RemoveOldCheckpoints(order);
        Input(index, ManifestWritten{JobId(commit.job_id()), commit.attempt(), commit.step(), ""});
      });
}

void SimNodes::Probe(size_t index, const ProbeWorkersNow& order) {
  ProbedWorkers answer{order.job, order.attempt, {}, order.with_stacks};
  for (const uint32_t rank : order.ranks) {
    const WorkerId id{order.job, order.attempt, rank};
    auto& worker = answer.workers.emplace_back();
    worker.set_rank(rank);
    const auto found = world_.nodes[index].workers.find(id);
    if (found == world_.nodes[index].workers.end()) {
      worker.set_process_state("gone");
      continue;
    }
    worker.set_process_state(found->second.stopped ? "T" : "R");
    if (found->second.stopped && order.resume_stopped) {
      worker.set_resumed(true);
      SignalTo(index, id, SIGCONT);
    }
  }
  world_.queue.After(std::chrono::milliseconds(5),
                     [this, index, life = world_.nodes[index].life, answer] {
                       if (world_.nodes[index].life == life) Input(index, answer);
                     });
}

// The workers of a slow device work all the time, and the others wait for them.
void SimNodes::Sample(size_t index, const SampleWorkersNow& order) {
  constexpr uint32_t kLooks = 100;
  constexpr double kWorks = 0.95;
  const bool waits = !world_.slow_nodes.empty() && !world_.slow_nodes.contains(index);
  const auto works = static_cast<uint32_t>(kLooks * (waits ? kWorks / kSlowFactor : kWorks));
  SampledWorkers answer{order.job, order.attempt, {}};
  for (const uint32_t rank : order.ranks) {
    auto& worker = *answer.found.add_workers();
    worker.set_rank(rank);
    worker.set_period_ns(order.period.count());
    auto* running = worker.add_seen();
    running->set_doing("running");
    running->set_times(works);
    auto* waiting = worker.add_seen();
    waiting->set_doing("futex");
    waiting->set_times(kLooks - works);
  }
  world_.queue.After(order.period, [this, index, life = world_.nodes[index].life, answer] {
    if (world_.nodes[index].life == life) Input(index, answer);
  });
}

}  // namespace longhaul::runtime::simulation
