// Connects the scheduler of pods (scheduling/pod_scheduler.h) with an API server.
//
// Watches nodes, pods and, where they are served, PodGroups and storage; decides once a turn of the
// event loop after changes; sends what was decided within the client's limits. While the queue of
// binds is full nothing is decided. Events of pods are written beside that (event_writer.h). All of
// it runs on the loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/client/watch_connection.h"
#include "engines/kubernetes/scheduling/pod_scheduler.h"
#include "engines/kubernetes/service/event_writer.h"
#include "engines/kubernetes/service/optional_watch.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class PodSchedulerService {
 public:
  // A line for people: what has begun, and what hinders.
  using Log = std::function<void(const std::string& line)>;

  // Begins with the loop's next turn. Requires that loop and client outlive this. Nothing is
  // decided while `leads` returns false.
  PodSchedulerService(io::EventLoop& loop, Client& client, PodSchedulerSettings settings,
                      std::function<bool()> leads, Log log);
  ~PodSchedulerService();
  PodSchedulerService(const PodSchedulerService&) = delete;
  PodSchedulerService& operator=(const PodSchedulerService&) = delete;

  // Decides nothing more. Replies that are on their way are still awaited: see idle().
  void Drain();
  // No call is queued or on its way.
  bool idle() const;
  // All that exists has been seen, and decisions have begun.
  bool synced() const { return synced_; }
  const PodScheduler& scheduler() const { return scheduler_; }
  const EventWriter::Counts& events() const { return events_.counts(); }

 private:
  class NodeView;
  class PodView;

  void WatchGroups(PodGroupApi api, const Resource& resource);
  void WatchStorage();
  OptionalWatch& WatchOptional(const Resource& resource, const std::string& what,
                               std::function<void(const Change&)> changed);
  void OnViewSynced();
  void OnTrouble(const std::string& what, const Status& status);
  // Decides with the loop's next turn.
  void Changed();
  void Advance();
  void SetTimer();
  void SendActions();
  bool Send(const PodAction& action);
  void OnReply(const PodAction& action, const Reply& reply);
  void OnRead(const ReadPodAgain& read, const Reply& reply);
  void Complain(const std::string& line);

  io::EventLoop& loop_;
  Client& client_;
  PodScheduler scheduler_;
  const std::function<bool()> leads_;
  Log log_;
  EventWriter events_;
  JsonParser parser_;
  bool draining_ = false;
  bool synced_ = false;
  bool changed_ = false;
  size_t under_way_ = 0;
  std::deque<PodAction> unsent_;
  std::optional<io::EventLoop::TimerId> turn_;   // of the next decisions
  std::optional<io::EventLoop::TimerId> timer_;  // until the deadline
  std::string complaint_;                        // the last one
  std::unique_ptr<NodeView> nodes_;
  std::unique_ptr<PodView> pods_;
  std::vector<std::unique_ptr<OptionalWatch>> optional_;  // groups and storage
  std::vector<OptionalWatch*> storage_;                   // of these
};

}  // namespace longhaul::engines::kubernetes
