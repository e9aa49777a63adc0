// Events on their way to the controller: numbered 1, 2, 3, ..., and kept until it has logged them.
//
// A controller that is killed and restarted loses no event. From kOutboxMergeFrom waiting events
// on, unsent reports of consecutive steps of an attempt are merged into one: this drops the losses
// of single steps, but not their count and time. Above kOutboxLimit, only events that change what
// the controller stores about processes are added, and results of workers up to twice as many.
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

  // Numbers and keeps the event (its `sequence` is set here), or merges it into an earlier report.
  void Add(proto::Event event);

  // Returns the events not sent on this stream yet, oldest first, and marks them as sent.
  std::vector<proto::Event> TakeUnsent();
  // A new stream: all kept events must be sent again.
  void ForgetSent() { sent_ = 0; }

  // Events up to this sequence are logged. A higher number than any assigned one counts as the
  // highest.
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
  uint64_t ever_sent_ = 0;  // the highest sequence ever sent; sent events never change
  size_t sent_ = 0;         // of events_, on this stream
};

}  // namespace longhaul::runtime
