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

void SnapshotCheck::Sealed(runtime::WorkerSealed said,
                           const std::shared_ptr<const io::SharedMemory>& arena) {
  Rank& rank = ranks_[{said.worker.job, said.worker.rank}];
  if (rank.arena != arena) {
    rank.good.reset();
    rank.arena = arena;
  }
  if (arena == nullptr) return tell_(std::move(said));
  ++rank.pending;
  queue_.Enqueue([this, said = std::move(said), arena]() -> WorkQueue::Answer {
    auto looked = std::make_shared<Looked>(Look(said, arena));
    return [this, looked] { Tell(*looked); };
  });
}

SnapshotCheck::Looked SnapshotCheck::Look(runtime::WorkerSealed said,
                                          std::shared_ptr<const io::SharedMemory> held) {
  Looked looked{std::move(said), false, "", std::move(held), std::nullopt};
  const auto arena = looked.arena->bytes();
  Result<checkpoint::SnapshotPin> pin = checkpoint::SnapshotPin::Take(
      arena, looked.said.step, looked.said.worker.attempt, checkpoint::PinUse::kCheck);
  looked.there = pin.status().code() != Code::kNotFound;
  if (!pin.ok()) return looked;
  const auto found = checkpoint::CheckAndMark(arena, *pin);
  if (!found.ok() || !found->has_value()) {
    looked.said.content = ContentOf(arena, pin->slot());
    looked.pin = *std::move(pin);
    return looked;
  }
  looked.said.non_finite = true;
  looked.bad = **found;
  return looked;
}

void SnapshotCheck::Tell(Looked& looked) {
  Rank& rank = ranks_[{looked.said.worker.job, looked.said.worker.rank}];
  if (rank.pending > 0) --rank.pending;
  if (looked.said.non_finite) {
    io::LogWarning("agent", "rank " + std::to_string(looked.said.worker.rank) + " of job " +
                                looked.said.worker.job.value() + ": the snapshot of step " +
                                std::to_string(looked.said.step) + " is not usable: tensor " +
                                Printable(looked.bad) + " has NaN or infinity");
  } else if (looked.pin && rank.arena == looked.arena) {
    rank.good = std::move(looked.pin);
  }
  if (looked.there) tell_(std::move(looked.said));
}

void SnapshotCheck::Gone(runtime::WorkerGone said) {
  const auto found = ranks_.find({said.worker.job, said.worker.rank});
  if (found == ranks_.end() || found->second.pending == 0) return tell_(std::move(said));
  queue_.Enqueue([this, said = std::move(said)]() -> WorkQueue::Answer {
    return [this, said] { tell_(said); };
  });
}

void SnapshotCheck::Drop(const JobId& job) {
  std::erase_if(ranks_, [&job](const auto& entry) { return entry.first.first == job; });
}

}  // namespace longhaul::service
