#include "frontend/run_directory.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "io/files/file.h"

namespace longhaul::frontend {
namespace {

constexpr int kMostRuns = 10'000;

bool Exists(const std::string& path) {
  struct stat facts {};
  return lstat(path.c_str(), &facts) == 0;
}

Result<std::string> Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) return FromErrno(error.value(), "cannot find the working directory");
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

// The failure, with the remedy.
Status ElsewhereInstead(const Status& failure) {
  return Status(failure.code(), failure.message() + "; name another place with --run-dir");
}

// Whether there is something in it that a new run would mix with.
Result<bool> HasContent(const std::string& path) {
  Result<std::vector<std::string>> names = io::PosixFileSystem().List(path);
  if (names.ok()) {
    std::erase(*names, "owner.lock");  // of a run that ended before it wrote anything
    return !names->empty();
  }
  if (names.status().code() == Code::kNotFound) return false;
  return ElsewhereInstead(names.status());
}

Status MakeWritable(const std::string& path) {
  const Status made = io::PosixFileSystem().MakeDirectories(path);
  if (!made.ok()) return ElsewhereInstead(made);
  if (access(path.c_str(), W_OK | X_OK) == 0) return Status();
  return ElsewhereInstead(FromErrno(errno, "cannot write to the run's directory " + path));
}

}  // namespace

Result<RunDirectory> MakeRunDirectory(const std::string& wanted, const std::string& name,
                                      bool resume, Duration limit,
                                      const std::function<void(const std::string& owner)>& waits) {
  ASSIGN_OR_RETURN(const std::string first, Absolute(wanted.empty() ? "runs/" + name : wanted));
  std::string path = first;
  for (int i = 2; i <= kMostRuns; ++i) {
    ASSIGN_OR_RETURN(const bool had_content, HasContent(path));
    if (!had_content || resume) {
      RETURN_IF_ERROR(MakeWritable(path));
      Result<io::OwnerLock> lock =
          io::OwnerLock::TakeWithin(path, "longhaul run", resume ? limit : Duration(0), waits);
      if (lock.ok()) return RunDirectory{path, had_content, *std::move(lock)};
      const bool owned = lock.status().code() == Code::kAlreadyExists;
      if (resume && owned) {
        return AlreadyExists(lock.status().message() + ": stop that run first, or name another " +
                             "folder with --run-dir");
      }
      if (!owned) return lock.status();
    }
    path = first + "-" + std::to_string(i);
  }
  return ResourceExhausted("every name for a run beside it is taken: " + first);
}

Result<std::string> MakeClusterDirectory(const std::string& run_directory) {
  const std::string path = run_directory + "/cluster";
  for (int i = 1; Exists(path); ++i) {
    const std::string aside = path + "." + std::to_string(i);
    if (Exists(aside)) continue;
    RETURN_IF_ERROR(io::PosixFileSystem().Rename(path, aside));
  }
  if (mkdir(path.c_str(), 0700) != 0) return FromErrno(errno, "cannot create " + path);
  return path;
}

Result<std::string> KeepClusterDirectory(const std::string& run_directory) {
  std::string path = run_directory + "/cluster";
  if (!Exists(path)) return FailedPrecondition("there is no " + path);
  // In a container, the next controller often has the number of the process before.
  const std::string endpoint = path + "/endpoint.json";
  if (Exists(endpoint)) RETURN_IF_ERROR(io::PosixFileSystem().Remove(endpoint));
  return path;
}

Result<Bytes> FreeSpace(const std::string& path) {
  struct statvfs facts {};
  std::filesystem::path existing = path;
  while (statvfs(existing.c_str(), &facts) != 0) {
    if (errno != ENOENT || existing == existing.parent_path())
      return FromErrno(errno, "cannot read the free space of " + path);
    existing = existing.parent_path();
  }
  return Bytes(static_cast<int64_t>(facts.f_bavail * facts.f_frsize));
}

}  // namespace longhaul::frontend
