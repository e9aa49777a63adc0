// The training stacks that the planner has constants for, by name, and the settings their recipes
// choose.
//
// `plan --stack NAME` takes a stack from this list; a case's `software.framework` reaches the same
// constants (time/software_stack.h). A release may follow the name, as in megatron-bridge:26.06: it
// selects the factors of stacks that have different factors for each release; others ignore it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "spec/model/training.h"

namespace longhaul::planner {

struct KnownStack {
  std::string_view name;
  std::string_view what;    // what the stack is
  std::string_view fitted;  // the published runs that its constants were fitted to
};

// In alphabetical order.
std::span<const KnownStack> KnownStacks();

// The software of "NAME" or "NAME:RELEASE" with the settings of UsualSoftware. Refuses an unknown
// name with the nearest one.
Result<spec::Software> ParseStackName(std::string_view text);

// The settings that a stack's recipes choose where a user chooses nothing: fused kernels, overlap
// of traffic, bytes of gradients. `compiled` replaces the stack's own choice; it decides whether
// the loss is one kernel.
spec::Software UsualSoftware(std::string_view framework, std::string_view release,
                             std::optional<bool> compiled = std::nullopt);

}  // namespace longhaul::planner
