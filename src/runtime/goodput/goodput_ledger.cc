#include "runtime/goodput/goodput_ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace longhaul::runtime {
namespace {

// Of an account, that a rollback could still throw away; with more, the oldest are put together.
constexpr size_t kMostRemembered = 4096;

}  // namespace

// The array of accounts is never made smaller: a shut account may still have steps that a rollback
// concerns.
GoodputLedger::GoodputLedger(Instant start, size_t accounts, uint32_t ranks_per_account,
                             uint32_t rank_milli)
    : start_(start),
      ranks_per_account_(ranks_per_account),
      rank_milli_(rank_milli),
      accounts_(accounts),
      open_(accounts) {
  CHECK(accounts >= 1);
  for (Account& account : accounts_) account.cursor = start;
}

void GoodputLedger::Resize(size_t accounts, proto::Category category, Instant at) {
  CHECK(accounts >= 1);
  if (finished_ || accounts == open_) return;
  // Accounts that are shut are booked up to now. New ones begin now, in `category`.
  for (size_t i = accounts; i < open_; ++i) Enter(i, category, at);
  Part();
  for (size_t i = accounts; i < open_; ++i) ahead_ns_ += AheadOf(accounts_[i], at);
  if (accounts > accounts_.size()) accounts_.resize(accounts);
  for (size_t i = open_; i < accounts; ++i) {
    Account& account = accounts_[i];
    ahead_ns_ -= AheadOf(account, at);
    account.cursor = std::max({at, account.cursor, start_});
    account.open = category;
  }
  open_ = accounts;
  // Steps of another number of ranks take another time.
  step_time_.Forget();
  to_learn_.reset();
}

// Account and total change together, so that the sums stay equal (CheckSums).
void GoodputLedger::Book(Account& account, proto::Category category, int64_t nanoseconds) {
  const auto index = static_cast<size_t>(category);
  account.booked_ns[index] += nanoseconds;
  total_ns_[index] += nanoseconds;
}

void GoodputLedger::Advance(Account& account, Instant at) {
  elapsed_ns_ += (at - account.cursor).count();
  account.elapsed_ns += (at - account.cursor).count();
  account.cursor = at;
}

void GoodputLedger::Enter(size_t account_index, proto::Category category, Instant at) {
  CHECK(account_index < open_);
  Part();
  Account& account = accounts_[account_index];
  if (finished_) return;
  if (at > account.cursor) {
    Book(account, account.open, (at - account.cursor).count());
    Advance(account, at);
  }
  account.open = category;
  account.first_step = true;
}

void GoodputLedger::EnterAll(proto::Category category, Instant at) {
  for (size_t i = 0; i < open_; ++i) Enter(i, category, at);
}

// The time before the first line of output was start-up, which is known only now.
void GoodputLedger::BeginSteps(Instant at) {
  Part();
  for (size_t i = 0; i < open_; ++i) {
    if (accounts_[i].open == proto::UNREPORTED) accounts_[i].open = proto::START_UP_TIME;
    Enter(i, proto::LOST_WORK, at);
  }
}

void GoodputLedger::EndSteps(Instant at) {
  Part();
  for (size_t i = 0; i < open_; ++i) {
    if (accounts_[i].open == proto::LOST_WORK) accounts_[i].open = proto::FINISH;
    Enter(i, proto::FINISH, at);
  }
}

Duration GoodputLedger::BookSteps(size_t account_index, uint64_t first, uint64_t last,
                                  const proto::StepTimes& times, Instant at) {
  CHECK(account_index < open_ && first <= last);
  Part();
  Account& account = accounts_[account_index];
  if (finished_ || at <= account.cursor) return Duration(0);
  if (account.open != proto::LOST_WORK) {  // a script that reports steps, and not where they begin
    Enter(account_index, proto::LOST_WORK, at);
    return Duration(0);
  }
  if (account_index == 0) Learn();
  ExplainStalls(last, times);
  const StepCut cut = Cut(account, first, last, times, at);
  Book(account, proto::SNAPSHOT, cut.snapshot_ns);
  Book(account, proto::EVALUATION, cut.evaluation_ns);
  Book(account, proto::DATA_STALL, cut.data_ns);
  Book(account, proto::STALL, cut.stall_ns);
  Book(account, proto::PRODUCTIVE, cut.productive_ns);
  Advance(account, at);
  if (account_index == 0) ToLearn(account, cut, last - first + 1);
  NoteSteps(account, first, last, cut);
  return Duration(cut.stall_ns);
}
// The parts are taken in a fixed order, and what is left is productive. The first step after
// another category is never judged, since it may compile or warm up.
GoodputLedger::StepCut GoodputLedger::Cut(const Account& account, uint64_t first, uint64_t last,
                                          const proto::StepTimes& times, Instant at) const {
  int64_t time_ns = (at - account.cursor).count();
  StepCut cut;
  // What a rank reports can't exceed the time there was.
  const auto take = [&time_ns](int64_t nanoseconds) {
    const int64_t taken = std::clamp<int64_t>(nanoseconds, 0, time_ns);
    time_ns -= taken;
    return taken;
  };
  cut.snapshot_ns = take(times.snapshot_ns());
  cut.evaluation_ns = take(times.evaluation_ns());
  cut.data_ns = take(times.data_ns());
  cut.productive_ns = time_ns;
  if (account.first_step) return cut;
  const int64_t longest_ns = last == longest_last_ ? longest_ns_ : times.longest_ns();
  cut.stall_ns = StallIn(cut, last - first + 1, longest_ns);
  cut.productive_ns -= cut.stall_ns;
  return cut;
}

