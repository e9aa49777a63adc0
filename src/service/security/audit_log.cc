#include "service/security/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "io/files/file.h"
#include "io/files/private_files.h"
#include "io/log/log.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestAuditValue = 256;  // of one value
constexpr int kFirstRefused = 400;

}  // namespace

AuditEntry RefusedEntry(const std::string& from, const std::string& did, int status,
                        const std::string& error) {
  AuditEntry entry;
  entry.from = from;
  entry.did = did;
  entry.status = status;
  entry.error = error;
  return entry;
}

// Values that come from clients are cut and made printable, so that nobody can forge a line or fill
// the disk with one.
std::string AuditLine(const AuditEntry& entry, uint64_t unlogged, Instant now) {
  nlohmann::ordered_json json = {{"at", ToString(now)}};
  if (!entry.who.name.empty()) {
    json["who"] = Printable(entry.who.name, kLongestAuditValue);
    json["role"] = NameOf(entry.who.role);
  }
  json["from"] = Printable(entry.from, kLongestAuditValue);
  json["did"] = Printable(entry.did, kLongestAuditValue);
  if (!entry.object.empty()) json["object"] = Printable(entry.object, kLongestAuditValue);
  json["status"] = entry.status;
  if (!entry.error.empty()) json["error"] = Printable(entry.error, kLongestAuditValue);
  if (unlogged > 0) json["unlogged"] = unlogged;
  return json.dump() + "\n";
}

// A token bucket: kBurst refusals at once, then one for each kPeriod. Refused requests need no
// credentials, so without a limit anybody could fill the log and rotate away what matters.
bool RefusalLimit::Admit(Instant now) {
  if (left_ == kBurst) refilled_ = now;
  // A clock that was set back gives nothing and takes nothing.
  const Duration passed = std::max(now - refilled_, Duration(0));
  const auto periods = static_cast<uint64_t>(passed / kPeriod);
  left_ = std::min(kBurst, left_ + std::min(periods, kBurst));
  refilled_ += static_cast<int64_t>(periods) * kPeriod;
  if (left_ == 0) {
    ++unlogged_;
    return false;
  }
  --left_;
  return true;
}

uint64_t RefusalLimit::TakeUnlogged() { return std::exchange(unlogged_, 0); }

// O_NOFOLLOW and CheckPrivate: in a directory that others can write, a link could direct the log
// into another file.
Status AuditLog::Open() {
  const Status usable = io::CheckPrivate(path_);
  if (!usable.ok() && usable.code() != Code::kNotFound) return usable;
  io::Fd file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return FromErrno(errno, "cannot open the audit log " + path_);
  ASSIGN_OR_RETURN(bytes_, io::PosixFileSystem().Size(path_));
  file_ = std::move(file);
  return {};
}

// A failure is logged once and does not refuse the request: a full disk must not lock
// administrators out.
void AuditLog::Record(const AuditEntry& entry, Instant now) {
  const std::lock_guard lock(mutex_);
  if (entry.status >= kFirstRefused && !refusals_.Admit(now)) return;
  const Status written = Write(AuditLine(entry, refusals_.TakeUnlogged(), now));
  if (!written.ok() && !failed_) {
    io::LogError("controller", "actions are not in the audit log: " + written.message());
  }
  failed_ = !written.ok();
}

Status AuditLog::Write(const std::string& line) {
  if (bytes_ + line.size() > limits_.bytes) RETURN_IF_ERROR(Rotate());
  const ssize_t written = ::write(file_.get(), line.data(), line.size());
  if (written < 0) return FromErrno(errno, "cannot write " + path_);
  bytes_ += static_cast<uint64_t>(written);
  if (static_cast<size_t>(written) == line.size()) return {};
  return ResourceExhausted("cannot write " + path_ + ": the disk is full");
}

Status AuditLog::Rotate() {
  const auto numbered = [this](int number) { return path_ + "." + std::to_string(number); };
  // From the oldest to the newest, so that each name is free when it is needed. The oldest file is
  // replaced.
  for (int number = limits_.files - 2; number >= 0; --number) {
    const Status moved =
        io::PosixFileSystem().Rename(number == 0 ? path_ : numbered(number), numbered(number + 1));
    if (!moved.ok() && moved.code() != Code::kNotFound) return moved;
  }
  return Open();
}

}  // namespace longhaul::service
