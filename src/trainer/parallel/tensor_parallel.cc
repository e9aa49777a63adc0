#include "trainer/parallel/tensor_parallel.h"

#include <torch/csrc/autograd/custom_function.h>

#include <span>

#include "base/check.h"

namespace longhaul::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::span<float> Values(at::Tensor& tensor) {
  CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat);
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// The context of a node holds values of libtorch's only.
TensorParallel& Parallel(AutogradContext& context) {
  return *reinterpret_cast<TensorParallel*>(context.saved_data["parallel"].toInt());
}
void Keep(AutogradContext& context, TensorParallel& parallel) {
  context.saved_data["parallel"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(&parallel));
}

// The input of a region that is divided over the parts: unchanged in the forward pass. In the
// backward pass each part has the gradient of its own share, and the input's gradient is their sum.
class Enter : public Function<Enter> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            TensorParallel* parallel) {
    Keep(*context, *parallel);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    // In place it could change what another node was given too.
    at::Tensor sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    Parallel(*context).Sum(sum);
    return {sum, at::Tensor()};
  }
};

// The end of such a region: a sum in the forward pass, unchanged in the backward pass.
class Leave : public Function<Leave> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            TensorParallel* parallel) {
    CHECK(x.is_contiguous());
    at::Tensor sum = x;  // no other node needs a product's result: its gradient is of its inputs
    parallel->Sum(sum);
    context->mark_dirty({x});
    return sum;
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

class VocabularyLoss : public Function<VocabularyLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, int64_t first_word,
                            TensorParallel* parallel) {
    const int64_t words = logits.size(1);
    // The maximum over all parts is subtracted, so that no exponential overflows. All parts must
    // subtract the same number.
    at::Tensor highest = at::amax(logits, {1}, /*keepdim=*/true).contiguous();
    parallel->Max(highest);
    at::Tensor powers = logits - highest;
    const at::Tensor own = targets - first_word;
    const at::Tensor absent = (own < 0).logical_or(own >= words);
    // A target that another part has is clamped to a valid column, and what is read there is set to
    // 0.
    const at::Tensor column = own.clamp(0, words - 1).unsqueeze(1);
    // One sum carries both: the powers, and the target's logit from the part that has it.
    at::Tensor sums = at::empty({2, logits.size(0)}, logits.options());
    sums[1].copy_(powers.gather(1, column).squeeze(1).masked_fill(absent, 0));
    powers.exp_();
    sums[0].copy_(powers.sum(1));
    parallel->Sum(sums);
    powers.div_(sums[0].unsqueeze(1));
    context->save_for_backward({powers, column, absent});
    return (sums[0].log() - sums[1]).sum();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    // The gradient of the cross entropy: the softmax, minus 1 in the target's column.
    at::Tensor gradient = saved[0].clone();
    const at::Tensor here = saved[2].logical_not().to(at::kFloat).unsqueeze(1);
    gradient.scatter_add_(1, saved[1], here.neg());
    gradient.mul_(gradients[0]);
    return {gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

// Autograd cannot return a Status, so the first failure is kept, and the caller checks it after the
// pass. Later sums are skipped: the other ranks have failed as well.
void TensorParallel::Sum(at::Tensor& values) {
  if (failure.ok()) failure = group->Sum(Values(values));
}
void TensorParallel::Max(at::Tensor& values) {
  if (failure.ok()) failure = group->Max(Values(values));
}

at::Tensor EnterParallel(const at::Tensor& x, TensorParallel& parallel) {
  return parallel.alone() ? x : Enter::apply(x, &parallel);
}

at::Tensor LeaveParallel(const at::Tensor& x, TensorParallel& parallel) {
  return parallel.alone() ? x : Leave::apply(x, &parallel);
}

at::Tensor SummedVocabularyLoss(const at::Tensor& logits, const at::Tensor& targets,
                                int64_t first_word, TensorParallel& parallel) {
  return VocabularyLoss::apply(logits, targets, first_word, &parallel);
}

}  // namespace longhaul::trainer
