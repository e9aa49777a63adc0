// The messages that one hook has not been sent yet. Bounded: the oldest one makes room, because the
// newest, such as the end of the run, matter most. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "service/notify/hook_message.h"

namespace longhaul::service {

class HookQueue {
 public:
  // Requires limit >= 1.
  explicit HookQueue(size_t limit) : limit_(limit) {}

  void Push(HookMessage message) {
    if (messages_.size() >= limit_) {
      messages_.pop_front();
      ++dropped_;
    }
    messages_.push_back(std::move(message));
  }
  std::optional<HookMessage> Pop() {
    if (messages_.empty()) return std::nullopt;
    HookMessage first = std::move(messages_.front());
    messages_.pop_front();
    return first;
  }
  // Nothing more is sent: what is left counts as dropped.
  void Abandon() {
    dropped_ += messages_.size();
    messages_.clear();
  }

  bool empty() const { return messages_.empty(); }
  uint64_t dropped() const { return dropped_; }

 private:
  const size_t limit_;
  std::deque<HookMessage> messages_;
  uint64_t dropped_ = 0;
};

}  // namespace longhaul::service
