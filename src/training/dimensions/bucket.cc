#include "training/dimensions/bucket.h"

#include <ATen/native/Resize.h>

#include <utility>

#include "training/model/shares.h"

namespace longhaul::training {
namespace {

void GiveBack(at::Tensor& flat) {
  at::native::resize_bytes_cpu(flat.storage().unsafeGetStorageImpl(), 0);
}
void TakeAgain(at::Tensor& flat) {
  at::native::resize_bytes_cpu(flat.storage().unsafeGetStorageImpl(), flat.nbytes());
}

}  // namespace

Bucket::Bucket(RankContext& rank, std::vector<Parameter> parameters, at::ScalarType type,
               uint64_t seed, CommunicatorMaker& maker)
    : slicing_(rank.layout.slicing),
      bitwise_(rank.bitwise),
      parameters_(std::move(parameters)),
      both_ends_(parameters_.front().tied && rank.layout.pipeline == 1) {
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
  ForEach(weights_, [&](const Parameter& parameter, const at::Tensor& values) {
    FillShare(parameter, seed, values.view({-1}));
  });
  own_weights_ = weights_.narrow(0, begin_, slice_);
  own_gradients_ = gradients_.narrow(0, begin_, slice_);
  if (slicing_ >= Slicing::kGradients) own_gradients_ = at::zeros({slice_}, type);
  if (slicing_ == Slicing::kWeights) own_weights_ = own_weights_.clone();
  first_moment_ = at::zeros({slice_}, type);
  second_moment_ = at::zeros({slice_}, type);
}

void Bucket::AddTo(WeightSet& set) {
  int64_t offset = 0;
  for (const Parameter& parameter : parameters_) {
    // Without the version counter of the buffer, which is filled anew between uses.
    at::Tensor value =
        weights_.narrow(0, offset, parameter.count()).view(parameter.shape).variable_data();
    at::Tensor gradient = gradients_.narrow(0, offset, parameter.count()).view(parameter.shape);
    value.set_requires_grad(true);
    value.mutable_grad() = gradient;
    set.Add(NameInLayer(parameter), {value, gradient});
    offset += parameter.count();
  }
}

void Bucket::Use() {
  if (whole_) return;
  TakeAgain(weights_);
  weights_.copy_(tokens_->AllGather(own_weights_));
  whole_ = true;
}
void Bucket::Release() {
  if (slicing_ != Slicing::kWeights || !whole_) return;
  GiveBack(weights_);
  whole_ = false;
}

void Bucket::AddGradients(uint64_t sample, bool output) {
  if (bitwise_) {
    trees_[output && both_ends_ ? 1 : 0].Add(sample, gradients_.clone());
    gradients_.zero_();
  } else if (slicing_ >= Slicing::kGradients) {
    own_gradients_.add_(tokens_->ReduceScatter(gradients_));
    gradients_.zero_();
  }
}

void Bucket::ClearGradients() {
  gradients_.zero_();
  own_gradients_.zero_();
}

void Bucket::FinishGradients() {
  if (bitwise_) {
    FinishBitwise();
  } else if (slicing_ == Slicing::kNone) {
    if (tokens_->size() > 1) tokens_->Sum(gradients_);
  } else if (slicing_ == Slicing::kOptimizer) {
    own_gradients_.copy_(tokens_->ReduceScatter(gradients_));
  }
  if (shares_->size() > 1) shares_->Sum(own_gradients_);
  if (ends_ != nullptr) ends_->Sum(own_gradients_);
}

void Bucket::AddSquares(at::Tensor& sum, FixedSum& fixed) const {
  if (!counts_) return;
  if (bitwise_) {
    fixed.AddSquares(own_gradients_);
  } else {
    sum[0] += own_gradients_.to(at::kDouble).square().sum();
  }
}

void Bucket::Update(const Rule& rule, UpdateStep step) {
  if (!parameters_.front().decayed) step.decay = 0;
  ApplyRule(rule, step, own_weights_, own_gradients_, first_moment_, second_moment_);
  if (slicing_ == Slicing::kOptimizer || slicing_ == Slicing::kGradients) {
    weights_.copy_(tokens_->AllGather(own_weights_));
  }
}

void Bucket::Export(Content content, WholeWeights& to) {
  at::Tensor flat = Own(content);
  if (slicing_ != Slicing::kNone) flat = tokens_->AllGather(flat);
  ForEach(flat, [&](const Parameter& parameter, const at::Tensor& values) {
    ShareOf(to.at(parameter.name), parameter).copy_(values);
  });
}

void Bucket::Import(Content content, const WholeWeights& from) {
  at::Tensor flat = at::zeros_like(weights_);
  ForEach(flat, [&](const Parameter& parameter, const at::Tensor& values) {
    values.copy_(ShareOf(from.at(parameter.name), parameter));
  });
  Own(content).copy_(flat.narrow(0, begin_, slice_));
  if (content == Content::kWeights && whole_) weights_.copy_(flat);
}

namespace {

// The ranks' sums of their samples, added as a tree: each rank adds a slice of all, and then gets
// the slices of the others.
at::Tensor SumOverRanks(const at::Tensor& own, Communicator& group) {
  const int64_t ranks = group.size();
  if (ranks == 1) return own;
  const int64_t size = (own.size(0) + ranks - 1) / ranks;
  const std::vector<int64_t> equal(group.size(), size);
  const at::Tensor padded = at::constant_pad_nd(own, {0, size * ranks - own.size(0)});
  const at::Tensor slices = group.AllToAll(padded, equal, equal);
  SumTree tree;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    tree.Add(static_cast<uint64_t>(rank), slices.narrow(0, rank * size, size).clone());
  }
  return group.AllGather(tree.Take()).narrow(0, 0, own.size(0));
}

}  // namespace

void Bucket::FinishBitwise() {
  at::Tensor sum = SumOverRanks(trees_[0].Take(), *tokens_);
  if (both_ends_) sum.add_(SumOverRanks(trees_[1].Take(), *tokens_));
  own_gradients_.copy_(sum.narrow(0, begin_, slice_));
}

at::Tensor& Bucket::Own(Content content) {
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

template <typename Action>
void Bucket::ForEach(const at::Tensor& flat, Action action) {
  const at::NoGradGuard no_gradients;
  int64_t offset = 0;
  for (const Parameter& parameter : parameters_) {
    action(parameter, flat.narrow(0, offset, parameter.count()).view(parameter.shape));
    offset += parameter.count();
  }
}

// Both ends of a pipeline have a copy of tied embeddings.
void Bucket::MakeEnds(RankContext& rank, CommunicatorMaker& maker) {
  if (!parameters_.front().tied || rank.layout.pipeline == 1) return;
  Place place = rank.place;
  place.stage = 0;
  const uint32_t first = RankOf(rank.layout, place);
  place.stage = rank.layout.pipeline - 1;
  ends_ = maker.Make("ends", {first, RankOf(rank.layout, place)});
}

}  // namespace longhaul::training
