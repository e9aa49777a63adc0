// Runs node checks over the agents: sends the tests of runtime/node_check to them and collects the
// answers (docs/node-check.md).
//
// One check at a time, on its own thread. A check uses only nodes without jobs; one on which a job
// begins meanwhile leaves the check, and its agent runs no more tests. The newest check's status is
// kept in memory, not in the event log. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
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
};

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
    std::vector<Target> targets;
    std::vector<bool> left;  // a job has begun to use the node
    std::vector<std::string> switches;
    std::vector<uint32_t> switch_of;
    std::vector<proto::SelfTestResult> self_tests;
    std::vector<std::string> absent;  // further nodes, which are not connected
  };

  Result<std::vector<Target>> Choose(const std::vector<std::string>& nodes) const;
  static Members MembersOf(std::vector<Target> targets);
  void Run(Members members, uint64_t seed);
  // Sends the orders and waits for the answers of all nodes that are still connected. Returns those
  // that came before `limit`.
  Answers Exchange(const std::map<std::string, proto::CheckOrder>& orders, Duration limit);
  // Returns whether all answers have come, or the service stops, before `limit`.
  bool Await(const std::set<std::string>& nodes, Duration limit);
  void RunSelfTests(const std::vector<uint32_t>& nodes, bool first, Members& members,
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
  std::mutex start_mutex_;  // held by Start, which joins the thread of the last check

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopping_ = false;
  proto::CheckStatus status_;
  uint32_t round_ = 0;
  bool awaiting_ = false;  // answers of the round
  Answers answers_;
};

}  // namespace longhaul::service
