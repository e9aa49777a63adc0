// Random histories with faults: what must hold after every round, and that a history repeats.
//
// LONGHAUL_HISTORIES=10000 runs so many instead of a few; LONGHAUL_HISTORY_SEED begins elsewhere.
// Two kinds of histories are drawn: whatever the class accepts, and what a controller submits: one
// group of whole GPUs with one task a host, mostly of unknown duration, on a cluster of two device
// models with labels and taints, and with patience for lost nodes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/random.h"
#include "scheduler/history_fixture.h"

namespace longhaul::scheduler {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

TEST(History, KeepsEveryInvariantAndRepeats) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    History history(seed);
    History again(seed);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
      ASSERT_TRUE(again.Step().ok());
    }
    ASSERT_EQ(history.log(), again.log());
    ASSERT_EQ(history.scheduler().Fingerprint(), again.scheduler().Fingerprint());
    for (const auto& [kind, count] : history.seen()) seen[kind] += count;
  }
  // Everything that can be decided was.
  for (const char* kind : {"start",
                           "grow",
                           "repair",
                           "shrink",
                           "suspend",
                           "evict",
                           "undo",
                           "reserve",
                           "reject",
                           "move",
                           "start with ranks",
                           "start on rails",
                           "start of unlike groups",
                           "start spread",
                           "start spread in a domain",
                           "repair spread",
                           "grow spread",
                           "start alone",
                           "shrink: makes room",
                           "move: makes room"}) {
    if (histories >= 100) {
      EXPECT_GT(seen[kind], 0) << kind;
    }
  }
  if (histories >= 5'000) {
    EXPECT_GT(seen["shrink: its GPUs are worth more to another elastic job"], 0);
    EXPECT_GT(seen["move: tasks were lost, and near the others no place is as good"], 0);
  }
  if (histories >= 1'000) {
    for (const auto& [kind, count] : seen) {
      if (kind.find("reject: ") == std::string::npos) std::printf("%8d %s\n", count, kind.c_str());
    }
  }
}

// The invariants include that a gang of one model lies on one, and that no node is over its memory.
// A history beside one that is rebuilt often and decides alike. Quotas that are not plain are drawn
// anew now and then. Adds what was seen.
void RunBesideRebuilt(uint64_t seed, Draws draws, Quotas quotas, std::map<std::string, int>& seen,
                      Others others = Others::kNone) {
  History history(seed, draws, quotas, Spread::kDrawn, others);
  History again(seed, draws, quotas, Spread::kDrawn, others);
  Random rng(seed);
  for (int step = 0; step < 60; ++step) {
    const Status holds = history.Step();
    ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
    if (rng.Below(8) == 0) {
      const Status rebuilt = again.Rebuild();
      ASSERT_TRUE(rebuilt.ok()) << rebuilt << " after\n" << again.log();
    }
    ASSERT_TRUE(again.Step().ok());
    ASSERT_EQ(history.log(), again.log()) << "at step " << step;
    if (quotas == Quotas::kPlain || rng.Below(20) != 0) continue;
    const Status other = history.RebuildWithOtherLimits();
    ASSERT_TRUE(other.ok()) << other << " after\n" << history.log();
    ASSERT_TRUE(again.RebuildWithOtherLimits().ok());
  }
  for (const auto& [kind, count] : history.seen()) seen[kind] += count;
}

TEST(History, OfAControllerKeepsEveryInvariantAndRepeats) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    RunBesideRebuilt(seed, Draws::kAsController, Quotas::kPlain, seen);
    if (HasFatalFailure()) return;
  }
  const auto drawn = [&seen](const std::string& kind) {
    const auto found = seen.lower_bound(kind);
    return found != seen.end() && found->first.starts_with(kind);
  };
  for (const char* kind :
       {"start of one model", "grow", "suspend", "evict", "reserve", "reject", "start spread",
        "start spread in a domain", "repair spread", "grow spread"}) {
    EXPECT_TRUE(histories < 100 || drawn(kind)) << kind;
  }
  if (histories >= 1'000) {
    EXPECT_GT(seen["repair of one model"], 0);
    // About one in 1,000 histories has one.
    EXPECT_TRUE(histories < 10'000 || drawn("move: tasks were lost"));
  }
}

