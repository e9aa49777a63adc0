// Runs node checks over the agents: sends the tests of runtime/node_check to them and collects the
// answers (docs/node-check.md).
//
// One check at a time, on its own thread. A check uses only nodes without jobs, or those of one job
// that has no workers at the time. A node on which another job begins meanwhile leaves the check,
// and its agent runs no more tests. The newest check's status is kept in memory, not in the event
// log. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "proto/check.pb.h"
#include "proto/events.pb.h"
#include "runtime/controller/controller.h"
#include "runtime/node_check/node_check.h"

namespace longhaul::service {

// How the service reaches the rest of the controller.
struct NodeCheckPort {
  std::function<std::vector<runtime::Controller::CheckTarget>()> targets;
  // Returns false if the agent is not connected.
  std::function<bool(const NodeId&, const proto::CheckOrder&)> send;
};

struct NodeCheckLimits {
  // From the order to the answer. A pair test has a limit of its own (agent/check/pair_test.h).
  Duration self_test = std::chrono::seconds(15);
  Duration pair_test = std::chrono::seconds(7);
  // In addition to the limit of the check command that the agent states.
  Duration device_test = std::chrono::seconds(5);
};

// What the core gets to know of a job's check.
proto::Event NodesCheckedEvent(const runtime::NodeCheckOrder& order,
                               const proto::CheckStatus& status);

class NodeCheckService {
 public:
  explicit NodeCheckService(NodeCheckPort port, NodeCheckLimits limits = {});
  ~NodeCheckService();  // ends a check under way
  NodeCheckService(const NodeCheckService&) = delete;
  NodeCheckService& operator=(const NodeCheckService&) = delete;

  // Starts a check of these nodes; empty: of all nodes without jobs, including lost ones that are
  // neither cordoned nor draining. Returns its status; kFailedPrecondition while a check runs,
  // kNotFound for an unknown node, and kFailedPrecondition for a node that runs jobs.
  Result<proto::CheckStatus> Start(const std::vector<std::string>& nodes, const std::string& by,
                                   uint64_t seed);
  // Checks the nodes of a job without workers, once no other check runs, and calls `done` with the
  // result on the thread of the checks. Must not block there. Not called if the service stops
  // first.
  void CheckJob(const runtime::NodeCheckOrder& order,
                std::function<void(const proto::CheckStatus&)> done);
  // Returns the newest check's status; kNotFound for another number.
  Result<proto::CheckStatus> Status(uint64_t check) const;

  void TakeAnswer(const NodeId& node, const proto::CheckAnswer& answer);

 private:
  using Target = runtime::Controller::CheckTarget;
  struct Answer {
    proto::CheckAnswer content;
    Instant at{};  // when it arrived
  };
  using Answers = std::map<std::string, Answer>;  // by node

  // The nodes of a check, by their number in it.
  struct Members {
    std::string job;  // whose nodes they are; empty: of none
    std::vector<Target> targets;
    std::vector<bool> left;  // a job has begun to use the node
    std::vector<std::string> switches;
    std::vector<uint32_t> switch_of;
    std::vector<proto::SelfTestResult> self_tests;
    std::vector<proto::CheckedNode> devices;  // only their rows
    std::vector<Duration> command_limits;     // zero: the node has no check command
    std::vector<std::string> absent;          // further nodes, which are not connected
  };

  struct Request {
    std::vector<Target> targets;  // of a user's check
    uint64_t seed = 0;
    std::optional<runtime::NodeCheckOrder> order;  // of a job's check
    std::function<void(const proto::CheckStatus&)> done;
  };

  Result<std::vector<Target>> Choose(const std::vector<std::string>& nodes) const;
  std::vector<Target> TargetsOf(const runtime::NodeCheckOrder& order) const;
  void Serve();
  void BeginStatus(const std::string& by);  // requires the lock
  static Members MembersOf(std::vector<Target> targets);
  void Run(Members members, uint64_t seed);
  // Sends the orders and waits for the answers of all nodes that are still connected. Returns those
  // that came before `limit`.
  Answers Exchange(const std::map<std::string, proto::CheckOrder>& orders, const std::string& job,
                   Duration limit);
  // Returns whether all answers have come, or the service stops, before `limit`.
  bool Await(const std::set<std::string>& nodes, Duration limit);
  void RunSelfTests(const std::vector<uint32_t>& nodes, bool first, Members& members,
                    runtime::node_check::NodeCheck& check);
  void RunDeviceTests(const std::vector<uint32_t>& nodes, Members& members,
                      runtime::node_check::NodeCheck& check);
  void RunPairTests(const std::vector<runtime::node_check::PairTest>& tests, Members& members,
                    uint64_t seed, runtime::node_check::NodeCheck& check);
  void UpdateIdle(Members& members) const;
  void Report(const std::string& line);
  void Finish(const Members& members, const runtime::node_check::Verdicts& verdicts,
              uint32_t pair_tests);
  bool stopping() const;

  const NodeCheckPort port_;
  const NodeCheckLimits limits_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<Request> requests_;
  proto::CheckStatus status_;
  uint32_t round_ = 0;
  bool awaiting_ = false;  // answers of the round
  Answers answers_;
};

}  // namespace longhaul::service
