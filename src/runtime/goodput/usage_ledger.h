// Accounting: who held how many accelerators for how long.
//
// A job holds an accelerator (a worker slot of a node) from the moment at which the controller
// assigns the node to the job's gang until it knows that the job's workers there have ended and
// frees the slot. This includes recoveries and a gang that leaves its nodes. A stay is a period in
// which a job held an unchanged number of accelerators of one device model, with its exact first
// and last nanosecond. The newest kMostStays stays that are over are kept; older ones are added to
// sums for each group and UTC day, and of the days the oldest to one sum for each group. So memory
// is bounded, and a query is exact to the nanosecond in the time after `exact_since`, and exact to
// the day before. docs/usage.md describes this for users.
//
// Of the time held, the job's goodput ledger knows what was productive. A stay has the difference
// of two readings of that ledger, divided among its device models by their numbers of accelerators,
// and divided in proportion to time where a day or a query cuts the stay. When a stay ends, the
// time that the goodput ledger booked meanwhile must equal the time held, to the nanosecond; Check
// reports the first stay for which it did not.
//
// The state is a function of the calls.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "runtime/goodput/goodput_ledger.h"

namespace longhaul::runtime {

// Nanoseconds of one accelerator in reports, and thousandths of them inside of the ledger, where a
// job may hold a share of an accelerator in thousandths. 64 bits would overflow after 2.6 million
// accelerator-hours.
using AcceleratorTime = __int128;

double ToHours(AcceleratorTime time);

struct UsageTime {
  AcceleratorTime held = 0;
  AcceleratorTime productive = 0;
  AcceleratorTime unreported = 0;  // the workers ran, but report no steps

  UsageTime& operator+=(const UsageTime& other);
  // What was neither: start-up, faults, discarded steps, stalls. Never negative.
  AcceleratorTime lost() const { return held - productive - unreported; }
  friend bool operator==(const UsageTime&, const UsageTime&) = default;
};

// To whom a job's time is charged.
struct UsageOwner {
  std::string user;
  std::string project;
  std::string queue;

  friend bool operator==(const UsageOwner&, const UsageOwner&) = default;
};

struct UsageGroup {
  UsageOwner owner;
  std::string kind;  // device model
};

enum class UsageKey : uint8_t { kUser, kProject, kQueue, kKind, kJob };
std::string_view NameOf(UsageKey key);
Result<UsageKey> ParseUsageKey(std::string_view text);

struct UsageQuery {
  std::vector<UsageKey> by;  // at least one; none twice
  Instant since;
  Instant until;  // after since
};

struct UsageRow {
  std::vector<std::string> keys;  // in the order of UsageQuery::by
  UsageTime time;
  uint64_t jobs = 0;
};

struct UsageReport {
  // The time that the sums cover. Where only sums for days are left, it is extended to whole days.
  Instant since;
  Instant until;
  Instant exact_since;         // from here on every stay is kept; earlier, sums for each UTC day
  std::vector<UsageRow> rows;  // by keys
  UsageRow total;
};

// What stands for a job whose stays are part of a sum.
inline constexpr const char* kEarlierJobs = "(earlier jobs)";
// What groups beyond kMostGroups are counted as.
inline constexpr const char* kOtherGroups = "(other)";

class UsageLedger {
 public:
  struct Limits {
    size_t stays = 65'536;
    size_t groups = 10'000;
    size_t sums = 200'000;  // of groups and days
  };
  UsageLedger() = default;
  explicit UsageLedger(const Limits& limits) : limits_(limits) {}

  using Accelerators = std::map<std::string, uint32_t>;  // thousandths, by device model

  // From `now` on the job holds these accelerators; empty: none. `ledger` is the job's.
  void Hold(const std::string& job, const UsageOwner& owner, const Accelerators& accelerators,
            const GoodputLedger& ledger, Instant now);
  // The job has ended and holds nothing. Forgets it, except for its stays.
  void End(const std::string& job, const GoodputLedger& ledger, Instant now);
  // The nodes had so many thousandths of slots in use from the last call until `now`: a second
  // record, from which the total must not differ.
  void Pass(uint64_t used_milli, Instant now);

