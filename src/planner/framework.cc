#include "planner/framework.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

namespace longhaul::planner {

namespace {

bool ContainsAny(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  });
}

constexpr auto kSharded = std::to_array<std::string_view>(
    {"titan", "fsdp", "foundry", "maxtext", "lightning", "accelerate", "composer", "torchtune",
     "axolotl", "levanter", "axlearn", "trainer", "pytorch", "pax", "automodel", "litgpt"});
constexpr auto kDeepSpeed = std::to_array<std::string_view>({"deepspeed", "neox"});
constexpr auto kOthers = std::to_array<std::string_view>(
    {"megatron", "nemo", "bridge", "primus", "hai-llm", "meta", "longhaul"});

// Megatron-LM before Megatron-Core: tags v1 to v3, or the years up to 2022.
bool IsOldRelease(std::string_view release) {
  for (const std::string_view start : {"v1", "v2.", "v3", "2019", "2020", "2021", "2022"}) {
    if (release.starts_with(start)) return true;
  }
  return false;
}

}  // namespace

Family FamilyOf(const spec::Software& software) {
  const std::string_view name = software.framework;
  if (name == "longhaul") return Family::kLonghaul;
  if (ContainsAny(name, kDeepSpeed)) return Family::kDeepSpeed;
  if (ContainsAny(name, kSharded)) return Family::kShardedData;
  if (name == "megatron-lm" && IsOldRelease(software.release)) return Family::kOldMegatron;
  return Family::kMegatron;
}

bool IsKnownFramework(std::string_view name) {
  return ContainsAny(name, kSharded) || ContainsAny(name, kDeepSpeed) || ContainsAny(name, kOthers);
}

}  // namespace longhaul::planner
