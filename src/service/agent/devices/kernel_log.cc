#include "service/agent/devices/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "base/text.h"
#include "io/clock.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestRecord = 8192;  // of the kernel
constexpr int kRecordsAtOnce = 256;      // then others have their turn
constexpr Duration kReportedAgain = std::chrono::seconds(60);
constexpr size_t kMostReported = 64;  // in that time

}  // namespace

std::string_view KernelText(std::string_view line) {
  unsigned priority = 0;
  const char* const end = line.data() + line.size();
  const auto [after, problem] = std::from_chars(line.data(), end, priority);
  if (problem != std::errc() || after == end || *after != ',') return {};
  constexpr unsigned kSeverityBits = 3;
  if (priority >> kSeverityBits != 0) return {};  // the facility: 0 is the kernel
  const size_t head_end = line.find(';');
  if (head_end == std::string_view::npos) return {};
  return line.substr(head_end + 1);
}

Result<std::unique_ptr<KernelLog>> KernelLog::Open(io::EventLoop& loop, const std::string& path,
                                                   Found found) {
  io::Fd log(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (log.get() < 0) return FromErrno(errno, "cannot read the kernel's log " + path);
  lseek(log.get(), 0, SEEK_END);  // fails for a pipe, which has nothing older
  return std::unique_ptr<KernelLog>(new KernelLog(loop, std::move(log), std::move(found)));
}

KernelLog::KernelLog(io::EventLoop& loop, io::Fd log, Found found)
    : loop_(loop), log_(std::move(log)), found_(std::move(found)) {
  loop_.Watch(log_.get(), /*want_write=*/false, [this](bool, bool) { Read(); });
}

KernelLog::~KernelLog() { loop_.Unwatch(log_.get()); }

void KernelLog::Read() {
  std::array<char, kLongestRecord> record;
  for (int i = 0; i < kRecordsAtOnce; ++i) {
    const ssize_t size = read(log_.get(), record.data(), record.size());
    if (size > 0) {
      // A pipe may have several; lines that follow a record's own have its variables.
      for (const std::string_view line : Split({record.data(), static_cast<size_t>(size)}, '\n')) {
        TakeLine(line);
      }
    } else if (size < 0 && (errno == EPIPE || errno == EINTR || errno == EINVAL)) {
      continue;  // records were overwritten before they were read, or one is too long
    } else {
      if (size == 0 || errno != EAGAIN) loop_.Unwatch(log_.get());  // nothing more will come
      return;
    }
  }
}

void KernelLog::TakeLine(std::string_view line) {
  const std::optional<DeviceError> error = DeviceErrorOf(KernelText(line));
  if (!error.has_value()) return;
  const Instant now = io::MonotonicNow();
  std::erase_if(reported_, [now](const auto& each) { return each.second + kReportedAgain <= now; });
  if (reported_.size() >= kMostReported) return;
  if (!reported_.try_emplace({error->device, error->code}, now).second) return;
  found_(*error);
}

}  // namespace longhaul::service
