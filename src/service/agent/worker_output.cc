#include "service/agent/worker_output.h"

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
constexpr size_t kBytes = 4096;
constexpr uint64_t kLongestErrorFile = 1 << 20;

}  // namespace

Result<WorkerOutput> OpenWorkerOutput(const std::string& run_directory, uint64_t attempt,
                                      uint32_t rank) {
  const std::string folder = run_directory + "/logs/attempt-" + std::to_string(attempt);
  RETURN_IF_ERROR(io::PosixFileSystem().MakeDirectories(folder));
  WorkerOutput output;
  output.log_path = folder + "/rank-" + std::to_string(rank) + ".log";
  output.error_path = folder + "/rank-" + std::to_string(rank) + ".error.json";
  output.log =
      io::Fd(open(output.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!output.log.valid()) return FromErrno(errno, "cannot open " + output.log_path);
  struct stat facts {};
  if (fstat(output.log.get(), &facts) == 0) output.begin = static_cast<uint64_t>(facts.st_size);
  unlink(output.error_path.c_str());
  return output;
}

LastWords ReadLastWords(const WorkerOutput& output) {
  if (const Result<std::string> file = io::ReadText(output.error_path, kLongestErrorFile);
      file.ok()) {
    if (const auto error = runtime::ParseErrorFile(*file); error.ok()) {
      return {error->message, error->at.has_value() ? ToNanoseconds(*error->at) : 0};
    }
  }
  return {LastLines(output.log_path, output.begin), 0};
}

std::string LastLines(const std::string& path, uint64_t begin) {
  const io::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts {};
  if (!file.valid() || fstat(file.get(), &facts) != 0) return "";
  const auto size = static_cast<uint64_t>(facts.st_size);
  const uint64_t from = std::max(begin, size > kBytes ? size - kBytes : 0);
  std::array<char, kBytes> buffer;
  const ssize_t got = pread(file.get(), buffer.data(), buffer.size(), static_cast<off_t>(from));
  if (got <= 0) return "";

  std::string_view text(buffer.data(), static_cast<size_t>(got));
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  size_t first = text.size();
  for (size_t line = 0; line < kLines && first != std::string_view::npos && first > 0; ++line) {
    first = text.rfind('\n', first - 1);
  }
  if (first != std::string_view::npos && first > 0) text.remove_prefix(first + 1);
  return ToValidUtf8(text);
}

}  // namespace longhaul::service
