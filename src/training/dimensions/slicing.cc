#include "training/dimensions/slicing.h"

#include <ATen/native/Resize.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace longhaul::training {
namespace {

// Parameters with equal keys need the same sums, and the same update.
auto KeyOf(const Parameter& parameter) {
  return std::tuple(parameter.expert, parameter.partial, parameter.tied,
                    parameter.tensor_dimension >= 0, parameter.tensor_parts, parameter.decayed);
}

// The share of a whole tensor that a rank has, as a view.
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

// The elements of the share by their indices in the whole parameter, of at most three dimensions.
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

std::string WithoutPrefix(const Parameter& parameter) {
  if (parameter.layer < 0) return parameter.name;
  const std::string prefix = "model.layers." + std::to_string(parameter.layer) + ".";
  CHECK(parameter.name.starts_with(prefix));
  return parameter.name.substr(prefix.size());
}

void GiveBack(at::Tensor& flat) {
  at::native::resize_bytes_cpu(flat.storage().unsafeGetStorageImpl(), 0);
}
void TakeAgain(at::Tensor& flat) {
  at::native::resize_bytes_cpu(flat.storage().unsafeGetStorageImpl(), flat.nbytes());
}

}  // namespace

// Weights and gradients of some parameters of a layer. A buffer that is given back keeps its views,
// whose memory is there again after the next use.
class SlicedParameters::Bucket {
 public:
  Bucket(RankContext& rank, std::vector<Parameter> parameters, at::ScalarType type, uint64_t seed,
         CommunicatorMaker& maker)
      : slicing_(rank.layout.slicing), parameters_(std::move(parameters)) {
    const Parameter& first = parameters_.front();
    const uint32_t own = rank.rank;
    tokens_ = maker.Make("tokens", TokenRanks(rank.layout, own, first.expert));
    shares_ = maker.Make("shares", ShareRanks(rank.layout, own, first));
    MakeEnds(rank, maker);
    counts_ = CountsInTensorGroup(rank.layout, rank.place, first) &&
              (slicing_ != Slicing::kNone || tokens_->rank() == 0) &&
              (ends_ == nullptr || ends_->rank() == 0);
    int64_t size = 0;
    for (const Parameter& parameter : parameters_) size += parameter.count();
    const int64_t slices = slicing_ == Slicing::kNone ? 1 : tokens_->size();
    slice_ = (size + slices - 1) / slices;
    begin_ = slicing_ == Slicing::kNone ? 0 : tokens_->rank() * slice_;
    weights_ = at::zeros({slice_ * slices}, type);
    gradients_ = at::zeros({slice_ * slices}, type);
    Fill(seed);
    own_weights_ = weights_.narrow(0, begin_, slice_);
    own_gradients_ = gradients_.narrow(0, begin_, slice_);
    if (slicing_ >= Slicing::kGradients) own_gradients_ = at::zeros({slice_}, type);
    if (slicing_ == Slicing::kWeights) own_weights_ = own_weights_.clone();
    first_moment_ = at::zeros({slice_}, type);
    second_moment_ = at::zeros({slice_}, type);
  }

  // Leaves of libtorch's graph whose memory is the bucket's.
  void AddTo(WeightSet& set) {
    int64_t offset = 0;
    for (const Parameter& parameter : parameters_) {
      // Without the version counter of the buffer, which is filled anew between uses.
      at::Tensor value =
          weights_.narrow(0, offset, parameter.count()).view(parameter.shape).variable_data();
      at::Tensor gradient = gradients_.narrow(0, offset, parameter.count()).view(parameter.shape);
      value.set_requires_grad(true);
      value.mutable_grad() = gradient;
      set.Add(WithoutPrefix(parameter), {value, gradient});
      offset += parameter.count();
    }
  }

  void Use() {
    if (whole_) return;
    TakeAgain(weights_);
    weights_.copy_(tokens_->AllGather(own_weights_));
    whole_ = true;
  }
  void Release() {
    if (slicing_ != Slicing::kWeights || !whole_) return;
    GiveBack(weights_);
    whole_ = false;
  }

  void AddGradients() {
    if (slicing_ < Slicing::kGradients) return;
    own_gradients_.add_(tokens_->ReduceScatter(gradients_));
    gradients_.zero_();
  }

  void ClearGradients() {
    gradients_.zero_();
    own_gradients_.zero_();
  }

