#include "checkpoint/non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "checkpoint/arena.h"
#include "checkpoint/internal/slot.h"

namespace longhaul::checkpoint {
namespace {

template <typename Number>
std::vector<std::byte> BytesOf(std::initializer_list<Number> numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.begin(), bytes.size());
  return bytes;
}

TEST(NonFinite, FindsNaNAndInfinityInEveryFloat) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(HasNonFinite("F32", BytesOf({1.0f, -0.0f, std::numeric_limits<float>::max()})));
  EXPECT_TRUE(HasNonFinite("F32", BytesOf({1.0f, kInf})));
  EXPECT_TRUE(HasNonFinite("F32", BytesOf({1.0f, -kInf, 2.0f})));
  EXPECT_TRUE(HasNonFinite("F32", BytesOf({std::nanf(""), 2.0f})));
  EXPECT_FALSE(HasNonFinite("F64", BytesOf({std::numeric_limits<double>::max(), 5e-324})));
  EXPECT_TRUE(HasNonFinite("F64", BytesOf({0.0, std::nan("")})));
  EXPECT_FALSE(HasNonFinite("BF16", BytesOf<uint16_t>({0x7f7f, 0xff7f, 0x007f})));
  EXPECT_TRUE(HasNonFinite("BF16", BytesOf<uint16_t>({0, 0xff80})));
  EXPECT_TRUE(HasNonFinite("BF16", BytesOf<uint16_t>({0x7fc0})));
  EXPECT_FALSE(HasNonFinite("F16", BytesOf<uint16_t>({0x7bff, 0xfbff})));
  EXPECT_TRUE(HasNonFinite("F16", BytesOf<uint16_t>({0xfc01})));
  EXPECT_FALSE(HasNonFinite("I32", BytesOf<uint32_t>({0x7f800000u}))) << "a whole number";
  EXPECT_FALSE(HasNonFinite("F32", {}));
}

// At every place of a long tensor, whatever the loop's blocks are.
TEST(NonFinite, FindsOneBadElementAnywhere) {
  Random random(5);
  std::vector<float> numbers(3'001);
  for (float& number : numbers) number = static_cast<float>(random.Below(1'000'000)) - 5e5f;
  const auto bytes = std::as_bytes(std::span(numbers));
  ASSERT_FALSE(HasNonFinite("F32", bytes));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float kept = std::exchange(numbers[i], std::numeric_limits<float>::infinity());
    ASSERT_TRUE(HasNonFinite("F32", bytes)) << i;
    numbers[i] = kept;
  }
}

class NonFiniteArena : public testing::Test {
 protected:
  NonFiniteArena() : storage_(ArenaBytesFor(plan_) / 64 + 1) {}
  std::span<std::byte> arena() { return std::as_writable_bytes(std::span(storage_)); }

  // Seals a state whose element 7 is `value`; then it is checked.
  void Seal(uint64_t step, float value = 1) {
    std::vector<float> numbers(100, 0.5f);
    numbers[7] = value;
    ArenaWriter writer(arena());
    ASSERT_TRUE(writer.Begin(step, 1, plan_).ok());
    writer.Write(0, std::as_bytes(std::span(numbers)));
    writer.Seal();
  }
  std::optional<std::string> Check(uint64_t step) {
    const auto pin = SnapshotPin::Take(arena(), step, 1);
    EXPECT_TRUE(pin.ok()) << pin.status();
    const auto found = CheckAndMark(arena(), *pin);
    EXPECT_TRUE(found.ok()) << found.status();
    return *found;
  }
  std::string Listed() {
    std::string text;
    for (const SealedSnapshot& sealed : ArenaReader(arena()).ListSealed()) {
      text += std::to_string(sealed.step) + (sealed.non_finite ? "! " : " ");
    }
    return text;
  }

  struct alignas(64) Line {
    std::byte bytes[64];
  };
  const StatePlan plan_ = *StatePlan::Create({{"layer.weight", "F32", {100}}});
  std::vector<Line> storage_;
};

TEST_F(NonFiniteArena, AMarkStaysWithItsSnapshotOnly) {
  Seal(10);
  Seal(20, std::nanf(""));
  EXPECT_EQ(Check(10), std::nullopt);
  EXPECT_EQ(Check(20), "layer.weight");
  EXPECT_EQ(Check(20), "") << "known already";
  EXPECT_EQ(Listed(), "20! 10 ");
  EXPECT_TRUE(ArenaReader(arena()).Open(20).ok()) << "who asks for it gets it";
  // The same slot, and a good state of the same step: nothing is left of the mark.
  ArenaWriter(arena()).DropAbove(10);
  Seal(20);
  EXPECT_EQ(Listed(), "20 10 ");
}

TEST_F(NonFiniteArena, TheWriterTakesItsSlotBeforeAnyGoodOne) {
  Seal(10);
  for (const uint64_t step : {20u, 30u, 40u, 50u, 60u}) {
    Seal(step, std::numeric_limits<float>::infinity());
    EXPECT_EQ(Check(step), "layer.weight");
  }
  EXPECT_EQ(Listed().substr(Listed().size() - 3), "10 ") << "the good one is still there";
  Seal(70);
  Seal(80);
  EXPECT_EQ(Listed(), "80 70 10 ");
}

// Each bit of the mark and its copy flipped: the snapshot stays marked.
TEST_F(NonFiniteArena, NoFlippedBitTakesAMarkAway) {
  Seal(20, std::nanf(""));
  Check(20);
  const size_t slot = ArenaReader(arena()).ListSealed()[0].slot;
  const auto bytes = arena().subspan(slot * (arena().size() / kArenaSlots / 4096 * 4096));
  for (const size_t at : internal::kMarks) {
    for (size_t bit = 0; bit < 64; ++bit) {
      bytes[at + bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
      ASSERT_EQ(Listed(), "20! ") << "bit " << bit << " at " << at;
      bytes[at + bit / 8] ^= std::byte{static_cast<unsigned char>(1u << bit % 8)};
    }
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
