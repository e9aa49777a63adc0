#include "runtime/goodput/usage_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/random.h"

namespace longhaul::runtime {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using Keys = std::vector<std::string>;

const Instant kMidnight = InstantFromNanoseconds(20'000 * int64_t{86'400'000'000'000});
const UsageOwner kAda = {"ada", "vision", "research"};
const UsageOwner kBob = {"bob", "none", "research"};

// A job's goodput ledger beside the accounting, as the controller calls both.
class Job {
 public:
  Job(UsageLedger& usage, std::string id, UsageOwner owner, Instant now, size_t nodes = 1,
      uint32_t ranks = 1, uint32_t rank_milli = 1'000)
      : ledger(now, nodes, ranks, rank_milli),
        usage_(usage),
        id_(std::move(id)),
        owner_(std::move(owner)),
        milli_(ranks * rank_milli) {}

  GoodputLedger ledger;

  void Start(const std::vector<std::string>& kinds, Instant now) {
    ledger.Resize(kinds.size(), proto::REPAIR, now);
    UsageLedger::Accelerators accelerators;
    for (const std::string& kind : kinds) accelerators[kind] += milli_;
    usage_.Hold(id_, owner_, accelerators, ledger, now);
    ledger.EnterAll(proto::START_UP_TIME, now);
  }
  void Wait(Instant now) {
    ledger.EnterAll(proto::QUEUE, now);
    usage_.Hold(id_, owner_, {}, ledger, now);
  }
  void End(Instant now) {
    ledger.EnterAll(proto::FINISH, now);
    ledger.Finish(now);
    usage_.End(id_, ledger, now);
  }

 private:
  UsageLedger& usage_;
  std::string id_;
  UsageOwner owner_;
  uint32_t milli_;  // thousandths of accelerators on each node
};

GoodputLedger::Books NoBooks(const std::string& job) {
  ADD_FAILURE() << job << " holds nothing";
  return {};
}

UsageReport ReportOf(const UsageLedger& usage, std::vector<UsageKey> by, Instant since,
                     Instant until) {
  return usage.Report({std::move(by), since, until}, until, NoBooks);
}

TEST(UsageLedger, CountsFromThePlacementUntilTheRelease) {
  UsageLedger usage;
  Job job(usage, "gpt-1", kAda, kMidnight, 2, 4);
  job.Start({"H100", "V100"}, kMidnight + seconds(10));
  job.ledger.EnterAll(proto::LOST_WORK, kMidnight + seconds(20));
  job.ledger.BookStepsForAll(1, 1, {}, kMidnight + seconds(50));
  job.Wait(kMidnight + seconds(60));
  job.End(kMidnight + seconds(100));
  const auto report =
      ReportOf(usage, {UsageKey::kUser, UsageKey::kKind}, kMidnight, kMidnight + seconds(200));
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_THAT(report.rows[0].keys, ElementsAre("ada", "H100"));
  EXPECT_THAT(report.rows[1].keys, ElementsAre("ada", "V100"));
  for (const UsageRow& row : report.rows) {
    EXPECT_EQ(row.time.held, AcceleratorTime{4} * 50'000'000'000);
    EXPECT_EQ(row.time.productive, AcceleratorTime{4} * 30'000'000'000);
    EXPECT_EQ(row.jobs, 1u);
  }
  EXPECT_EQ(report.total.jobs, 1u);
  EXPECT_EQ(report.total.time.lost(), AcceleratorTime{8} * 20'000'000'000);
  EXPECT_TRUE(usage.CheckSums().ok());
  // The last 40 s were the end of a job that held nothing.
  const UsageLedger::Difference difference = usage.DifferenceAt(NoBooks);
  EXPECT_EQ(difference.without_nodes, 0);
  EXPECT_EQ(difference.leaving, 0);
}

TEST(UsageLedger, CutsAStayToTheNanosecond) {
  UsageLedger usage;
  Job job(usage, "a", kAda, kMidnight);
  job.Start({"H100"}, kMidnight - hours(1));
  job.End(kMidnight + hours(3));
  const auto held = [&](Instant since, Instant until) {
    return ReportOf(usage, {UsageKey::kUser}, since, until).total.time.held;
  };
  EXPECT_EQ(held(kMidnight, kMidnight + hours(1)), nanoseconds(hours(1)).count());
  EXPECT_EQ(held(kMidnight + nanoseconds(1), kMidnight + nanoseconds(4)), 3);
  EXPECT_EQ(held(kMidnight - hours(9), kMidnight - hours(1)), 0);
  EXPECT_EQ(held(kMidnight - hours(9), kMidnight - hours(1) + nanoseconds(1)), 1);
  EXPECT_EQ(held(kMidnight - hours(9), kMidnight + hours(9)), nanoseconds(hours(4)).count());
}

TEST(UsageLedger, CountsARunningJobUntilNow) {
  UsageLedger usage;
  Job job(usage, "a", kAda, kMidnight, 1, 8);
  job.Start({"H100"}, kMidnight);
  job.ledger.Enter(0, proto::UNREPORTED, kMidnight + minutes(1));
  const Instant now = kMidnight + minutes(11);
  const auto report = usage.Report({{UsageKey::kJob}, kMidnight, now}, now,
                                   [&](const std::string&) { return job.ledger.BooksAt(now); });
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_THAT(report.rows[0].keys, ElementsAre("a"));
  EXPECT_EQ(report.rows[0].time.held, nanoseconds(minutes(88)).count());
  EXPECT_EQ(report.rows[0].time.unreported, nanoseconds(minutes(80)).count());
  EXPECT_EQ(usage.Total(now) / 1'000, nanoseconds(minutes(88)).count());
}

TEST(UsageLedger, KeepsOldStaysAsSumsOfDaysAndThenOfGroups) {
  UsageLedger usage({.stays = 1, .groups = 10, .sums = 2});
  for (int day = 0; day < 5; ++day) {
    const Instant start = kMidnight + hours(24 * day);
    Job job(usage, "job-" + std::to_string(day), kAda, start);
    job.Start({"H100"}, start + hours(23));
    job.End(start + hours(25));  // an hour of this day, one of the next
  }
  const Instant end = kMidnight + hours(24 * 6);
  ASSERT_TRUE(usage.CheckSums().ok()) << usage.CheckSums();
  const auto of = [&](Instant since, Instant until) {
    return ReportOf(usage, {UsageKey::kUser}, since, until);
  };
  const int64_t hour = nanoseconds(hours(1)).count();
  EXPECT_EQ(of(Instant(), end).total.time.held, 10 * hour);
  EXPECT_EQ(of(Instant(), end).total.jobs, 5u);
  // Days 3 and 4 have sums; the last stay, of days 4 and 5, is kept.
  const auto cut = of(kMidnight + hours(24 * 3 + 12), end);
  EXPECT_EQ(cut.since, kMidnight + hours(24 * 3)) << "extended to the whole day";
  EXPECT_EQ(cut.total.time.held, 5 * hour);
  const auto exact = of(kMidnight + hours(24 * 4 + 2), end);
  EXPECT_EQ(exact.since, kMidnight + hours(24 * 4 + 2));
  EXPECT_EQ(exact.total.time.held, 2 * hour);
  EXPECT_EQ(exact.exact_since, kMidnight + hours(24 * 4 + 1));
  // Before the sums of days there is one sum.
  EXPECT_EQ(of(kMidnight + hours(1), end).since, Instant());
  EXPECT_EQ(of(kMidnight + hours(1), end).total.time.held, 10 * hour);
  const auto jobs = ReportOf(usage, {UsageKey::kJob}, Instant(), end);
  EXPECT_EQ(jobs.rows[0].keys, Keys{kEarlierJobs});
  EXPECT_EQ(jobs.rows[0].jobs, 4u);
}

TEST(UsageLedger, AJobThatHeldNothingForAnyTimeDoesNotCount) {
  UsageLedger usage;
  Job job(usage, "a", kAda, kMidnight);
  job.Start({"H100"}, kMidnight);
  job.Wait(kMidnight);
  EXPECT_EQ(ReportOf(usage, {UsageKey::kUser}, kMidnight, kMidnight + hours(9)).total.jobs, 0u);
  job.Start({"H100"}, kMidnight + hours(1));
  job.End(kMidnight + hours(2));
  EXPECT_EQ(ReportOf(usage, {UsageKey::kUser}, kMidnight, kMidnight + hours(9)).total.jobs, 1u);
}

TEST(UsageLedger, CountsGroupsBeyondTheLimitTogether) {
  UsageLedger usage({.stays = 10, .groups = 3, .sums = 10});
  for (const char* user : {"a", "b", "c", "d", "a"}) {
    Job job(usage, std::string("job-") + user, {user, "none", "none"}, kMidnight);
    job.Start({"H100"}, kMidnight);
    job.End(kMidnight + hours(1));
  }
  const auto report = ReportOf(usage, {UsageKey::kUser}, kMidnight, kMidnight + hours(2));
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].keys, Keys{kOtherGroups});
  EXPECT_EQ(report.rows[0].time.held, nanoseconds(hours(2)).count());
  EXPECT_EQ(report.rows[1].time.held, nanoseconds(hours(2)).count());
}

TEST(UsageLedger, AgreesWithALedgerWhoseAgentsClockIsAhead) {
  UsageLedger usage;
  Job job(usage, "a", kAda, kMidnight, 2);
  job.Start({"H100", "H100"}, kMidnight + seconds(1));
  job.ledger.Enter(1, proto::RENDEZVOUS_TIME, kMidnight + seconds(90));  // 80 s ahead
  job.ledger.Resize(1, proto::REPAIR, kMidnight + seconds(10));
  job.Start({"H100"}, kMidnight + seconds(10));
  job.Start({"H100", "H100"}, kMidnight + seconds(20));  // its cursor is still ahead
  job.ledger.Enter(0, proto::RENDEZVOUS_TIME, kMidnight + seconds(200));
  job.End(kMidnight + seconds(100));
  EXPECT_TRUE(usage.Check().message().find("goodput ledger booked") == std::string::npos)
      << usage.Check();
  EXPECT_EQ(usage.Total(kMidnight + seconds(300)) / 1'000,
            nanoseconds(seconds(2 * 9 + 10 + 2 * 80)).count());
}

TEST(UsageLedger, AShareOfAnAcceleratorCountsAsThatShare) {
  UsageLedger usage;
  usage.Pass(0, kMidnight);
  Job half(usage, "half", kAda, kMidnight, 1, 1, 500);
  Job eighth(usage, "eighth", kBob, kMidnight, 1, 1, 125);
  half.Start({"H100"}, kMidnight);
  eighth.Start({"H100"}, kMidnight);
  usage.Pass(625, kMidnight + seconds(40));
  EXPECT_TRUE(usage.Check().ok()) << usage.Check();
  half.End(kMidnight + seconds(40));
  eighth.End(kMidnight + seconds(40));
  EXPECT_TRUE(usage.Check().ok()) << usage.Check();
  EXPECT_TRUE(usage.CheckSums().ok()) << usage.CheckSums();
  const auto report = ReportOf(usage, {UsageKey::kUser}, kMidnight, kMidnight + seconds(100));
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[0].time.held, nanoseconds(seconds(20)).count());
  EXPECT_EQ(report.rows[1].time.held, nanoseconds(seconds(5)).count());
  EXPECT_EQ(report.total.time.held, nanoseconds(seconds(25)).count());
}

TEST(UsageLedger, ReportsALedgerThatBookedAnotherTime) {
  UsageLedger usage;
  GoodputLedger ledger(kMidnight, 2, 1);
  usage.Hold("a", kAda, {{"H100", 3'000}}, ledger, kMidnight);
  usage.End("a", ledger, kMidnight + seconds(10));
  EXPECT_THAT(
      usage.Check().message(),
      HasSubstr("job a held accelerators for 30 s 0 ns, but its goodput ledger booked 20 s"));
}

TEST(UsageLedger, ReportsSlotsThatWereInUseForAnotherTime) {
  UsageLedger usage;
  usage.Pass(0, kMidnight);
  Job job(usage, "a", kAda, kMidnight, 1, 2);
  job.Start({"H100"}, kMidnight);
  usage.Pass(2'000, kMidnight + seconds(5));
  EXPECT_TRUE(usage.Check().ok()) << usage.Check();
  usage.Pass(1'000, kMidnight + seconds(6));
  EXPECT_THAT(usage.Check().message(), HasSubstr("12 s 0 ns, but the nodes' slots"));
}

// Random jobs, against a plain list of what was held.
class Histories : public testing::TestWithParam<uint64_t> {
 protected:
  struct Held {
    std::string job, user, kind;
    Instant from, until;
  };

  void Run(UsageLedger& usage, uint64_t seed) {
    Random random(seed);
    struct Live {
      std::unique_ptr<Job> job;
      std::string id, user;
      std::vector<std::string> kinds;
      Instant since;
    };
    std::vector<Live> live;
    Instant now = kMidnight;
    const auto stop = [&](Live& each) {
      for (const std::string& kind : each.kinds) {
        held_.push_back({each.id, each.user, kind, each.since, now});
      }
      each.kinds.clear();
      each.since = now;
    };
    for (int i = 0; i < 400 && !HasFailure(); ++i) {
      now += nanoseconds(random.Below(40'000'000'000'000));
      if (live.size() < 4 || random.Below(3) == 0) {
        const UsageOwner& owner = random.Below(2) == 0 ? kAda : kBob;
        const std::string id = "job-" + std::to_string(i);
        live.push_back({std::make_unique<Job>(usage, id, owner, now), id, owner.user, {}, now});
      }
      const size_t index = random.Below(live.size());
      Live& each = live[index];
      stop(each);
      switch (random.Below(4)) {
        case 0:
          each.job->Wait(now);
          break;
        case 1:
          each.job->End(now);
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
          break;
        default:
          for (uint64_t n = 1 + random.Below(5); n > 0; --n) {
            each.kinds.emplace_back(random.Below(2) == 0 ? "H100" : "V100");
          }
          each.job->Start(each.kinds, now);
      }
    }
    for (Live& each : live) {
      stop(each);
      each.job->End(now);
    }
    end_ = now;
    ASSERT_TRUE(usage.CheckSums().ok()) << usage.CheckSums();
    EXPECT_EQ(usage.Check().message().find("goodput"), std::string::npos) << usage.Check();
  }

  AcceleratorTime Expected(Instant since, Instant until, const std::string& user,
                           const std::string& kind) const {
    AcceleratorTime sum = 0;
    for (const Held& each : held_) {
      if (each.user != user || each.kind != kind) continue;
      const auto part = std::min(each.until, until) - std::max(each.from, since);
      if (part.count() > 0) sum += part.count();
    }
    return sum;
  }

  std::vector<Held> held_;
  Instant end_;
};

TEST_P(Histories, EveryWindowAndGroupingIsExactWhileStaysAreKept) {
  UsageLedger usage;
  Run(usage, GetParam());
  Random random(GetParam() + 1);
  for (int i = 0; i < 50; ++i) {
    const auto length = static_cast<uint64_t>((end_ - kMidnight).count());
    Instant since = kMidnight + nanoseconds(random.Below(length));
    Instant until = kMidnight + nanoseconds(random.Below(length));
    if (since > until) std::swap(since, until);
    if (since == until) continue;
    const auto report = ReportOf(usage, {UsageKey::kUser, UsageKey::kKind}, since, until);
    std::set<std::string> jobs;
    for (const Held& each : held_) {
      if (each.from < until && each.until > since && each.from < each.until) jobs.insert(each.job);
    }
    EXPECT_EQ(report.total.jobs, jobs.size());
    AcceleratorTime sum = 0;
    for (const UsageRow& row : report.rows) {
      EXPECT_EQ(row.time.held, Expected(since, until, row.keys[0], row.keys[1]));
      sum += row.time.held;
    }
    EXPECT_EQ(sum, report.total.time.held);
    for (const auto key : {UsageKey::kProject, UsageKey::kQueue, UsageKey::kJob}) {
      EXPECT_EQ(ReportOf(usage, {key}, since, until).total.time.held, sum);
    }
  }
}

TEST_P(Histories, EveryDayIsExactWhenStaysAreSums) {
  UsageLedger usage({.stays = 10, .groups = 100, .sums = 40});
  Run(usage, GetParam());
  const auto whole = ReportOf(usage, {UsageKey::kUser, UsageKey::kKind}, Instant(), end_);
  AcceleratorTime all = 0;
  for (const UsageRow& row : whole.rows) {
    EXPECT_EQ(row.time.held, Expected(Instant(), end_, row.keys[0], row.keys[1]));
    all += row.time.held;
  }
  EXPECT_EQ(all, usage.Total(end_) / 1'000);
  int days = 0;
  for (Instant day = kMidnight; day < end_; day += hours(24)) {
    const auto report = usage.Report(
        {{UsageKey::kUser, UsageKey::kKind}, day + hours(3), day + hours(20)}, end_, NoBooks);
    if (report.since != day || report.until != day + hours(24)) continue;
    ++days;
    for (const UsageRow& row : report.rows) {
      EXPECT_EQ(row.time.held, Expected(day, day + hours(24), row.keys[0], row.keys[1]));
    }
  }
  EXPECT_GT(days, 3);
  std::set<std::string> jobs;
  for (const Held& each : held_) {
    if (each.from < each.until) jobs.insert(each.job + each.kind + each.user);
  }
  uint64_t counted = 0;
  for (const UsageRow& row : whole.rows) counted += row.jobs;
  EXPECT_EQ(counted, jobs.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, Histories, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace longhaul::runtime