// The time in which this rank worked, without that in which it only waited for the rank with the
// longest reported parts.
int64_t GoodputLedger::WorkIn(const StepCut& cut, int64_t longest_ns) {
  const int64_t waited_ns = std::max<int64_t>(0, longest_ns - cut.reported_ns());
  return std::max<int64_t>(0, cut.productive_ns + cut.stall_ns - waited_ns);
}

int64_t GoodputLedger::StallIn(const StepCut& cut, uint64_t steps, int64_t longest_ns) const {
  return step_time_.Stall(Duration(WorkIn(cut, longest_ns)), steps).count();
}

// A step is learnt only when the next one is booked: reports of other nodes about the same step may
// still explain a part of it.
void GoodputLedger::Learn() {
  if (to_learn_.has_value()) step_time_.Observe(*to_learn_);
  to_learn_.reset();
}

void GoodputLedger::ToLearn(const Account& account, const StepCut& cut, uint64_t steps) {
  if (account.first_step) return;
  to_learn_ = Duration(WorkIn(cut, longest_ns_) / static_cast<int64_t>(steps));
}

void GoodputLedger::NoteSteps(Account& account, uint64_t first, uint64_t last, const StepCut& cut) {
  stalled_ = stalled_ || cut.stall_ns > 0;
  account.open = proto::LOST_WORK;  // a step begun: lost unless it is reported
  account.first_step = false;
  account.newest = cut;
  account.newest_steps = last - first + 1;
  account.newest_last = last;
  account.recent.push_back({first, last, cut.productive_ns});
  if (account.recent.size() <= kMostRemembered) return;
  // Memory is bounded. Two old reports become one, and a rollback into it divides its time evenly.
  const BookedSteps oldest = account.recent.front();
  account.recent.pop_front();
  account.recent.front().first = oldest.first;
  account.recent.front().productive_ns += oldest.productive_ns;
}

// A later report can show that a rank evaluated or waited for input in this step. The time that
// others lost to it is then no stall and goes back to productive.
void GoodputLedger::ExplainStalls(uint64_t last, const proto::StepTimes& times) {
  const int64_t longest_ns = std::max<int64_t>(0, times.longest_ns());
  if (last < longest_last_) return;  // a node that lags behind
  if (last > longest_last_) {
    longest_last_ = last;
    longest_ns_ = longest_ns;
    stalled_ = false;
    return;
  }
  if (longest_ns <= longest_ns_) return;
  longest_ns_ = longest_ns;
  if (!std::exchange(stalled_, false)) return;
  for (size_t i = 0; i < open_; ++i) {
    Account& account = accounts_[i];
    StepCut& newest = account.newest;
    if (account.newest_last != last || newest.stall_ns == 0) continue;
    const int64_t stall_ns =
        std::min(newest.stall_ns, StallIn(newest, account.newest_steps, longest_ns_));
    const int64_t explained_ns = newest.stall_ns - stall_ns;
    Book(account, proto::STALL, -explained_ns);
    Book(account, proto::PRODUCTIVE, explained_ns);
    newest.stall_ns = stall_ns;
    newest.productive_ns += explained_ns;
    stalled_ = stalled_ || stall_ns > 0;
    const bool kept = !account.recent.empty() && account.recent.back().last == last;
    if (kept) account.recent.back().productive_ns += explained_ns;
  }
}

