// Some parameters of a layer that need the same sums of their gradients, in one flat buffer.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "training/communicator.h"
#include "training/dimensions/rank.h"
#include "training/exact_sum.h"
#include "training/model/reference.h"
#include "training/model/weights.h"
#include "training/parameters.h"
#include "training/update.h"

namespace longhaul::training {

enum class Content { kWeights, kGradients, kFirstMoments, kSecondMoments };

// slicing.h says what is whole and what a slice. A buffer that is given back keeps its views, whose
// memory is there again after the next use.
class Bucket {
 public:
  Bucket(RankContext& rank, std::vector<Parameter> parameters, at::ScalarType type, uint64_t seed,
         CommunicatorMaker& maker);

  // Leaves of libtorch's graph whose memory is the bucket's.
  void AddTo(WeightSet& set);

  void Use();
  void Release();

  // In bitwise mode the sums of samples stay whole until the end. Where both ends of tied
  // embeddings are here, each has a tree of its own, as it has on two ranks; `output` says which
  // one it is.
  void AddGradients(uint64_t sample, bool output);
  void ClearGradients();
  void FinishGradients();

  // Adds the squares of the gradients, of a bucket whose copy counts, to one of both sums.
  void AddSquares(at::Tensor& sum, FixedSum& fixed) const;
  void Update(const Rule& rule, UpdateStep step);

  void Export(Content content, WholeWeights& to);
  void Import(Content content, const WholeWeights& from);

 private:
  void MakeEnds(RankContext& rank, CommunicatorMaker& maker);
  void FinishBitwise();
  at::Tensor& Own(Content content);
  // Calls `action` with each parameter and its part of the whole bucket's elements.
  template <typename Action>
  void ForEach(const at::Tensor& flat, Action action);

  const Slicing slicing_;
  const bool bitwise_;
  const std::vector<Parameter> parameters_;
  const bool both_ends_;  // of tied embeddings
  std::shared_ptr<Communicator> tokens_;
  std::shared_ptr<Communicator> shares_;
  std::shared_ptr<Communicator> ends_;  // null: not tied, or both on this rank
  bool counts_ = false;                 // in the norm
  std::array<SumTree, 2> trees_;        // in bitwise mode; the second one for the output's end
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

}  // namespace longhaul::training
