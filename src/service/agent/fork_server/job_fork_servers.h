// The fork servers of the jobs that have workers on this node: at most one for each job.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/ids.h"
#include "base/status.h"
#include "io/event_loop.h"
#include "io/process/user_account.h"
#include "service/agent/fork_server/fork_server_link.h"

namespace longhaul::service {

class JobForkServers {
 public:
  using Command = std::function<Result<ForkServerCommand>()>;

  // They run as `user` if there is one. `loop` must outlive this.
  JobForkServers(io::EventLoop& loop, std::optional<io::UserAccount> user)
      : loop_(loop), user_(std::move(user)) {}

  // Whether the job's workers must be started without a fork server, because its first one failed.
  bool HasFailed(const JobId& job) const { return failed_.contains(job); }
  // Returns the job's fork server; starts it by `command` if there is none that is alive. It is
  // valid until the next call of this class. Its output goes to a file below `run_directory`.
  Result<ForkServerLink*> Get(const JobId& job, const std::string& run_directory,
                              const Command& command);
  // The process of the job's fork server, which may have ended; nothing where there is none.
  std::optional<pid_t> Process(const JobId& job) const;
  // Takes the reason why a worker was not forked. A fork server that has forked workers before is
  // replaced at the next start, because packages may have changed; otherwise the job has none from
  // now on. Returns whether the user should know the reason.
  bool TakeFailure(const JobId& job, const Status& why);

  // The job has ended.
  void Forget(const JobId& job);
  // Ends all fork servers.
  void Clear() { servers_.clear(); }

 private:
  void End(const JobId& job);

  io::EventLoop& loop_;
  const std::optional<io::UserAccount> user_;
  std::map<JobId, std::unique_ptr<ForkServerLink>> servers_;
  std::set<JobId> failed_;
};

}  // namespace longhaul::service
