#include "checkpoint/formats/numbers.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace longhaul::checkpoint {
namespace {

template <typename T>
T At(std::span<const std::byte> bytes, size_t index) {
  T value;
  CHECK((index + 1) * sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// A number of one sign bit, some of exponent and some of fraction. With `ieee`, the largest
// exponent is for infinities and NaN; else (E4M3) all ones alone are NaN.
double Decode(uint32_t bits, int exponent_bits, int fraction_bits, bool ieee) {
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
  const bool negative = (bits >> (exponent_bits + fraction_bits) & 1) != 0;
  const uint32_t largest = (1u << exponent_bits) - 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value = 0;
  if (exponent == largest && ieee) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (exponent == largest && fraction == (1u << fraction_bits) - 1) {
    value = std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    value = std::ldexp(fraction + (1u << fraction_bits),
                       static_cast<int>(exponent) - bias - fraction_bits);
  }
  return negative ? -value : value;
}

// Exponents of all ones, counted without a branch so that the compiler makes vectors of it.
template <typename T>
bool AnyAllOnes(std::span<const std::byte> bytes, T mask) {
  const size_t count = bytes.size() / sizeof(T);
  T found = 0;
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    found = static_cast<T>(found | static_cast<T>((value & mask) == mask ? 1 : 0));
  }
  return found != 0;
}

bool MayBeNonFinite(std::string_view dtype, std::span<const std::byte> bytes) {
  if (dtype == "F32") return AnyAllOnes<uint32_t>(bytes, 0x7F800000u);
  if (dtype == "BF16") return AnyAllOnes<uint16_t>(bytes, 0x7F80);
  if (dtype == "F16") return AnyAllOnes<uint16_t>(bytes, 0x7C00);
  if (dtype == "F64") return AnyAllOnes<uint64_t>(bytes, 0x7FF0000000000000u);
  if (dtype == "F8_E5M2") return AnyAllOnes<uint8_t>(bytes, 0x7C);
  if (dtype == "F8_E4M3") return AnyAllOnes<uint8_t>(bytes, 0x7F);
  return false;
}

size_t ElementBytes(std::string_view dtype) {
  if (dtype == "F64") return 8;
  if (dtype == "F32") return 4;
  return dtype == "F16" || dtype == "BF16" ? 2 : 1;
}

}  // namespace

double NumberAt(std::string_view dtype, std::span<const std::byte> bytes, size_t index) {
  if (dtype == "F32") return At<float>(bytes, index);
  if (dtype == "F64") return At<double>(bytes, index);
  if (dtype == "BF16") {
    return std::bit_cast<float>(static_cast<uint32_t>(At<uint16_t>(bytes, index)) << 16);
  }
  if (dtype == "F16") return Decode(At<uint16_t>(bytes, index), 5, 10, true);
  if (dtype == "F8_E5M2") return Decode(At<uint8_t>(bytes, index), 5, 2, true);
  if (dtype == "F8_E4M3") return Decode(At<uint8_t>(bytes, index), 4, 3, false);
  if (dtype == "I64") return static_cast<double>(At<int64_t>(bytes, index));
  if (dtype == "U64") return static_cast<double>(At<uint64_t>(bytes, index));
  if (dtype == "I32") return At<int32_t>(bytes, index);
  if (dtype == "U32") return At<uint32_t>(bytes, index);
  if (dtype == "I16") return At<int16_t>(bytes, index);
  if (dtype == "U16") return At<uint16_t>(bytes, index);
  if (dtype == "I8") return At<int8_t>(bytes, index);
  CHECK(dtype == "U8" || dtype == "BOOL") << dtype;
  return At<uint8_t>(bytes, index);
}

void CountNonFinite(std::string_view dtype, std::span<const std::byte> bytes, uint64_t before,
                    NonFinite& found) {
  if (!MayBeNonFinite(dtype, bytes)) return;
  const size_t count = bytes.size() / ElementBytes(dtype);
  for (size_t i = 0; i < count; ++i) {
    const double number = NumberAt(dtype, bytes, i);
    if (std::isfinite(number)) continue;
    ++(std::isnan(number) ? found.nan : found.infinite);
    if (!found.first.has_value()) found.first = before + i;
  }
}

}  // namespace longhaul::checkpoint
