#include "planner/framework.h"

#include <initializer_list>
#include <string_view>

#include "base/text.h"

namespace longhaul::planner {

namespace {

const std::initializer_list<std::string_view> kSharded = {
    "titan",    "fsdp",      "foundry",   "maxtext",  "lightning", "accelerate",
    "composer", "torchtune", "axolotl",   "levanter", "axlearn",   "trainer",
    "pytorch",  "pax",       "automodel", "litgpt"};
const std::initializer_list<std::string_view> kDeepSpeed = {"deepspeed", "neox"};
const std::initializer_list<std::string_view> kOthers = {"megatron", "nemo", "bridge",  "primus",
                                                         "hai-llm",  "meta", "longhaul"};

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
