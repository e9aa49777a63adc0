// The simulated training job: phases, steps and snapshots as its workers live them.
#include "runtime/simulation/training.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "runtime/simulation/nodes.h"
#include "runtime/simulation/replay/published.h"

namespace longhaul::runtime::simulation {

using Phase = proto::PhaseEntered::Phase;

template <typename Action>
void SimTraining::ForEachPlace(Action action) {
  // A copy: what a worker's report leads to may end the attempt.
  const auto places = world_.attempt.places;
  for (const auto& [rank, node] : places) {
    if (world_.nodes[node].workers.contains({JobId(world_.job_id), world_.attempt.attempt, rank}))
      action(rank, node);
  }
}

void SimTraining::EnterPhase(size_t index, const WorkerId& id, Phase phase) {
  const auto found = world_.nodes[index].workers.find(id);
  if (found == world_.nodes[index].workers.end()) return;
  SimWorker& worker = found->second;
  worker.phase = phase;
  // The first worker of a higher attempt begins it. Events of the earlier one that are still in the
  // queue compare the attempt and have no effect.
  if (phase == proto::PhaseEntered::START_UP && id.attempt > world_.attempt.attempt) {
    const uint64_t before = world_.attempt.attempt;
    world_.attempt = SimAttempt();
    world_.in_attempt.assign(world_.nodes.size(), false);
    world_.attempt.attempt = id.attempt;
    world_.attempt.world = worker.start->world();
    world_.attempt.began = world_.queue.now();
    world_.attempt.restored = world_.attempt.step = world_.attempt.last_snapshot =
        worker.start->restore().step();
    world_.attempt.interval = worker.start->snapshot_interval_steps();
    CHECK(before < id.attempt);
  }
  const bool present = id.attempt == world_.attempt.attempt;
  if (present && phase == proto::PhaseEntered::START_UP) {
    ++world_.attempt.alive;
    world_.attempt.places[id.rank] = index;
    world_.in_attempt[index] = true;
    if (worker.start->world() != world_.attempt.world) {
      world_.audit.Violate("ranks of attempt " + std::to_string(id.attempt) +
                           " are of different worlds");
    }
    // A mix of steps is the error that no rank can detect by itself, so the witness checks it here.
    if (worker.start->restore().step() != world_.attempt.restored) {
      world_.audit.Violate("ranks of attempt " + std::to_string(id.attempt) +
                           " restore different steps");
    }
  }
  // The start-up begins with the process, which the agent reports anyway: in aggregate it isn't
  // sent twice.
  const bool reported = world_.Aggregated() && phase == proto::PhaseEntered::START_UP;
  if (!reported) machines_.Input(index, WorkerPhase{id, phase, world_.queue.now()});
  if (phase == proto::PhaseEntered::START_UP) {
    world_.queue.After(world_.Around(world_.options.physics.start_up),
                       [this, index, id, life = world_.nodes[index].life] {
                         if (world_.nodes[index].life == life) Join(index, id);
                       });
  }
  if (!present || world_.attempt.attempt != id.attempt) return;
  if (IsBroken(world_.nodes[index], phase)) Jam(index, id);
  const auto slot = static_cast<size_t>(phase);
  if (++world_.attempt.in_phase[slot] == world_.attempt.world && !world_.attempt.broken)
    PhaseComplete(phase);
}

bool SimTraining::IsBroken(const SimNode& node, Phase phase) const {
  return node.broken_until > world_.queue.now() && node.broken_silently && node.hangs_in == phase;
}

void SimTraining::Jam(size_t index, const WorkerId& id) {
  const auto found = world_.nodes[index].workers.find(id);
  if (found == world_.nodes[index].workers.end() || found->second.hung) return;
  found->second.hung = true;
  if (id.attempt != world_.attempt.attempt) return;
  world_.attempt.jammed = true;
  if (!found->second.stopped) ++world_.attempt.stopped;
}

// The worker has initialized its device, unless that is broken.
void SimTraining::Join(size_t index, const WorkerId& id) {
  const SimNode& node = world_.nodes[index];
  const auto found = world_.nodes[index].workers.find(id);
  if (found == world_.nodes[index].workers.end() || found->second.hung) return;
  if (node.broken_until > world_.queue.now() && !node.broken_silently) {
    return machines_.Die(index, id, 1, 0, Duration(0));
  }
  EnterPhase(index, id, proto::PhaseEntered::RENDEZVOUS);
}

Duration SimTraining::Outage() const {
  Instant until = std::max(world_.queue.now(), world_.outage_until);
  for (size_t i = 0; i < world_.nodes.size(); ++i) {
    const SimNode& node = world_.nodes[i];
    if (node.silent && world_.in_attempt[i]) until = std::max(until, node.flows_again);
  }
  return until - world_.queue.now();
}

// All ranks of the attempt are there.
void SimTraining::PhaseComplete(Phase phase) {
  const uint64_t attempt = world_.attempt.attempt;
  if (phase == proto::PhaseEntered::RENDEZVOUS && !world_.attempt.jammed) {
    const Duration takes = Outage() + world_.Around(world_.options.physics.group_init);
    world_.queue.After(takes, [this, attempt] {
      if (world_.attempt.attempt != attempt || world_.attempt.broken) return;
      ForEachPlace([this](uint32_t rank, size_t node) {
        const WorkerId id{JobId(world_.job_id), world_.attempt.attempt, rank};
        EnterPhase(node, id, proto::PhaseEntered::RESTORE);
        RestoreState(node, id);
      });
    });
  }
  if (phase == proto::PhaseEntered::STEPPING) {
    world_.attempt.stepping = true;
    world_.audit.AttemptBegins(attempt, world_.attempt.restored);
    world_.record.RolledBack(world_.attempt.restored);
    BeginStretch();
  }
}

std::string SimTraining::WhyNotFromMemory(const SimNode& node, uint64_t step) {
  if (!world_.Holds(node, step)) {
    world_.audit.Violate(node.id.value() + " was ordered to restore step " + std::to_string(step) +
                         " from memory, which doesn't hold it");
    return "";
  }
  return node.damaged.contains(step) ? "checksum" : "";
}

// Of a gang that is not alike: the copy that is kept for this place.
std::string SimTraining::WhyNotFromPeer(const WorkerId& worker, const proto::Restore& restore) {
  for (const SimNode& node : world_.nodes) {
    if (node.core == nullptr) continue;
    const auto copy = node.copies.find({restore.step(), worker.rank});
    if (copy != node.copies.end() && !copy->second.damaged) return "";
    if (restore.has_source_rank() && world_.Holds(node, restore.step()) &&
        !node.damaged.contains(restore.step())) {
      return "";
    }
  }
  return "no copy";
}

// A number that ranks of the same state share.
uint64_t SimTraining::StateOf(uint32_t rank, uint32_t world) const {
  return world_.options.pipeline == 0 ? rank : rank / (world / world_.options.pipeline);
}

// Every piece that is offered must be there, but for what was lost after the decision; and what the
// worker wants of them must be good in one of them at least.
std::string SimTraining::WhyNotInPieces(const SimWorker& worker,
                                        std::vector<proto::Restore::Piece>& bad) {
  const proto::Restore& restore = worker.start->restore();
  const auto seal =
      std::find_if(world_.seals.begin(), world_.seals.end(), [&](const SimSeal& each) {
        return each.step == restore.step() && each.attempt == restore.saved_attempt();
      });
  if (seal == world_.seals.end()) {
    world_.audit.Violate("step " + std::to_string(restore.step()) + " of attempt " +
                         std::to_string(restore.saved_attempt()) + " is in nobody's memory");
    return "";
  }
  const auto world = static_cast<uint32_t>(seal->places.size());
  std::set<uint64_t> good;
  for (const auto& piece : restore.pieces()) {
    const size_t index = world_.index.at(piece.node());
    const SimNode& node = world_.nodes[index];
    const auto copy = node.copies.find({restore.step(), piece.rank()});
    const bool there =
        piece.copy() ? copy != node.copies.end()
                     : world_.Holds(node, restore.step()) && seal->places.at(piece.rank()) == index;
    if (!there && node.memory_since < world_.attempt.began) {
      world_.audit.Violate(piece.node() + " was reported to hold step " +
                           std::to_string(restore.step()) + " of rank " +
                           std::to_string(piece.rank()) + ", and doesn't");
    }
    const bool whole =
        there && (piece.copy() ? !copy->second.damaged : !node.damaged.contains(restore.step()));
    if (whole) good.insert(StateOf(piece.rank(), world));
    if (!whole) bad.push_back(piece);
  }
  std::set<uint64_t> wanted;
  if (world_.options.pipeline > 0) {
    wanted.insert(StateOf(worker.id.rank, worker.start->world()));
  } else {
    for (uint32_t rank = 0; rank < world; ++rank) wanted.insert(rank);
  }
  const bool all = std::includes(good.begin(), good.end(), wanted.begin(), wanted.end());
  return all ? "" : "no good piece is left of what it wants";
}

std::string SimTraining::WhyNotFromDisk(const proto::Restore& restore) {
  const auto saved = world_.disk.find({restore.step(), restore.saved_attempt()});
  if (saved == world_.disk.end()) {
    world_.audit.Violate("step " + std::to_string(restore.step()) +
                         " was to be restored from disk, which doesn't hold it");
    return "";
  }
  return saved->second ? "checksum" : "";
}

void SimTraining::RestoreState(size_t index, const WorkerId& id) {
  const auto found = world_.nodes[index].workers.find(id);
  if (found == world_.nodes[index].workers.end()) return;
  const proto::Restore& from = found->second.start->restore();
  const bool disk = from.tier() == proto::Restore::TIER_DISK;
  const Duration takes = from.step() == 0 ? std::chrono::milliseconds(100)
                         : disk           ? world_.options.physics.restore_disk
                                          : world_.options.physics.restore_memory;
  world_.queue.After(world_.Around(takes), [this, index, id, life = world_.nodes[index].life] {
    SimNode& node = world_.nodes[index];
    if (node.life != life || !node.workers.contains(id)) return;
    const SimWorker worker = node.workers.at(id);
    const proto::Restore& restore = worker.start->restore();
    std::string wrong;
    std::vector<proto::Restore::Piece> bad;
    if (restore.step() == 0) {
    } else if (restore.tier() == proto::Restore::TIER_MEMORY) {
      wrong = WhyNotFromMemory(node, restore.step());
    } else if (restore.tier() == proto::Restore::TIER_PEER) {
      wrong = WhyNotFromPeer(id, restore);
    } else if (restore.tier() == proto::Restore::TIER_PIECES) {
      wrong = WhyNotInPieces(worker, bad);
      ++world_.result.from_pieces;
    } else {
      wrong = WhyNotFromDisk(restore);
    }
    if (!wrong.empty() || !bad.empty()) {
      machines_.Input(index,
                      WorkerRestoreFailed{id, restore.step(), restore.tier(),
                                          wrong.empty() ? "checksum" : wrong, bad, wrong.empty()});
    }
    if (!wrong.empty()) return machines_.Die(index, id, 75, 0, std::chrono::milliseconds(5));
    // What is newer in memory belongs to a history that is given up.
    for (SimSeal& seal : world_.seals) {
      if (seal.step > restore.step()) seal = SimSeal();
    }
    machines_.Input(index, WorkerRestored{id, restore.step(), restore.tier()});
    EnterPhase(index, id, proto::PhaseEntered::STEPPING);
  });
}

// Steps up to the next report: one, or in aggregate as many as lie before the next snapshot.
void SimTraining::BeginStretch() {
  world_.attempt.waiting = false;
  const uint64_t attempt = world_.attempt.attempt;
  const uint64_t due =
      world_.attempt.last_snapshot + std::max<uint64_t>(world_.attempt.interval, 1);
  const uint64_t first = world_.attempt.step + 1;
  const bool in_stretches = world_.Aggregated() && !world_.options.every_step;
  uint64_t last = in_stretches ? std::max(due, first) : first;
  if (world_.options.total_steps > 0) last = std::min(last, world_.options.total_steps);
  // Restored after the last step: as the built-in trainer, the workers seal the state and end.
  if (last < first) {
    Seal();
    if (world_.attempt.attempt == attempt && !world_.attempt.broken) Finish();
    return;
  }
  // The last state is always kept.
  const bool snapshot =
      last >= due || (world_.options.total_steps > 0 && last == world_.options.total_steps);
  Duration takes = world_.options.physics.step * static_cast<int64_t>(last - first + 1);
  takes += DurationFromSeconds(ToSeconds(takes) * 0.01 * world_.random.Uniform());
  const bool slow = std::any_of(world_.slow_nodes.begin(), world_.slow_nodes.end(),
                                [this](size_t index) { return world_.in_attempt[index]; });
  if (slow) {
    const Duration excess = DurationFromSeconds(ToSeconds(takes) * (kSlowFactor - 1));
    world_.record.Slowed(last, excess);
    takes += excess;
  }
  takes += LinkDelay() * static_cast<int64_t>(last - first + 1);
  if (snapshot) takes += world_.options.physics.snapshot_block;
  world_.attempt.first = first;
  world_.attempt.last = last;
  world_.attempt.snapshot = snapshot;
  world_.attempt.ends = world_.queue.now() + takes;
  if (world_.attempt.stopped > 0) world_.attempt.stopped_at = world_.queue.now();
  world_.queue.After(takes, [this, attempt = world_.attempt.attempt, first, last, snapshot] {
    EndStretch(attempt, first, last, snapshot);
  });
}

// Rank 0 collects from all workers and answers them, and a delay applies to what a node receives.
Duration SimTraining::LinkDelay() const {
  const auto first = world_.attempt.places.find(0);
  if (first == world_.attempt.places.end()) return Duration(0);
  Duration answers{};
  bool several = false;
  for (const auto& [rank, node] : world_.attempt.places) {
    if (node == first->second) continue;
    several = true;
    answers = std::max(answers, world_.nodes[node].link_delay);
  }
  return several ? world_.nodes[first->second].link_delay + answers : Duration(0);
}

void SimTraining::StopStretch() {
  if (world_.attempt.stopped++ == 0) world_.attempt.stopped_at = world_.queue.now();
}

// The time for which a worker was stopped extends the step of all: none passes the next collective
// before it.
void SimTraining::ContinueStretch() {
  const Duration stopped = world_.queue.now() - world_.attempt.stopped_at;
  world_.attempt.ends += stopped;
  if (!std::exchange(world_.attempt.waiting, false)) return;
  world_.queue.After(world_.attempt.ends - world_.queue.now(),
                     [this, attempt = world_.attempt.attempt, first = world_.attempt.first,
                      last = world_.attempt.last, snapshot = world_.attempt.snapshot] {
                       EndStretch(attempt, first, last, snapshot);
                     });
}

// Seal and ReportSteps lead to commands and faults, which may end the attempt, so it is compared
// after each.
void SimTraining::EndStretch(uint64_t attempt, uint64_t first, uint64_t last, bool snapshot) {
  if (world_.attempt.attempt != attempt || world_.attempt.broken) return;
  if (world_.attempt.stopped > 0) {
    world_.attempt.waiting = true;
    return;
  }
  if (world_.queue.now() < world_.attempt.ends) {  // somebody was stopped for a while
    world_.queue.After(world_.attempt.ends - world_.queue.now(),
                       [=, this] { EndStretch(attempt, first, last, snapshot); });
    return;
  }
  if (snapshot && last >= world_.options.slot_wait_step && world_.options.slot_wait > Duration(0) &&
      !std::exchange(slot_waited_, true)) {
    return WaitForSlot(attempt, first, last, Duration(0));
  }
  world_.audit.Stepped(attempt, first, last);
  world_.record.Stepped(world_.queue.now(), attempt, last);
  world_.attempt.step = last;
  if (world_.on_step) world_.on_step(last);
  if (snapshot) {
    world_.attempt.last_snapshot = last;
    Seal();
  }
  if (world_.attempt.attempt != attempt || world_.attempt.broken) return;
  ReportSteps(first, last, snapshot);
  if (world_.attempt.attempt != attempt || world_.attempt.broken) return;
  if (world_.options.total_steps > 0 && last >= world_.options.total_steps) {
    return Finish();
  }
  BeginStretch();
}

void SimTraining::Finish() {
  ForEachPlace([this](uint32_t rank, size_t node) {
    machines_.Die(node, {JobId(world_.job_id), world_.attempt.attempt, rank}, 0, 0,
                  world_.Around(std::chrono::seconds(1)));
  });
}

// Rank 0 finds every slot of its arena in use, and says so for as long as it waits.
void SimTraining::WaitForSlot(uint64_t attempt, uint64_t first, uint64_t last, Duration waited) {
  constexpr Duration kReportPeriod = std::chrono::seconds(3);
  if (world_.attempt.attempt != attempt || world_.attempt.broken) return;
  if (waited >= world_.options.slot_wait) return EndStretch(attempt, first, last, true);
  if (waited > Duration(0)) {
    WorkerWaitsForSlot waits;
    waits.worker = {JobId(world_.job_id), attempt, 0};
    waits.step = last;
    waits.waited = waited;
    waits.holders = "step 1: process 1 writes it to disk";
    machines_.Input(world_.attempt.places.at(0), waits);
  }
  world_.queue.After(kReportPeriod,
                     [=, this] { WaitForSlot(attempt, first, last, waited + kReportPeriod); });
}

void SimTraining::Seal() {
  const uint64_t bytes = uint64_t{13} << 27;  // 1.6 GiB a rank
  const Duration blocked = world_.options.physics.snapshot_block;
  const size_t writer = world_.attempt.places.at(0);
  ++world_.sealed;
  for (size_t i = 0; i < world_.nodes.size(); ++i) {
    world_.nodes[i].damaged.erase(world_.attempt.step);
    if (!world_.in_attempt[i]) world_.nodes[i].last_missed_seal = world_.sealed;
  }
  const bool first_is_replaced =
      world_.seals[0].step == world_.attempt.step ||
      (world_.seals[0].step <= world_.seals[1].step && world_.seals[1].step != world_.attempt.step);
  SimSeal& older = first_is_replaced ? world_.seals[0] : world_.seals[1];
  // Memories hold the newest two snapshots, so the older of them is replaced, or one of this step.
  older = {world_.attempt.step, world_.sealed, world_.attempt.attempt, {}, world_.queue.now()};
  // Only a job that changes its size restores from pieces of known places, and only in a scenario
  // an agent takes over what an earlier one has left.
  if (world_.options.minimum_nodes > 0 || world_.options.sharded || world_.options.scenario)
    older.places = world_.attempt.places;
  if (world_.Aggregated()) {
    proto::Event event;
    proto::SnapshotSealed& sealed = *event.mutable_snapshot_sealed();
    sealed.set_job_id(world_.job_id);
    sealed.set_attempt(world_.attempt.attempt);
    sealed.set_step(world_.attempt.step);
    sealed.set_blocked_ns(blocked.count());
    sealed.set_bytes(bytes * world_.attempt.world);
    sealed.set_whole_job(true);
    machines_.Input(writer, ReadyReport{event});
  }
  if (world_.Aggregated()) {
    // Only the node that writes the checkpoints hears of its own.
    for (uint32_t rank = 0; rank < world_.options.processes_per_node; ++rank) {
      machines_.Input(writer, WorkerSealed{{JobId(world_.job_id), world_.attempt.attempt, rank},
                                           world_.attempt.step,
                                           blocked,
                                           bytes,
                                           world_.queue.now()});
    }
    return;
  }
  ForEachPlace([&](uint32_t rank, size_t node) {
    WorkerSealed sealed{{JobId(world_.job_id), world_.attempt.attempt, rank},
                        world_.attempt.step,
                        blocked,
                        bytes,
                        world_.queue.now()};
    if (world_.options.sharded) sealed.content = ContentOf(rank);
    machines_.Input(node, sealed);
  });
}

// Two replicas of each part, where the ranks are even: of them one is written.
proto::RankContent SimTraining::ContentOf(uint32_t rank) const {
  proto::RankContent content;
  content.set_plan(1 + rank % std::max(1u, (world_.attempt.world + 1) / 2));
  content.set_root(world_.attempt.step);
  content.set_bytes(1);
  return content;
}

// Whether the node's memory has the snapshot: it is one of the newest two, and the node had a part
// in it and has lived since.

std::optional<uint32_t> SimTraining::RankWithNan(uint64_t first, uint64_t last) {
  const uint64_t every = world_.options.nan_every;
  if (every == 0 || world_.Aggregated()) return std::nullopt;
  const uint64_t step = last / every * every;
  if (step < first || step <= nan_step_) return std::nullopt;
  nan_step_ = step;
  ++world_.result.nans;
  return static_cast<uint32_t>(step / every % world_.attempt.world);
}

void SimTraining::ReportSteps(uint64_t first, uint64_t last, bool snapshot) {
  const Duration blocked = snapshot ? world_.options.physics.snapshot_block : Duration(0);
  double loss = 2.0 + 9.0 / static_cast<double>(last);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const uint64_t bad = world_.options.nan_always;
  if (bad != 0 && first <= bad && bad <= last) loss = kNan;
  const auto nan_rank = RankWithNan(first, last);
  const uint64_t tokens = 1'000'000 * (last - first + 1);
  if (world_.Aggregated()) {
    proto::Event event;
    proto::StepReported& report = *event.mutable_step_reported();
    report.set_job_id(world_.job_id);
    report.set_attempt(world_.attempt.attempt);
    report.set_first_step(first);
    report.set_last_step(last);
    report.mutable_times()->set_snapshot_ns(blocked.count());
    report.set_has_loss(true);
    report.set_loss(loss);
    report.set_tokens(tokens);
    report.set_whole_job(true);
    return machines_.Input(world_.attempt.places.at(0), ReadyReport{event});
  }
  ForEachPlace([&](uint32_t rank, size_t node) {
    WorkerStep report;
    report.worker = {JobId(world_.job_id), world_.attempt.attempt, rank};
    report.step = last;
    report.at = world_.queue.now();
    report.snapshot = blocked;
    if (rank == 0) report.loss = loss;
    if (rank == nan_rank) report.loss = kNan;
    report.tokens = tokens;
    machines_.Input(node, report);
  });
}

// A process of the present attempt has ended: the others can't get past the next collective. Some
// notification and exit, others block; both are real, by backend.
void SimTraining::WorkerGoneFromAttempt(const SimWorker& worker, bool unseen) {
  if (world_.IsRival(worker.id) || worker.id.attempt != world_.attempt.attempt) return;
  --world_.attempt.alive;
  if ((worker.stopped || worker.hung) && world_.attempt.stopped > 0) --world_.attempt.stopped;
  const bool finished =
      world_.options.total_steps > 0 && world_.attempt.step >= world_.options.total_steps;
  if (world_.attempt.broken || finished) return;
  world_.attempt.broken = true;
  if (unseen || world_.random.Uniform() < 1 - world_.options.peers_notice) return;
  constexpr uint64_t kNoticing = 8;
  for (uint64_t i = 0; i < kNoticing && !world_.attempt.places.empty(); ++i) {
    auto place = world_.attempt.places.begin();
    std::advance(place, static_cast<long>(world_.random.Below(
                            std::min<uint64_t>(world_.attempt.places.size(), 64))));
    const WorkerId peer{JobId(world_.job_id), world_.attempt.attempt, place->first};
    if (peer.rank == worker.id.rank || world_.nodes[place->second].silent) continue;
    machines_.Die(place->second, peer, 1, 0, world_.Around(std::chrono::milliseconds(20)));
  }
}

}  // namespace longhaul::runtime::simulation
