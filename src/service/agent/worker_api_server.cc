#include "service/agent/worker_api_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <type_traits>
#include <variant>

#include "base/text.h"
#include "base/units.h"
#include "io/clock.h"
#include "io/log/log.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestPath = 100;  // sun_path holds 108 bytes with its end
constexpr int kMessagesATurn = 64;    // of one connection, so that others get theirs

// Returns the process that has connected. Refuses one of another user.
Result<pid_t> PeerOfUser(const io::Fd& fd, uid_t user) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return FromErrno(errno, "cannot read the worker's credentials");
  }
  if (peer.uid == user) return peer.pid;
  return PermissionDenied("the worker runs as user " + std::to_string(peer.uid) +
                          ", expected user " + std::to_string(user));
}

// NaN in a message means "not known".
std::optional<double> Known(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

proto::Restore::Tier TierOf(uint32_t tier) {
  const int number = static_cast<int>(tier);
  return proto::Restore::Tier_IsValid(number) ? static_cast<proto::Restore::Tier>(number)
                                              : proto::Restore::TIER_NONE;
}

// A worker's message as an input of the core. Hello and ArenaRequest are not for the core.
runtime::AgentInput ToInput(const runtime::WorkerId& worker,
                            const worker_api::PhaseMessage& message) {
  return runtime::WorkerPhase{worker, static_cast<proto::PhaseEntered::Phase>(message.phase),
                              InstantFromNanoseconds(message.at_ns)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker,
                            const worker_api::StepMessage& message) {
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
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const worker_api::Sealed& sealed) {
  const worker_api::SealedMessage& message = sealed.message;
  runtime::WorkerSealed input{worker, message.step, Duration(message.blocked_ns), message.bytes,
                              io::Now()};
  input.waited = Duration(message.waited_ns);
  input.way = static_cast<proto::SnapshotWay>(message.way);
  return input;
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const worker_api::Waits& waits) {
  return runtime::WorkerWaitsForSlot{worker, waits.message.step, Duration(waits.message.waited_ns),
                                     Printable(waits.holders, 1024)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker,
                            const worker_api::RestoredMessage& message) {
  return runtime::WorkerRestored{worker, message.step, TierOf(message.tier)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker,
                            const worker_api::RestoreFailed& failed) {
  return runtime::WorkerRestoreFailed{worker, failed.message.step, TierOf(failed.message.tier),
                                      Printable(failed.reason, 1024)};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker,
                            const worker_api::LeftMessage& /*left*/) {
  return runtime::WorkerLeft{worker};
}
runtime::AgentInput ToInput(const runtime::WorkerId& worker, const worker_api::ResultText& result) {
  return runtime::WorkerResultText{worker, result.json};
}

std::string NameOf(const runtime::WorkerId& worker) {
  return "rank " + std::to_string(worker.rank) + " of job " + worker.job.value();
}

}  // namespace

Result<std::unique_ptr<WorkerApiServer>> WorkerApiServer::Create(io::EventLoop& loop,
                                                                 const std::string& directory,
                                                                 const io::UserAccount* user,
                                                                 WorkerApiHost& host) {
  constexpr size_t kNameRoom = 20;  // "/worker-" and a number
  constexpr mode_t kPass = 0711;
  const uid_t id = user == nullptr ? geteuid() : user->user;
  if (directory.size() + kNameRoom <= kLongestPath) {
    return std::unique_ptr<WorkerApiServer>(new WorkerApiServer(loop, directory, false, id, host));
  }
  std::string own = "/tmp/longhaul-XXXXXX";  // mkdtemp makes it ours alone
  if (mkdtemp(own.data()) == nullptr) return FromErrno(errno, "cannot create a directory in /tmp");
  std::unique_ptr<WorkerApiServer> server(new WorkerApiServer(loop, own, true, id, host));
  if (user != nullptr && chmod(own.c_str(), kPass) != 0) {
    return FromErrno(errno, "cannot let user " + user->name + " pass through " + own);
  }
  return server;
}

WorkerApiServer::WorkerApiServer(io::EventLoop& loop, std::string directory, bool owns_directory,
                                 uid_t user, WorkerApiHost& host)
    : loop_(loop),
      directory_(std::move(directory)),
      owns_directory_(owns_directory),
      user_(user),
      host_(host) {}

WorkerApiServer::~WorkerApiServer() {
  while (!connections_.empty()) CloseConnection(connections_.begin()->first);
  for (const auto& [job, endpoint] : endpoints_) CloseEndpoint(endpoint);
  if (owns_directory_) rmdir(directory_.c_str());
}

Result<std::string> WorkerApiServer::Open(const JobId& job, uint64_t attempt) {
  const auto found = endpoints_.find(job);
  if (found != endpoints_.end()) {
    if (found->second.attempt == attempt) return found->second.path;
    CloseEndpoint(found->second);  // workers already inside keep their connection
    endpoints_.erase(found);
  }
  std::string path = directory_ + "/worker-" + std::to_string(next_socket_++);
  ASSIGN_OR_RETURN(io::Fd listener, io::ListenUnix(path));
  // Its owner may connect. The directory is this process's, so the path leads to the socket.
  if (user_ != geteuid() && lchown(path.c_str(), user_, static_cast<gid_t>(-1)) != 0) {
    const Status failed = FromErrno(errno, "cannot give " + path + " to the workers' user");
    (void)unlink(path.c_str());
    return failed;
  }
  Endpoint& endpoint =
      endpoints_.emplace(job, Endpoint{job, attempt, path, std::move(listener)}).first->second;
  loop_.Watch(endpoint.listener.get(), false,
              [this, &endpoint](bool, bool) { AcceptAll(endpoint); });
  return path;
}

void WorkerApiServer::CloseEndpoint(const Endpoint& endpoint) {
  loop_.Unwatch(endpoint.listener.get());
  unlink(endpoint.path.c_str());
}

void WorkerApiServer::Close(const JobId& job) {
  const auto endpoint = endpoints_.find(job);
  if (endpoint != endpoints_.end()) {
    CloseEndpoint(endpoint->second);
    endpoints_.erase(endpoint);
  }
  std::vector<int> fds;
  for (const auto& [fd, connection] : connections_) {
    if (connection.worker.job == job) fds.push_back(fd);
  }
  for (const int fd : fds) CloseConnection(fd);
}

void WorkerApiServer::CloseConnection(int fd) {
  loop_.Unwatch(fd);
  connections_.erase(fd);
}

void WorkerApiServer::AcceptAll(const Endpoint& endpoint) {
  for (;;) {
    Result<std::optional<io::Fd>> accepted = io::Accept(endpoint.listener);
    if (!accepted.ok() || !accepted->has_value()) return;
    io::Fd fd = **std::move(accepted);
    const Result<pid_t> process = PeerOfUser(fd, user_);
    if (!process.ok()) {
      io::LogError("agent", "a connection to job " + endpoint.job.value() +
                                " is refused: " + process.status().message());
      continue;  // closes it
    }
    if (connections_.size() >= kMaxConnections) continue;
    const int number = fd.get();
    Connection& connection = connections_[number];
    connection.fd = std::move(fd);
    connection.process = *process;
    connection.worker = {endpoint.job, endpoint.attempt, 0};
    loop_.Watch(number, false, [this, number](bool, bool) { Read(number); });
  }
}

bool WorkerApiServer::Read(int fd) {
  const auto close = [this, fd] {
    const Connection& closed = connections_.at(fd);
    const bool continued = closed.continues;
    const runtime::WorkerId worker = closed.worker;
    CloseConnection(fd);
    if (continued) host_.TakeInput(runtime::WorkerContinues{worker, false});
    return false;
  };
  for (int i = 0; i < kMessagesATurn; ++i) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return false;
    Connection& connection = found->second;
    const Result<std::optional<io::UnixMessage>> message =
        io::ReceiveMessage(connection.fd, worker_api::kMaxMessageBytes);
    if (message.ok() && !message->has_value()) return false;
    if (!message.ok() || (*message)->bytes.empty()) return close();
    const Status status = Take(connection, **message);
    if (!status.ok()) {
      io::LogError("agent", NameOf(connection.worker) +
                                " sent a message that the agent refuses: " + ToString(status));
      return close();
    }
  }
  return true;
}

void WorkerApiServer::TakeRest(const runtime::WorkerId& worker) {
  std::vector<int> sockets;
  for (const auto& [fd, connection] : connections_) {
    const runtime::WorkerId& other = connection.worker;
    const bool may_be_its_own = !connection.welcomed || other.rank == worker.rank;
    if (other.job == worker.job && other.attempt == worker.attempt && may_be_its_own) {
      sockets.push_back(fd);
    }
  }
  for (const int fd : sockets) {
    while (Read(fd)) {
    }
  }
}

Status WorkerApiServer::Take(Connection& connection, const io::UnixMessage& packet) {
  ASSIGN_OR_RETURN(const worker_api::FromWorker message, worker_api::ParseFromWorker(packet.bytes));
  if (const auto* hello = std::get_if<worker_api::Hello>(&message))
    return Greet(connection, *hello);
  if (const auto* continues = std::get_if<worker_api::ContinuesMessage>(&message))
    return GreetContinuing(connection, *continues);
  if (!connection.welcomed) return FailedPrecondition("the worker sent a message before Hello");
  if (std::holds_alternative<worker_api::LeftMessage>(message) != connection.continues)
    return FailedPrecondition("the worker sent a message on the wrong one of its connections");
  return std::visit(
      [this, &connection, &packet](const auto& input) -> Status {
        using Input = std::decay_t<decltype(input)>;
        if constexpr (std::is_same_v<Input, worker_api::ArenaRequest>) {
          return GiveArena(connection, input);
        } else if constexpr (std::is_same_v<Input, worker_api::PiecesRequest>) {
          return GatherFor(connection, input, packet.fds);
        } else if constexpr (!std::is_same_v<Input, worker_api::Hello> &&
                             !std::is_same_v<Input, worker_api::ContinuesMessage>) {
          if constexpr (std::is_same_v<Input, worker_api::Sealed>) NoteWay(connection, input.way);
          if constexpr (std::is_same_v<Input, worker_api::Waits>) LogWait(connection, input);
          host_.TakeInput(ToInput(connection.worker, input));
        }
        return Status();
      },
      message);
}

// Logged when the worker changes it: the first is taken to learn what it costs.
void WorkerApiServer::NoteWay(Connection& connection, const std::string& way) {
  const std::string kind = way.substr(0, way.find(':'));
  if (kind == connection.way || way.find("not tried") != std::string::npos) return;
  connection.way = kind;
  io::LogInfo("agent",
              NameOf(connection.worker) +
                  " takes snapshots in the way that stops it less: " + Printable(way, 256));
}

// Every so often; the controller hears of each.
void WorkerApiServer::LogWait(Connection& connection, const worker_api::Waits& waits) {
  constexpr Duration kEvery = std::chrono::seconds(10);
  const Duration waited(waits.message.waited_ns);
  if (waits.message.step != connection.waited_step) connection.waited_reported = Duration(0);
  connection.waited_step = waits.message.step;
  if (waited < connection.waited_reported + kEvery) return;
  connection.waited_reported = waited;
  io::LogWarning("agent", NameOf(connection.worker) + " has waited " + ToString(waited) +
                              " to take a snapshot of step " + std::to_string(waits.message.step) +
                              ": " + Printable(waits.holders, 1024));
}

Status WorkerApiServer::CheckWorker(const Connection& connection, const runtime::WorkerId& worker,
                                    uint64_t attempt) {
  if (attempt != worker.attempt) {
    return FailedPrecondition("attempt " + std::to_string(attempt) +
                              " at the endpoint of attempt " + std::to_string(worker.attempt));
  }
  if (!host_.Welcome(worker).has_value())
    return NotFound("this node has no worker of rank " + std::to_string(worker.rank));
  if (!host_.IsProcessOf(worker, connection.process)) {
    return PermissionDenied("process " + std::to_string(connection.process) +
                            " states that it is rank " + std::to_string(worker.rank) +
                            ", which another process of this node is");
  }
  return Status();
}

// A process that the worker has started cannot continue in its place.
Status WorkerApiServer::GreetContinuing(Connection& connection,
                                        const worker_api::ContinuesMessage& message) {
  if (connection.welcomed) return FailedPrecondition("the worker sent Continues after Hello");
  runtime::WorkerId worker = connection.worker;
  worker.rank = message.rank;
  RETURN_IF_ERROR(CheckWorker(connection, worker, message.attempt));
  for (const auto& [fd, other] : connections_) {
    if (other.continues && other.worker == worker)
      return FailedPrecondition("the worker sent Continues on a second connection");
  }
  connection.worker = worker;
  connection.welcomed = true;
  connection.continues = true;
  host_.TakeInput(runtime::WorkerContinues{worker, true});
  return Status();
}

Status WorkerApiServer::Greet(Connection& connection, const worker_api::Hello& hello) {
  if (connection.welcomed) return FailedPrecondition("the worker sent a second Hello");
  runtime::WorkerId worker = connection.worker;
  worker.rank = hello.rank;
  RETURN_IF_ERROR(CheckWorker(connection, worker, hello.attempt));
  const std::optional<worker_api::WelcomeContent> content = host_.Welcome(worker);
  connection.worker = worker;
  connection.welcomed = true;
  for (const std::vector<std::byte>& part : worker_api::EncodeWelcome(*content)) {
    RETURN_IF_ERROR(io::SendMessage(connection.fd, part));
  }
  const int64_t started = hello.started_at_ns > 0 ? hello.started_at_ns : ToNanoseconds(io::Now());
  host_.TakeInput(
      runtime::WorkerPhase{worker, proto::PhaseEntered::START_UP, InstantFromNanoseconds(started)});
  return Status();
}

Status WorkerApiServer::GiveArena(const Connection& connection,
                                  const worker_api::ArenaRequest& request) {
  const auto arena = host_.Arena(connection.worker, request.bytes);
  if (!arena.ok()) {
    return io::SendMessage(connection.fd, worker_api::EncodeArenaRefused(arena.status().message()));
  }
  const int fd = (*arena)->fd().get();
  return io::SendMessage(connection.fd, worker_api::EncodeArena((*arena)->bytes().size()),
                         {&fd, 1});
}

Status WorkerApiServer::GatherFor(const Connection& connection,
                                  const worker_api::PiecesRequest& request,
                                  const std::vector<io::Fd>& fds) {
  std::optional<checkpoint::StatePlan> plan;
  if (request.plan_bytes > 0) {
    if (fds.size() != 1)
      return InvalidArgument("the worker sent a plan of pieces without its memory");
    ASSIGN_OR_RETURN(const io::SharedMapping mapping, io::SharedMapping::Map(fds[0]));
    if (mapping.bytes().size() < request.plan_bytes) {
      return InvalidArgument("the worker sent a plan that is longer than its memory");
    }
    // A copy: the worker may still write to the memory.
    const std::string encoded(reinterpret_cast<const char*>(mapping.bytes().data()),
                              request.plan_bytes);
    ASSIGN_OR_RETURN(plan, checkpoint::StatePlan::Decode(encoded));
  }
  const runtime::WorkerId worker = connection.worker;
  host_.Gather(
      worker, std::move(plan),
      [this, worker](const Result<WorkerApiHost::Pieces>& pieces) { GivePieces(worker, pieces); });
  return {};
}

void WorkerApiServer::GivePieces(const runtime::WorkerId& worker,
                                 const Result<WorkerApiHost::Pieces>& pieces) {
  for (const auto& [number, connection] : connections_) {
    if (!connection.welcomed || connection.continues || connection.worker != worker) continue;
    // A worker that is gone meanwhile is seen by its socket.
    if (pieces.ok()) {
      const int fd = pieces->memory->fd().get();
      (void)io::SendMessage(connection.fd, worker_api::EncodePieces(pieces->bytes), {&fd, 1});
    } else {
      const bool of_another = pieces.status().code() == Code::kFailedPrecondition;
      (void)io::SendMessage(connection.fd,
                            worker_api::EncodePiecesRefused(pieces.status().message(), of_another));
    }
    return;
  }
}

void WorkerApiServer::SendInterval(const JobId& job, uint64_t attempt, uint64_t steps) {
  const std::vector<std::byte> packet = worker_api::EncodeSnapshotInterval(steps);
  for (const auto& [fd, connection] : connections_) {
    if (!connection.welcomed || connection.continues || connection.worker.job != job ||
        connection.worker.attempt != attempt) {
      continue;
    }
    // One whose socket is full hears of the next change, or at its next start.
    (void)io::SendMessage(connection.fd, packet);
  }
}

void WorkerApiServer::SendLeave(const runtime::WorkerId& worker) {
  for (const auto& [fd, connection] : connections_) {
    if (!connection.continues || connection.worker != worker) continue;
    // One that does not receive it is killed after the limit for leaving.
    (void)io::SendMessage(connection.fd, worker_api::EncodeLeave());
    return;
  }
}

Status WorkerApiServer::Continue(const runtime::WorkerId& from, const runtime::WorkerId& worker,
                                 const std::map<std::string, std::string>& environment, int log) {
  Connection* kept = nullptr;
  std::vector<int> others;  // of the old attempt, whose messages must not count for the new one
  for (auto& [fd, connection] : connections_) {
    if (!connection.welcomed || connection.worker != from) continue;
    if (connection.continues) {
      kept = &connection;
    } else {
      others.push_back(fd);
    }
  }
  for (const int fd : others) CloseConnection(fd);
  if (kept == nullptr) return NotFound(NameOf(from) + " is not connected to its agent");
  ASSIGN_OR_RETURN(const auto packet, worker_api::EncodeContinue(worker.attempt, environment));
  kept->worker = worker;
  RETURN_IF_ERROR(io::SendMessage(kept->fd, packet, {&log, 1}));
  host_.TakeInput(runtime::WorkerContinues{worker, true});
  return Status();
}

}  // namespace longhaul::service
