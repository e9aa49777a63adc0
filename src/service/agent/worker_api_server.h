// The agent's side of the worker API: one Unix socket an attempt of a job, whose path the
// worker finds in LONGHAUL_AGENT_SOCKET.
//
// The socket tells the job and the attempt, the worker's Hello its rank. Only processes of our own
// user are let in. A connection that breaks the protocol is closed; that a worker has gone is never
// concluded from here, only its pidfd says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "checkpoint/state.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"
#include "runtime/agent/agent_messages.h"
#include "worker_api/server_codec.h"

namespace longhaul::service {

// Whthrough the worker API needs of its agent.
class WorkerApiHost {
 public:
  virtual ~WorkerApiHost() = default;
  // What to tell a worker that has come; nothing when there is no such worker.
  virtual std::optional<worker_api::WelcomeContent> Welcome(const runtime::WorkerId& worker) = 0;
  // Its arena with at least so many bytes; with 0 the one that is there.
  virtual Result<std::shared_ptr<const io::SharedMemory>> Arena(const runtime::WorkerId& worker,
                                                                uint64_t bytes) = 0;
  // Its state out of pieces, or the plan of what was saved: memory for the worker, or why there is
  // none. Answers later, on the loop's thread.
  struct Pieces {
    std::shared_ptr<const io::SharedMemory> memory;
    uint64_t bytes = 0;  // of it
  };
  using PiecesReady = std::function<void(const Result<Pieces>&)>;
  virtual void Gather(const runtime::WorkerId& worker, std::optional<checkpoint::StatePlan> plan,
                      PiecesReady ready) = 0;
  virtual void Hear(runtime::AgentInput said) = 0;
};

class WorkerApiServer {
 public:
  static constexpr size_t kMaxConnections = 4096;  // of all endpoints

  // Sockets lie in `directory`, or in a new one below /tmp when its path is too long for a socket's
  // name. All calls on the loop's thread, the destructor too, which removes the sockets.
  static Result<std::unique_ptr<WorkerApiServer>> Create(io::EventLoop& loop,
                                                         const std::string& directory,
                                                         WorkerApiHost& host);
  ~WorkerApiServer();
  WorkerApiServer(const WorkerApiServer&) = delete;
  WorkerApiServer& operator=(const WorkerApiServer&) = delete;

  // The path of the attempt's worker API, opened if it isn't. Endpoints of the job's lower attempts
  // close.
  Result<std::string> Open(const JobId& job, uint64_t attempt);
  void Close(const JobId& job);

  // Takes all messages that a worker has sent and this has not read yet. Call it once the worker's
  // process has ended and before its end is acted on: the last messages of a process, its result
  // among them, may be read after the process is seen to be gone.
  void TakeRest(const runtime::WorkerId& worker);

  // Tells all workers of the attempt who have come.
  void TellInterval(const JobId& job, uint64_t attempt, uint64_t steps);

 private:
  struct Endpoint {
    JobId job;
    uint64_t attempt = 0;
    std::string path;
    io::Fd listener;
  };
  struct Connection {
    io::Fd fd;
    runtime::WorkerId worker;  // its rank is known once it has said Hello
    bool welcomed = false;
    std::string way;           // that its snapshots are copied
    uint64_t waited_step = 0;  // that it last waited for a slot for
    Duration waited_said{};    // on stderr, for that step
  };

  WorkerApiServer(io::EventLoop& loop, std::string directory, bool owns_directory,
                  WorkerApiHost& host);
  void AcceptAll(const Endpoint& endpoint);
  // Whether there may be more to read.
  bool Read(int fd);
  // Whether the connection continues.
  Status Take(Connection& connection, const io::UnixMessage& packet);
  Status GatherFor(const Connection& connection, const worker_api::PiecesRequest& request,
                   const std::vector<io::Fd>& fds);
  void GivePieces(const runtime::WorkerId& worker, const Result<WorkerApiHost::Pieces>& pieces);
  Status Greet(Connection& connection, const worker_api::Hello& hello);
  static void SayWait(Connection& connection, const worker_api::Waits& waits);
  static void NoteWay(Connection& connection, const std::string& way);
  Status GiveArena(const Connection& connection, const worker_api::ArenaRequest& request);
  void CloseEndpoint(const Endpoint& endpoint);
  void CloseConnection(int fd);

  io::EventLoop& loop_;
  const std::string directory_;
  const bool owns_directory_;
  WorkerApiHost& host_;
  uint64_t next_socket_ = 1;
  std::map<JobId, Endpoint> endpoints_;    // the newest attempt's
  std::map<int, Connection> connections_;  // by descriptor
};

}  // namespace longhaul::service
