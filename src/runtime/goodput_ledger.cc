#include "runtime/goodput_ledger.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::runtime {

GoodputLedger::GoodputLedger(Instant start, size_t accounts, uint32_t ranks_per_account)
    : start_(start), ranks_per_account_(ranks_per_account), accounts_(accounts), open_(accounts) {
  CHECK(accounts >= 1);
  for (Account& account : accounts_) account.cursor = start;
}

void GoodputLedger::Resize(size_t accounts, wire::Category category, Instant at) {
  CHECK(accounts >= 1);
  if (finished_ || accounts == open_) return;
  for (size_t i = accounts; i < open_; ++i) Enter(i, category, at);
  Part();
  if (accounts > accounts_.size()) accounts_.resize(accounts);
  for (size_t i = open_; i < accounts; ++i) {
    Account& account = accounts_[i];
    account.cursor = std::max({at, account.cursor, start_});
    account.open = category;
  }
  open_ = accounts;
}

void GoodputLedger::Book(Account& account, wire::Category category, int64_t nanoseconds) {
  const auto index = static_cast<size_t>(category);
  account.booked_ns[index] += nanoseconds;
  total_ns_[index] += nanoseconds;
}

void GoodputLedger::Advance(Account& account, Instant at) {
  elapsed_ns_ += (at - account.cursor).count();
  account.elapsed_ns += (at - account.cursor).count();
  account.cursor = at;
}

void GoodputLedger::Enter(size_t account_index, wire::Category category, Instant at) {
  CHECK(account_index < open_);
  Part();
  Account& account = accounts_[account_index];
  if (finished_) return;
  if (at > account.cursor) {
    Book(account, account.open, (at - account.cursor).count());
    Advance(account, at);
  }
  account.open = category;
}

void GoodputLedger::EnterAll(wire::Category category, Instant at) {
  for (size_t i = 0; i < open_; ++i) Enter(i, category, at);
}

void GoodputLedger::BookSteps(size_t account_index, uint64_t first, uint64_t last,
                              const wire::StepTimes& times, Instant at) {
  CHECK(account_index < open_ && first <= last);
  Part();
  Account& account = accounts_[account_index];
  if (finished_ || at <= account.cursor) return;
  const StepCut cut = Cut((at - account.cursor).count(), times);
  Book(account, wire::SNAPSHOT, cut.snapshot_ns);
  Book(account, wire::EVALUATION, cut.evaluation_ns);
  Book(account, wire::DATA_STALL, cut.data_ns);
  Book(account, wire::PRODUCTIVE, cut.productive_ns);
  account.recent.push_back({first, last, cut.productive_ns});
  Advance(account, at);
  account.open = wire::LOST_WORK;  // a step begun: lost unless it is reported
}

// What a rank says can't exceed the time there was.
GoodputLedger::StepCut GoodputLedger::Cut(int64_t time_ns, const wire::StepTimes& times) {
  StepCut cut;
  const auto take = [&time_ns](int64_t nanoseconds) {
    const int64_t taken = std::clamp<int64_t>(nanoseconds, 0, time_ns);
    time_ns -= taken;
    return taken;
  };
  cut.snapshot_ns = take(times.snapshot_ns());
  cut.evaluation_ns = take(times.evaluation_ns());
  cut.data_ns = take(times.data_ns());
  cut.productive_ns = time_ns;
  return cut;
}

void GoodputLedger::BookStepsForAll(uint64_t first, uint64_t last, const wire::StepTimes& times,
                                    Instant at) {
  if (finished_) return;
  if (!together_) {
    for (size_t i = 0; i < open_; ++i) BookSteps(i, first, last, times, at);
    // From here on all stand at `at`, in an open step.
    const bool one = std::all_of(accounts_.begin(), accounts_.begin() + std::ptrdiff_t(open_),
                                 [&](const Account& account) { return account.cursor == at; });
    if (!one) return;
    together_ = true;
    settled_apart_ = false;
    common_ = Account();
    common_.cursor = at;
    common_.open = wire::LOST_WORK;
    return;
  }
  if (at <= common_.cursor) return;
  const StepCut cut = Cut((at - common_.cursor).count(), times);
  const auto all = static_cast<__int128>(open_);
  const auto book = [&](wire::Category category, int64_t nanoseconds) {
    common_.booked_ns[static_cast<size_t>(category)] += nanoseconds;
    total_ns_[static_cast<size_t>(category)] += nanoseconds * all;
  };
  book(wire::SNAPSHOT, cut.snapshot_ns);
  book(wire::EVALUATION, cut.evaluation_ns);
  book(wire::DATA_STALL, cut.data_ns);
  book(wire::PRODUCTIVE, cut.productive_ns);
  common_.recent.push_back({first, last, cut.productive_ns});
  elapsed_ns_ += (at - common_.cursor).count() * all;
  common_.elapsed_ns += (at - common_.cursor).count();
  common_.cursor = at;
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
  for (Account& account : accounts_) {
    while (!account.recent.empty() && account.recent.back().last > step) {
      BookedSteps& steps = account.recent.back();
      const uint64_t count = steps.last - steps.first + 1;
      const uint64_t lost = std::min(count, steps.last - step);
      // A report of several steps is cut evenly.
      const auto lost_ns = static_cast<int64_t>(static_cast<__int128>(steps.productive_ns) *
                                                static_cast<__int128>(lost) / count);
      Book(account, wire::PRODUCTIVE, -lost_ns);
      Book(account, wire::LOST_WORK, lost_ns);
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
  for (size_t i = 0; i < open_; ++i) Enter(i, accounts_[i].open, at);
  finished_ = true;
}

wire::Ledger GoodputLedger::Summary(Instant now) const {
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
    const auto open = account.open == wire::LOST_WORK ? wire::PRODUCTIVE : account.open;
    seconds[static_cast<size_t>(open)] +=
        static_cast<double>((now - account.cursor).count()) * weight;
  }
  wire::Ledger ledger;
  double sum = 0;
  for (size_t i = 1; i < kCategories; ++i) {
    sum += seconds[i];
    auto* entry = ledger.add_categories();
    entry->set_category(static_cast<wire::Category>(i));
    entry->set_rank_seconds(seconds[i]);
  }
  ledger.set_rank_seconds(sum);
  ledger.set_wall_seconds(ToSeconds((finished_ ? end : std::max(end, now)) - start_));
  const double outside_queue = sum - seconds[wire::QUEUE];
  ledger.set_goodput(outside_queue > 0 ? seconds[wire::PRODUCTIVE] / outside_queue : 0);
  return ledger;
}

double GoodputLedger::Goodput() const {
  __int128 sum = 0;
  for (const __int128 nanoseconds : total_ns_) sum += nanoseconds;
  sum -= total_ns_[wire::QUEUE];
  return sum > 0 ? static_cast<double>(total_ns_[wire::PRODUCTIVE]) / static_cast<double>(sum) : 0;
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
