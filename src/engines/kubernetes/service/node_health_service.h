// Connects the node health program (health/node_health.h) with an API server.
//
// Watches nodes, the pods that are bound to them and, where they are served, ResourceSlices and
// DeviceTaintRules, and decides once a turn of the event loop after changes. All of it runs on the
// loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/client/watch_connection.h"
#include "engines/kubernetes/health/node_health.h"
#include "engines/kubernetes/service/optional_watch.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class NodeHealthService {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Begins with the loop's next turn. Requires that loop and client outlive this. Nothing is
  // decided while `leads` returns false. `device_taints`: whether those of DRA are read.
  NodeHealthService(io::EventLoop& loop, Client& client, NodeHealthSettings settings,
                    bool device_taints, std::function<bool()> leads, Log log);
  ~NodeHealthService();
  NodeHealthService(const NodeHealthService&) = delete;
  NodeHealthService& operator=(const NodeHealthService&) = delete;

  // Decides nothing more. Replies that are on their way are still awaited: see idle().
  void Drain();
  bool idle() const;

 private:
  class View;

  void WatchDevices();
  Status TakeNode(const Change& change);
  Status TakePod(const Change& change);
  void OnViewSynced();
  void OnTrouble(const std::string& what, const Status& status);
  void Changed();
  void Advance();
  void SetTimer();
  void SendActions();
  bool Send(const NodeAction& action);
  void OnReply(const NodeAction& action, const Reply& reply);
  void Complain(const std::string& line);

  io::EventLoop& loop_;
  Client& client_;
  NodeHealth health_;
  const std::function<bool()> leads_;
  Log log_;
  bool draining_ = false;
  bool synced_ = false;
  size_t under_way_ = 0;
  std::deque<NodeAction> unsent_;
  std::set<std::string> pods_;                   // those with evidence
  std::optional<io::EventLoop::TimerId> turn_;   // of the next decisions
  std::optional<io::EventLoop::TimerId> timer_;  // until the deadline
  std::set<std::string> complaints_;             // the latest ones, each logged once
  std::vector<std::unique_ptr<View>> views_;
  std::vector<std::unique_ptr<OptionalWatch>> devices_;
};

}  // namespace longhaul::engines::kubernetes
