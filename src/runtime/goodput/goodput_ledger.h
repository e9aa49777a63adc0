// The goodput ledger: assigns every moment of every rank of a job to exactly one category.
//
// An account is a node of the gang and stands for its ranks, which start, step and stop together.
// It has a cursor that only moves forward in time. The time between two positions of the cursor is
// booked to one category (steps: split among a few), so the categories sum to the account's wall
// time by construction, in whole nanoseconds. Category names follow docs/goodput.md.
//
// A gang may change its size. Accounts beyond it are shut, and nothing is booked to them until they
// open again, so the sum is over the ranks that existed at each moment. The steps of a shut account
// can still be rolled back.
//
// Steps are booked as productive when they are done. A rollback moves the time of the discarded
// steps to lost work; the same steps count when they are done again. So each step is productive
// once.
//
// A step that takes clearly longer than the ones before it (step_time.h) is productive for the time
// of a typical step; the rest is a stall. The first step after any other category is never judged,
// since it may compile, warm up or fill caches. The steps of all accounts are judged by those of
// account 0, because a gang steps together. Time that other ranks wait for one that evaluates,
// waits for input or takes a snapshot is no stall either.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "proto/events.pb.h"
#include "proto/status.pb.h"
#include "runtime/goodput/step_time.h"

namespace longhaul::runtime {

class GoodputLedger {
 public:
  // All accounts wait in the queue from `start` on. Requires accounts >= 1.
  // A rank has `rank_milli` thousandths of an accelerator, by which BooksAt weights its time.
  GoodputLedger(Instant start, size_t accounts, uint32_t ranks_per_account,
                uint32_t rank_milli = 1'000);

  // From `at` on there are `accounts` accounts: those beyond are shut, new ones begin in
  // `category`. Requires accounts >= 1.
  void Resize(size_t accounts, proto::Category category, Instant at);

  // The account is in `category` from `at` on, and was in its earlier one until then. A time before
  // the cursor counts as the cursor.
  void Enter(size_t account, proto::Category category, Instant at);
  void EnterAll(proto::Category category, Instant at);

  // Books the time from the cursor to `at` as steps [first, last]: what `times` reports and a stall
  // to their categories, the rest as productive. If no step was known to be under way, the time
  // keeps its category and a step begins at `at`. Returns the stall. Requires first <= last.
  Duration BookSteps(size_t account, uint64_t first, uint64_t last, const proto::StepTimes& times,
                     Instant at);
  // The same for all accounts, at the cost of one while they stay together. Returns account 0's
  // stall.
  Duration BookStepsForAll(uint64_t first, uint64_t last, const proto::StepTimes& times,
                           Instant at);

  // Workers with unknown activity begin to report steps: their UNREPORTED time was start-up, and a
  // step is under way from `at` on.
  void BeginSteps(Instant at);
  // The workers have exited with 0. The time after their last step is not lost work but part of the
  // finish, which continues from `at`.
  void EndSteps(Instant at);

  // Discards the steps above `step`.
  void Rollback(uint64_t step);
  // Steps up to `step` can't be rolled back any more: drops their details.
  void Settle(uint64_t step);

  // Closes every account at `at`; nothing is booked afterwards.
  void Finish(Instant at);

  // What is booked up to a moment, in nanoseconds of a rank. A step under way is productive.
  // In thousandths of a nanosecond of one accelerator.
  struct Books {
    __int128 all = 0;  // the time of all accounts from their opening until they were shut or now
    __int128 queue = 0;
    __int128 productive = 0;
    __int128 unreported = 0;
  };
  // Requires that `now` is no earlier than that of the last Resize or Finish. A category may be
  // booked beyond `now`, where an agent's clock is ahead; `all` counts no time after `now`.
  Books BooksAt(Instant now) const;

  Instant start() const { return start_; }
  // Returns the sums, with open time counted up to `now`.
  proto::Ledger Summary(Instant now) const;
  // Productive time over all but the queue's, of what is booked so far; 0 when nothing is.
  double Goodput() const { return ShareOf(proto::PRODUCTIVE); }
  // The share of another category. Requires that it is not the queue.
  double ShareOf(proto::Category category) const;
  // The typical step of account 0; zero while too few steps are known.
  Duration typical_step() const { return step_time_.typical(); }

  // Checks that the categories sum to the elapsed time, over all accounts, in constant time.
  Status CheckSums() const;
  // Checks the same for each account.
  Status CheckEveryAccount() const;

 private:
  static constexpr size_t kCategories = proto::Category_ARRAYSIZE;
  struct BookedSteps {
    uint64_t first;
    uint64_t last;
    int64_t productive_ns;
  };
  // The parts of a step's time.
  struct StepCut {
    int64_t snapshot_ns = 0;
    int64_t evaluation_ns = 0;
    int64_t data_ns = 0;
    int64_t stall_ns = 0;
    int64_t productive_ns = 0;

    int64_t reported_ns() const { return snapshot_ns + evaluation_ns + data_ns; }
  };
  struct Account {
    Instant cursor;
    proto::Category open = proto::QUEUE;
    bool first_step = true;  // no step yet since the last other category
    StepCut newest;          // of the newest steps
    uint64_t newest_steps = 0;
    uint64_t newest_last = 0;
    int64_t elapsed_ns = 0;  // by which the cursor moved while the account was open
    std::array<int64_t, kCategories> booked_ns{};
    std::deque<BookedSteps> recent;  // by step; only those that can be rolled back
  };

  StepCut Cut(const Account& account, uint64_t first, uint64_t last, const proto::StepTimes& times,
              Instant at) const;
  // Returns the time of steps less what the ranks reported, and less the wait for the rank that
  // reports the most.
  static int64_t WorkIn(const StepCut& cut, int64_t longest_ns);
  int64_t StallIn(const StepCut& cut, uint64_t steps, int64_t longest_ns) const;
  void NoteSteps(Account& account, uint64_t first, uint64_t last, const StepCut& cut);
  void ToLearn(const Account& account, const StepCut& cut, uint64_t steps);
  void Learn();  // what waits in to_learn_
  // Takes the largest time that a rank reports for these steps; the others' wait for it is no
  // stall.
  void ExplainStalls(uint64_t last, const proto::StepTimes& times);

  void Book(Account& account, proto::Category category, int64_t nanoseconds);
  void Advance(Account& account, Instant at);
  static int64_t AheadOf(const Account& account, Instant at);
  void Part();

  Instant start_;
  uint32_t ranks_per_account_;
  uint32_t rank_milli_;
  std::vector<Account> accounts_;
  size_t open_ = 0;  // accounts_ from here on are shut
  // While all open accounts have the same state and cursor, it is kept once, here, and added to
  // each of them when one diverges (Part). Already part of total_ns_ and elapsed_ns_.
  bool together_ = false;
  Account common_;
  bool settled_apart_ = false;  // the accounts have been settled since they are together
  StepTime step_time_;
  // Account 0's newest steps. The others are still judged by the earlier ones, so that the order of
  // reports doesn't matter.
  std::optional<Duration> to_learn_;
  // The largest sum of data, snapshot and evaluation time of a rank of any account, up to this
  // step.
  uint64_t longest_last_ = 0;
  int64_t longest_ns_ = 0;
  bool stalled_ = false;  // an account has a stall in that step
  // Over all accounts. Wider than 64 bits: 2,048 accounts for 54 days overflow them.
  std::array<__int128, kCategories> total_ns_{};
  __int128 elapsed_ns_ = 0;  // what the cursors have moved
  __int128 ahead_ns_ = 0;    // by which cursors were beyond the time when their account was shut
  bool finished_ = false;
};

}  // namespace longhaul::runtime
