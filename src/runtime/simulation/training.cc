// The simulated training job: phases, steps and snapshots as its workers live them.
#include <algorithm>
#include <utility>

#include "runtime/simulation/world.h"

namespace longhaul::runtime::simulation {

using Phase = wire::PhaseEntered::Phase;

template <typename Action>
void World::ForEachPlace(Action action) {
  // A copy: what a worker's report leads to may end the epoch.
  const auto places = epoch_.places;
  for (const auto& [rank, node] : places) {
    if (nodes_[node].workers.contains({JobId(job_id_), epoch_.epoch, rank})) action(rank, node);
  }
}

void World::EnterPhase(size_t index, const WorkerId& id, Phase phase) {
  const auto found = nodes_[index].workers.find(id);
  if (found == nodes_[index].workers.end()) return;
  SimWorker& worker = found->second;
  worker.phase = phase;
  if (phase == wire::PhaseEntered::START_UP && id.epoch > epoch_.epoch) {
    const uint64_t before = epoch_.epoch;
    epoch_ = SimEpoch();
    in_epoch_.assign(nodes_.size(), false);
    epoch_.epoch = id.epoch;
    epoch_.world = worker.start->world();
    epoch_.restored = epoch_.step = epoch_.last_snapshot = worker.start->restore().step();
    epoch_.interval = worker.start->snapshot_interval_steps();
    CHECK(before < id.epoch);
  }
  const bool present = id.epoch == epoch_.epoch;
  if (present && phase == wire::PhaseEntered::START_UP) {
    ++epoch_.alive;
    epoch_.places[id.rank] = index;
    in_epoch_[index] = true;
    if (worker.start->world() != epoch_.world) {
      audit_.Violate("ranks of epoch " + std::to_string(id.epoch) + " are of different worlds");
    }
    if (worker.start->restore().step() != epoch_.restored) {
      audit_.Violate("ranks of epoch " + std::to_string(id.epoch) + " restore different steps");
    }
  }
  // The start-up begins with the process, which the agent tells anyway: in aggregate it isn't told
  // twice.
  const bool told = Aggregated() && phase == wire::PhaseEntered::START_UP;
  if (!told) Input(index, WorkerPhase{id, phase, queue_.now()});
  if (phase == wire::PhaseEntered::START_UP) {
    queue_.After(Around(options_.physics.start_up), [this, index, id, life = nodes_[index].life] {
      if (nodes_[index].life == life) EnterPhase(index, id, wire::PhaseEntered::RENDEZVOUS);
    });
  }
  if (!present || epoch_.epoch != id.epoch) return;
  const auto slot = static_cast<size_t>(phase);
  if (++epoch_.in_phase[slot] == epoch_.world && !epoch_.broken) PhaseComplete(phase);
}

// All ranks of the epoch are there.
void World::PhaseComplete(Phase phase) {
  const uint64_t epoch = epoch_.epoch;
  if (phase == wire::PhaseEntered::RENDEZVOUS) {
    queue_.After(Around(options_.physics.group_init), [this, epoch] {
      if (epoch_.epoch != epoch || epoch_.broken) return;
      ForEachPlace([this](uint32_t rank, size_t node) {
        const WorkerId id{JobId(job_id_), epoch_.epoch, rank};
        EnterPhase(node, id, wire::PhaseEntered::RESTORE);
        RestoreState(node, id);
      });
    });
  }
  if (phase == wire::PhaseEntered::STEPPING) {
    epoch_.stepping = true;
    audit_.EpochBegins(epoch, epoch_.restored);
    BeginStretch();
  }
}

void World::RestoreState(size_t index, const WorkerId& id) {
  const auto found = nodes_[index].workers.find(id);
  if (found == nodes_[index].workers.end()) return;
  const wire::Restore restore = found->second.start->restore();
  const bool memory = restore.tier() == wire::Restore::TIER_MEMORY;
  const Duration takes = restore.step() == 0 ? std::chrono::milliseconds(100)
                         : memory            ? options_.physics.restore_memory
                                             : options_.physics.restore_disk;
  queue_.After(Around(takes), [this, index, id, restore, memory, life = nodes_[index].life] {
    SimNode& node = nodes_[index];
    if (node.life != life || !node.workers.contains(id)) return;
    std::string wrong;
    if (restore.step() > 0 && memory) {
      if (!Holds(node, restore.step())) {
        audit_.Violate(node.id.value() + " was told to restore step " +
                       std::to_string(restore.step()) + " from memory, which doesn't hold it");
      } else if (node.damaged.contains(restore.step())) {
        wrong = "checksum";
      }
    } else if (restore.step() > 0) {
      const auto saved = disk_.find(restore.step());
      if (saved == disk_.end() || saved->second.first != restore.saved_epoch()) {
        audit_.Violate(node.id.value() + " was told to restore step " +
                       std::to_string(restore.step()) + " from disk, which doesn't hold it");
      } else if (saved->second.second) {
        wrong = "checksum";
      }
    }
    if (!wrong.empty()) {
      Input(index, WorkerRestoreFailed{id, restore.step(), restore.tier(), wrong});
      return Die(index, id, 75, 0, std::chrono::milliseconds(5));
    }
    // What is newer in memory belongs to a history that is given up.
    for (SimSeal& seal : seals_) {
      if (seal.step > restore.step()) seal = SimSeal();
    }
    Input(index, WorkerRestored{id, restore.step(), restore.tier()});
    EnterPhase(index, id, wire::PhaseEntered::STEPPING);
  });
}

// Steps up to the next report: one, or in aggregate as many as lie before the next snapshot.
void World::BeginStretch() {
  epoch_.waiting = false;
  const uint64_t due = epoch_.last_snapshot + std::max<uint64_t>(epoch_.interval, 1);
  const uint64_t first = epoch_.step + 1;
  uint64_t last = Aggregated() ? std::max(due, first) : first;
  if (options_.total_steps > 0) last = std::min(last, options_.total_steps);
  if (last < first) return;
  // The last state is always kept.
  const bool snapshot = last >= due || (options_.total_steps > 0 && last == options_.total_steps);
  Duration takes = options_.physics.step * static_cast<int64_t>(last - first + 1);
  takes += DurationFromSeconds(ToSeconds(takes) * 0.01 * random_.Uniform());
  if (snapshot) takes += options_.physics.snapshot_block;
  queue_.After(takes, [this, epoch = epoch_.epoch, first, last, snapshot] {
    EndStretch(epoch, first, last, snapshot);
  });
}

void World::EndStretch(uint64_t epoch, uint64_t first, uint64_t last, bool snapshot) {
  if (epoch_.epoch != epoch || epoch_.broken) return;
  if (epoch_.stopped > 0) {
    epoch_.waiting = true;
    return;
  }
  audit_.Stepped(epoch, first, last);
  epoch_.step = last;
  if (snapshot) {
    epoch_.last_snapshot = last;
    Seal();
  }
  if (epoch_.epoch != epoch || epoch_.broken) return;
  ReportSteps(first, last, snapshot);
  if (epoch_.epoch != epoch || epoch_.broken) return;
  if (options_.total_steps > 0 && last >= options_.total_steps) {
    ForEachPlace([this](uint32_t rank, size_t node) {
      Die(node, {JobId(job_id_), epoch_.epoch, rank}, 0, 0, Around(std::chrono::seconds(1)));
    });
    return;
  }
  BeginStretch();
}

void World::Seal() {
  const uint64_t bytes = uint64_t{13} << 27;  // 1.6 GiB a rank
  const Duration blocked = options_.physics.snapshot_block;
  const size_t writer = epoch_.places.at(0);
  ++sealed_;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].damaged.erase(epoch_.step);
    if (!in_epoch_[i]) nodes_[i].last_missed_seal = sealed_;
  }
  SimSeal& older = seals_[0].step <= seals_[1].step ? seals_[0] : seals_[1];
  older = {epoch_.step, sealed_};
  if (Aggregated()) {
    wire::Event event;
    wire::SnapshotSealed& sealed = *event.mutable_snapshot_sealed();
    sealed.set_job_id(job_id_);
    sealed.set_epoch(epoch_.epoch);
    sealed.set_step(epoch_.step);
    sealed.set_blocked_ns(blocked.count());
    sealed.set_bytes(bytes * epoch_.world);
    sealed.set_whole_job(true);
    Input(writer, JobReport{event});
  }
  if (Aggregated()) {
    // Only the node that writes the checkpoints hears of its own.
    for (uint32_t rank = 0; rank < options_.processes_per_node; ++rank) {
      Input(writer,
            WorkerSealed{
                {JobId(job_id_), epoch_.epoch, rank}, epoch_.step, blocked, bytes, queue_.now()});
    }
    return;
  }
  ForEachPlace([&](uint32_t rank, size_t node) {
    Input(node,
          WorkerSealed{
              {JobId(job_id_), epoch_.epoch, rank}, epoch_.step, blocked, bytes, queue_.now()});
  });
}

