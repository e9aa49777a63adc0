// The simulated training job: phases, steps and snapshots as its workers live them.
#include <algorithm>
#include <set>
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
    epoch_.began = queue_.now();
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

std::string World::WhyNotFromMemory(const SimNode& node, uint64_t step) {
  if (!Holds(node, step)) {
    audit_.Violate(node.id.value() + " was told to restore step " + std::to_string(step) +
                   " from memory, which doesn't hold it");
    return "";
  }
  return node.damaged.contains(step) ? "checksum" : "";
}

// Of a gang that is not alike: the copy that is kept for this place.
std::string World::WhyNotFromPeer(const WorkerId& worker, const wire::Restore& restore) {
  for (const SimNode& node : nodes_) {
    if (node.core == nullptr) continue;
    const auto copy = node.copies.find({restore.step(), worker.rank});
    if (copy != node.copies.end() && !copy->second) return "";
    if (restore.has_source_rank() && Holds(node, restore.step()) &&
        !node.damaged.contains(restore.step())) {
      return "";
    }
  }
  return "no copy";
}

// A number that ranks of the same state share.
uint64_t World::StateOf(uint32_t rank, uint32_t world) const {
  return options_.pipeline == 0 ? rank : rank / (world / options_.pipeline);
}

// Every piece that is offered must be there, but for what was lost after the decision; and what the
// worker wants of them must be good in one of them at least.
std::string World::WhyNotInPieces(const SimWorker& worker, std::vector<wire::Restore::Piece>& bad) {
  const wire::Restore& restore = worker.start->restore();
  const auto seal = std::find_if(seals_.begin(), seals_.end(), [&](const SimSeal& each) {
    return each.step == restore.step() && each.epoch == restore.saved_epoch();
  });
  if (seal == seals_.end()) {
    audit_.Violate("step " + std::to_string(restore.step()) + " of epoch " +
                   std::to_string(restore.saved_epoch()) + " is in nobody's memory");
    return "";
  }
  const auto world = static_cast<uint32_t>(seal->places.size());
  std::set<uint64_t> good;
  for (const auto& piece : restore.pieces()) {
    const size_t index = index_.at(piece.node());
    const SimNode& node = nodes_[index];
    const auto copy = node.copies.find({restore.step(), piece.rank()});
    const bool there = piece.copy()
                           ? copy != node.copies.end()
                           : Holds(node, restore.step()) && seal->places.at(piece.rank()) == index;
    if (!there && node.memory_since < epoch_.began) {
      audit_.Violate(piece.node() + " was said to hold step " + std::to_string(restore.step()) +
                     " of rank " + std::to_string(piece.rank()) + ", and doesn't");
    }
    const bool whole =
        there && (piece.copy() ? !copy->second : !node.damaged.contains(restore.step()));
    if (whole) good.insert(StateOf(piece.rank(), world));
    if (!whole) bad.push_back(piece);
  }
  std::set<uint64_t> wanted;
  if (options_.pipeline > 0) {
    wanted.insert(StateOf(worker.id.rank, worker.start->world()));
  } else {
    for (uint32_t rank = 0; rank < world; ++rank) wanted.insert(rank);
  }
  const bool all = std::includes(good.begin(), good.end(), wanted.begin(), wanted.end());
  return all ? "" : "no good piece is left of what it wants";
}

std::string World::WhyNotFromDisk(const wire::Restore& restore) {
  const auto saved = disk_.find(restore.step());
  if (saved == disk_.end() || saved->second.first != restore.saved_epoch()) {
    audit_.Violate("step " + std::to_string(restore.step()) +
                   " was to be restored from disk, which doesn't hold it");
    return "";
  }
  return saved->second.second ? "checksum" : "";
}

void World::RestoreState(size_t index, const WorkerId& id) {
  const auto found = nodes_[index].workers.find(id);
  if (found == nodes_[index].workers.end()) return;
  const wire::Restore& from = found->second.start->restore();
  const bool disk = from.tier() == wire::Restore::TIER_DISK;
  const Duration takes = from.step() == 0 ? std::chrono::milliseconds(100)
                         : disk           ? options_.physics.restore_disk
                                          : options_.physics.restore_memory;
  queue_.After(Around(takes), [this, index, id, life = nodes_[index].life] {
    SimNode& node = nodes_[index];
    if (node.life != life || !node.workers.contains(id)) return;
    const SimWorker worker = node.workers.at(id);
    const wire::Restore& restore = worker.start->restore();
    std::string wrong;
    std::vector<wire::Restore::Piece> bad;
    if (restore.step() == 0) {
    } else if (restore.tier() == wire::Restore::TIER_MEMORY) {
      wrong = WhyNotFromMemory(node, restore.step());
    } else if (restore.tier() == wire::Restore::TIER_PEER) {
      wrong = WhyNotFromPeer(id, restore);
    } else if (restore.tier() == wire::Restore::TIER_PIECES) {
      wrong = WhyNotInPieces(worker, bad);
      ++result_.from_pieces;
    } else {
      wrong = WhyNotFromDisk(restore);
    }
    if (!wrong.empty() || !bad.empty()) {
      Input(index, WorkerRestoreFailed{id, restore.step(), restore.tier(),
                                       wrong.empty() ? "checksum" : wrong, bad, wrong.empty()});
    }
    if (!wrong.empty()) return Die(index, id, 75, 0, std::chrono::milliseconds(5));
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
  if (snapshot && last >= options_.slot_wait_step && options_.slot_wait > Duration(0) &&
      !std::exchange(slot_waited_, true)) {
    return WaitForSlot(epoch, first, last, Duration(0));
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

// Rank 0 finds every slot of its arena in use, and says so for as long as it waits.
void World::WaitForSlot(uint64_t epoch, uint64_t first, uint64_t last, Duration waited) {
  constexpr Duration kTold = std::chrono::seconds(3);
  if (epoch_.epoch != epoch || epoch_.broken) return;
  if (waited >= options_.slot_wait) return EndStretch(epoch, first, last, true);
  if (waited > Duration(0)) {
    WorkerWaitsForSlot waits;
    waits.worker = {JobId(job_id_), epoch, 0};
    waits.step = last;
    waits.waited = waited;
    waits.holders = "step 1: process 1 writes it to disk";
    Input(epoch_.places.at(0), waits);
  }
  queue_.After(kTold, [=, this] { WaitForSlot(epoch, first, last, waited + kTold); });
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
  older = {epoch_.step, sealed_, epoch_.epoch, epoch_.places};
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
    WorkerSealed said{
        {JobId(job_id_), epoch_.epoch, rank}, epoch_.step, blocked, bytes, queue_.now()};
    if (options_.sharded) said.content = ContentOf(rank);
    Input(node, said);
  });
}

// Two replicas of each part, where the ranks are even: of them one is written.
wire::RankContent World::ContentOf(uint32_t rank) const {
  wire::RankContent content;
  content.set_plan(1 + rank % std::max(1u, (epoch_.world + 1) / 2));
  content.set_root(epoch_.step);
  content.set_bytes(1);
  return content;
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
