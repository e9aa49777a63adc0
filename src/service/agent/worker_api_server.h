// The agent's end of the worker API: one Unix socket for each attempt of a job. The worker finds
// its path in LONGHAUL_AGENT_SOCKET.
//
// The socket identifies the job and the attempt, the worker's Hello its rank. Only processes of the
// same user are accepted, and as a worker only its own process and those that it has started: a
// process of another job is refused. A connection that breaks the protocol is closed. A closed
// connection doesn't count as the end of a worker; only its pidfd does.
#pragma once

#include <sys/types.h>

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
#include "io/process/user_account.h"
#include "runtime/agent/agent_messages.h"
#include "worker_api/server_codec.h"

namespace longhaul::service {

// What the worker API server requires of its agent.
class WorkerApiHost {
 public:
  virtual ~WorkerApiHost() = default;
  // Returns the content of the Welcome; nothing when there is no such worker.
  virtual std::optional<worker_api::WelcomeContent> Welcome(const runtime::WorkerId& worker) = 0;
  // Whether the process is the worker's or was started by it.
  virtual bool IsProcessOf(const runtime::WorkerId& worker, pid_t process) = 0;
  // Returns its arena with at least this many bytes; with 0 the existing one.
  virtual Result<std::shared_ptr<const io::SharedMemory>> Arena(const runtime::WorkerId& worker,
                                                                uint64_t bytes) = 0;
  // The worker's state from pieces, or the plan of the saved state: memory for the worker, or an
  // error. The answer follows later, on the loop's thread.
  struct Pieces {
    std::shared_ptr<const io::SharedMemory> memory;
    uint64_t bytes = 0;  // of it
  };
  using PiecesReady = std::function<void(const Result<Pieces>&)>;
  virtual void Gather(const runtime::WorkerId& worker, std::optional<checkpoint::StatePlan> plan,
                      PiecesReady ready) = 0;
  virtual void TakeInput(runtime::AgentInput input) = 0;
};

class WorkerApiServer {
 public:
  static constexpr size_t kMaxConnections = 4096;  // of all endpoints

  // Creates the sockets in `directory`, or in a new one below /tmp when its path is too long for a
  // socket's name. All calls, the destructor too, on the loop's thread. The destructor removes the
  // sockets.
  // `user`: whose processes may connect; null: those of the user of this process. It must be able
  // to pass through `directory`.
  static Result<std::unique_ptr<WorkerApiServer>> Create(io::EventLoop& loop,
                                                         const std::string& directory,
                                                         const io::UserAccount* user,
                                                         WorkerApiHost& host);
  ~WorkerApiServer();
  WorkerApiServer(const WorkerApiServer&) = delete;
  WorkerApiServer& operator=(const WorkerApiServer&) = delete;

  // Returns the path of the attempt's socket, which is opened if necessary. Closes those of the
  // job's lower attempts.
  Result<std::string> Open(const JobId& job, uint64_t attempt);
  void Close(const JobId& job);

  // Handles all messages of a worker that have not been read yet. Call it once the worker's process
  // has ended, before its end is handled: the last messages of a process, such as its result, may
  // still be unread then.
  void TakeRest(const runtime::WorkerId& worker);

  // Sends the interval to all connected workers of the attempt.
  void SendInterval(const JobId& job, uint64_t attempt, uint64_t steps);

  // Orders a worker that can continue to leave its group. One that is not connected is left out.
  void SendLeave(const runtime::WorkerId& worker);
  // The process of `from` is `worker` from now on; its other connections are closed. Sends it the
  // environment and the log. Returns an error if it is not connected or cannot be sent these.
  Status Continue(const runtime::WorkerId& from, const runtime::WorkerId& worker,
                  const std::map<std::string, std::string>& environment, int log);

 private:
  struct Endpoint {
    JobId job;
    uint64_t attempt = 0;
    std::string path;
    io::Fd listener;
  };
  struct Connection {
    io::Fd fd;
    pid_t process = 0;         // that has connected, as the system reports it
    runtime::WorkerId worker;  // the rank is known after its Hello
    bool welcomed = false;
    bool continues = false;      // of a worker that can continue; not for other messages
    std::string way;             // how its snapshots are copied
    uint64_t waited_step = 0;    // for which it last waited for a slot
    Duration waited_reported{};  // reported on stderr, for that step
  };

  WorkerApiServer(io::EventLoop& loop, std::string directory, bool owns_directory, uid_t user,
                  WorkerApiHost& host);
  void AcceptAll(const Endpoint& endpoint);
  // Whether there may be more to read.
  bool Read(int fd);
  // Returns an error if the connection must be closed.
  Status Take(Connection& connection, const io::UnixMessage& packet);
  Status GatherFor(const Connection& connection, const worker_api::PiecesRequest& request,
                   const std::vector<io::Fd>& fds);
  void GivePieces(const runtime::WorkerId& worker, const Result<WorkerApiHost::Pieces>& pieces);
  Status GreetContinuing(Connection& connection, const worker_api::ContinuesMessage& message);
  Status CheckWorker(const Connection& connection, const runtime::WorkerId& worker,
                     uint64_t attempt);
  Status Greet(Connection& connection, const worker_api::Hello& hello);
  static void LogWait(Connection& connection, const worker_api::Waits& waits);
  static void NoteWay(Connection& connection, const std::string& way);
  Status GiveArena(const Connection& connection, const worker_api::ArenaRequest& request);
  void CloseEndpoint(const Endpoint& endpoint);
  void CloseConnection(int fd);

  io::EventLoop& loop_;
  const std::string directory_;
  const bool owns_directory_;
  const uid_t user_;
  WorkerApiHost& host_;
  uint64_t next_socket_ = 1;
  std::map<JobId, Endpoint> endpoints_;    // of the newest attempt
  std::map<int, Connection> connections_;  // by descriptor
};

}  // namespace longhaul::service
