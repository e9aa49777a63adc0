// Families of training stacks: a framework's use of memory and its default settings.
#pragma once

#include <cstdint>
#include <string_view>

#include "spec/model/training.h"

namespace longhaul::planner {

enum class Family : uint8_t {
  kMegatron,     // Megatron-Core, NeMo, Megatron-Bridge, Primus: based on Transformer Engine
  kOldMegatron,  // Megatron-LM to 2022: its own kernels, no Transformer Engine
  kDeepSpeed,    // DeepSpeed's engine, alone or under Megatron
  kShardedData,  // PyTorch FSDP and frameworks based on it
  kLonghaul,     // the built-in trainer: fp32, replicated
};

// From words of `software.framework` and, for Megatron-LM, its release; kMegatron where unknown.
Family FamilyOf(const spec::Software& software);

// Whether the planner has data about a framework of this name beyond its family.
bool IsKnownFramework(std::string_view name);

}  // namespace longhaul::planner
