// A job's fork server: a process that forks the job's built-in trainers in milliseconds.
// worker_api/fork_server.h has the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/process/process.h"
#include "worker_api/fork_server.h"

namespace longhaul::service {

class ForkServerLink {
 public:
  // Receives a worker's pid or an error. Called on the loop's thread.
  using Answer = std::function<void(const Result<int64_t>&)>;

  // Starts `trainer` as a fork server, as `user` if there is one, and appends its own output to
  // `log_path`. `loop` must outlive this.
  static Result<std::unique_ptr<ForkServerLink>> Start(io::EventLoop& loop,
                                                       const std::string& trainer,
                                                       const std::string& log_path,
                                                       const std::optional<io::UserAccount>& user);
  // Ends the fork server. Its workers continue; pending requests get no answer.
  ~ForkServerLink();
  ForkServerLink(const ForkServerLink&) = delete;
  ForkServerLink& operator=(const ForkServerLink&) = delete;

  // Requests a worker whose output goes to `output`.
  void Fork(const std::map<std::string, std::string>& environment, int output, Answer answer);

  // Returns false once the fork server has ended; requests fail from then on.
  bool alive() const { return alive_; }
  pid_t pid() const { return process_.pid; }

 private:
  ForkServerLink(io::EventLoop& loop, io::Process process, io::Fd socket, std::string log_path);
  void Read();
  void End();

  io::EventLoop& loop_;
  io::Process process_;
  io::Fd socket_;
  const std::string log_path_;
  bool alive_ = true;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Answer> waiting_;
};

}  // namespace longhaul::service
