// Virtual time: a queue of events, earliest first.
//
// The time stands still during an event and then jumps to the next event. Events due at the same
// instant run in the order in which they were scheduled, so a run is a function of its seed
// alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace longhaul::sim {

class EventQueue {
 public:
  explicit EventQueue(Instant start) : now_(start) {}

  Instant now() const { return now_; }
  uint64_t happened() const { return happened_; }

  // Schedules `what` for `at`. A time that has passed is replaced by the present, now().
  void At(Instant at, std::function<void()> what) {
    heap_.push_back({std::max(at, now_), next_order_++, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(Duration delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }

  // Runs the next event if it is due by `end`; otherwise advances the time to `end`. Returns
  // whether an event ran.
  bool RunNext(Instant end) {
    if (heap_.empty() || heap_.front().at > end) {
      now_ = std::max(now_, end);
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Planned next = std::move(heap_.back());
    heap_.pop_back();
    now_ = next.at;
    ++happened_;
    next.what();
    return true;
  }

 private:
  struct Planned {
    Instant at;
    uint64_t order;
    std::function<void()> what;
  };
  static bool Later(const Planned& a, const Planned& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  Instant now_;
  uint64_t next_order_ = 0;
  uint64_t happened_ = 0;
  std::vector<Planned> heap_;
};

}  // namespace longhaul::sim
