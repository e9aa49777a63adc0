// Runs the tests of a node check on an agent, one at a time on their own thread. An agent with jobs
// runs none and answers that it is busy, except for a check of the one job that it has while that
// has no workers. A check command is killed when workers start.
#pragma once

#include <functional>
#include <string>

#include "io/process/command.h"
#include "proto/check.pb.h"
#include "service/agent/check/check_command.h"
#include "service/agent/work_queue.h"

namespace longhaul::service {

class NodeChecker {
 public:
  // Calls `answer` on the loop's thread. `directory`: where the disk is measured.
  NodeChecker(io::EventLoop& loop, std::string directory, std::string peer_secret,
              CheckCommand command, std::function<void(proto::CheckAnswer)> answer);
  ~NodeChecker();  // ends the check command
  NodeChecker(const NodeChecker&) = delete;
  NodeChecker& operator=(const NodeChecker&) = delete;

  // On the loop's thread.
  void Run(const proto::CheckOrder& order, bool busy);
  // Kills the check command, if it runs, because workers start. Does not block.
  void EndCommand();

 private:
  void RunTest(const proto::CheckOrder& order, proto::CheckAnswer& answer);

  const std::string directory_;
  const std::string peer_secret_;
  const CheckCommand command_;
  const std::function<void(proto::CheckAnswer)> answer_;
  io::CommandDeadline deadline_;  // of the check command
  WorkQueue queue_;
};

}  // namespace longhaul::service
