#include "scheduler/internal/quota_check.h"

#include <bit>

namespace longhaul::scheduler::internal {

namespace {

// The models among which a group has a choice; 0: it has none.
uint64_t ChoiceOf(const SchedulerState& state, const GroupRequest& group) {
  if (!state.counts_models() || !group.shape.needs_devices()) return 0;
  const uint64_t models = group.shape.models & state.device_models;
  return std::popcount(models) < 2 ? 0 : models;
}

std::vector<int32_t> MinimumCounts(const JobRequest& request) {
  std::vector<int32_t> counts;
  for (const GroupRequest& group : request.groups) counts.push_back(group.minimum);
  return counts;
}

spec::SharedAmounts AmountsOn(const SchedulerState& state, const JobRequest& request,
                              std::span<const int32_t> counts,
                              const std::vector<uint64_t>& models) {
  spec::SharedAmounts sum;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    Shape shape = request.groups[g].shape;
    if (!models.empty()) shape.models &= models[g];
    sum += state.AmountsOf(shape, counts[g]);
  }
  return sum;
}

}  // namespace

std::vector<ModelChoice> ModelChoicesOf(const SchedulerState& state, const JobRequest& request,
                                        std::span<const int32_t> counts) {
  // The product of the groups' models, limited to kMaxModelChoices, since it grows exponentially
  // with the groups. Models ascend within a group.
  std::vector<std::vector<uint64_t>> ways = {{}};
  for (size_t g = 0; g < request.groups.size(); ++g) {
    uint64_t models = counts[g] == 0 ? 0 : ChoiceOf(state, request.groups[g]);
    if (models == 0) continue;
    std::vector<std::vector<uint64_t>> longer;
    for (; models != 0; models &= models - 1) {
      for (const std::vector<uint64_t>& way : ways) {
        if (longer.size() == kMaxModelChoices) break;
        std::vector<uint64_t>& next = longer.emplace_back(way);
        next.resize(request.groups.size(), kAnyModel);
        next[g] = models & ~(models - 1);
      }
    }
    ways = std::move(longer);
  }
  std::vector<ModelChoice> choices;
  for (std::vector<uint64_t>& way : ways) {
    ModelChoice& choice = choices.emplace_back();
    choice.amounts = AmountsOn(state, request, counts, way);
    choice.models = std::move(way);
  }
  return choices;
}

std::vector<ModelChoice> ModelChoicesOf(const SchedulerState& state, const JobEntry& job) {
  return ModelChoicesOf(state, *job.request, MinimumCounts(*job.request));
}

std::optional<share::QuotaBlock> CheckQuotas(const SchedulerState& state, const JobEntry& job,
                                             std::span<const int32_t> counts) {
  std::optional<share::QuotaBlock> first;
  for (const ModelChoice& choice : ModelChoicesOf(state, *job.request, counts)) {
    auto block = state.queues.Check(WholeOf(job, choice.amounts));
    if (!block) return std::nullopt;
    if (!first) first = std::move(block);
  }
  return first;
}

std::optional<share::QuotaBlock> CheckQuotasOfMinimum(const SchedulerState& state,
                                                      const JobEntry& job) {
  if (!state.counts_models() || job.shapes_of_models.empty()) {
    return state.queues.Check(state.MinimumOf(job));
  }
  return CheckQuotas(state, job, MinimumCounts(*job.request));
}

std::vector<ModelChoice> AllowedModelChoices(const SchedulerState& state, const JobEntry& job,
                                             std::span<const int32_t> counts) {
  std::vector<ModelChoice> choices = ModelChoicesOf(state, *job.request, counts);
  std::erase_if(choices, [&](const ModelChoice& choice) {
    // A job that runs counts as one job already.
    const share::Holding asked =
        job.placed ? PartOf(job, choice.amounts) : WholeOf(job, choice.amounts);
    return state.queues.Check(asked).has_value();
  });
  return choices;
}

}  // namespace longhaul::scheduler::internal