Duration GoodputLedger::BookStepsForAll(uint64_t first, uint64_t last,
                                        const proto::StepTimes& times, Instant at) {
  if (finished_) return Duration(0);
  if (!together_) {
    Duration stall{};
    for (size_t i = 0; i < open_; ++i) {
      const Duration of_account = BookSteps(i, first, last, times, at);
      if (i == 0) stall = of_account;
    }
    // From here on all stand at `at`, in an open step.
    const bool one = std::all_of(
        accounts_.begin(), accounts_.begin() + std::ptrdiff_t(open_),
        [&](const Account& account) { return account.cursor == at && !account.first_step; });
    if (!one) return stall;
    together_ = true;
    settled_apart_ = false;
    common_ = Account();
    common_.cursor = at;
    common_.open = proto::LOST_WORK;
    common_.first_step = false;
    return stall;
  }
  if (at <= common_.cursor) return Duration(0);
  Learn();
  ExplainStalls(last, times);
  const StepCut cut = Cut(common_, first, last, times, at);
  const auto all = static_cast<__int128>(open_);
  const auto book = [&](proto::Category category, int64_t nanoseconds) {
    common_.booked_ns[static_cast<size_t>(category)] += nanoseconds;
    total_ns_[static_cast<size_t>(category)] += nanoseconds * all;
  };
  book(proto::SNAPSHOT, cut.snapshot_ns);
  book(proto::EVALUATION, cut.evaluation_ns);
  book(proto::DATA_STALL, cut.data_ns);
  book(proto::STALL, cut.stall_ns);
  book(proto::PRODUCTIVE, cut.productive_ns);
  elapsed_ns_ += (at - common_.cursor).count() * all;
  common_.elapsed_ns += (at - common_.cursor).count();
  common_.cursor = at;
  ToLearn(common_, cut, last - first + 1);
  NoteSteps(common_, first, last, cut);
  return Duration(cut.stall_ns);
}

// Gives every account what all did together.
void GoodputLedger::Part() {
  if (!together_) return;
  together_ = false;
  for (size_t a = 0; a < open_; ++a) {
    Account& account = accounts_[a];
    for (size_t i = 0; i < kCategories; ++i) account.booked_ns[i] += common_.booked_ns[i];
    account.elapsed_ns += common_.elapsed_ns;
    account.recent.insert(account.recent.end(), common_.recent.begin(), common_.recent.end());
    account.cursor = common_.cursor;
    account.open = common_.open;
  }
}

void GoodputLedger::Rollback(uint64_t step) {
  Part();
  longest_last_ = 0;  // its steps may be done again
  longest_ns_ = 0;
  stalled_ = false;
  for (Account& account : accounts_) {
    while (!account.recent.empty() && account.recent.back().last > step) {
      BookedSteps& steps = account.recent.back();
      const uint64_t count = steps.last - steps.first + 1;
      const uint64_t lost = std::min(count, steps.last - step);
      // A report of several steps is cut evenly.
      const auto lost_ns = static_cast<int64_t>(static_cast<__int128>(steps.productive_ns) *
                                                static_cast<__int128>(lost) / count);
      Book(account, proto::PRODUCTIVE, -lost_ns);
      Book(account, proto::LOST_WORK, lost_ns);
      if (lost == count) {
        account.recent.pop_back();
      } else {
        steps.last = step;
        steps.productive_ns -= lost_ns;
      }
    }
  }
}

void GoodputLedger::Settle(uint64_t step) {
  const auto forget = [step](Account& account) {
    while (!account.recent.empty() && account.recent.front().last <= step) {
      account.recent.pop_front();
    }
  };
  if (together_) {
    forget(common_);
    if (settled_apart_) return;
    // What the accounts remember from before they came together is older still.
    settled_apart_ = true;
    for (const Account& account : accounts_) {
      settled_apart_ =
          settled_apart_ && (account.recent.empty() || account.recent.back().last <= step);
    }
  }
  for (Account& account : accounts_) forget(account);
}

void GoodputLedger::Finish(Instant at) {
  if (finished_) return;
  for (size_t i = 0; i < open_; ++i) Enter(i, accounts_[i].open, at);
  for (size_t i = 0; i < open_; ++i) ahead_ns_ += AheadOf(accounts_[i], at);
  finished_ = true;
}

int64_t GoodputLedger::AheadOf(const Account& account, Instant at) {
  return std::max<int64_t>(0, (account.cursor - at).count());
}

