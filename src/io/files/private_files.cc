#include "io/files/private_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "base/text.h"
#include "io/files/file.h"

namespace longhaul::io {
namespace {

constexpr mode_t kOthers = 077;
constexpr mode_t kUsual = 022;  // where the system does not report the one that is set
constexpr int kNotCalled = -1;

// A property of the process, as the umask itself is.
std::atomic<int> user_umask = kNotCalled;

// Read, not set and set back: another thread may make a file meanwhile.
mode_t CurrentUmask() {
  constexpr uint64_t kMostBytes = 64 << 10;
  constexpr std::string_view kKey = "Umask:";
  const Result<std::string> status = ReadText("/proc/self/status", kMostBytes);
  const size_t line = status.ok() ? status->find(kKey) : std::string::npos;
  if (line == std::string::npos) return kUsual;
  mode_t mask = 0;
  const std::string_view rest = std::string_view(*status).substr(line + kKey.size());
  for (const char c : Trim(rest.substr(0, rest.find('\n')))) {
    if (c < '0' || c > '7') return kUsual;
    mask = mask * 8 + static_cast<mode_t>(c - '0');
  }
  return mask;
}

std::string Octal(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

}  // namespace

void MakeFilesPrivate() {
  if (user_umask == kNotCalled) user_umask = static_cast<int>(umask(kOthers));
}

mode_t UserUmask() {
  const int known = user_umask;
  return known == kNotCalled ? CurrentUmask() : static_cast<mode_t>(known);
}

Result<bool> TightenFile(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return false;
    return FromErrno(errno, "cannot look at " + path);
  }
  if ((facts.st_mode & kOthers) == 0) return false;
  if (chmod(path.c_str(), facts.st_mode & 07777 & ~kOthers) != 0) {
    return FromErrno(errno, "cannot make " + path + " private (mode " + Octal(facts.st_mode) +
                                "): make its owner run this, or move it away");
  }
  return true;
}

Status CheckPrivate(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return FromErrno(errno, "cannot read " + path);
  if ((facts.st_mode & kOthers) != 0) {
    return PermissionDenied("other users may read or change " + path + " (mode " +
                            Octal(facts.st_mode) + "): chmod 600 " + path +
                            ", and replace the secret in it if others may have read it");
  }
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return PermissionDenied(path + " belongs to user " + std::to_string(facts.st_uid) +
                            ", expected this user or root: chown it, or use a file of your own");
  }
  return {};
}

Result<std::string> ReadPrivateText(const std::string& path, uint64_t limit) {
  RETURN_IF_ERROR(CheckPrivate(path));
  return ReadText(path, limit);
}

Status WritePrivateText(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  // The remains of a crash: with O_EXCL nobody else can have prepared the file.
  (void)unlink(temporary.c_str());
  const Fd file(
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return FromErrno(errno, "cannot create " + temporary);
  const auto fail = [&](const char* what) {
    const Status failed = FromErrno(errno, what + temporary);
    (void)unlink(temporary.c_str());
    return failed;
  };
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail("cannot write ");
    rest.remove_prefix(static_cast<size_t>(written));
  }
  if (fsync(file.get()) != 0) return fail("cannot sync ");
  RETURN_IF_ERROR(PosixFileSystem().Rename(temporary, path));
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return PosixFileSystem().SyncDirectory(parent);
}

std::string WarningOfOpenDirectory(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0 || (facts.st_mode & kOthers) == 0) return "";
  return "other users may enter " + path + " (mode " + Octal(facts.st_mode) +
         "): new files in it are private, older ones may not be; chmod 700 it to close it";
}

}  // namespace longhaul::io
