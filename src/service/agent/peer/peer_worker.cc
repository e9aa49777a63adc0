#include "service/agent/peer/peer_worker.h"

#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "checkpoint/arena.h"
#include "io/clock.h"
#include "io/memory/shared_memory.h"
#include "service/agent/peer/peer_connection.h"

namespace longhaul::service {
namespace {

Status SendAll(const runtime::SendCopies& work,
               const std::vector<std::shared_ptr<const io::SharedMemory>>& arenas,
               const std::string& secret, uint64_t bytes_per_second) {
  const auto port = static_cast<uint16_t>(work.start->peer_port());
  ASSIGN_OR_RETURN(PeerConnection peer,
                   PeerConnection::Connect(work.start->peer_address(), port, bytes_per_second));
  for (size_t i = 0; i < work.ranks.size(); ++i) {
    const std::string what = "rank " + std::to_string(work.ranks[i]);
    if (arenas[i] == nullptr) return NotFound(what + " has no arena");
    const Status sent =
        SendCopy(peer, secret, {work.job.value(), work.ranks[i], work.step, work.attempt},
                 arenas[i]->bytes());
    if (!sent.ok()) return sent.WithContext(what);
  }
  return {};
}

Result<PeerWorker::Fetched> FetchOne(const JobId& job, uint32_t rank, const proto::Restore& restore,
                                     const std::string& secret) {
  ASSIGN_OR_RETURN(PeerConnection holder,
                   PeerConnection::Connect(restore.source_address(),
                                           static_cast<uint16_t>(restore.source_port()), 0));
  const uint32_t source = restore.has_source_rank() ? restore.source_rank() : rank;
  ASSIGN_OR_RETURN(const checkpoint::PeerMessage announced,
                   AskForCopy(holder, secret, {job.value(), source, restore.step(), 0},
                              /*copy=*/!restore.has_source_rank(), checkpoint::PeerKind::kFetch));
  const uint64_t bytes = checkpoint::ArenaBytesFor(announced.plan);
  const std::string name = "longhaul-" + job.value() + "-" + std::to_string(rank);
  ASSIGN_OR_RETURN(io::Fd fd,
                   io::CreateSharedMemory(name, Bytes(static_cast<int64_t>(bytes)), false));
  ASSIGN_OR_RETURN(auto arena, io::SharedMemory::Open(std::move(fd)));
  RETURN_IF_ERROR(checkpoint::ReceiveSnapshotData(announced, holder.Reader(), arena->bytes()));
  return PeerWorker::Fetched{std::move(arena), bytes};
}

}  // namespace

PeerWorker::PeerWorker(io::EventLoop& loop, std::string secret, uint64_t bytes_per_second,
                       std::function<void(runtime::AgentInput)> answer)
    : secret_(std::move(secret)),
      bytes_per_second_(bytes_per_second),
      answer_(std::move(answer)),
      sends_(loop),
      fetches_(loop) {}

void PeerWorker::Send(runtime::SendCopies work,
                      std::vector<std::shared_ptr<const io::SharedMemory>> arenas) {
  CHECK(arenas.size() == work.ranks.size());
  sends_.Enqueue([this, work = std::move(work), arenas = std::move(arenas)]() -> WorkQueue::Answer {
    const Instant begin = io::MonotonicNow();
    const Status sent = SendAll(work, arenas, secret_, bytes_per_second_);
    runtime::CopiesSent answer{
        work.job,      work.attempt, work.step, work.start->peer_node(), io::MonotonicNow() - begin,
        sent.message()};
    return [this, answer = std::move(answer)] { answer_(answer); };
  });
}

void PeerWorker::Fetch(const JobId& job, uint32_t rank, const proto::Restore& restore,
                       std::function<void(const Result<Fetched>&)> done) {
  fetches_.Enqueue([this, job, rank, restore, done = std::move(done)]() -> WorkQueue::Answer {
    auto fetched = std::make_shared<const Result<Fetched>>(FetchOne(job, rank, restore, secret_));
    return [done, fetched] { done(*fetched); };
  });
}

void PeerWorker::Gather(GatherOrder order, const PeerMemory& memory,
                        std::function<void(const Gathered&)> done) {
  order.secret = secret_;
  fetches_.Enqueue(
      [order = std::move(order), &memory, done = std::move(done)]() -> WorkQueue::Answer {
        auto gathered = std::make_shared<const Gathered>(service::Gather(order, memory));
        return [done, gathered] { done(*gathered); };
      });
}

}  // namespace longhaul::service
