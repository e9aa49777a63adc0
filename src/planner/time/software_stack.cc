#include "planner/time/software_stack.h"

namespace longhaul::planner {

SoftwareStack StackFor(std::string_view framework, std::string_view release) {
  SoftwareStack stack;
  static_cast<void>(release);
  if (framework == "megatron-lm" || framework == "megatron-deepspeed") {
    stack.tensor_backward_hidden = 0;
    stack.overlaps_sends = false;
  }
  return stack;
}

}  // namespace longhaul::planner
