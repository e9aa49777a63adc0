// Kubernetes quantities ("500m", "1Gi", "1e3"), parsed exactly.
//
// A quantity is a decimal number with an optional sign, followed by an optional suffix: n, u, m, k,
// M, G, T, P, E (powers of 1000), Ki to Ei (powers of 1024), or e or E with a whole exponent. The
// arithmetic follows the API server: digits below 10^-9 are rounded away from zero, and a magnitude
// above 2^63 - 1 is replaced by 2^63 - 1.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::engines::kubernetes {

class Quantity {
 public:
  Quantity() = default;  // 0
  static Quantity FromUnits(int64_t units);

  // Refuses texts that do not follow the grammar and texts of more than 64 characters.
  static Result<Quantity> Parse(std::string_view text);

  // The number of units and of thousandths, rounded up; a value outside of int64_t is replaced by
  // the nearest one.
  int64_t RoundedUpUnits() const;
  int64_t RoundedUpMilliUnits() const;
  bool is_whole() const { return nano_ % kNanoPerUnit == 0; }

  // Sums and differences stop at the limits of the magnitude.
  friend Quantity operator+(Quantity a, Quantity b) { return FromNano(a.nano_ + b.nano_); }
  friend Quantity operator-(Quantity a, Quantity b) { return FromNano(a.nano_ - b.nano_); }
  friend auto operator<=>(const Quantity&, const Quantity&) = default;

 private:
  static constexpr __int128 kNanoPerUnit = 1'000'000'000;
  static Quantity FromNano(__int128 nano);  // limits the magnitude
  friend std::string ToString(Quantity quantity);

  __int128 nano_ = 0;
};

// The shortest of "3", "1500m", "7u" and "7n" that is exact; Parse reads it back.
std::string ToString(Quantity quantity);

}  // namespace longhaul::engines::kubernetes
