#include "runtime/goodput/usage_ledger.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"

namespace longhaul::runtime {
namespace {

constexpr std::array<std::string_view, 5> kKeyNames = {"user", "project", "queue", "kind", "job"};
constexpr int64_t kDayNs = int64_t{86'400} * 1'000'000'000;

int64_t DayOf(Instant at) {
  return std::chrono::floor<std::chrono::days>(at.time_since_epoch()).count();
}
Instant StartOf(int64_t day) { return InstantFromNanoseconds(day * kDayNs); }

// amount * part / whole without overflow. Requires 0 <= part <= whole and whole > 0.
// Multiplying first could overflow even 128 bits for the sums of a large cluster.
AcceleratorTime Share(AcceleratorTime amount, int64_t part, int64_t whole) {
  return amount / whole * part + amount % whole * part / whole;
}

// Of a time in thousandths of a nanosecond, which are shown where there are any.
std::string Digits(AcceleratorTime time) {
  // Seconds and nanoseconds: there is no decimal form of 128 bits.
  const auto seconds = static_cast<int64_t>(time / 1'000'000'000'000);
  const auto rest = static_cast<int64_t>(time % 1'000'000'000'000);
  return std::to_string(seconds) + " s " + std::to_string(rest / 1'000) + " ns" +
         (rest % 1'000 == 0 ? "" : " " + std::to_string(rest % 1'000) + " ps");
}

}  // namespace

double ToHours(AcceleratorTime time) { return static_cast<double>(time) / 3.6e12; }

UsageTime& UsageTime::operator+=(const UsageTime& other) {
  held += other.held;
  productive += other.productive;
  unreported += other.unreported;
  return *this;
}

std::string_view NameOf(UsageKey key) { return kKeyNames[static_cast<size_t>(key)]; }

Result<UsageKey> ParseUsageKey(std::string_view text) {
  const auto found = std::find(kKeyNames.begin(), kKeyNames.end(), text);
  if (found != kKeyNames.end()) return static_cast<UsageKey>(found - kKeyNames.begin());
  const auto meant = Nearest(text, kKeyNames);
  return InvalidArgument("'" + Printable(text, 40) + "' is not a way to group usage" +
                         (meant ? ", did you mean '" + std::string(*meant) + "'" : "") +
                         "; expected user, project, queue, kind or job");
}

// Adds stays and sums to the rows of a report.
class UsageLedger::Counter {
 public:
  explicit Counter(const UsageQuery& query) : by_(query.by) {}

  // A job counts once in a row and once in the total, however many stays it has.
  void AddStay(const UsageGroup& group, const Stay& stay, const UsageTime& time) {
    Row& row = rows_[KeysOf(group, stay.job)];
    row.time += time;
    for (Jobs* jobs : {&row.kept, &jobs_}) {
      const auto [job, fresh] = jobs->try_emplace(stay.job, Seen{false, stay.began});
      job->second.first_kept |= stay.began == stay.from;
      job->second.began = std::min(job->second.began, stay.began);
    }
  }
  void AddSum(const UsageGroup& group, const Sum& sum) {
    Row& row = rows_[KeysOf(group, kEarlierJobs)];
    row.time += sum.time;
    row.jobs += sum.began;
    total_jobs_ += sum.began;
  }

  // A job whose first stay is part of a sum of a day after `since` is counted there.
  void Finish(Instant since, UsageReport& report) const {
    const auto counted = [since](const Jobs& jobs) {
      return static_cast<uint64_t>(std::count_if(jobs.begin(), jobs.end(), [&](const auto& job) {
        return job.second.first_kept || job.second.began < since;
      }));
    };
    for (const auto& [keys, row] : rows_) {
      report.rows.push_back({keys, row.time, row.jobs + counted(row.kept)});
      report.total.time += row.time;
      Settle(report.rows.back().time);
    }
    Settle(report.total.time);
    report.total.jobs = total_jobs_ + counted(jobs_);
  }

 private:
  struct Seen {
    bool first_kept = false;  // its first stay is among the stays
    Instant began{};
  };
  using Jobs = std::map<std::string, Seen>;
  struct Row {
    UsageTime time;
    uint64_t jobs = 0;
    Jobs kept;
  };

