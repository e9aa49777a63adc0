#include "runtime/controller/job/data_ledger.h"

#include <gtest/gtest.h>

#include <limits>

namespace longhaul::runtime {
namespace {

proto::DataSet Data() {
  proto::DataSet data;
  data.set_samples(1000);
  data.set_global_batch(32);
  return data;
}

TEST(DataLedger, LeasesTheStepsAfterTheRestoredOne) {
  DataLedger ledger(Data());
  const proto::DataLease lease = ledger.Open(1, 40, 100);
  EXPECT_EQ(lease.first_step(), 41u);
  EXPECT_EQ(lease.end_step(), 101u);
  EXPECT_EQ(lease.data().global_batch(), 32u);
  EXPECT_EQ(ledger.committed_samples(), 40u * 32);
}

TEST(DataLedger, AJobWithoutALastStepLeasesAll) {
  DataLedger ledger(Data());
  EXPECT_EQ(ledger.Open(1, 0, 0).end_step(), std::numeric_limits<uint64_t>::max());
}

TEST(DataLedger, AnOldWorldCannotCommit) {
  DataLedger ledger(Data());
  ledger.Open(1, 0, 100);
  ledger.Close(1);
  EXPECT_EQ(ledger.Commit(1, 10).code(), Code::kFailedPrecondition);
  ledger.Open(2, 0, 100);
  EXPECT_EQ(ledger.Commit(1, 10).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(ledger.Commit(2, 10).ok());
  EXPECT_EQ(ledger.committed_step(), 10u);
}

TEST(DataLedger, RefusesStepsOutsideTheLease) {
  DataLedger ledger(Data());
  ledger.Open(1, 20, 100);
  EXPECT_EQ(ledger.Commit(1, 19).code(), Code::kOutOfRange);
  EXPECT_EQ(ledger.Commit(1, 101).code(), Code::kOutOfRange);
  EXPECT_TRUE(ledger.Check().ok());
}

TEST(DataLedger, HandsOutAgainWhatARollbackTakesBack) {
  DataLedger ledger(Data());
  ledger.Open(1, 0, 100);
  ASSERT_TRUE(ledger.Commit(1, 50).ok());
  EXPECT_EQ(ledger.Open(2, 30, 100).first_step(), 31u);
  EXPECT_EQ(ledger.committed_step(), 30u);
  EXPECT_TRUE(ledger.Check().ok());
}

}  // namespace
}  // namespace longhaul::runtime
