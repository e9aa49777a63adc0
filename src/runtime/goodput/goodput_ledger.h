// Where a job's time went: every moment of every rank falls into exactly one category.
//
// An account is a node of the gang and stands for its ranks, which start, step and stop together.
// It is a cursor that only moves forward over one timeline: whatever lies between two positions of
// the cursor is booked to one category (or, for steps, cut among a few), so the categories sum to
// the account's wall time by construction, in whole nanoseconds. Category names follow
// docs/goodput.md.
//
// A gang may change its size: accounts beyond it are shut and nothing is booked to them until they
// open again, so the sum is over the ranks that there were at each moment. What a shut account has
// done can still be rolled back.
//
// Steps are booked as productive when they are done. A rollback moves what was booked for the steps
// it throws away to lost work; the same steps count when they are done again. So a step is
// productive once, whatever happened.
//
// A step that takes clearly longer than the ones before it (step_time.h) is productive for as long
// as a typical one; the rest is a stall. The first step after any other time is never judged: it
// may compile, warm up or fill caches. Steps of all accounts are judged by what account 0's took,
// because a gang steps together. Where a rank of another account was the one that evaluated, waited
// for input or was stopped for a snapshot, the wait of the others for it is no stall either.
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
  GoodputLedger(Instant start, size_t accounts, uint32_t ranks_per_account);

  // From `at` on there are so many accounts: those beyond are shut, new ones begin in `category`.
  // Requires accounts >= 1.
  void Resize(size_t accounts, proto::Category category, Instant at);

  // From `at` on the account is in `category`; up to then it was in the one before. A time before
  // the cursor counts as the cursor.
  void Enter(size_t account, proto::Category category, Instant at);
  void EnterAll(proto::Category category, Instant at);

  // The time from the cursor to `at` was spent on steps [first, last]: less what `times` says and
  // a stall, it is productive; unless no step was known to be under way: then it stays what it was,
  // and the next step is. Returns the stall. Requires first <= last.
  Duration BookSteps(size_t account, uint64_t first, uint64_t last, const proto::StepTimes& times,
                     Instant at);
  // The same for all accounts, at the cost of one while they stay together. Returns account 0's.
  Duration BookStepsForAll(uint64_t first, uint64_t last, const proto::StepTimes& times,
                           Instant at);

  // The workers turn out to step, of which nothing was known: the time in which they were
  // UNREPORTED was their start-up, and from `at` on a step is under way.
  void BeginSteps(Instant at);
  // The workers have ended well: what came after their last step is not lost work, but part of the
  // finish, which continues from `at`.
  void EndSteps(Instant at);

  // Steps above `step` are thrown away.
  void Rollback(uint64_t step);
  // Steps up to `step` will never be thrown away: forget their details.
  void Settle(uint64_t step);

  // Closes every account at `at`; nothing is booked afterwards.
  void Finish(Instant at);

  Instant start() const { return start_; }
  // With what is still open counted up to `now`.
  proto::Ledger Summary(Instant now) const;
  // Productive over all but queue, of what is booked so far; 0 when nothing is.
  double Goodput() const { return ShareOf(proto::PRODUCTIVE); }
  // The same of another category. Requires that it is not the queue.
  double ShareOf(proto::Category category) const;
  // Of a step of account 0; zero while too little is known.
  Duration typical_step() const { return step_time_.typical(); }

  // That the categories sum to the time that has passed: over all accounts, in constant time.
  Status CheckSums() const;
  // The same account by account.
  Status CheckEveryAccount() const;

 private:
  static constexpr size_t kCategories = proto::Category_ARRAYSIZE;
  struct BookedSteps {
    uint64_t first;
    uint64_t last;
    int64_t productive_ns;
  };
  // What a step's time is cut into.
  struct StepCut {
    int64_t snapshot_ns = 0;
    int64_t evaluation_ns = 0;
    int64_t data_ns = 0;
    int64_t stall_ns = 0;
    int64_t productive_ns = 0;

    int64_t told_ns() const { return snapshot_ns + evaluation_ns + data_ns; }
  };
  struct Account {
    Instant cursor;
    proto::Category open = proto::QUEUE;
    bool first_step = true;  // nothing but steps are booked since one
    StepCut newest;          // of the newest steps
    uint64_t newest_steps = 0;
    uint64_t newest_last = 0;
    int64_t elapsed_ns = 0;  // what the cursor has moved while the account was open
    std::array<int64_t, kCategories> booked_ns{};
    std::deque<BookedSteps> recent;  // by step; those that a rollback could still throw away
  };

  StepCut Cut(const Account& account, uint64_t first, uint64_t last, const proto::StepTimes& times,
              Instant at) const;
  // What is left of the time of steps once what the ranks reported is taken off, and the wait for
  // the rank that reports the most.
  static int64_t WorkIn(const StepCut& cut, int64_t longest_ns);
  int64_t StallIn(const StepCut& cut, uint64_t steps, int64_t longest_ns) const;
  void NoteSteps(Account& account, uint64_t first, uint64_t last, const StepCut& cut);
  void ToLearn(const Account& account, const StepCut& cut, uint64_t steps);
  void Learn();  // what waits in to_learn_
  // Takes the most that a rank reports for these steps; others' wait for it is no stall.
  void ExplainStalls(uint64_t last, const proto::StepTimes& times);

  void Book(Account& account, proto::Category category, int64_t nanoseconds);
  void Advance(Account& account, Instant at);
  void Part();

  Instant start_;
  uint32_t ranks_per_account_;
  std::vector<Account> accounts_;
  size_t open_ = 0;  // accounts_ from here on are shut
  // While all open accounts do the same, from one common cursor on, what they do is kept once,
  // here, and added to each of them when one goes its own way (Part). Already in total_ns_ and
  // elapsed_ns_.
  bool together_ = false;
  Account common_;
  bool settled_apart_ = false;  // since they are together, what the accounts remember is settled
  StepTime step_time_;
  // Account 0's newest steps: the others are still judged by those before, so that it doesn't
  // matter whose report comes first.
  std::optional<Duration> to_learn_;
  // The most that a rank of any account had of data, snapshot and evaluation up to this step.
  uint64_t longest_last_ = 0;
  int64_t longest_ns_ = 0;
  bool stalled_ = false;  // an account has a stall in that step
  // Over all accounts. Wider than 64 bits: 2,048 accounts for 54 days overflow them.
  std::array<__int128, kCategories> total_ns_{};
  __int128 elapsed_ns_ = 0;  // what the cursors have moved
  bool finished_ = false;
};

}  // namespace longhaul::runtime
