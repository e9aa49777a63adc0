// One thread's loop over file descriptors, timers and posted work (epoll, timerfd-free).
//
// Single-threaded: every method but Post and Stop is called on the thread that runs the loop (or
// before Run). Callbacks run on that thread, one at a time, and may add and remove watches freely,
// their own included.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "io/fd.h"

namespace longhaul::io {

class EventLoop {
 public:
  using Callback = std::function<void()>;
  using ReadyCallback = std::function<void(bool readable, bool writable)>;
  using TimerId = uint64_t;

  static Result<std::unique_ptr<EventLoop>> Create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `ready` whenever `fd` can be read (or has hung up, which a read then reports) and, with
  // `want_write`, whenever it can be written. One watch for each fd. The caller keeps `fd` open
  // until Unwatch.
  void Watch(int fd, bool want_write, ReadyCallback ready);
  void WantWrite(int fd, bool want_write);  // Requires a watch on fd.
  // Without it, bytes to read and the end of the peer's sending are not reported; a connection that
  // is closed in both directions is still reported, as readable. Requires a watch on fd.
  void WantRead(int fd, bool want_read);
  void Unwatch(int fd);  // Without a watch, does nothing.

  // Calls `fire` once, `delay` from now.
  TimerId After(Duration delay, Callback fire);
  void Cancel(TimerId timer);  // Does nothing for a fired or unknown timer.

  // Runs `work` on the loop's thread, soon. Any thread may call it.
  void Post(Callback work);

  // Runs until Stop, which any thread or a callback may call, also before Run. Work that was posted
  // before Stop has run by then; Run may be called again.
  void Run();
  void Stop();

  // One turn: blocks at most `limit` until there is work, and does it. For tests.
  void RunOnce(Duration limit);

 private:
  EventLoop(Fd epoll, Fd wake);
  void RunPosted();
  void RunTimers();
  void ChangeInterest(int fd, bool want_read, bool want_write);

  Fd epoll_;
  Fd wake_;  // eventfd: signals posted work
  // Watches carry a generation, so that an event of a closed and reused fd is not delivered.
  struct Watched {
    uint32_t generation;
    std::shared_ptr<ReadyCallback> ready;  // shared with the running call, which may Unwatch
    bool want_write;
    bool want_read = true;
  };
  std::map<int, Watched> watches_;
  uint32_t next_generation_ = 1;
  std::map<std::pair<Instant, TimerId>, Callback> timers_;
  std::map<TimerId, Instant> timer_deadlines_;
  TimerId next_timer_ = 1;

  bool stopped_ = false;

  std::mutex mutex_;
  std::vector<Callback> posted_;  // guarded by mutex_
};

}  // namespace longhaul::io
