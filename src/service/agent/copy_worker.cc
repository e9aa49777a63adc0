#include "service/agent/copy_worker.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "checkpoint/directory.h"
#include "checkpoint/retention/retention.h"
#include "io/clock.h"
#include "io/files/direct_file.h"
#include "io/log/log.h"
#include "objects/files.h"
#include "service/agent/peer/peer_connection.h"

namespace longhaul::service {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::Manifest;
using Stop = std::shared_ptr<std::atomic<bool>>;

std::string LocalPlace(const std::string& run_directory) { return run_directory + "/checkpoints"; }

// Waits for its turn in small steps, so that an end is soon seen. What is packed on its way counts
// as what was sent of it since the last turn.
CheckpointDirectory::Pace PaceOf(uint64_t bytes_per_second, const Stop& stop,
                                 const objects::Place* packing = nullptr) {
  static constexpr Duration kStep = std::chrono::milliseconds(20);
  return [budget = std::make_shared<Budget>(bytes_per_second), stop, packing,
          sent = uint64_t{0}](uint64_t bytes) mutable {
    if (packing != nullptr) {
      const uint64_t so_far = packing->packed_bytes();
      bytes = so_far - std::exchange(sent, so_far);
    }
    const Instant until = io::MonotonicNow() + budget->Use(bytes, io::MonotonicNow());
    while (!*stop && io::MonotonicNow() < until) {
      std::this_thread::sleep_for(std::min(kStep, until - io::MonotonicNow()));
    }
    return !*stop;
  };
}

Status CopyAll(CheckpointDirectory& from, const Manifest& manifest, CheckpointDirectory& to,
               const CheckpointDirectory::Pace& pace) {
  for (const checkpoint::PieceFile& file : manifest.files) {
    RETURN_IF_ERROR(to.TakeShard(from, manifest, file, pace));
  }
  return to.Commit(manifest);
}

uint64_t BytesOf(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const checkpoint::PieceFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

// What was copied a moment ago is good: it was verified, and the store has checked what it took.
void PruneCopies(CheckpointDirectory& copies, const runtime::CopyOut& work) {
  const proto::SnapshotPolicy& policy = work.start->job().snapshot();
  const auto collected = checkpoint::Collect(copies,
                                             {std::max<uint64_t>(1, policy.keep()),
                                              policy.keep_every(),
                                              policy.keep_best(),
                                              {},
                                              work.step},
                                             work.start->attempt());
  if (!collected.ok()) {
    io::LogWarning("agent", "cannot delete old copies: " + ToString(collected.status()));
    return;
  }
  for (const std::string& each : collected->notes) io::LogInfo("agent", each);
}

Result<uint64_t> CopyOutNow(const runtime::CopyOut& work, const std::string& run_directory,
                            const Stop& stop) {
  const proto::SnapshotPolicy& policy = work.start->job().snapshot();
  const bool packed = policy.copy_compressed();
  ASSIGN_OR_RETURN(
      const objects::Place place,
      objects::Place::Open(CopyPlace(policy.copy_to(), run_directory),
                           packed ? objects::Packing::kZstd : objects::Packing::kReadOnly));
  CheckpointDirectory from(io::DirectFileSystem(), LocalPlace(run_directory));
  CheckpointDirectory to(place.files(), place.path());
  ASSIGN_OR_RETURN(const Manifest manifest, from.Read(work.step, work.attempt));
  RETURN_IF_ERROR(CopyAll(from, manifest, to,
                          PaceOf(policy.copy_bytes_per_second(), stop, packed ? &place : nullptr)));
  PruneCopies(to, work);
  return BytesOf(manifest);
}

Status FetchNow(const runtime::FetchBack& work, const std::string& run_directory,
                const Stop& stop) {
  const uint64_t step = work.restore.step();
  const uint64_t attempt = work.restore.saved_attempt();
  ASSIGN_OR_RETURN(
      const objects::Place place,
      objects::Place::Open(CopyPlace(work.start->job().snapshot().copy_to(), run_directory)));
  CheckpointDirectory from(place.files(), place.path());
  CheckpointDirectory to(io::DirectFileSystem(), LocalPlace(run_directory));
  ASSIGN_OR_RETURN(const Manifest manifest, from.Read(step, attempt));
  // What is there under its name is of no use, or nobody would ask; but look before removing it.
  if (const Result<Manifest> there = to.Read(step, attempt); there.ok()) {
    if (*there == manifest && to.Verify(*there).ok()) return {};
    RETURN_IF_ERROR(to.Remove(step, attempt));
  }
  return CopyAll(from, manifest, to, PaceOf(0, stop));
}

}  // namespace

std::string CopyPlace(const std::string& copy_to, const std::string& run_directory) {
  std::string to = copy_to;
  while (to.ends_with("/")) to.pop_back();
  std::string run = run_directory;
  while (run.ends_with("/")) run.pop_back();
  return to + "/" + run.substr(run.rfind('/') + 1);
}

CopyWorker::CopyWorker(io::EventLoop& loop, std::function<void(runtime::AgentInput)> answer)
    : answer_(std::move(answer)), queue_(std::make_unique<WorkQueue>(loop)) {}

CopyWorker::~CopyWorker() {
  *stop_ = true;
  queue_.reset();
}

void CopyWorker::Copy(runtime::CopyOut work, std::string run_directory) {
  queue_->Enqueue([this, stop = stop_, work = std::move(work),
                   run_directory = std::move(run_directory)]() -> WorkQueue::Answer {
    const Instant begin = io::MonotonicNow();
    const Result<uint64_t> bytes = CopyOutNow(work, run_directory, stop);
    const runtime::CheckpointCopied answer{work.job,
                                           work.attempt,
                                           work.step,
                                           bytes.ok() ? *bytes : 0,
                                           io::MonotonicNow() - begin,
                                           bytes.ok() ? "" : bytes.status().message()};
    return [this, answer] { answer_(answer); };
  });
}

void CopyWorker::Fetch(runtime::FetchBack work, std::string run_directory) {
  queue_->Enqueue([this, stop = stop_, work = std::move(work),
                   run_directory = std::move(run_directory)]() -> WorkQueue::Answer {
    const Status fetched = FetchNow(work, run_directory, stop);
    const runtime::CheckpointFetched answer{work.job, work.attempt,
                                            fetched.ok() ? "" : fetched.message()};
    return [this, answer] { answer_(answer); };
  });
}

}  // namespace longhaul::service
