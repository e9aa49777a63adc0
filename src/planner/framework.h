// Families of training stacks: what a framework does with memory and defaults unless told.
#pragma once

#include <cstdint>
#include <string_view>

#include "spec/model/training.h"

namespace longhaul::planner {

enum class Family : uint8_t {
  kMegatron,     // Megatron-Core, NeMo, Megatron-Bridge, Primus: Transformer Engine underneath
  kOldMegatron,  // Megatron-LM to 2022: its own kernels, no Transformer Engine
  kDeepSpeed,    // DeepSpeed's engine, alone or under Megatron
  kShardedData,  // PyTorch FSDP and what is built on it
  kLonghaul,     // the built-in trainer: fp32, replicated
};

// By words of `software.framework` and, for Megatron-LM, its release; kMegatron where unknown.
Family FamilyOf(const spec::Software& software);

// Whether anything is known of a framework of this name beyond its family.
bool IsKnownFramework(std::string_view name);

}  // namespace longhaul::planner