// Whether the node's memory has the snapshot: it is one of the newest two, and the node had a part
// in it and has lived since.
bool World::Holds(const SimNode& node, uint64_t step) const {
  return std::any_of(seals_.begin(), seals_.end(), [&](const SimSeal& seal) {
    return seal.step == step && seal.number > node.last_missed_seal;
  });
}

void World::ReportSteps(uint64_t first, uint64_t last, bool snapshot) {
  const Duration blocked = snapshot ? options_.physics.snapshot_block : Duration(0);
  const double loss = 2.0 + 9.0 / static_cast<double>(last);
  const uint64_t tokens = 1'000'000 * (last - first + 1);
  if (Aggregated()) {
    wire::Event event;
    wire::StepReported& report = *event.mutable_step_reported();
    report.set_job_id(job_id_);
    report.set_epoch(epoch_.epoch);
    report.set_first_step(first);
    report.set_last_step(last);
    report.mutable_times()->set_snapshot_ns(blocked.count());
    report.set_has_loss(true);
    report.set_loss(loss);
    report.set_tokens(tokens);
    report.set_whole_job(true);
    return Input(epoch_.places.at(0), JobReport{event});
  }
  ForEachPlace([&](uint32_t rank, size_t node) {
    WorkerStep report;
    report.worker = {JobId(job_id_), epoch_.epoch, rank};
    report.step = last;
    report.at = queue_.now();
    report.snapshot = blocked;
    if (rank == 0) report.loss = loss;
    report.tokens = tokens;
    Input(node, report);
  });
}

// A process of the present epoch has ended: the others can't get past the next collective. Some
// notice and exit, others block; both are real, by backend.
void World::WorkerGoneFromEpoch(const SimWorker& worker) {
  if (IsRival(worker.id) || worker.id.epoch != epoch_.epoch) return;
  --epoch_.alive;
  if ((worker.stopped || worker.hung) && epoch_.stopped > 0) --epoch_.stopped;
  const bool finished = options_.total_steps > 0 && epoch_.step >= options_.total_steps;
  if (epoch_.broken || finished) return;
  epoch_.broken = true;
  if (random_.Uniform() < 0.5) return;
  constexpr uint64_t kNoticing = 8;
  for (uint64_t i = 0; i < kNoticing && !epoch_.places.empty(); ++i) {
    auto place = epoch_.places.begin();
    std::advance(place,
                 static_cast<long>(random_.Below(std::min<uint64_t>(epoch_.places.size(), 64))));
    const WorkerId peer{JobId(job_id_), epoch_.epoch, place->first};
    if (peer.rank == worker.id.rank) continue;
    Die(place->second, peer, 1, 0, Around(std::chrono::milliseconds(20)));
  }
}

}  // namespace longhaul::runtime::simulation
