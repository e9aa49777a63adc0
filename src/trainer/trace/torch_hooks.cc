#include "trainer/trace/torch_hooks.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/clock.h"

namespace longhaul::trainer {
namespace {

// libtorch calls back plain functions: what they work on is this thread's.
struct Hooked {
  Recorder* recorder = nullptr;
  int depth = 0;  // of operators that called each other
  Instant begin;
  std::vector<int64_t> dimensions;
};
thread_local Hooked hooked;

struct Counted final : public at::ObserverContext {};

void KeepDimensions(const at::RecordFunction& function) {
  hooked.dimensions.clear();
  for (const c10::IValue& input : function.inputs()) {
    if (!input.isTensor()) continue;
    const at::Tensor& tensor = input.toTensor();
    if (!tensor.defined()) continue;
    hooked.dimensions.push_back(tensor.dim());
    for (const int64_t size : tensor.sizes()) hooked.dimensions.push_back(size);
  }
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    hooked.recorder->OnBackwardNode(static_cast<uint64_t>(function.seqNr()));
    return nullptr;
  }
  // Autograd's engine, around all that a node does.
  if (function.scope() != at::RecordScope::FUNCTION ||
      !std::string_view(function.name()).starts_with("aten::")) {
    return nullptr;
  }
  if (hooked.depth++ == 0) {
    KeepDimensions(function);
    hooked.begin = io::MonotonicNow();
  }
  return std::make_unique<Counted>();
}

void End(const at::RecordFunction& function, at::ObserverContext* counted) {
  if (counted == nullptr || --hooked.depth > 0) return;
  hooked.recorder->OnKernel(function.name(), hooked.begin, io::MonotonicNow(), hooked.dimensions);
}

}  // namespace

uint64_t NextNode() { return at::sequence_number::peek(); }

TorchHooks::TorchHooks(Recorder& recorder) {
  CHECK(hooked.recorder == nullptr);
  hooked.recorder = &recorder;
  hooked.depth = 0;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Begin, &End)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

TorchHooks::~TorchHooks() {
  at::removeCallback(handle_);
  hooked.recorder = nullptr;
}

}  // namespace longhaul::trainer