  void FinishGradients() {
    if (slicing_ == Slicing::kNone) {
      if (tokens_->size() > 1) tokens_->Sum(gradients_);
    } else if (slicing_ == Slicing::kOptimizer) {
      own_gradients_.copy_(tokens_->ReduceScatter(gradients_));
    }
    if (shares_->size() > 1) shares_->Sum(own_gradients_);
    if (ends_ != nullptr) ends_->Sum(own_gradients_);
  }

  double SquaredNorm() const {
    return counts_ ? own_gradients_.to(at::kDouble).square().sum().item<double>() : 0;
  }

  void Update(const Rule& rule, UpdateStep step) {
    if (!parameters_.front().decayed) step.decay = 0;
    ApplyRule(rule, step, own_weights_, own_gradients_, first_moment_, second_moment_);
    if (slicing_ == Slicing::kOptimizer || slicing_ == Slicing::kGradients) {
      weights_.copy_(tokens_->AllGather(own_weights_));
    }
  }

  void Export(Content content, WholeWeights& to) {
    at::Tensor flat = Own(content);
    if (slicing_ != Slicing::kNone) flat = tokens_->AllGather(flat);
    ForEach(flat, [&](const Parameter& parameter, const at::Tensor& values) {
      ShareOf(to.at(parameter.name), parameter).copy_(values);
    });
  }

  void Import(Content content, const WholeWeights& from) {
    at::Tensor flat = at::zeros_like(weights_);
    ForEach(flat, [&](const Parameter& parameter, const at::Tensor& values) {
      values.copy_(ShareOf(from.at(parameter.name), parameter));
    });
    Own(content).copy_(flat.narrow(0, begin_, slice_));
    if (content == Content::kWeights && whole_) weights_.copy_(flat);
  }

 private:
  at::Tensor& Own(Content content) {
    switch (content) {
      case Content::kWeights:
        return own_weights_;
      case Content::kGradients:
        return own_gradients_;
      case Content::kFirstMoments:
        return first_moment_;
      case Content::kSecondMoments:
        break;
    }
    return second_moment_;
  }

  // Calls `action` with each parameter and its part of the whole bucket's elements.
  template <typename Action>
  void ForEach(const at::Tensor& flat, Action action) {
    const at::NoGradGuard no_gradients;
    int64_t offset = 0;
    for (const Parameter& parameter : parameters_) {
      action(parameter, flat.narrow(0, offset, parameter.count()).view(parameter.shape));
      offset += parameter.count();
    }
  }

  // Both ends of a pipeline have a copy of tied embeddings.
  void MakeEnds(RankContext& rank, CommunicatorMaker& maker) {
    if (!parameters_.front().tied || rank.layout.pipeline == 1) return;
    Place place = rank.place;
    place.stage = 0;
    const uint32_t first = RankOf(rank.layout, place);
    place.stage = rank.layout.pipeline - 1;
    ends_ = maker.Make("ends", {first, RankOf(rank.layout, place)});
  }

  void Fill(uint64_t seed) {
    ForEach(weights_, [&](const Parameter& parameter, const at::Tensor& values) {
      FillShare(parameter, seed, values.view({-1}));
    });
  }

  const Slicing slicing_;
  const std::vector<Parameter> parameters_;
  std::shared_ptr<Communicator> tokens_;
  std::shared_ptr<Communicator> shares_;
  std::shared_ptr<Communicator> ends_;  // null: not tied, or both on this rank
  bool counts_ = false;                 // in the norm
  int64_t slice_ = 0;                   // elements
  int64_t begin_ = 0;
  bool whole_ = true;  // weights_ is filled
  at::Tensor weights_;
  at::Tensor gradients_;
  at::Tensor own_weights_;
  at::Tensor own_gradients_;
  at::Tensor first_moment_;
  at::Tensor second_moment_;
};

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
void SlicedParameters::AddGradients(int32_t layer) {
  for (Bucket* bucket : by_layer_.at(layer)) bucket->AddGradients();
}
void SlicedParameters::ClearGradients() {
  for (const auto& bucket : buckets_) bucket->ClearGradients();
}
void SlicedParameters::FinishGradients() {
  for (const auto& bucket : buckets_) bucket->FinishGradients();
}

double SlicedParameters::SquaredNorm() {
  at::Tensor sum = at::zeros({1}, at::kDouble);
  for (const auto& bucket : buckets_) sum[0] += bucket->SquaredNorm();
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
