#include "io/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "io/clock.h"

namespace longhaul::io {
namespace {

constexpr int kEventsATurn = 64;
constexpr Duration kLongestWait = std::chrono::minutes(1);  // only bounds one epoll_wait

// What epoll hands back: which watch of which descriptor.
uint64_t Pack(int fd, uint32_t generation) {
  return (uint64_t{generation} << 32) | static_cast<uint32_t>(fd);
}
int UnpackFd(uint64_t packed) { return static_cast<int>(packed & 0xFFFFFFFFu); }
uint32_t UnpackGeneration(uint64_t packed) { return static_cast<uint32_t>(packed >> 32); }

epoll_event EventFor(int fd, uint32_t generation, bool want_read, bool want_write) {
  epoll_event event{};
  event.events = (want_read ? uint32_t{EPOLLIN} | uint32_t{EPOLLRDHUP} : 0u) |
                 (want_write ? uint32_t{EPOLLOUT} : 0u);
  event.data.u64 = Pack(fd, generation);
  return event;
}

// Rounded up, so that a timer is never waited for twice within one millisecond.
int Milliseconds(Duration wait) {
  const Duration bounded = std::clamp(wait, Duration::zero(), kLongestWait);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(bounded).count());
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return FromErrno(errno, "cannot create an epoll descriptor");
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return FromErrno(errno, "cannot create an eventfd");
  epoll_event event = EventFor(wake.get(), 0, true, false);
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return FromErrno(errno, "cannot watch an eventfd");
  }
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wake)));
}

EventLoop::EventLoop(Fd epoll, Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}
EventLoop::~EventLoop() = default;

void EventLoop::Watch(int fd, bool want_write, ReadyCallback ready) {
  CHECK(!watches_.contains(fd)) << "descriptor " << fd << " is watched already";
  const uint32_t generation = next_generation_++;
  epoll_event event = EventFor(fd, generation, true, want_write);
  CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0)
      << "cannot watch descriptor " << fd << ": " << std::strerror(errno);
  watches_[fd] = {generation, std::make_shared<ReadyCallback>(std::move(ready)), want_write};
}

void EventLoop::WantWrite(int fd, bool want_write) {
  const auto found = watches_.find(fd);
  CHECK(found != watches_.end()) << "descriptor " << fd << " is not watched";
  ChangeInterest(fd, found->second.want_read, want_write);
}

void EventLoop::WantRead(int fd, bool want_read) {
  const auto found = watches_.find(fd);
  CHECK(found != watches_.end()) << "descriptor " << fd << " is not watched";
  ChangeInterest(fd, want_read, found->second.want_write);
}

void EventLoop::ChangeInterest(int fd, bool want_read, bool want_write) {
  Watched& watched = watches_[fd];
  if (watched.want_read == want_read && watched.want_write == want_write) return;
  watched.want_read = want_read;
  watched.want_write = want_write;
  epoll_event event = EventFor(fd, watched.generation, want_read, want_write);
  CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0)
      << "cannot change the watch of descriptor " << fd << ": " << std::strerror(errno);
}

void EventLoop::Unwatch(int fd) {
  if (watches_.erase(fd) == 0) return;
  epoll_event unused{};
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, &unused);
}

EventLoop::TimerId EventLoop::After(Duration delay, Callback fire) {
  const TimerId id = next_timer_++;
  const Instant deadline = MonotonicNow() + std::max(delay, Duration::zero());
  timers_.emplace(std::pair(deadline, id), std::move(fire));
  timer_deadlines_.emplace(id, deadline);
  return id;
}

void EventLoop::Cancel(TimerId timer) {
  const auto found = timer_deadlines_.find(timer);
  if (found == timer_deadlines_.end()) return;
  timers_.erase({found->second, timer});
  timer_deadlines_.erase(found);
}

void EventLoop::Post(Callback work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const uint64_t one = 1;
  // A full counter is the only failure, and then the loop is awake already.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void EventLoop::Run() {
  while (!std::exchange(stopped_, false)) RunOnce(kLongestWait);
}

// Stopping is posted work itself, so that it takes its turn after what was posted before it.
void EventLoop::Stop() {
  Post([this] { stopped_ = true; });
}

void EventLoop::RunOnce(Duration limit) {
  Duration wait = limit;
  if (!timers_.empty()) wait = std::min(wait, timers_.begin()->first.first - MonotonicNow());
  std::array<epoll_event, kEventsATurn> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), kEventsATurn, Milliseconds(wait));
  CHECK(ready >= 0 || errno == EINTR) << "epoll_wait failed: " << std::strerror(errno);

  for (int i = 0; i < ready; ++i) {
    const int fd = UnpackFd(events[static_cast<size_t>(i)].data.u64);
    if (fd == wake_.get()) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t bytes = read(fd, &count, sizeof(count));
      continue;
    }
    // An earlier callback of this turn may have removed this watch, or put another in its place.
    const auto found = watches_.find(fd);
    const uint32_t generation = UnpackGeneration(events[static_cast<size_t>(i)].data.u64);
    if (found == watches_.end() || found->second.generation != generation) continue;
    const std::shared_ptr<ReadyCallback> callback = found->second.ready;
    const uint32_t happened = events[static_cast<size_t>(i)].events;
    (*callback)((happened & ~uint32_t{EPOLLOUT}) != 0, (happened & EPOLLOUT) != 0);
  }
  RunTimers();
  RunPosted();
}

void EventLoop::RunTimers() {
  const Instant now = MonotonicNow();
  const TimerId first_new = next_timer_;  // timers set by the callbacks wait for the next turn
  while (!timers_.empty()) {
    const auto first = timers_.begin();
    if (first->first.first > now || first->first.second >= first_new) return;
    const Callback fire = std::move(first->second);
    timer_deadlines_.erase(first->first.second);
    timers_.erase(first);
    fire();
  }
}

void EventLoop::RunPosted() {
  std::vector<Callback> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (const Callback& work : posted) work();
}

}  // namespace longhaul::io