  // What a job's goodput ledger has booked up to the time of the report.
  using BooksOf = std::function<GoodputLedger::Books(const std::string& job)>;
  UsageReport Report(const UsageQuery& query, Instant now, const BooksOf& books_of) const;

  // All time held until `now`, in thousandths of a nanosecond of one accelerator.
  AcceleratorTime Total(Instant now) const;
  // In the same unit, how the goodput ledgers' time outside the queue differs from the time held: a
  // gang that leaves its nodes for others is in the queue already, and a job that ends without
  // nodes is not.
  struct Difference {
    AcceleratorTime leaving = 0;
    AcceleratorTime without_nodes = 0;
  };
  Difference DifferenceAt(const BooksOf& books_of) const;
  // Returns an error if the goodput ledgers or the nodes' slots gave another time than the stays.
  // In constant time.
  Status Check() const;
  // Checks that the stays and sums that are kept add up to all time that was held.
  Status CheckSums() const;
  uint64_t Fingerprint() const;

 private:
  // All times below are in thousandths of a nanosecond of one accelerator.
  struct Job {
    UsageOwner owner;
    Accelerators accelerators;
    Instant since{};
    GoodputLedger::Books books;            // when `accelerators` changed the last time
    std::map<std::string, Instant> began;  // when it first held a device model
  };
  struct Stay {
    std::string job;
    uint32_t group = 0;
    uint32_t accelerators = 0;
    Instant from{};
    Instant until{};
    Instant began{};  // of the job's first stay on this device model
    UsageTime time;
  };
  struct Sum {
    UsageTime time;
    uint64_t began = 0;  // jobs that began then
  };
  class Counter;

  static uint64_t CountOf(const Accelerators& accelerators);
  // The part of a stay that lies in [since, until).
  static UsageTime Part(const Stay& stay, Instant since, Instant until);
  uint32_t GroupOf(const UsageOwner& owner, const std::string& kind);
  // The stays of a job that holds accelerators, as if they ended now, by device model. The group is
  // not set.
  static std::vector<std::pair<std::string, Stay>> StaysOf(const std::string& id, const Job& job,
                                                           const GoodputLedger::Books& before,
                                                           const GoodputLedger::Books& after,
                                                           Instant now);
  static void Add(const Job& job, const GoodputLedger::Books& before,
                  const GoodputLedger::Books& after, Difference& difference);
  void Close(const std::string& id, Job& job, const GoodputLedger::Books& books, Instant now);
  void FoldOldest();
  void FoldOldestDay();
  void CountStays(const UsageQuery& query, Instant now, const BooksOf& books_of,
                  Counter& counter) const;

  Limits limits_;
  std::map<std::string, Job> jobs_;  // live ones that have held accelerators
  std::vector<UsageGroup> groups_;
  std::map<std::string, uint32_t> group_index_;
  std::deque<Stay> stays_;                           // by `until`
  std::map<int64_t, std::map<uint32_t, Sum>> days_;  // days since 1970, groups
  std::map<uint32_t, Sum> before_;                   // groups, before all days_
  int64_t before_day_ = 0;                           // before_ has the days before it
  size_t day_sums_ = 0;                              // in days_
  Instant exact_since_{};
  AcceleratorTime closed_ = 0;      // of all stays that are over
  uint64_t open_ = 0;               // thousandths of accelerators held now
  AcceleratorTime open_since_ = 0;  // the sum of their first nanoseconds
  AcceleratorTime slots_ = 0;       // of all slots in use
  Difference difference_;           // until the last change of each job
  Instant passed_{};
  Status mismatch_;
  uint64_t closed_hash_ = 0;
};

}  // namespace longhaul::runtime
