#include "training/exact_sum.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace longhaul::training {
namespace {

constexpr int kFraction = 80;  // bits after the point
constexpr double kMost = 0x1p40;
constexpr int kLimbBits = 42;  // so that 2^20 limbs can be added in 63 bits

}  // namespace

void SumTree::Add(uint64_t index, at::Tensor values) { Put(0, index, std::move(values)); }

void SumTree::Put(uint32_t level, uint64_t index, at::Tensor values) {
  const auto neighbour = nodes_.find({level, index ^ 1});
  if (neighbour == nodes_.end()) {
    const bool added = nodes_.emplace(std::pair(level, index), std::move(values)).second;
    CHECK(added) << "index " << index << " at level " << level << " was added twice";
    return;
  }
  // In place: the sum of two numbers does not depend on their order.
  at::Tensor sum = std::move(neighbour->second);
  nodes_.erase(neighbour);
  sum.add_(values);
  Put(level + 1, index / 2, std::move(sum));
}

at::Tensor SumTree::Take() {
  while (nodes_.size() > 1) {
    auto node = nodes_.extract(nodes_.begin());  // of the lowest level, the first one
    const auto [level, index] = node.key();
    Put(level + 1, index / 2, std::move(node.mapped()));
  }
  if (nodes_.empty()) return {};
  return nodes_.extract(nodes_.begin()).mapped();
}

void FixedSum::Add(double number) {
  if (!(std::abs(number) < kMost)) {
    ++refused_;
    return;
  }
  sum_ += static_cast<__int128>(std::ldexp(number, kFraction));
}

void FixedSum::AddSquares(const at::Tensor& values) {
  const at::Tensor squares = values.to(at::kDouble).square().contiguous();
  const double* const data = squares.data_ptr<double>();
  for (int64_t i = 0; i < squares.numel(); ++i) Add(data[i]);
}

at::Tensor FixedSum::Limbs() const {
  at::Tensor limbs = at::zeros({kLimbs + 1}, at::kLong);
  int64_t* const data = limbs.data_ptr<int64_t>();
  __int128 rest = sum_;
  for (int64_t i = 0; i < kLimbs; ++i) {
    // The last limb has the sign.
    data[i] = i + 1 < kLimbs ? static_cast<int64_t>(rest & ((int64_t{1} << kLimbBits) - 1))
                             : static_cast<int64_t>(rest);
    rest >>= kLimbBits;
  }
  data[kLimbs] = refused_;
  return limbs;
}

double FixedSum::Value(const at::Tensor& limbs) {
  const int64_t* const data = limbs.data_ptr<int64_t>();
  if (data[kLimbs] > 0) return std::numeric_limits<double>::quiet_NaN();
  __int128 sum = 0;
  for (int64_t i = kLimbs - 1; i >= 0; --i) sum = sum * (int64_t{1} << kLimbBits) + data[i];
  return std::ldexp(static_cast<double>(sum), -kFraction);
}

}  // namespace longhaul::training
