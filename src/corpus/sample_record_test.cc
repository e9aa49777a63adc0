#include "corpus/sample_record.h"

#include <gtest/gtest.h>

namespace longhaul::corpus {
namespace {

std::vector<std::byte> TwoRecords() {
  auto bytes = EncodeSampleRecord({1, 7, 2, {5, 6, 1'000'000'007}});
  const auto second = EncodeSampleRecord({2, 8, 2, {}});
  bytes.insert(bytes.end(), second.begin(), second.end());
  return bytes;
}

TEST(SampleRecord, ComesBackAsItWas) {
  const auto records = ParseSampleRecords(TwoRecords());
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[0], (SampleRecord{1, 7, 2, {5, 6, 1'000'000'007}}));
  EXPECT_EQ((*records)[1], (SampleRecord{2, 8, 2, {}}));
}

TEST(SampleRecord, ATornLastRecordIsLeftOut) {
  const auto bytes = TwoRecords();
  const size_t first = EncodeSampleRecord({1, 7, 2, {5, 6, 1'000'000'007}}).size();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto records = ParseSampleRecords(std::span(bytes).first(size));
    ASSERT_TRUE(records.ok()) << size << ": " << records.status();
    EXPECT_EQ(records->size(), size < first ? 0u : 1u) << size;
  }
}

TEST(SampleRecord, ADamagedRecordIsRefused) {
  auto bytes = TwoRecords();
  bytes[9] ^= std::byte{1};
  EXPECT_EQ(ParseSampleRecords(bytes).status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace longhaul::corpus