// Histories in which a job waited although another round at once, or a victim that it had a right
// to, would have started it, and in which rounds were due without end.
TEST(History, SeedsThatFailedOnceHold) {
  const struct {
    uint64_t seed;
    Draws draws;
  } kRows[] = {{254, Draws::kAnything},        {2051, Draws::kAnything},
               {10'637, Draws::kAnything},     {51'057, Draws::kAnything},
               {901'701, Draws::kAnything},    {2'013'119, Draws::kAnything},
               {85, Draws::kAsController},     {1'470, Draws::kAsController},
               {2'789, Draws::kAsController},  {5'410, Draws::kAsController},
               {7'739, Draws::kAsController},  {111'808, Draws::kAsController},
               {126'326, Draws::kAsController}};
  for (const auto& row : kRows) {
    History history(row.seed, row.draws, Quotas::kPlain, Spread::kFew);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << "seed " << row.seed << ": " << holds << " after\n"
                              << history.log();
    }
  }
}

// Who is rebuilt anywhere, as often as one likes, decides as if he had not been.
// A job waited although it had a right to victims once others had given its queue's parent the
// guarantee back. Of two damaged jobs, the one that was lost earlier took the other one's quota.
TEST(History, SeedsOfAControllerThatFailedOnceHold) {
  for (const uint64_t seed : {72'105'870, 81'101'773}) {
    History history(seed, Draws::kAsController);
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << "seed " << seed << ": " << holds << " after\n" << history.log();
    }
  }
}

TEST(History, ARebuiltSchedulerDecidesAsTheOneBefore) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  int rebuilds = 0;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    History history(seed);
    History again(seed);
    Random rng(seed);
    for (int step = 0; step < 60; ++step) {
      const Status before = history.Step();
      ASSERT_TRUE(before.ok()) << before << " after\n" << history.log();
      if (rng.Below(8) == 0) {
        const Status rebuilt = again.Rebuild();
        ASSERT_TRUE(rebuilt.ok()) << rebuilt << " after\n" << again.log();
        ++rebuilds;
      }
      const Status holds = again.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << again.log();
      ASSERT_EQ(history.log(), again.log()) << "at step " << step;
    }
  }
  EXPECT_GT(rebuilds, 0);
}

// Where nodes join, one that is extended in place decides as one that is rebuilt.
TEST(History, AnExtendedSchedulerDecidesAsARebuiltOne) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    const Draws draws = seed % 2 == 0 ? Draws::kAnything : Draws::kAsController;
    const auto quotas = static_cast<Quotas>(seed % 3);
    History extended(seed, draws, quotas);
    History rebuilt(seed, draws, quotas);
    Random rng(seed);
    Random again(seed);
    for (int step = 0; step < 60; ++step) {
      const Status holds = extended.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << extended.log();
      ASSERT_TRUE(rebuilt.Step().ok());
      ASSERT_EQ(extended.log(), rebuilt.log()) << "at step " << step;
      ASSERT_EQ(extended.scheduler().NextDeadline(), rebuilt.scheduler().NextDeadline());
      const bool joins = rng.Below(8) == 0;
      ASSERT_EQ(joins, again.Below(8) == 0);
      if (!joins) continue;
      const Status joined = extended.Join(rng, true);
      ASSERT_TRUE(joined.ok()) << joined << " after\n" << extended.log();
      ASSERT_TRUE(rebuilt.Join(again, false).ok());
    }
  }
}

void RunWithQuotas(Quotas quotas, std::map<std::string, int>& seen) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    RunBesideRebuilt(seed, seed % 2 == 0 ? Draws::kAnything : Draws::kAsController, quotas, seen);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (const char* kind : {"start", "grow", "suspend", "evict", "reserve", "move"}) {
    EXPECT_TRUE(histories < 100 || seen[kind] > 0) << kind;
  }
}

