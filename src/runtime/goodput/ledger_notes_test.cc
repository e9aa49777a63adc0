#include "runtime/goodput/ledger_notes.h"

#include <gtest/gtest.h>

namespace longhaul::runtime {
namespace {

using namespace std::chrono_literals;

int NotesOfRun(Duration length, Duration step) {
  const Instant start = InstantFromNanoseconds(1'000'000'000'000);
  LedgerNotes notes;
  notes.Note(start);
  int count = 0;
  for (Instant now = start; now <= start + length; now += step) {
    if (!notes.IsDue(start, now)) continue;
    notes.Note(now);
    ++count;
  }
  return count;
}

TEST(LedgerNotes, AreASecondApartAtTheBeginning) { EXPECT_EQ(NotesOfRun(60s, 100ms), 60); }

// 480 notes of 1 s, then each doubling of the run's length adds 480 ln 2 = 333.
TEST(LedgerNotes, OfALongRunGrowFurtherApart) {
  EXPECT_NEAR(NotesOfRun(480s * 1'024, 1s), 480 + 10 * 333, 250);
}

}  // namespace
}  // namespace longhaul::runtime
