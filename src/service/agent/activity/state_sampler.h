// Looks many times at what the main thread of each worker does, to find the workers that never wait
// while all others do; and reads at the beginning and at the end what their connections have sent.
//
// Costs two reads of /proc for each look at a worker, and two lists of the connections. Processes
// end while they are read: what has ended is left out, and no read is an error. Leaves out other
// threads and child processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "io/event_loop.h"
#include "proto/events.pb.h"
#include "service/agent/activity/tcp_connections.h"

namespace longhaul::service {

struct SampleTarget {
  uint32_t rank = 0;
  pid_t process = 0;
};

class StateSampler {
 public:
  using Done = std::function<void(proto::WorkersSampled)>;
  // In a period. With so many, a share has a standard error of 5 percentage points at most.
  static constexpr uint32_t kLooks = 100;

  explicit StateSampler(io::EventLoop& loop) : loop_(loop) {}
  ~StateSampler();
  StateSampler(const StateSampler&) = delete;
  StateSampler& operator=(const StateSampler&) = delete;

  // Calls `done` on the loop after the period. At most kMostSamplings run at once: one more is
  // answered later, without a look.
  void Sample(std::vector<SampleTarget> targets, Duration period, Done done);

 private:
  static constexpr size_t kMostSamplings = 64;
  struct Times {
    int64_t ran_ns = 0;
    int64_t queued_ns = 0;
  };
  struct Sampling {
    std::vector<SampleTarget> targets;
    Duration period{};
    Done done;
    Instant begun{};
    uint32_t looks = 0;
    TcpConnections connections;                         // at the beginning
    std::vector<Times> before;                          // by target
    std::vector<std::map<std::string, uint32_t>> seen;  // by target
    io::EventLoop::TimerId timer = 0;
  };
  static Times ReadTimes(pid_t process);
  void Look(uint64_t id);
  void SetTimer(uint64_t id, Sampling& sampling);
  static proto::WorkersSampled Conclude(const Sampling& sampling);

  io::EventLoop& loop_;
  std::map<uint64_t, Sampling> samplings_;
  uint64_t next_id_ = 1;
};

// What a thread does, by its /proc/PID/stat and /proc/PID/syscall: "running" (on a processor or
// ready for one), "disk" (an uninterruptible wait), "stopped", the name of a system call, or
// "sleeping" if that cannot be read. Empty: it has ended.
std::string DoingOf(std::string_view stat, std::string_view syscall);

// When the look with this number should be, in [0, 1) of the period. They are about equally far
// apart, but without a period of their own, which could be a multiple of a step.
double PlaceOfLook(uint32_t look);

}  // namespace longhaul::service
