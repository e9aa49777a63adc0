// Sends the events of pods, which must never delay or fail anything else.
//
// What does not fit into the queue of its traffic class is dropped and counted, and so is what the
// API server refuses. A line of the log reports both, at most once a minute. Events are not
// repeated by this class, and none is waited for at the end of the program.
//
// An event costs as much CPU time as a bind. After a burst of binds, the events of the reason
// Scheduled are therefore sent one by one, ten a second; the others are sent at once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/time.h"
#include "engines/kubernetes/client/client.h"
#include "engines/kubernetes/scheduling/pod_actions.h"
#include "io/event_loop.h"

namespace longhaul::engines::kubernetes {

class EventWriter {
 public:
  struct Counts {
    uint64_t written = 0;
    uint64_t dropped = 0;  // the queue was full
    uint64_t failed = 0;   // refused, or without an answer
  };

  // `lost` is called for each event that was dropped or failed, within Write or later. Requires
  // that loop and client outlive this.
  EventWriter(io::EventLoop& loop, Client& client,
              std::function<void(const RecordPodEvent& event)> lost,
              std::function<void(const std::string& line)> log);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void Write(const RecordPodEvent& event);
  const Counts& counts() const { return counts_; }

 private:
  void Send(const RecordPodEvent& event, Instant wall);
  void SendBound();
  void OnReply(const RecordPodEvent& event, const Reply& reply);
  void Lose(const RecordPodEvent& event);
  void Report();

  io::EventLoop& loop_;
  Client& client_;
  const std::function<void(const RecordPodEvent&)> lost_;
  const std::function<void(const std::string&)> log_;
  const size_t most_bound_;
  std::deque<std::pair<RecordPodEvent, Instant>> bound_;  // not sent yet, with their times
  std::optional<io::EventLoop::TimerId> bound_timer_;     // until the next one may be sent
  Counts counts_;
  Counts reported_;
  std::string refusal_;                          // the last one
  std::optional<io::EventLoop::TimerId> timer_;  // until the next line of the log
};

}  // namespace longhaul::engines::kubernetes