// The time since the cursor is open: it belongs to the account's present category. An open step
// counts as productive here, since most steps are completed; a rollback takes it back.
GoodputLedger::Books GoodputLedger::BooksAt(Instant now) const {
  Books books;
  books.all = elapsed_ns_ - ahead_ns_;
  books.queue = total_ns_[proto::QUEUE];
  books.productive = total_ns_[proto::PRODUCTIVE];
  books.unreported = total_ns_[proto::UNREPORTED];
  const auto count = [&](const Account& account, int64_t accounts) {
    const auto open_ns = static_cast<__int128>((now - account.cursor).count()) * accounts;
    books.all += open_ns;  // less than nothing where the cursor is ahead
    if (open_ns <= 0) return;
    if (account.open == proto::QUEUE) books.queue += open_ns;
    if (account.open == proto::LOST_WORK) books.productive += open_ns;
    if (account.open == proto::UNREPORTED) books.unreported += open_ns;
  };
  if (!finished_ && together_) count(common_, static_cast<int64_t>(open_));
  for (size_t i = 0; i < open_ && !finished_ && !together_; ++i) count(accounts_[i], 1);
  for (__int128* sum : {&books.all, &books.queue, &books.productive, &books.unreported}) {
    *sum *= uint64_t{ranks_per_account_} * rank_milli_;
  }
  return books;
}

proto::Ledger GoodputLedger::Summary(Instant now) const {
  std::array<double, kCategories> seconds{};
  const double weight = ranks_per_account_ * 1e-9;
  for (size_t i = 0; i < kCategories; ++i) seconds[i] = static_cast<double>(total_ns_[i]) * weight;
  Instant end = start_;
  for (size_t i = 0; i < accounts_.size(); ++i) {
    const bool shut = i >= open_;
    const Account& account = together_ && !shut ? common_ : accounts_[i];
    end = std::max(end, account.cursor);
    if (shut || finished_ || now <= account.cursor) continue;
    // A step under way is not lost yet.
    const auto open = account.open == proto::LOST_WORK ? proto::PRODUCTIVE : account.open;
    seconds[static_cast<size_t>(open)] +=
        static_cast<double>((now - account.cursor).count()) * weight;
  }
  proto::Ledger ledger;
  double sum = 0;
  for (size_t i = 1; i < kCategories; ++i) {
    sum += seconds[i];
    auto* entry = ledger.add_categories();
    entry->set_category(static_cast<proto::Category>(i));
    entry->set_rank_seconds(seconds[i]);
  }
  ledger.set_rank_seconds(sum);
  const auto booked = [&](__int128 nanoseconds) {
    return static_cast<double>(nanoseconds) * weight;
  };
  const __int128 lost = total_ns_[proto::LOST_WORK];
  ledger.set_stepped_rank_seconds(booked(total_ns_[proto::PRODUCTIVE] + lost));
  ledger.set_lost_rank_seconds(booked(lost));
  ledger.set_held_rank_seconds(booked(elapsed_ns_ - total_ns_[proto::QUEUE]));
  ledger.set_wall_seconds(ToSeconds((finished_ ? end : std::max(end, now)) - start_));
  // Waiting in a queue uses no accelerator, so it does not lower the goodput.
  const double outside_queue = sum - seconds[proto::QUEUE];
  ledger.set_goodput(outside_queue > 0 ? seconds[proto::PRODUCTIVE] / outside_queue : 0);
  return ledger;
}

double GoodputLedger::ShareOf(proto::Category category) const {
  __int128 sum = 0;
  for (const __int128 nanoseconds : total_ns_) sum += nanoseconds;
  sum -= total_ns_[proto::QUEUE];
  return sum > 0 ? static_cast<double>(total_ns_[category]) / static_cast<double>(sum) : 0;
}

Status GoodputLedger::CheckSums() const {
  __int128 sum = 0;
  for (const __int128 nanoseconds : total_ns_) {
    if (nanoseconds < 0) return InternalError("a category of the ledger fell below zero");
    sum += nanoseconds;
  }
  if (sum != elapsed_ns_)
    return InternalError("the ledger's categories don't sum to the wall time");
  return Status();
}

Status GoodputLedger::CheckEveryAccount() const {
  if (together_) {
    GoodputLedger parted = *this;
    parted.Part();
    return parted.CheckEveryAccount();
  }
  __int128 elapsed = 0;
  for (const Account& account : accounts_) {
    int64_t sum = 0;
    for (const int64_t nanoseconds : account.booked_ns) {
      if (nanoseconds < 0) return InternalError("a category of an account fell below zero");
      sum += nanoseconds;
    }
    if (sum != account.elapsed_ns) {
      return InternalError("an account's categories don't sum to its wall time");
    }
    elapsed += sum;
  }
  if (elapsed != elapsed_ns_) return InternalError("the accounts don't sum to the ledger");
  return Status();
}

}  // namespace longhaul::runtime
