#include "service/agent/output/worker_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/utf8.h"
#include "io/files/file.h"
#include "runtime/rendezvous/torchrun.h"

namespace longhaul::service {
namespace {

constexpr size_t kLines = 20;
constexpr uint64_t kLongestErrorFile = 1 << 20;

// Never blocks, and follows no link in the last part of the path.
Result<io::Fd> OpenRegular(const std::string& path, int flags) {
  io::Fd file(open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  if (!file.valid()) {
    // ELOOP: a link; ENXIO: a pipe that nobody reads.
    if (errno == ELOOP || errno == ENXIO)
      return FailedPrecondition(path + " is not a regular file");
    return FromErrno(errno, "cannot open " + path);
  }
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0) return FromErrno(errno, "cannot look at " + path);
  if (!S_ISREG(facts.st_mode)) return FailedPrecondition(path + " is not a regular file");
  return file;
}

}  // namespace

Result<std::string> ReadWorkerFile(const std::string& path) {
  ASSIGN_OR_RETURN(const io::Fd file, OpenRegular(path, O_RDONLY));
  std::string text(kLongestErrorFile, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) return FromErrno(errno, "cannot read " + path);
  text.resize(static_cast<size_t>(got));
  return text;
}

Status WriteWorkerFile(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(const io::Fd file, OpenRegular(path, O_WRONLY | O_CREAT | O_TRUNC));
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(file.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return FromErrno(errno, "cannot write " + path);
    done += static_cast<size_t>(wrote);
  }
  return Status();
}

Result<io::Fd> OpenLog(const std::string& path) {
  ASSIGN_OR_RETURN(io::Fd log, OpenRegular(path, O_WRONLY | O_CREAT | O_APPEND));
  // The worker gets the descriptor as its output, and expects writes that block.
  const int flags = fcntl(log.get(), F_GETFL);
  if (flags < 0 || fcntl(log.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return FromErrno(errno, "cannot open " + path);
  }
  return log;
}

Result<WorkerOutput> OpenWorkerOutput(const std::string& run_directory, uint64_t attempt,
                                      uint32_t rank) {
  const std::string folder = run_directory + "/logs/attempt-" + std::to_string(attempt);
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(folder));
  WorkerOutput output;
  output.log_path = folder + "/rank-" + std::to_string(rank) + ".log";
  output.error_path = folder + "/rank-" + std::to_string(rank) + ".error.json";
  output.stack_path = folder + "/rank-" + std::to_string(rank) + ".stack";
  ASSIGN_OR_RETURN(output.log, OpenLog(output.log_path));
  struct stat facts {};
  if (fstat(output.log.get(), &facts) == 0) output.begin = static_cast<uint64_t>(facts.st_size);
  unlink(output.error_path.c_str());
  unlink(output.stack_path.c_str());
  return output;
}

std::optional<LastWords> ReadErrorFile(const WorkerOutput& output) {
  const Result<std::string> file = ReadWorkerFile(output.error_path);
  if (!file.ok()) return std::nullopt;
  const auto error = runtime::ParseErrorFile(*file);
  if (!error.ok()) return std::nullopt;
  return LastWords{error->message, error->at.has_value() ? ToNanoseconds(*error->at) : 0};
}

LastWords ReadLastWords(const WorkerOutput& output) {
  return ReadErrorFile(output).value_or(LastWords{LastLines(output.log_path, output.begin), 0});
}

std::string LastLines(const std::string& path, uint64_t begin) {
  const Result<io::Fd> opened = OpenRegular(path, O_RDONLY);
  struct stat facts {};
  if (!opened.ok() || fstat(opened->get(), &facts) != 0) return "";
  const io::Fd& file = *opened;
  const auto size = static_cast<uint64_t>(facts.st_size);
  const uint64_t from = std::max(begin, size > kMostTailBytes ? size - kMostTailBytes : 0);
  std::array<char, kMostTailBytes> buffer;
  const ssize_t got = pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(from));
  if (got <= 0) return "";
  return LastLinesOf({buffer.data(), static_cast<size_t>(got)});
}

std::string LastLinesOf(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  size_t first = text.size();
  for (size_t line = 0; line < kLines && first != std::string_view::npos && first > 0; ++line) {
    first = text.rfind('\n', first - 1);
  }
  if (first != std::string_view::npos && first > 0) text.remove_prefix(first + 1);
  return ToValidUtf8(text);
}

}  // namespace longhaul::service
