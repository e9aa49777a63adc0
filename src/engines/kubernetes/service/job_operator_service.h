// Connects the operator of LonghaulJobs (jobs/job_operator.h) with an API server and with the
// controllers of the jobs.
//
// Watches LonghaulJobs, the Workloads of those in queues of Kueue, and the pods that have their
// label, reads the keys of the API server's tokens, asks the controllers, and decides once a turn
// of the event loop after changes. All of it runs on the loop's thread.
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
#include "engines/kubernetes/jobs/job_operator.h"
#include "engines/kubernetes/service/controller_poll.h"
#include "engines/kubernetes/service/optional_watch.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class JobOperatorService {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Begins with the loop's next turn. Requires that loop and client outlive this. Nothing is
  // decided while `leads` returns false.
  JobOperatorService(io::EventLoop& loop, Client& client, JobOperatorSettings settings,
                     ControllerPollSettings poll, std::function<bool()> leads, Log log);
  ~JobOperatorService();
  JobOperatorService(const JobOperatorService&) = delete;
  JobOperatorService& operator=(const JobOperatorService&) = delete;

  // Decides nothing more. Replies that are on their way are still awaited: see idle().
  void Drain();
  bool idle() const;

 private:
  class JobView;
  class PodView;

  // Kueue's resources, which the API server may not have.
  void WatchQueues();
  void WatchQueue(const Resource& resource, const std::string& selector, const std::string& what,
                  std::function<Status(const Change&)> take);
  void ReadKeys();
  void OnKeys(const Reply& reply);
  void AskControllers();
  void OnViewSynced();
  void OnTrouble(const std::string& what, const Status& status);
  void Changed();
  void Advance();
  void SetTimer();
  void SendActions();
  bool Send(const JobAction& action);
  void OnReply(const JobAction& action, const Reply& reply);
  void Complain(const std::string& line);

  io::EventLoop& loop_;
  Client& client_;
  JobOperator operator_;
  const std::function<bool()> leads_;
  Log log_;
  ControllerPoll poll_;
  bool draining_ = false;
  bool synced_ = false;
  size_t under_way_ = 0;
  std::deque<JobAction> unsent_;
  std::optional<io::EventLoop::TimerId> turn_;   // of the next decisions
  std::optional<io::EventLoop::TimerId> timer_;  // until the deadline
  std::optional<io::EventLoop::TimerId> keys_;   // until they are read again
  std::optional<io::EventLoop::TimerId> ask_;    // until the controllers are asked again
  std::set<std::string> complaints_;             // the latest ones, each logged once
  std::unique_ptr<JobView> jobs_;
  std::unique_ptr<PodView> pods_;
  std::vector<std::unique_ptr<OptionalWatch>> queues_;  // the Workloads first
};

}  // namespace longhaul::engines::kubernetes
