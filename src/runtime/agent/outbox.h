// Events on their way to the controller: numbered 1, 2, 3, ..., kept until it has logged them.
//
// A controller that is killed and comes back loses no event. When it is away for so long that
// kOutboxMergeFrom events wait, reports of consecutive steps of an attempt become one as long as
// they have not been sent: the loss of single steps is lost, their count and time are not. Above
// kOutboxLimit only events that change what the controller knows of processes are taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"
#include "proto/events.pb.h"

namespace longhaul::runtime {

constexpr size_t kOutboxMergeFrom = 1'000;
constexpr size_t kOutboxLimit = 100'000;

class Outbox {
 public:
  explicit Outbox(size_t merge_from = kOutboxMergeFrom) : merge_from_(merge_from) {}

  // Numbers and keeps the event (its `sequence` is set here), merging it when that can be done.
  void Add(proto::Event event);

  // Those not sent on this stream yet, oldest first; they count as sent from now on.
  std::vector<proto::Event> TakeUnsent();
  // A new stream: all that is kept is to be sent again.
  void ForgetSent() { sent_ = 0; }

  // Events up to this sequence are logged. A number never given out counts as the highest one.
  void Acknowledge(uint64_t sequence);

  bool empty() const { return events_.empty(); }
  size_t size() const { return events_.size(); }
  uint64_t last_sequence() const { return last_sequence_; }

  // Sequences are contiguous and end at last_sequence().
  Status CheckInvariants() const;

 private:
  bool MergeStep(const proto::Event& event);

  size_t merge_from_;
  std::deque<proto::Event> events_;
  uint64_t last_sequence_ = 0;
  uint64_t ever_sent_ = 0;  // the highest sequence ever sent: what was sent never changes
  size_t sent_ = 0;         // of events_, on this stream
};

}  // namespace longhaul::runtime
