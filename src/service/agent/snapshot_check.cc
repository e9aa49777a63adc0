#include "service/agent/snapshot_check.h"

#include "base/text.h"
#include "checkpoint/non_finite.h"
#include "io/log/log.h"

namespace longhaul::service {
namespace {

// What a sealed snapshot holds, by the hashes it was sealed with.
std::optional<proto::RankContent> ContentOf(std::span<const std::byte> arena, size_t slot) {
  const auto sealed = checkpoint::ArenaReader(arena).InSlot(slot);
  if (!sealed.ok()) return std::nullopt;
  proto::RankContent content;
  content.set_plan(sealed->snapshot.plan_hash);
  content.set_root(sealed->snapshot.root);
  content.set_bytes(sealed->snapshot.bytes);
  return content;
}

}  // namespace

void SnapshotCheck::Sealed(runtime::WorkerSealed sealed,
                           const std::shared_ptr<const io::SharedMemory>& arena) {
  Rank& rank = ranks_[{sealed.worker.job, sealed.worker.rank}];
  if (rank.arena != arena) {
    rank.good.reset();
    rank.arena = arena;
  }
  if (arena == nullptr) return report_(std::move(sealed));
  ++rank.pending;
  queue_.Enqueue([this, sealed = std::move(sealed), arena]() -> WorkQueue::Answer {
    auto looked = std::make_shared<Looked>(Look(sealed, arena));
    return [this, looked] { Finish(*looked); };
  });
}

SnapshotCheck::Looked SnapshotCheck::Look(runtime::WorkerSealed sealed,
                                          std::shared_ptr<const io::SharedMemory> held) {
  Looked looked{std::move(sealed), false, "", std::move(held), std::nullopt};
  const auto arena = looked.arena->bytes();
  Result<checkpoint::SnapshotPin> pin = checkpoint::SnapshotPin::Take(
      arena, looked.sealed.step, looked.sealed.worker.attempt, checkpoint::PinUse::kCheck);
  looked.there = pin.status().code() != Code::kNotFound;
  if (!pin.ok()) return looked;
  const auto found = checkpoint::CheckAndMark(arena, *pin);
  if (!found.ok() || !found->has_value()) {
    looked.sealed.content = ContentOf(arena, pin->slot());
    looked.pin = *std::move(pin);
    return looked;
  }
  looked.sealed.non_finite = true;
  looked.bad = **found;
  return looked;
}

void SnapshotCheck::Finish(Looked& looked) {
  Rank& rank = ranks_[{looked.sealed.worker.job, looked.sealed.worker.rank}];
  if (rank.pending > 0) --rank.pending;
  if (looked.sealed.non_finite) {
    io::LogWarning("agent", "rank " + std::to_string(looked.sealed.worker.rank) + " of job " +
                                looked.sealed.worker.job.value() + ": the snapshot of step " +
                                std::to_string(looked.sealed.step) + " is not usable: tensor " +
                                Printable(looked.bad) + " has NaN or infinity");
  } else if (looked.pin && rank.arena == looked.arena) {
    // After a change of size another rank seals into the arena that an earlier one left.
    for (auto& [place, other] : ranks_) {
      if (other.arena == rank.arena) other.good.reset();
    }
    rank.good = std::move(looked.pin);
  }
  if (looked.there) report_(std::move(looked.sealed));
}

void SnapshotCheck::Gone(runtime::WorkerGone sealed) {
  const auto found = ranks_.find({sealed.worker.job, sealed.worker.rank});
  if (found == ranks_.end() || found->second.pending == 0) return report_(std::move(sealed));
  queue_.Enqueue([this, sealed = std::move(sealed)]() -> WorkQueue::Answer {
    return [this, sealed] { report_(sealed); };
  });
}

void SnapshotCheck::Drop(const JobId& job) {
  std::erase_if(ranks_, [&job](const auto& entry) { return entry.first.first == job; });
}

}  // namespace longhaul::service
