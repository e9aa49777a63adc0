#include "training/dimensions/slicing.h"

#include <string>
#include <tuple>
#include <utility>

namespace longhaul::training {
namespace {

// Parameters with equal keys need the same sums, and the same update.
auto KeyOf(const Parameter& parameter) {
  return std::tuple(parameter.expert, parameter.partial, parameter.tied,
                    parameter.tensor_dimension >= 0, parameter.tensor_parts, parameter.decayed);
}

}  // namespace

SlicedParameters::SlicedParameters(RankContext& rank, const std::vector<int32_t>& layers,
                                   at::ScalarType type, uint64_t seed, CommunicatorMaker& maker)
    : rank_(rank) {
  const at::NoGradGuard no_gradients;
  Bucket* tied = nullptr;
  for (const int32_t layer : layers) {
    std::map<decltype(KeyOf({})), std::vector<Parameter>> groups;
    for (Parameter& parameter : ParametersOf(rank.config, rank.layout, rank.place, layer)) {
      auto key = KeyOf(parameter);
      groups[key].push_back(std::move(parameter));
    }
    for (auto& [key, parameters] : groups) {
      const bool is_tied = parameters.front().tied;
      // With both ends on this rank, they use one matrix.
      Bucket* bucket = is_tied ? tied : nullptr;
      if (bucket == nullptr) {
        buckets_.push_back(
            std::make_unique<Bucket>(rank, std::move(parameters), type, seed, maker));
        bucket = buckets_.back().get();
      }
      if (is_tied) tied = bucket;
      by_layer_[layer].push_back(bucket);
      bucket->AddTo(sets_[layer]);
    }
  }
  for (const auto& bucket : buckets_) bucket->Release();
}

SlicedParameters::~SlicedParameters() = default;

void SlicedParameters::Use(int32_t layer) {
  for (Bucket* bucket : by_layer_.at(layer)) bucket->Use();
}
void SlicedParameters::Release(int32_t layer) {
  for (Bucket* bucket : by_layer_.at(layer)) bucket->Release();
}
void SlicedParameters::AddGradients(int32_t layer, uint64_t sample) {
  for (Bucket* bucket : by_layer_.at(layer)) bucket->AddGradients(sample, layer == kOutput);
}
void SlicedParameters::ClearGradients() {
  for (const auto& bucket : buckets_) bucket->ClearGradients();
}
void SlicedParameters::FinishGradients() {
  for (const auto& bucket : buckets_) bucket->FinishGradients();
}

double SlicedParameters::SquaredNorm() {
  at::Tensor sum = at::zeros({1}, at::kDouble);
  FixedSum fixed;
  for (const auto& bucket : buckets_) bucket->AddSquares(sum, fixed);
  if (rank_.bitwise) {
    at::Tensor limbs = fixed.Limbs();
    rank_.world->Sum(limbs);
    return FixedSum::Value(limbs);
  }
  rank_.world->Sum(sum);
  return sum.item<double>();
}

void SlicedParameters::Update(const Rule& rule, const UpdateStep& step) {
  const at::NoGradGuard no_gradients;
  for (const auto& bucket : buckets_) bucket->Update(rule, step);
}

void SlicedParameters::Export(Content content, WholeWeights& to) {
  for (const auto& bucket : buckets_) bucket->Export(content, to);
}

void SlicedParameters::Import(Content content, const WholeWeights& from) {
  for (const auto& bucket : buckets_) bucket->Import(content, from);
}

}  // namespace longhaul::training
