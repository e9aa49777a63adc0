// The thread that talks to the controller for a run: waits for nodes, submits, follows, asks for
// the end's status. Everything it hears is posted to the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/time.h"
#include "io/event_loop.h"
#include "proto/status.pb.h"
#include "service/client/endpoint.h"
#include "service/client/rest_client.h"

namespace longhaul::frontend {

struct Submission {
  std::string job;            // the job's text
  std::string source;         // names it in messages
  std::string run_directory;  // absolute
  bool resume = false;
  std::string from;    // empty: none
  uint32_t nodes = 0;  // connected ones to wait for before submitting
};

// Called on the loop's thread.
struct SubmittedJob {
  std::string id;
  std::string plan_reason;  // why this layout, and what there is to say about data and checkpoints
};

struct LinkObserver {
  // The job is in. `at` is the monotonic time of the controller's answer.
  std::function<void(const SubmittedJob& job, Instant at)> on_submitted;
  // A notification, with its JSON as it came. `at` is the monotonic time at which it came.
  std::function<void(const proto::Notification& notification, const service::FeedEvent& event,
                     Instant at)>
      on_notification;
  std::function<void(bool connected, const std::string& reason)> on_connection;
  // The job is over: its last status.
  std::function<void(const proto::JobStatus& status)> on_over;
  // It can't be submitted or followed.
  std::function<void(const Status& reason)> on_failed;
};

class ControllerLink {
 public:
  // Starts at once. Requires that loop and observer's captures outlive this.
  ControllerLink(io::EventLoop& loop, service::Endpoint endpoint, Submission submission,
                 LinkObserver observer);
  ~ControllerLink();  // stops and joins; nothing is posted afterwards that would be run
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  // Asks the controller to stop the job, from a thread of its own. Requires that it was submitted.
  void StopJob(const std::string& job_id, const std::string& reason);

 private:
  void Talk();
  Status WaitForNodes();
  Result<SubmittedJob> Submit();
  Status Follow(const std::string& job_id);
  Result<proto::JobStatus> FetchStatus(const std::string& job_id);
  void Post(std::function<void()> work);

  io::EventLoop& loop_;
  const Submission submission_;
  const LinkObserver observer_;
  service::RestClient client_;
  // Shared with posted work, which may run after this is gone.
  std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);
  std::thread talker_;
  std::thread stopper_;
};

}  // namespace longhaul::frontend
