// What quotas say of a job that would start: of its amounts, and of the device models that its
// groups could be on. Several models matter only while queues have quotas of models.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/internal/scheduler_state.h"

namespace longhaul::scheduler::internal {

// One way to divide the groups of a job among the device models that could serve them.
struct ModelChoice {
  std::vector<uint64_t> models;  // by group, as Bounds::models; empty: no group has a choice
  spec::SharedAmounts amounts;   // what the job counts as then
};

// Of so many ways, the others are left out.
inline constexpr size_t kMaxModelChoices = 64;

// All ways for counts[g] tasks of each group g, at least one.
std::vector<ModelChoice> ModelChoicesOf(const SchedulerState& state, const JobRequest& request,
                                        std::span<const int32_t> counts);
// The same at the job's minimum.
std::vector<ModelChoice> ModelChoicesOf(const SchedulerState& state, const JobEntry& job);

// The first bound that counts[g] tasks of each group g of a waiting job fail, in all ways.
std::optional<share::QuotaBlock> CheckQuotas(const SchedulerState& state, const JobEntry& job,
                                             std::span<const int32_t> counts);
std::optional<share::QuotaBlock> CheckQuotasOfMinimum(const SchedulerState& state,
                                                      const JobEntry& job);

// The ways that the quotas allow now. The tasks are counted beside those that the job has already.
std::vector<ModelChoice> AllowedModelChoices(const SchedulerState& state, const JobEntry& job,
                                             std::span<const int32_t> counts);

}  // namespace longhaul::scheduler::internal
