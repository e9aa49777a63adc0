// Runs the tests of a node check on an agent, one at a time on their own thread. An agent with jobs
// runs none and answers that it is busy, except for a check of the one job that it has while that
// has no workers.
#pragma once

#include <functional>
#include <string>

#include "proto/check.pb.h"
#include "service/agent/work_queue.h"

namespace longhaul::service {

class NodeChecker {
 public:
  // Calls `answer` on the loop's thread. `directory`: where the disk is measured.
  NodeChecker(io::EventLoop& loop, std::string directory, std::string peer_secret,
              std::function<void(proto::CheckAnswer)> answer);

  // On the loop's thread.
  void Run(const proto::CheckOrder& order, bool busy);

 private:
  const std::string directory_;
  const std::string peer_secret_;
  const std::function<void(proto::CheckAnswer)> answer_;
  WorkQueue queue_;
};

}  // namespace longhaul::service
