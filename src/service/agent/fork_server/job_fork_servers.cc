#include "service/agent/fork_server/job_fork_servers.h"

#include <utility>

#include "io/files/file.h"

namespace longhaul::service {
namespace {

// Loading packages from a cold disk takes a minute.
constexpr Duration kPatience = std::chrono::minutes(3);

}  // namespace

Result<ForkServerLink*> JobForkServers::Get(const JobId& job, const std::string& run_directory,
                                            const Command& command) {
  std::unique_ptr<ForkServerLink>& server = servers_[job];
  if (server == nullptr || !server->alive()) {
    ASSIGN_OR_RETURN(const ForkServerCommand found, command());
    const io::FileIdentity files(user_.has_value() ? &*user_ : nullptr);
    const std::string logs = run_directory + "/logs";
    RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(logs));
    ASSIGN_OR_RETURN(
        server, ForkServerLink::Start(loop_, found, logs + "/fork-server.log", user_, kPatience));
  }
  return server.get();
}

std::optional<pid_t> JobForkServers::Process(const JobId& job) const {
  const auto server = servers_.find(job);
  if (server == servers_.end() || server->second == nullptr) return std::nullopt;
  return server->second->pid();
}

bool JobForkServers::TakeFailure(const JobId& job, const Status& why) {
  const auto server = servers_.find(job);
  const bool served =
      server != servers_.end() && server->second != nullptr && server->second->has_served();
  if (served) {
    if (server->second->alive()) End(job);
    return false;
  }
  // One that ended without an error found nothing that is worth loading.
  return failed_.insert(job).second && why.code() != Code::kFailedPrecondition;
}

void JobForkServers::Forget(const JobId& job) {
  failed_.erase(job);
  End(job);
}

void JobForkServers::End(const JobId& job) {
  const auto found = servers_.find(job);
  if (found == servers_.end()) return;
  // Later, because an answer of this very fork server may have brought us here.
  loop_.Post([server = std::shared_ptr<ForkServerLink>(std::move(found->second))] {});
  servers_.erase(found);
}

}  // namespace longhaul::service
