// The thread that communicates with the controller for a run: waits for nodes, submits the job,
// follows it and fetches its last status. Everything that it receives is posted to the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/time.h"
#include "frontend/agent_launcher.h"
#include "io/event_loop.h"
#include "proto/status.pb.h"
#include "service/client/endpoint.h"
#include "service/client/rest_client.h"

namespace longhaul::frontend {

// What happens to a job that the controller has already and that has not ended, because an earlier
// front end of the same run submitted it.
enum class EarlierJob : uint8_t {
  kNone,      // there is none
  kContinue,  // it is this one: nothing is submitted, and it is followed, also if it has ended
  kReplace,   // it is stopped, and this one is submitted
};

struct Submission {
  std::string job;            // the job's text
  std::string source;         // names it in messages
  std::string run_directory;  // absolute
  bool resume = false;
  std::string from;    // empty: none
  uint32_t nodes = 0;  // connected nodes to wait for before submitting
  // How long; none: until they are there.
  std::optional<Duration> nodes_limit = kUsualAgentsLimit;
  EarlierJob earlier = EarlierJob::kNone;
};

// Called on the loop's thread.
struct SubmittedJob {
  std::string id;
  std::string plan_reason;  // why this layout was chosen, and notes about data and checkpoints
  bool continues = false;   // it was there before
};

struct LinkObserver {
  // The address of the web page, with a link that is valid once, for a minute. Not called for a
  // controller without the page.
  std::function<void(const std::string& address)> on_page;
  // The job was accepted. `at` is the monotonic time of the controller's answer.
  std::function<void(const SubmittedJob& job, Instant at)> on_submitted;
  // A notification, with its JSON as received. `at` is the monotonic time at which it arrived.
  std::function<void(const proto::Notification& notification, const service::FeedEvent& event,
                     Instant at)>
      on_notification;
  std::function<void(bool connected, const std::string& reason)> on_connection;
  // The job has ended: its last status.
  std::function<void(const proto::JobStatus& status)> on_over;
  // The job cannot be submitted or followed.
  std::function<void(const Status& reason)> on_failed;
};

class ControllerLink {
 public:
  // Starts at once. Requires that `loop` and the observer's captures outlive this object.
  ControllerLink(io::EventLoop& loop, service::Endpoint endpoint, Submission submission,
                 LinkObserver observer);
  ~ControllerLink();  // stops and joins; work that is posted afterwards is never run
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  // Requests the controller to stop the job, from a separate thread. Requires a submitted job.
  void StopJob(const std::string& job_id, const std::string& reason);

 private:
  void Talk();
  void RequestPage();
  Status WaitForNodes();
  // Returns the job that continues; nothing: one has to be submitted.
  Result<std::optional<SubmittedJob>> FindEarlier();
  Result<SubmittedJob> Submit();
  Status Follow(const std::string& job_id);
  Result<proto::JobStatus> FetchStatus(const std::string& job_id);
  void Post(std::function<void()> work);

  io::EventLoop& loop_;
  const Submission submission_;
  const LinkObserver observer_;
  service::RestClient client_;
  // Shared with posted work, which may run after this object is destroyed.
  std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);
  std::thread talker_;
  std::thread stopper_;
};

}  // namespace longhaul::frontend
