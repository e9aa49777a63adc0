// Numbers of 8 bits for the moments of an optimizer: dynamic tree quantisation (Dettmers, 8-Bit
// Approximations for Parallelism in Deep Learning, ICLR 2016) as 8-bit Optimizers via Block-wise
// Quantization (Dettmers et al., ICLR 2022, sections 1.3 and 2.2) uses it.
//
// The values lie in seven decades i = 0..6. Decade i is cut into n_i equal parts, whose middles are
// the values:
//   10^(i - 6) * (0.1 + 0.9 * (j + 0.5) / n_i)      j = 0..n_i - 1
// The signed book has n_i = 2^i for each sign, 0 and 1; -1 is not in it. The unsigned book has
// n_i = 2^(i + 1), 0 and 1. A code is the index of its value in ascending order: 0 has the code 127
// of the signed book and 0 of the unsigned one. Values are computed in float.
//
// A number is encoded as the value of the part in which it lies, as 1 above 1 - 0.225 / n_6, and as
// 0 below 1e-7. That is the nearest value except directly above a power of ten, where the last
// value of the decade below can be nearer: the paper's search for the nearest value needs a table.
// The error is at most half of a part, plus the rounding of float at its borders.
//
// Codes are converted by arithmetic alone, because loops with it are vectorised on any processor,
// and without contraction it has the same bits there.
#pragma once

#include <bit>
#include <cstdint>

namespace longhaul::optimizer {

// A book's positive values have positions 1, 2, ... with n_i = first, so that decade i begins at
// position first * 2^i. The signed book has `first` 1 and the unsigned one 2.
template <int32_t first>
class DynamicBook {
 public:
  static constexpr int32_t kTop = first * 128;  // the position of the value 1

  // The value of a position: 0 for positions below `first`.
  [[gnu::always_inline]] static constexpr float Value(int32_t position) {
    // (position + 0.5) / 2^e in [1, 2) is 1 + the place within the decade.
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(position) + 0.5F);
    const auto place = std::bit_cast<float>((bits & 0x7FFFFFU) | 0x3F800000U);
    const uint32_t exponent = (bits >> 23) - 127;
    // Powers of ten up to 10^7 are floats.
    const float decade = ((exponent & 1) != 0 ? 10.0F : 1.0F) *
                         ((exponent & 2) != 0 ? 100.0F : 1.0F) *
                         ((exponent & 4) != 0 ? 1e4F : 1.0F) * kLowest;
    const float value = (place * 0.9F - 0.8F) * decade;
    const float positive = position < first ? 0.0F : value;
    return position == kTop ? 1.0F : positive;
  }

  // The position of a number from 0 to 1; below `first` if it is below 1e-7.
  [[gnu::always_inline]] static constexpr int32_t Position(float number) {
    // Multiplied by the power of ten that moves it into the highest decade.
    const bool by4 = number < 1e-4F;
    const float after4 = number * (by4 ? 1e4F : 1.0F);
    const bool by2 = after4 < 1e-2F;
    const float after2 = after4 * (by2 ? 1e2F : 1.0F);
    const bool by1 = after2 < 1e-1F;
    const float highest = after2 * (by1 ? 10.0F : 1.0F);
    const int32_t exponent = kExponent - (by4 ? 4 : 0) - (by2 ? 2 : 0) - (by1 ? 1 : 0);
    // 1 + the place: (number - 0.1) / 0.9 + 1, which is not below 1 for 0.1F.
    const float place = highest * 1.1111112F + 0.888889F;
    const auto power = std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
    const auto position = static_cast<int32_t>(place * power);
    return number > 1 - 0.225F / (first * 64) ? kTop : position;
  }

 private:
  static constexpr int32_t kExponent = first == 1 ? 6 : 7;  // of the highest decade
  static constexpr float kLowest = first == 1 ? 1e-6F : 1e-7F;
};

using SignedBook = DynamicBook<1>;
using UnsignedBook = DynamicBook<2>;

[[gnu::always_inline]] constexpr float DecodeSigned(uint8_t code) {
  const int32_t position = static_cast<int32_t>(code) - 127;
  const float value = SignedBook::Value(position < 0 ? -position : position);
  return position < 0 ? -value : value;
}

[[gnu::always_inline]] constexpr float DecodeUnsigned(uint8_t code) {
  return UnsignedBook::Value(static_cast<int32_t>(code) + 1);
}

// The code of a number from -1 to 1.
[[gnu::always_inline]] constexpr uint8_t EncodeSigned(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const int32_t position = SignedBook::Position(std::bit_cast<float>(bits & 0x7FFFFFFFU));
  const int32_t negative = position > 127 ? 127 : position;
  return static_cast<uint8_t>((bits >> 31) != 0 ? 127 - negative : 127 + position);
}

// The code of a number from 0 to 1. Only 0 gets the code of 0: what is smaller than the smallest
// value gets that one, because the root of the result is a divisor.
[[gnu::always_inline]] constexpr uint8_t EncodeUnsigned(float value) {
  const int32_t position = UnsignedBook::Position(value);
  const int32_t above_zero = position < 2 ? 2 : position;
  return static_cast<uint8_t>(value == 0 ? 0 : above_zero - 1);
}

}  // namespace longhaul::optimizer
