#include "base/units.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace longhaul {
namespace {

using namespace longhaul::literals;

TEST(Quantity, DoesNotMixWithNumbersOrOtherUnits) {
  static_assert(!std::is_convertible_v<int64_t, Bytes>);
  static_assert(!std::is_convertible_v<Bytes, int64_t>);
  static_assert(!std::is_convertible_v<Seconds, Flops>);
  static_assert(!std::is_invocable_v<std::plus<>, Bytes, Seconds>);
}

TEST(Quantity, AddsAndScales) {
  Bytes bytes = 1_KiB + 24_B;
  EXPECT_EQ(bytes.count(), 1'048);
  bytes += 2_B;
  bytes -= 50_B;
  EXPECT_EQ(bytes, 1'000_B);
  EXPECT_EQ(bytes * 3, 3 * bytes);
  EXPECT_EQ(bytes / 3, 333_B);
  EXPECT_LT(1_MiB, 1_GiB);
}

TEST(Quantity, DividesIntoTheRightUnit) {
  EXPECT_DOUBLE_EQ((100_GiB / 50_GBps).count(), 2.147483648);  // powers of 1024 over powers of 1000
  EXPECT_DOUBLE_EQ((Flops(3e12) / 1500_GFLOPs).count(), 2.0);
  EXPECT_DOUBLE_EQ((1'000_B / Seconds(0.5)).count(), 2'000.0);
  EXPECT_DOUBLE_EQ((Flops(10) / Seconds(4)).count(), 2.5);
}

TEST(QuantityToString, AgreesWithTheTable) {
  EXPECT_EQ(ToString(0_B), "0 B");
  EXPECT_EQ(ToString(1'023_B), "1023 B");
  EXPECT_EQ(ToString(1'536_KiB), "1.50 MiB");
  EXPECT_EQ(ToString(1_MiB - 1_B), "1.00 MiB");
  EXPECT_EQ(ToString(80_GiB), "80.00 GiB");
  EXPECT_EQ(ToString(Bytes(-2'048)), "-2.00 KiB");
  EXPECT_EQ(ToString(Bytes(INT64_MAX)), "8192.00 PiB");
  EXPECT_EQ(ToString(Seconds(0.25)), "0.25 s");
  EXPECT_EQ(ToString(BytesPerSecond(3.2e9)), "3.20 GB/s");
  EXPECT_EQ(ToString(FlopsPerSecond(55.1e9)), "55.10 GFLOP/s");
  EXPECT_EQ(ToString(FlopsPerSecond(999.999e9)), "1.00 TFLOP/s");
}

}  // namespace
}  // namespace longhaul
