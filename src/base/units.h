// Quantities that cannot be mixed: bytes, seconds, floating-point operations and their rates.
//
// Memory counts in powers of 1024 (80_GiB), rates in powers of 1000 (50_GBps). Construction and
// count() are explicit, so every conversion from and to a raw number is visible.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace longhaul {

// A number with a unit. `Rep` is int64_t for counts and double for estimates.
template <typename Tag, typename Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}

  constexpr Rep count() const { return count_; }

  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.count_ + b.count_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.count_ - b.count_);
  }
  friend constexpr Quantity operator*(Quantity a, Rep b) { return Quantity(a.count_ * b); }
  friend constexpr Quantity operator*(Rep a, Quantity b) { return Quantity(a * b.count_); }
  friend constexpr Quantity operator/(Quantity a, Rep b) { return Quantity(a.count_ / b); }
  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }

 private:
  Rep count_ = 0;
};

using Bytes = Quantity<struct BytesTag, int64_t>;
using Seconds = Quantity<struct SecondsTag, double>;
using Flops = Quantity<struct FlopsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return Seconds(static_cast<double>(bytes.count()) / rate.count());
}
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds(work.count() / rate.count());
}
constexpr BytesPerSecond operator/(Bytes bytes, Seconds time) {
  return BytesPerSecond(static_cast<double>(bytes.count()) / time.count());
}
constexpr FlopsPerSecond operator/(Flops work, Seconds time) {
  return FlopsPerSecond(work.count() / time.count());
}

namespace literals {

constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<int64_t>(n << 10));
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<int64_t>(n << 20));
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<int64_t>(n << 30));
}
constexpr BytesPerSecond operator""_GBps(unsigned long long n) {
  return BytesPerSecond(static_cast<double>(n) * 1e9);
}
constexpr FlopsPerSecond operator""_GFLOPs(unsigned long long n) {
  return FlopsPerSecond(static_cast<double>(n) * 1e9);
}

}  // namespace literals

// For people: "512 B", "1.50 MiB", "0.25 s", "3.20 GB/s", "55.10 GFLOP/s".
std::string ToString(Bytes bytes);
std::string ToString(Seconds seconds);
std::string ToString(BytesPerSecond rate);
std::string ToString(FlopsPerSecond rate);

}  // namespace longhaul
