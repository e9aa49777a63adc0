// Asks the controllers of LonghaulJobs how the jobs do, over their REST APIs.
//
// Each controller is verified by the authority that its pod has published, and gets a token of the
// operator's service account whose audience is that job: a controller cannot use it for another
// one. All of it runs on the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/client/http_client.h"
#include "engines/kubernetes/jobs/job_operator.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

struct ControllerPollSettings {
  ObjectName account;  // the operator's own service account
  Duration period = std::chrono::seconds(2);
  size_t at_once = 64;
};

class ControllerPoll {
 public:
  using Take = std::function<void(const JobOperator::Controller&, ControllerReport)>;
  using Log = std::function<void(const std::string& line)>;

  // Requires that loop and client outlive this.
  ControllerPoll(io::EventLoop& loop, Client& client, ControllerPollSettings settings, Take take,
                 Log log);
  ~ControllerPoll();
  ControllerPoll(const ControllerPoll&) = delete;
  ControllerPoll& operator=(const ControllerPoll&) = delete;

  // Asks these, and forgets all others. Those that have been asked within the period are not.
  void Ask(const std::vector<JobOperator::Controller>& controllers);

 private:
  struct Asked {
    JobOperator::Controller controller;
    std::unique_ptr<HttpClient> http;
    std::shared_ptr<const Credential> credential;  // null: none yet
    Instant credential_until;
    bool waits_for_token = false;
    Instant asked_at;
    int open = 0;  // requests
    std::string jobs;
    std::string nodes;
    std::string trouble;  // the last one
  };

  bool Prepare(const JobOperator::Controller& controller, Asked& asked);
  void AskForToken(const std::string& uid, Asked& asked, Instant now);
  void OnToken(const std::string& uid, const Reply& reply, Instant until);
  void Request(const std::string& uid, Asked& asked, const std::string& path, bool is_jobs);
  void OnAnswer(const std::string& uid, bool is_jobs, const Result<HttpResponse>& response);
  void Complain(Asked& asked, const std::string& trouble);

  io::EventLoop& loop_;
  Client& client_;
  const ControllerPollSettings settings_;
  const Take take_;
  const Log log_;
  std::map<std::string, Asked> asked_;  // by the controller pod's uid
  // Expired when a token arrives after the end of this.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace longhaul::engines::kubernetes
