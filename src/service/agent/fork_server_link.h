// A job's fork server: the process that forks its built-in trainers in milliseconds. The protocol
// is worker_api/fork_server.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/process/process.h"
#include "worker_api/fork_server.h"

namespace longhaul::service {

class ForkServerLink {
 public:
  // A worker's pid, or why there is none. Called on the loop's thread.
  using Answer = std::function<void(const Result<int64_t>&)>;

  // Starts `trainer` as a fork server whose own output is appended to `log_path`. `loop` must
  // outlive this.
  static Result<std::unique_ptr<ForkServerLink>> Start(io::EventLoop& loop,
                                                       const std::string& trainer,
                                                       const std::string& log_path);
  // Ends it. Its workers live on; requests without an answer get none.
  ~ForkServerLink();
  ForkServerLink(const ForkServerLink&) = delete;
  ForkServerLink& operator=(const ForkServerLink&) = delete;

  // Asks for a worker whose output goes to `output`.
  void Fork(const std::map<std::string, std::string>& environment, int output, Answer answer);

  // False once it has ended: requests fail from then on.
  bool alive() const { return alive_; }

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
