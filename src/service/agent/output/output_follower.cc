#include "service/agent/output/output_follower.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "io/clock.h"

namespace longhaul::service {
namespace {

constexpr size_t kBytesAtOnce = 256 << 10;

}  // namespace

OutputFollower::OutputFollower(io::EventLoop& loop, std::function<void(runtime::AgentInput)> report)
    : loop_(loop), report_(std::move(report)) {}

OutputFollower::~OutputFollower() {
  if (inotify_.valid()) loop_.Unwatch(inotify_.get());
  for (const auto& [worker, timer] : reading_on_) loop_.Cancel(timer);
}

Status OutputFollower::Open() {
  if (inotify_.valid()) return Status();
  inotify_ = io::Fd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify_.valid()) {
    return FromErrno(errno,
                     "cannot watch the workers' output (inotify; see "
                     "/proc/sys/fs/inotify/max_user_instances)");
  }
  loop_.Watch(inotify_.get(), false, [this](bool, bool) { OnModified(); });
  return Status();
}

Status OutputFollower::Follow(const runtime::WorkerId& worker, const std::string& path,
                              uint64_t begin, const std::string& pattern) {
  ASSIGN_OR_RETURN(spec::StepPattern parsed, spec::StepPattern::Parse(pattern));
  RETURN_IF_ERROR(Open());
  io::Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return FromErrno(errno, "cannot read " + path);
  const int watch = inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY);
  if (watch < 0) return FromErrno(errno, "cannot watch " + path);
  followed_.insert_or_assign(
      worker, Followed{std::move(file), begin, StepReader(std::move(parsed)), watch});
  by_watch_[watch] = worker;
  ReadSoon(worker);  // what was written before it was watched
  return Status();
}

void OutputFollower::Finish(const runtime::WorkerId& worker) {
  const auto found = followed_.find(worker);
  if (found == followed_.end()) return;
  while (Read(worker, found->second)) {
  }
  ReportSteps(worker, found->second.reader.Finish());
  inotify_rm_watch(inotify_.get(), found->second.watch);
  by_watch_.erase(found->second.watch);
  if (const auto timer = reading_on_.extract(worker); !timer.empty()) loop_.Cancel(timer.mapped());
  followed_.erase(worker);
}

void OutputFollower::OnModified() {
  alignas(inotify_event) std::array<char, 4096> buffer;
  std::map<runtime::WorkerId, bool> modified;
  for (;;) {
    const ssize_t got = read(inotify_.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    for (size_t at = 0; at + sizeof(inotify_event) <= static_cast<size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      at += sizeof(event) + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {  // which files is not known any more
        for (const auto& [watch, worker] : by_watch_) modified[worker] = true;
      }
      const auto worker = by_watch_.find(event.wd);
      if (worker != by_watch_.end()) modified[worker->second] = true;
    }
  }
  for (const auto& [worker, yes] : modified) {
    const auto found = followed_.find(worker);  // a callback may end another worker
    if (found != followed_.end() && Read(worker, found->second)) ReadSoon(worker);
  }
}

void OutputFollower::ReadSoon(const runtime::WorkerId& worker) {
  if (reading_on_.contains(worker)) return;
  reading_on_[worker] = loop_.After(Duration(0), [this, worker] {
    reading_on_.erase(worker);
    const auto found = followed_.find(worker);
    if (found != followed_.end() && Read(worker, found->second)) ReadSoon(worker);
  });
}

bool OutputFollower::Read(const runtime::WorkerId& worker, Followed& followed) {
  std::string bytes(kBytesAtOnce, '\0');
  const ssize_t got =
      pread(followed.file.get(), bytes.data(), bytes.size(), static_cast<off_t>(followed.offset));
  if (got <= 0) return false;
  const auto count = static_cast<size_t>(got);
  followed.offset += count;
  ReportSteps(worker, followed.reader.Take(std::string_view(bytes).substr(0, count), io::Now()));
  return count == kBytesAtOnce;
}

void OutputFollower::ReportSteps(const runtime::WorkerId& worker,
                                 const std::vector<OutputStep>& steps) {
  for (const OutputStep& step : steps) {
    report_(runtime::WorkerOutputStep{worker, step.step, step.total, step.at, step.loss});
  }
}

}  // namespace longhaul::service
