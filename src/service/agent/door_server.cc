#include "service/agent/door_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <variant>

#include "base/text.h"
#include "base/units.h"
#include "io/clock.h"
#include "io/shared_memory.h"
#include "io/socket.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestPath = 100;  // sun_path holds 108 bytes with its end
constexpr int kMessagesATurn = 64;    // of one connection, so that others get theirs

Status CheckSameUser(const io::Fd& fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return FromErrno(errno, "cannot tell who is at the door");
  }
  if (peer.uid == geteuid()) return Status();
  return PermissionDenied("user " + std::to_string(peer.uid) + " at the door");
}

// NaN at the door means "not known".
std::optional<double> Known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

wire::Restore::Tier TierOf(uint32_t tier) {
  const int number = static_cast<int>(tier);
  return wire::Restore::Tier_IsValid(number) ? static_cast<wire::Restore::Tier>(number)
                                             : wire::Restore::TIER_NONE;
}

// What a worker said, as the core takes it. Hello and ArenaRequest are not for the core.
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const door::PhaseMessage& message) {
  return runtime::WorkerPhase{worker, static_cast<wire::PhaseEntered::Phase>(message.phase),
                              InstantFromNanoseconds(message.at_ns)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const door::StepMessage& message) {
  return runtime::WorkerStep{worker,
                             message.step,
                             InstantFromNanoseconds(message.at_ns),
                             Duration(message.data_ns),
                             Duration(message.snapshot_ns),
                             Duration(message.evaluation_ns),
                             Duration(message.communication_ns),
                             Known(message.loss),
                             Known(message.validation_loss),
                             message.gradient_norm,
                             message.tokens,
                             message.flops};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const door::Sealed& sealed) {
  const door::SealedMessage& message = sealed.message;
  runtime::WorkerSealed input{worker, message.step, Duration(message.blocked_ns), message.bytes,
                              io::Now()};
  input.waited = Duration(message.waited_ns);
  input.way = static_cast<wire::SnapshotWay>(message.way);
  return input;
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const door::Waits& waits) {
  return runtime::WorkerWaitsForSlot{worker, waits.message.step, Duration(waits.message.waited_ns),
                                     Printable(waits.holders, 1024)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const door::RestoredMessage& message) {
  return runtime::WorkerRestored{worker, message.step, TierOf(message.tier)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const door::RestoreFailed& failed) {
  return runtime::WorkerRestoreFailed{worker, failed.message.step, TierOf(failed.message.tier),
                                      Printable(failed.reason, 1024)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const door::ResultText& result) {
  return runtime::WorkerResultText{worker, result.json};
}

}  // namespace

Result<std::unique_ptr<DoorServer>> DoorServer::Create(io::EventLoop& loop,
                                                       const std::string& directory,
                                                       DoorHost& host) {
  constexpr size_t kNameRoom = 16;  // "/door-" and a number
  if (directory.size() + kNameRoom <= kLongestPath) {
    return std::unique_ptr<DoorServer>(new DoorServer(loop, directory, false, host));
  }
  std::string own = "/tmp/longhaul-XXXXXX";  // mkdtemp makes it ours alone
  if (mkdtemp(own.data()) == nullptr) return FromErrno(errno, "cannot make a folder below /tmp");
  return std::unique_ptr<DoorServer>(new DoorServer(loop, own, true, host));
}

DoorServer::DoorServer(io::EventLoop& loop, std::string directory, bool owns_directory,
                       DoorHost& host)
    : loop_(loop), directory_(std::move(directory)), owns_directory_(owns_directory), host_(host) {}

DoorServer::~DoorServer() {
  while (!connections_.empty()) CloseConnection(connections_.begin()->first);
  for (const auto& [job, door] : doors_) CloseDoor(door);
  if (owns_directory_) rmdir(directory_.c_str());
}

Result<std::string> DoorServer::Open(const JobId& job, uint64_t epoch) {
  const auto found = doors_.find(job);
  if (found != doors_.end()) {
    if (found->second.epoch == epoch) return found->second.path;
    CloseDoor(found->second);  // workers already inside keep their connection
    doors_.erase(found);
  }
  std::string path = directory_ + "/door-" + std::to_string(next_door_++);
  ASSIGN_OR_RETURN(io::Fd listener, io::ListenUnix(path));
  Door& door = doors_.emplace(job, Door{job, epoch, path, std::move(listener)}).first->second;
  loop_.Watch(door.listener.get(), false, [this, &door](bool, bool) { AcceptAll(door); });
  return path;
}

void DoorServer::CloseDoor(const Door& door) {
  loop_.Unwatch(door.listener.get());
  unlink(door.path.c_str());
}

void DoorServer::Close(const JobId& job) {
  const auto door = doors_.find(job);
  if (door != doors_.end()) {
    CloseDoor(door->second);
    doors_.erase(door);
  }
  std::vector<int> fds;
  for (const auto& [fd, connection] : connections_) {
    if (connection.worker.job == job) fds.push_back(fd);
  }
  for (const int fd : fds) CloseConnection(fd);
}

void DoorServer::CloseConnection(int fd) {
  loop_.Unwatch(fd);
  connections_.erase(fd);
}

void DoorServer::AcceptAll(const Door& door) {
  for (;;) {
    Result<std::optional<io::Fd>> accepted = io::Accept(door.listener);
    if (!accepted.ok() || !accepted->has_value()) return;
    io::Fd fd = **std::move(accepted);
    if (connections_.size() >= kMaxConnections || !CheckSameUser(fd).ok()) continue;  // closes it
    const int number = fd.get();
    connections_.emplace(number, Connection{std::move(fd), {door.job, door.epoch, 0}, false, {}});
    loop_.Watch(number, false, [this, number](bool, bool) { Read(number); });
  }
}

void DoorServer::Read(int fd) {
  for (int i = 0; i < kMessagesATurn; ++i) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    Connection& connection = found->second;
    const Result<std::optional<io::UnixMessage>> message =
        io::ReceiveMessage(connection.fd, door::kMaxMessageBytes);
    if (message.ok() && !message->has_value()) return;
    if (!message.ok() || (*message)->bytes.empty()) return CloseConnection(fd);
    const Status status = Take(connection, **message);
    if (!status.ok()) {
      std::fprintf(stderr, "door of job %s, rank %u: %s\n", connection.worker.job.value().c_str(),
                   connection.worker.rank, ToString(status).c_str());
      return CloseConnection(fd);
    }
  }
}

Status DoorServer::Take(Connection& connection, const io::UnixMessage& packet) {
  ASSIGN_OR_RETURN(const door::FromWorker message, door::ParseFromWorker(packet.bytes));
  if (const auto* hello = std::get_if<door::Hello>(&message)) return Greet(connection, *hello);
  if (!connection.welcomed) return FailedPrecondition("a message before Hello");
  return std::visit(
      [this, &connection, &packet](const auto& said) -> Status {
        using Said = std::decay_t<decltype(said)>;
        if constexpr (std::is_same_v<Said, door::ArenaRequest>) {
          return GiveArena(connection, said);
        } else if constexpr (std::is_same_v<Said, door::PiecesRequest>) {
          return GatherFor(connection, said, packet.fds);
        } else if constexpr (!std::is_same_v<Said, door::Hello>) {
          if constexpr (std::is_same_v<Said, door::Sealed>) NoteWay(connection, said.way);
          if constexpr (std::is_same_v<Said, door::Waits>) SayWait(connection, said);
          host_.Hear(ToInput(connection.worker, said));
        }
        return Status();
      },
      message);
}

// Said when the worker changes it: the first is taken to learn what it costs.
void DoorServer::NoteWay(Connection& connection, const std::string& way) {
  const std::string kind = way.substr(0, way.find(':'));
  if (kind == connection.way || way.find("not tried") != std::string::npos) return;
  connection.way = kind;
  std::fprintf(stderr, "rank %u of job %s takes snapshots by what stops it less: %s\n",
               connection.worker.rank, connection.worker.job.value().c_str(),
               Printable(way, 256).c_str());
}

// Every so often; the controller hears of each.
void DoorServer::SayWait(Connection& connection, const door::Waits& waits) {
  constexpr Duration kEvery = std::chrono::seconds(10);
  const Duration waited(waits.message.waited_ns);
  if (waits.message.step != connection.waited_step) connection.waited_said = Duration(0);
  connection.waited_step = waits.message.step;
  if (waited < connection.waited_said + kEvery) return;
  connection.waited_said = waited;
  std::fprintf(stderr, "rank %u of job %s has waited %s to take a snapshot of step %llu: %s\n",
               connection.worker.rank, connection.worker.job.value().c_str(),
               ToString(waited).c_str(), static_cast<unsigned long long>(waits.message.step),
               Printable(waits.holders, 1024).c_str());
}

Status DoorServer::Greet(Connection& connection, const door::Hello& hello) {
  if (connection.welcomed) return FailedPrecondition("a second Hello");
  runtime::WorkerId worker = connection.worker;
  worker.rank = hello.rank;
  if (hello.epoch != worker.epoch) {
    return FailedPrecondition("epoch " + std::to_string(hello.epoch) + " at the door of epoch " +
                              std::to_string(worker.epoch));
  }
  const std::optional<door::WelcomeContent> content = host_.Welcome(worker);
  if (!content.has_value()) return NotFound("no worker of rank " + std::to_string(hello.rank));
  connection.worker = worker;
  connection.welcomed = true;
  for (const std::vector<std::byte>& part : door::EncodeWelcome(*content)) {
    RETURN_IF_ERROR(io::SendMessage(connection.fd, part));
  }
  const int64_t started = hello.started_at_ns > 0 ? hello.started_at_ns : ToNanoseconds(io::Now());
  host_.Hear(
      runtime::WorkerPhase{worker, wire::PhaseEntered::START_UP, InstantFromNanoseconds(started)});
  return Status();
}

Status DoorServer::GiveArena(const Connection& connection, const door::ArenaRequest& request) {
  const auto arena = host_.Arena(connection.worker, request.bytes);
  if (!arena.ok()) {
    return io::SendMessage(connection.fd, door::EncodeArenaRefused(arena.status().message()));
  }
  const int fd = (*arena)->fd().get();
  return io::SendMessage(connection.fd, door::EncodeArena((*arena)->bytes().size()), {&fd, 1});
}

Status DoorServer::GatherFor(const Connection& connection, const door::PiecesRequest& request,
                             const std::vector<io::Fd>& fds) {
  std::optional<checkpoint::StatePlan> plan;
  if (request.plan_bytes > 0) {
    if (fds.size() != 1) return InvalidArgument("a plan of pieces without its memory");
    ASSIGN_OR_RETURN(const io::SharedMapping mapping, io::SharedMapping::Map(fds[0]));
    if (mapping.bytes().size() < request.plan_bytes) {
      return InvalidArgument("a plan longer than its memory");
    }
    // A copy: the worker may still write to the memory.
    const std::string encoded(reinterpret_cast<const char*>(mapping.bytes().data()),
                              request.plan_bytes);
    ASSIGN_OR_RETURN(plan, checkpoint::StatePlan::Decode(encoded));
  }
  const runtime::WorkerId worker = connection.worker;
  host_.Gather(worker, std::move(plan), [this, worker](const Result<DoorHost::Pieces>& pieces) {
    GivePieces(worker, pieces);
  });
  return {};
}

void DoorServer::GivePieces(const runtime::WorkerId& worker,
                            const Result<DoorHost::Pieces>& pieces) {
  for (const auto& [number, connection] : connections_) {
    if (!connection.welcomed || connection.worker != worker) continue;
    // A worker that is gone meanwhile is seen by its socket.
    if (pieces.ok()) {
      const int fd = pieces->memory->fd().get();
      (void)io::SendMessage(connection.fd, door::EncodePieces(pieces->bytes), {&fd, 1});
    } else {
      const bool of_another = pieces.status().code() == Code::kFailedPrecondition;
      (void)io::SendMessage(connection.fd,
                            door::EncodePiecesRefused(pieces.status().message(), of_another));
    }
    return;
  }
}

void DoorServer::TellInterval(const JobId& job, uint64_t epoch, uint64_t steps) {
  const std::vector<std::byte> packet = door::EncodeSnapshotInterval(steps);
  for (const auto& [fd, connection] : connections_) {
    if (!connection.welcomed || connection.worker.job != job || connection.worker.epoch != epoch) {
      continue;
    }
    // One whose socket is full hears of the next change, or at its next start.
    (void)io::SendMessage(connection.fd, packet);
  }
}

}  // namespace longhaul::service
