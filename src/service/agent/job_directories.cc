#include "service/agent/job_directories.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/files/file.h"

namespace longhaul::service {

std::string RunDirectory(const std::string& state_directory, const proto::StartWorkers& start) {
  if (!start.job().run_directory().empty()) return start.job().run_directory();
  return state_directory + "/jobs/" + start.job_id();
}

std::string CheckpointDirectoryOf(const std::string& state_directory,
                                  const proto::StartWorkers& start) {
  return RunDirectory(state_directory, start) + "/checkpoints";
}

Status OpenToWorkers(const std::string& state_directory, const io::UserAccount& user) {
  constexpr mode_t kPass = 0711;
  const std::string jobs = state_directory + "/jobs";
  if (chmod(state_directory.c_str(), kPass) != 0) {
    return FromErrno(errno, "cannot let user " + user.name + " pass through " + state_directory);
  }
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(jobs));
  // lchown: a link there would lead elsewhere.
  if (lchown(jobs.c_str(), user.user, user.group) != 0) {
    return FromErrno(errno, "cannot give " + jobs + " to user " + user.name);
  }
  return {};
}

}  // namespace longhaul::service