// A job within its queue's guarantee needed two stages of victims; a job with a mixed past was
// repaired only by a scheduler that was rebuilt after the mixture had ended; a repair lifted a
// queue above a limit that had been lowered.
TEST(History, SeedsWithQuotasOfModelsThatFailedOnceHold) {
  std::map<std::string, int> seen;
  for (const uint64_t seed : {69'706'359, 80'704'387, 306'700'479}) {
    SCOPED_TRACE(seed);
    RunBesideRebuilt(seed, Draws::kAsController, Quotas::kOfModels, seen);
  }
}

TEST(History, OnNodesThatOthersUseKeepsEveryInvariantAndRepeats) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150);
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(seed));
    RunBesideRebuilt(seed, seed % 2 == 0 ? Draws::kAnything : Draws::kAsController, Quotas::kPlain,
                     seen, Others::kDrawn);
    if (HasFatalFailure()) return;
  }
  for (const char* kind : {"start", "grow", "suspend", "evict", "reserve", "move"}) {
    EXPECT_TRUE(histories < 100 || seen[kind] > 0) << kind;
  }
}

// The invariants include that nobody is above a limit, except with jobs that ran before it was
// lowered, and that no job that such a limit blocks holds a reservation.
TEST(History, WithLimitsOfUsersKeepsEveryInvariantAndRepeats) {
  std::map<std::string, int> seen;
  RunWithQuotas(Quotas::kOfUsers, seen);
  const bool few = FromEnvironment("LONGHAUL_HISTORIES", 150) < 100;
  EXPECT_TRUE(few || seen["blocked by a user's amount"] > 0);
  EXPECT_TRUE(few || seen["blocked by a user's jobs"] > 0);
}

// The invariants include that no queue holds more of a model than its limit, and the check of
// guarantees counts each model.
TEST(History, WithQuotasOfModelsKeepsEveryInvariantAndRepeats) {
  std::map<std::string, int> seen;
  RunWithQuotas(Quotas::kOfModels, seen);
  const bool few = FromEnvironment("LONGHAUL_HISTORIES", 150) < 100;
  EXPECT_TRUE(few || seen["blocked by a model's limit"] > 0);
}

TEST(History, EveryStatedFixStartsItsJob) {
  const uint64_t histories = FromEnvironment("LONGHAUL_HISTORIES", 150) / 10;
  const uint64_t first = FromEnvironment("LONGHAUL_HISTORY_SEED", 1);
  int stated = 0;
  for (uint64_t seed = first; seed < first + 3 * histories; ++seed) {
    SCOPED_TRACE("LONGHAUL_HISTORY_SEED=" + std::to_string(first + (seed - first) / 3));
    // Each seed with all sorts of quotas.
    History history(first + (seed - first) / 3, Draws::kAnything,
                    static_cast<Quotas>((seed - first) % 3));
    for (int step = 0; step < 60; ++step) {
      const Status holds = history.Step();
      ASSERT_TRUE(holds.ok()) << holds << " after\n" << history.log();
      if (step % 20 != 19) continue;
      const Result<int> fixes = history.CheckFixes();
      ASSERT_TRUE(fixes.ok()) << fixes.status() << " after\n" << history.log();
      stated += *fixes;
    }
  }
  if (histories >= 10) {
    EXPECT_GT(stated, 0);
  }
  if (histories >= 100) std::printf("fixes stated and applied: %d\n", stated);
}

TEST(History, FixesThatWereNotFoundOnceAreFound) {
  const struct {
    uint64_t seed;
    Quotas quotas;
  } kRows[] = {
      // The limits of its user in two queues block a job, which needs jobs of both stopped.
      {1'730, Quotas::kOfUsers},
      // There is room on one device model and quota on another.
      {61'000'012, Quotas::kOfModels},
      {68'000'043, Quotas::kOfModels},
      {70'500'033, Quotas::kOfModels},
      {75'500'036, Quotas::kOfModels}};
  for (const auto& row : kRows) {
    History history(row.seed, Draws::kAnything, row.quotas);
    for (int step = 0; step < 60; ++step) {
      ASSERT_TRUE(history.Step().ok());
      if (step % 20 != 19) continue;
      const Result<int> fixes = history.CheckFixes();
      ASSERT_TRUE(fixes.ok()) << "seed " << row.seed << ": " << fixes.status();
    }
  }
}

}  // namespace
}  // namespace longhaul::scheduler
