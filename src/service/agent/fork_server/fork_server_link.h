// A job's fork server: a process that forks the job's workers in milliseconds.
// worker_api/fork_server.h has the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/process/process.h"
#include "worker_api/fork_server.h"

namespace longhaul::service {

struct ForkServerCommand {
  std::vector<std::string> argv;  // finds the socket as its descriptor 3
  std::map<std::string, std::string> environment;
  std::string working_directory;  // empty: ours
};

// The built-in trainer as a fork server.
ForkServerCommand TrainerForkServer(const std::string& trainer);

class ForkServerLink {
 public:
  // Receives a worker's pid or an error; kFailedPrecondition when the fork server has ended without
  // a word, because it is of no use. Called on the loop's thread.
  using Answer = std::function<void(const Result<int64_t>&)>;

  // Starts a fork server, as `user` if there is one, and appends its own output to `log_path`. One
  // that does not answer its first request within `patience` is ended; without a request it stays.
  // `loop` must outlive this.
  static Result<std::unique_ptr<ForkServerLink>> Start(io::EventLoop& loop,
                                                       const ForkServerCommand& command,
                                                       const std::string& log_path,
                                                       const std::optional<io::UserAccount>& user,
                                                       Duration patience);
  // Ends the fork server. Its workers continue; pending requests get no answer.
  ~ForkServerLink();
  ForkServerLink(const ForkServerLink&) = delete;
  ForkServerLink& operator=(const ForkServerLink&) = delete;

  // Requests a worker whose output goes to `output`.
  void Fork(const std::map<std::string, std::string>& environment,
            const std::vector<std::string>& arguments, int output, Answer answer);

  // Returns false once the fork server has ended; requests fail from then on.
  bool alive() const { return alive_; }
  // Whether it has forked a worker.
  bool has_served() const { return has_served_; }
  pid_t pid() const { return process_.pid; }

 private:
  ForkServerLink(io::EventLoop& loop, io::Process process, io::Fd socket, std::string log_path,
                 Duration patience);
  void Read();
  void EndByItself();
  void End(const Status& why);
  Result<io::ExitStatus> Stop();
  void StopTimer();
  void Fail(const Status& why);

  io::EventLoop& loop_;
  io::Process process_;
  io::Fd socket_;
  const std::string log_path_;
  const uint64_t log_begin_;
  bool alive_ = true;
  bool has_served_ = false;
  bool has_answered_ = false;
  const Duration patience_;
  io::EventLoop::TimerId timer_ = 0;  // from the first request until the first answer
  uint64_t next_id_ = 1;
  std::map<uint64_t, Answer> waiting_;
};

}  // namespace longhaul::service
