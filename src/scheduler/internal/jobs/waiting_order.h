// The waiting jobs by the time since which they wait.
//
// Most jobs are submitted after all others and start before the next one comes: they are added and
// removed at the end, in constant time and without an allocation. A job that starts before an older
// one leaves its entry behind, which is deleted with others later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/time.h"

namespace longhaul::scheduler::internal {

class WaitingOrder {
 public:
  struct Job {
    Instant since{};      // JobEntry::waits_since
    uint64_t number = 0;  // among jobs that wait for equally long

    friend auto operator<=>(const Job&, const Job&) = default;
  };

  bool empty() const { return waiting_ == 0; }
  size_t size() const { return waiting_; }
  // Requires that the job is not in the order.
  void Add(const Job& job);
  // Requires that the job is in the order.
  void Remove(const Job& job);
  // Absent: no job waits.
  std::optional<Job> First() const;
  // The first job that waits since a time after `instant`.
  std::optional<Job> FirstAfter(Instant instant) const;
  // The jobs that wait since a time after `after`, and since `until` or longer.
  std::vector<Job> Between(Instant after, Instant until) const;

 private:
  struct Entry {
    Job job;
    bool waits = true;
  };
  using Entries = std::deque<Entry>;

  Entries::const_iterator After(Instant instant) const;
  Entries::iterator Find(const Job& job);  // the first entry that does not come before it
  // The first job at `entry` or after it that waits.
  std::optional<Job> WaitingFrom(Entries::const_iterator entry) const;
  void DeleteOld();

  Entries entries_;  // in order; the first and the last one wait
  size_t waiting_ = 0;
};

}  // namespace longhaul::scheduler::internal
