#include "service/agent/disk_worker.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "base/units.h"
#include "checkpoint/arena.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retention/retention.h"
#include "io/clock.h"
#include "io/log/log.h"
#include "io/memory/shared_memory.h"

namespace longhaul::service {
namespace {

using checkpoint::CheckpointDirectory;

// Of a node, on their way to disk. More gain nothing: each has several writes under way.
constexpr size_t kRanksAtOnce = 4;

// One rank's sealed snapshot as a file.
Result<checkpoint::PieceFile> PersistOne(const runtime::PersistPieces& work, uint32_t rank,
                                         const std::shared_ptr<const io::SharedMemory>& arena,
                                         CheckpointDirectory& directory) {
  if (arena == nullptr) return NotFound("rank " + std::to_string(rank) + " has no arena");
  // The worker doesn't take the slot while it is pinned, and waits rather than skip a save.
  Result<checkpoint::SnapshotPin> pin = checkpoint::SnapshotPin::Take(
      arena->bytes(), work.step, work.attempt, checkpoint::PinUse::kDisk);
  if (pin.status().code() == Code::kNotFound) {
    return Aborted("the snapshot of step " + std::to_string(work.step) +
                   " has made room for a newer one");
  }
  RETURN_IF_ERROR(pin.status());
  ASSIGN_OR_RETURN(const checkpoint::ArenaReader::Hashed snapshot,
                   checkpoint::ArenaReader(arena->bytes()).InSlot(pin->slot()));
  return directory.WriteHashedPiece({work.step, work.attempt, rank, work.start->world()},
                                    snapshot.plan, snapshot.chunks, snapshot.tensors);
}

runtime::AgentInput PersistAll(const runtime::PersistPieces& work,
                               const std::vector<std::shared_ptr<const io::SharedMemory>>& arenas,
                               CheckpointDirectory directory) {
  const Instant begin = io::MonotonicNow();
  runtime::PiecesPersisted answer{work.job, work.attempt, work.step, {}, Duration(0), "", false};
  // Several ranks at once: one hashes while the disk is at work for another.
  std::vector<std::optional<Result<checkpoint::PieceFile>>> pieces(work.ranks.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto persist_some = [&] {
    CheckpointDirectory own = directory;
    for (size_t i = 0; !failed && (i = next.fetch_add(1)) < pieces.size();) {
      pieces[i] = PersistOne(work, work.ranks[i], arenas[i], own);
      if (!pieces[i]->ok()) failed = true;
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(pieces.size(), kRanksAtOnce); ++i) {
    others.emplace_back(persist_some);
  }
  persist_some();
  for (std::thread& other : others) other.join();
  for (const auto& piece : pieces) {
    if (!piece.has_value() || piece->ok()) continue;
    answer.error = piece->status().message();
    answer.overtaken = piece->status().code() == Code::kAborted;
    return answer;
  }
  for (const auto& piece : pieces) {
    const checkpoint::PieceFile& written = **piece;
    proto::SnapshotPersisted::File& file = answer.files.emplace_back();
    file.set_name(written.name);
    file.set_bytes(written.bytes);
    file.set_hash(written.hash);
    file.set_rank(written.rank);
  }
  answer.took = io::MonotonicNow() - begin;
  return answer;
}

checkpoint::Manifest ManifestOf(const runtime::WriteManifest& work) {
  const proto::Job& job = work.start->job();
  checkpoint::Manifest manifest;
  manifest.job = job.name();
  manifest.step = work.commit.step();
  manifest.attempt = work.commit.attempt();
  manifest.world = work.commit.world();
  manifest.replicated = job.snapshot().replicated();
  if (work.commit.has_validation_loss()) {
    manifest.validation_loss = work.commit.validation_loss();
  }
  manifest.data.samples_consumed = work.commit.step() * job.data().global_batch();
  manifest.data.samples = job.data().samples();
  manifest.data.global_batch = job.data().global_batch();
  manifest.data.seed = job.data().seed();
  manifest.data.fingerprint = job.data().fingerprint();
  for (const proto::SnapshotPersisted::File& file : work.commit.files()) {
    manifest.files.push_back({file.name(), file.rank(), file.bytes(), file.hash()});
    manifest.files.back().also.assign(file.also().begin(), file.also().end());
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return manifest;
}

runtime::AgentInput CommitAll(const runtime::WriteManifest& work, CheckpointDirectory directory) {
  const JobId job(work.commit.job_id());
  runtime::ManifestWritten answer{job, work.commit.attempt(), work.commit.step(), ""};
  if (const Status status = directory.Commit(ManifestOf(work)); !status.ok()) {
    answer.error = status.message();
    return answer;
  }
  // What can't be removed now is removed after the next commit.
  const proto::SnapshotPolicy& policy = work.start->job().snapshot();
  const Result<checkpoint::Collection> collected = checkpoint::Collect(
      directory,
      {.last = std::max<uint64_t>(1, policy.keep()),
       .every = policy.keep_every(),
       .best = policy.keep_best(),
       .steps = work.protected_steps,
       .begin = checkpoint::AttemptBegin{work.start->attempt(), work.start->restore().step()}},
      work.current_attempt);
  if (!collected.ok()) {
    io::LogWarning("agent", "cannot delete old checkpoints: " + ToString(collected.status()));
    return answer;
  }
  for (const std::string& each : collected->notes) io::LogInfo("agent", each);
  return answer;
}

}  // namespace

DiskWorker::DiskWorker(io::EventLoop& loop, io::FileSystem& files,
                       std::function<void(runtime::AgentInput)> answer)
    : files_(files), watch_(files), answer_(std::move(answer)), queue_(loop) {}

void DiskWorker::Persist(runtime::PersistPieces work,
                         std::vector<std::shared_ptr<const io::SharedMemory>> arenas,
                         std::string directory) {
  CHECK(arenas.size() == work.ranks.size());
  Enqueue(
      [this, work = std::move(work), arenas = std::move(arenas), directory = std::move(directory)] {
        return PersistAll(work, arenas, CheckpointDirectory(files_, directory));
      });
}

void DiskWorker::Commit(runtime::WriteManifest work, std::string directory) {
  queue_.Enqueue(
      [this, work = std::move(work), directory = std::move(directory)]() -> WorkQueue::Answer {
        // Before the commit makes the folder again and forgets what was there.
        const runtime::CheckpointsMissing missing = Missing(JobId(work.commit.job_id()), directory);
        const runtime::AgentInput answer = CommitAll(work, CheckpointDirectory(files_, directory));
        watch_.NoteCommitted(directory);
        return [this, missing, answer] {
          if (!missing.lost.empty()) answer_(missing);
          answer_(answer);
        };
      });
}

void DiskWorker::Check(const JobId& job, const std::string& directory) {
  if (!checking_.insert(job).second) return;
  queue_.Enqueue([this, job, directory]() -> WorkQueue::Answer {
    return [this, missing = Missing(job, directory)] {
      checking_.erase(missing.job);
      if (!missing.lost.empty()) answer_(missing);
    };
  });
}

runtime::CheckpointsMissing DiskWorker::Missing(const JobId& job, const std::string& directory) {
  runtime::CheckpointsMissing missing{job, {}, directory};
  for (const auto& [step, attempt] : watch_.TakeMissing(directory)) {
    missing.lost.push_back({step, attempt});
  }
  return missing;
}

void DiskWorker::Enqueue(std::function<runtime::AgentInput()> work) {
  queue_.Enqueue([this, work = std::move(work)]() -> WorkQueue::Answer {
    return [this, answer = work()] { answer_(answer); };
  });
}

}  // namespace longhaul::service
