#include "training/model/shares.h"

#include <array>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace longhaul::training {

at::Tensor ShareOf(const at::Tensor& whole, const Parameter& parameter) {
  at::Tensor share = whole;
  if (parameter.expert) {
    share = share.narrow(0, parameter.expert_cut.begin, parameter.expert_cut.size());
  }
  if (parameter.tensor_dimension >= 0) {
    share = share.narrow(parameter.tensor_dimension, parameter.tensor_cut.begin,
                         parameter.tensor_cut.size());
  }
  return share;
}

void FillShare(const Parameter& parameter, uint64_t seed, at::Tensor to) {
  std::array<int64_t, 3> shape = {1, 1, 1};
  std::array<int64_t, 3> whole = {1, 1, 1};
  std::array<int64_t, 3> begin = {0, 0, 0};
  const size_t first = shape.size() - parameter.shape.size();
  for (size_t i = 0; i < parameter.shape.size(); ++i) {
    shape[first + i] = parameter.shape[i];
    whole[first + i] = parameter.whole[i];
    if (parameter.expert && i == 0) begin[first] = parameter.expert_cut.begin;
    if (std::cmp_equal(parameter.tensor_dimension, i)) {
      begin[first + i] = parameter.tensor_cut.begin;
    }
  }
  at::Tensor values = at::empty({parameter.count()}, at::kDouble);
  double* at = values.data_ptr<double>();
  const uint64_t key = InitialKey(parameter, seed);
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) {
      const int64_t row = ((begin[0] + i) * whole[1] + begin[1] + j) * whole[2] + begin[2];
      for (int64_t k = 0; k < shape[2]; ++k) {
        *at++ = InitialValue(parameter, key, static_cast<uint64_t>(row + k));
      }
    }
  }
  to.copy_(values);
}

std::string NameInLayer(const Parameter& parameter) {
  if (parameter.layer < 0) return parameter.name;
  const std::string prefix = "model.layers." + std::to_string(parameter.layer) + ".";
  CHECK(parameter.name.starts_with(prefix));
  return parameter.name.substr(prefix.size());
}

}  // namespace longhaul::training