  std::vector<std::string> KeysOf(const UsageGroup& group, const std::string& job) const {
    std::vector<std::string> keys;
    for (const UsageKey key : by_) {
      switch (key) {
        case UsageKey::kUser:
          keys.push_back(group.owner.user);
          break;
        case UsageKey::kProject:
          keys.push_back(group.owner.project);
          break;
        case UsageKey::kQueue:
          keys.push_back(group.owner.queue);
          break;
        case UsageKey::kKind:
          keys.push_back(group.kind);
          break;
        case UsageKey::kJob:
          keys.push_back(job);
          break;
      }
    }
    return keys;
  }

  // A rollback after the first moment of the report may discard steps from before it. Reports are
  // in whole nanoseconds.
  static void Settle(UsageTime& time) {
    for (AcceleratorTime* part : {&time.held, &time.productive, &time.unreported}) *part /= 1'000;
    time.unreported = std::clamp<AcceleratorTime>(time.unreported, 0, time.held);
    time.productive = std::clamp<AcceleratorTime>(time.productive, 0, time.held - time.unreported);
  }

  const std::vector<UsageKey>& by_;
  std::map<std::vector<std::string>, Row> rows_;
  Jobs jobs_;
  uint64_t total_jobs_ = 0;
};

uint64_t UsageLedger::CountOf(const Accelerators& accelerators) {
  uint64_t count = 0;
  for (const auto& [kind, number] : accelerators) count += number;
  return count;
}

uint32_t UsageLedger::GroupOf(const UsageOwner& owner, const std::string& kind) {
  // Lengths keep the fields apart, whatever they contain.
  std::string key;
  for (const std::string* field : {&owner.user, &owner.project, &owner.queue, &kind}) {
    key += std::to_string(field->size()) + ":" + *field;
  }
  const auto found = group_index_.find(key);
  if (found != group_index_.end()) return found->second;
  // Names come from users, so their number must be bounded. The last group takes all that are new
  // after that; sums stay right, only the names are lost.
  if (groups_.size() + 1 == limits_.groups) {
    groups_.push_back({{kOtherGroups, kOtherGroups, kOtherGroups}, kOtherGroups});
  }
  if (groups_.size() >= limits_.groups) return static_cast<uint32_t>(groups_.size() - 1);
  const auto index = static_cast<uint32_t>(groups_.size());
  groups_.push_back({owner, kind});
  group_index_.emplace(std::move(key), index);
  return index;
}

// The goodput ledger does not know device models, so its time is divided by numbers of
// accelerators. Each share is taken from what is left, so the shares add up to the whole in spite
// of rounding.
std::vector<std::pair<std::string, UsageLedger::Stay>> UsageLedger::StaysOf(
    const std::string& id, const Job& job, const GoodputLedger::Books& before,
    const GoodputLedger::Books& after, Instant now) {
  std::vector<std::pair<std::string, Stay>> stays;
  auto left = static_cast<int64_t>(CountOf(job.accelerators));
  UsageTime rest;  // of the models that are not divided yet
  rest.productive = after.productive - before.productive;
  rest.unreported = after.unreported - before.unreported;
  for (const auto& [kind, count] : job.accelerators) {
    Stay stay;
    stay.job = id;
    stay.accelerators = count;
    stay.from = job.since;
    stay.until = now;
    stay.began = job.began.at(kind);
    stay.time.held = AcceleratorTime{count} * (now - job.since).count();
    stay.time.productive = Share(rest.productive, count, left);
    stay.time.unreported = Share(rest.unreported, count, left);
    rest.productive -= stay.time.productive;
    rest.unreported -= stay.time.unreported;
    left -= count;
    stays.emplace_back(kind, std::move(stay));
  }
  return stays;
}

// Called whenever the gang or the owner may have changed. An unchanged job keeps its stay.
void UsageLedger::Hold(const std::string& id, const UsageOwner& owner,
                       const Accelerators& accelerators, const GoodputLedger& ledger, Instant now) {
  const auto found = jobs_.find(id);
  Job& job = found == jobs_.end() ? jobs_[id] : found->second;
  if (job.accelerators == accelerators && (accelerators.empty() || job.owner == owner)) return;
  const GoodputLedger::Books books = ledger.BooksAt(now);
  Close(id, job, books, now);
  job.owner = owner;
  job.accelerators = accelerators;
  job.since = now;
  for (const auto& [kind, count] : accelerators) job.began.try_emplace(kind, now);
  const uint64_t count = CountOf(accelerators);
  open_ += count;
  // The time of all open stays is open_ * now - open_since_, so Total needs no walk over the jobs.
  open_since_ += AcceleratorTime{count} * ToNanoseconds(now);
}

void UsageLedger::End(const std::string& id, const GoodputLedger& ledger, Instant now) {
  Close(id, jobs_[id], ledger.BooksAt(now), now);
  jobs_.erase(id);
}

void UsageLedger::Close(const std::string& id, Job& job, const GoodputLedger::Books& books,
                        Instant now) {
  const GoodputLedger::Books before = std::exchange(job.books, books);
  Add(job, before, books, difference_);
  if (job.accelerators.empty()) return;
  const uint64_t count = CountOf(job.accelerators);
  const AcceleratorTime held = AcceleratorTime{count} * (now - job.since).count();
  // Two independent accounts of the same period. The first mismatch is kept, because later ones
  // follow from it.
  if (const AcceleratorTime booked = books.all - before.all; booked != held && mismatch_.ok()) {
    mismatch_ = InternalError("job " + id + " held accelerators for " + Digits(held) +
                              ", but its goodput ledger booked " + Digits(booked));
  }
  open_ -= count;
  open_since_ -= AcceleratorTime{count} * ToNanoseconds(job.since);
  closed_ += held;
  if (held == 0) {  // it got its nodes and lost them at one moment
    std::erase_if(job.began, [&](const auto& began) { return began.second == now; });
    job.accelerators.clear();
    return;
  }
  for (auto& [kind, stay] : StaysOf(id, job, before, books, now)) {
    stay.group = GroupOf(job.owner, kind);
    const std::string text =
        id + "," + std::to_string(stay.group) + "," + std::to_string(stay.accelerators) + "," +
        std::to_string(ToNanoseconds(stay.from)) + "," + std::to_string(ToNanoseconds(stay.until)) +
        "," + Digits(stay.time.productive) + "," + Digits(stay.time.unreported);
    // A running hash, so that a fingerprint does not read all stays.
    closed_hash_ = Hash64(text, closed_hash_);
    stays_.push_back(std::move(stay));
    if (stays_.size() > limits_.stays) FoldOldest();
  }
  job.accelerators.clear();
}

// In proportion to the time: when in the stay the productive time lay is not known.
UsageTime UsageLedger::Part(const Stay& stay, Instant since, Instant until) {
  const int64_t whole = (stay.until - stay.from).count();
  const int64_t part = (std::min(stay.until, until) - std::max(stay.from, since)).count();
  UsageTime time;
  if (part <= 0 || whole <= 0) return time;
  time.held = AcceleratorTime{stay.accelerators} * part;
  time.productive = Share(stay.time.productive, part, whole);
  time.unreported = Share(stay.time.unreported, part, whole);
  return time;
}

void UsageLedger::Add(const Job& job, const GoodputLedger::Books& before,
                      const GoodputLedger::Books& after, Difference& difference) {
  const AcceleratorTime queued = after.queue - before.queue;
  if (job.accelerators.empty()) {
    difference.without_nodes += after.all - before.all - queued;
  } else {
    difference.leaving += queued;
  }
}

UsageLedger::Difference UsageLedger::DifferenceAt(const BooksOf& books_of) const {
  Difference difference = difference_;
  for (const auto& [id, job] : jobs_) Add(job, job.books, books_of(id), difference);
  return difference;
}

// A stay that crosses midnight is divided over its days.
void UsageLedger::FoldOldest() {
  const Stay stay = std::move(stays_.front());
  stays_.pop_front();
  exact_since_ = std::max(exact_since_, stay.until);
  UsageTime rest = stay.time;
  const int64_t last = DayOf(stay.until - Duration(stay.until > stay.from ? 1 : 0));
  for (int64_t day = DayOf(stay.from); day <= last; ++day) {
    // The last day gets what division left over.
    const UsageTime time = day == last ? rest : Part(stay, StartOf(day), StartOf(day + 1));
    rest.held -= time.held;
    rest.productive -= time.productive;
    rest.unreported -= time.unreported;
    const bool old = day < before_day_;
    auto& sums = old ? before_ : days_[day];
    const auto [sum, fresh] = sums.try_emplace(stay.group);
    if (fresh && !old) ++day_sums_;
    sum->second.time += time;
    if (stay.from == stay.began && day == DayOf(stay.from)) ++sum->second.began;
  }
  while (day_sums_ > limits_.sums && days_.size() > 1) FoldOldestDay();
}

void UsageLedger::FoldOldestDay() {
  const auto oldest = days_.begin();
  for (const auto& [group, sum] : oldest->second) {
    before_[group].time += sum.time;
    before_[group].began += sum.began;
  }
  day_sums_ -= oldest->second.size();
  before_day_ = oldest->first + 1;
  days_.erase(oldest);
}

void UsageLedger::Pass(uint64_t used_milli, Instant now) {
  if (now <= passed_) return;
  slots_ += AcceleratorTime{used_milli} * (now - passed_).count();
  passed_ = now;
}

AcceleratorTime UsageLedger::Total(Instant now) const {
  return closed_ + AcceleratorTime{open_} * ToNanoseconds(now) - open_since_;
}

void UsageLedger::CountStays(const UsageQuery& query, Instant now, const BooksOf& books_of,
                             Counter& counter) const {
  const auto add = [&](const UsageGroup& group, const Stay& stay) {
    const UsageTime time = Part(stay, query.since, query.until);
    if (time.held > 0) counter.AddStay(group, stay, time);
  };
  for (const Stay& stay : stays_) add(groups_[stay.group], stay);
  for (const auto& [id, job] : jobs_) {
    if (job.accelerators.empty()) continue;
    for (const auto& [kind, stay] : StaysOf(id, job, job.books, books_of(id), now)) {
      add({job.owner, kind}, stay);
    }
  }
}

// Where stays have been added to sums, the report is extended to whole days, and `since` and
// `until` of the report say so. Before the oldest day there is only one sum, so it is included
// whole or not at all.
UsageReport UsageLedger::Report(const UsageQuery& query, Instant now,
                                const BooksOf& books_of) const {
  CHECK(!query.by.empty() && query.since < query.until);
  UsageReport report;
  UsageQuery covered = query;
  covered.until = std::min(query.until, now);
  const bool sums = query.since < exact_since_;
  const bool all = sums && query.since < StartOf(before_day_) && !before_.empty();
  if (sums) {
    covered.since = all ? Instant() : StartOf(DayOf(query.since));
    if (covered.until < exact_since_) {
      covered.until = std::min(now, StartOf(DayOf(covered.until - Duration(1)) + 1));
      if (all) covered.until = std::max(covered.until, StartOf(before_day_));
    }
  }
  Counter counter(covered);
  if (all) {
    for (const auto& [group, sum] : before_) counter.AddSum(groups_[group], sum);
  }
  if (sums) {
    for (const auto& [day, groups] : days_) {
      if (StartOf(day) < covered.since || StartOf(day) >= covered.until) continue;
      for (const auto& [group, sum] : groups) counter.AddSum(groups_[group], sum);
    }
  }
  if (covered.since < covered.until) CountStays(covered, now, books_of, counter);
  counter.Finish(covered.since, report);
  report.since = covered.since;
  report.until = std::max(covered.since, covered.until);
  report.exact_since = exact_since_;
  return report;
}

Status UsageLedger::Check() const {
  RETURN_IF_ERROR(mismatch_);
  if (const AcceleratorTime total = Total(passed_); total != slots_) {
    return InternalError("jobs held accelerators for " + Digits(total) +
                         ", but the nodes' slots were in use for " + Digits(slots_));
  }
  return {};
}

Status UsageLedger::CheckSums() const {
  AcceleratorTime kept = 0;
  for (const Stay& stay : stays_) kept += stay.time.held;
  for (const auto& [day, groups] : days_) {
    for (const auto& [group, sum] : groups) kept += sum.time.held;
  }
  for (const auto& [group, sum] : before_) kept += sum.time.held;
  if (kept == closed_) return {};
  return InternalError("the stays and sums that are kept have " + Digits(kept) +
                       ", all that are over had " + Digits(closed_));
}

uint64_t UsageLedger::Fingerprint() const {
  std::string text = std::to_string(closed_hash_) + "," + std::to_string(stays_.size()) + "," +
                     std::to_string(day_sums_) + "," + Digits(closed_) + "," + Digits(slots_);
  for (const auto& [id, job] : jobs_) {
    text += "|" + id + "," + std::to_string(ToNanoseconds(job.since)) + "," + job.owner.user + "," +
            job.owner.project + "," + job.owner.queue;
    for (const auto& [kind, count] : job.accelerators) {
      text += "," + kind + "=" + std::to_string(count);
    }
  }
  return Hash64(text);
}

}  // namespace longhaul::runtime
