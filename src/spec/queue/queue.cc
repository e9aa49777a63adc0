#include "spec/queue/queue.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace longhaul::spec {

namespace {

std::string Named(const QueueSpec& queue) { return "queue '" + queue.name + "': "; }

using Index = std::map<std::string_view, const QueueSpec*>;

// From the queue to the top; fails on a circle or an unknown parent.
// The depth is bounded, so a search in the path is cheap.
Result<std::vector<const QueueSpec*>> PathToRoot(const QueueSpec& queue, const Index& index) {
  std::vector<const QueueSpec*> path = {&queue};
  while (!path.back()->parent.empty()) {
    const auto found = index.find(path.back()->parent);
    if (found == index.end()) {
      return InvalidArgument(Named(*path.back()) + "there is no parent '" +
                             Printable(path.back()->parent, 64) + "'");
    }
    const auto again = std::find(path.begin(), path.end(), found->second);
    if (again != path.end()) {
      std::string circle;
      for (auto at = again; at != path.end(); ++at) circle += (*at)->name + " -> ";
      return InvalidArgument(Named(queue) + "its parents are a circle: " + circle + (*again)->name);
    }
    path.push_back(found->second);
    if (path.size() > kMaxQueueDepth) {
      return InvalidArgument(Named(queue) + "lies deeper than " + std::to_string(kMaxQueueDepth) +
                             " levels");
    }
  }
  return path;
}

// A queue narrows who may submit to the queues above it.
Status CheckUsers(const QueueSpec& queue, const std::vector<const QueueSpec*>& path) {
  for (const QueueSpec* above : path) {
    if (above == &queue || above->users.empty()) continue;
    for (const std::string& user : queue.users) {
      if (std::find(above->users.begin(), above->users.end(), user) != above->users.end()) continue;
      return InvalidArgument(Named(queue) + "its users include '" + Printable(user, 64) +
                             "', whom queue '" + above->name +
                             "' above it does not admit: add the user there or remove it here");
    }
  }
  return {};
}

Status CheckLimits(const QueueSpec& queue, const std::vector<const QueueSpec*>& path,
                   const std::vector<std::string>& models) {
  for (size_t r = 0; r < kSharedResources + models.size(); ++r) {
    for (const QueueSpec* above : path) {
      if (queue.guarantee[r] <= above->limit[r]) continue;
      return InvalidArgument(
          Named(queue) + "guarantees " + AmountText(r, queue.guarantee[r], models) +
          ", above the limit " + (above == &queue ? "" : "of '" + above->name + "' ") + "of " +
          AmountText(r, above->limit[r], models) + ": lower the guarantee or raise the limit");
    }
  }
  return {};
}

// What a queue is guaranteed of all models is part of what it is guaranteed of accelerators.
Status CheckModelSum(const QueueSpec& queue) {
  int64_t sum = 0;
  for (const ModelQuota& quota : queue.models) sum += quota.guarantee;
  constexpr auto kAccelerators = static_cast<size_t>(SharedResource::kAccelerators);
  if (sum <= queue.guarantee[kAccelerators]) return {};
  return InvalidArgument(Named(queue) + "its devices are guaranteed " +
                         AmountText(kAccelerators, sum) + " together, but it is guaranteed only " +
                         AmountText(kAccelerators, queue.guarantee[kAccelerators]) +
                         ": raise the guarantee of accelerators to " +
                         AmountText(kAccelerators, sum));
}

// The guarantees of the children of each queue fit into its own.
Status CheckSums(const std::vector<QueueSpec>& queues, const std::vector<std::string>& models) {
  std::map<std::string_view, SharedAmounts> sums;
  for (const QueueSpec& queue : queues) {
    if (!queue.parent.empty()) sums[queue.parent] += queue.guarantee;
  }
  for (const QueueSpec& queue : queues) {
    const auto found = sums.find(queue.name);
    if (found == sums.end()) continue;
    for (size_t r = 0; r < kSharedResources + models.size(); ++r) {
      if (found->second[r] <= queue.guarantee[r]) continue;
      return InvalidArgument(
          Named(queue) + "its children are guaranteed " + AmountText(r, found->second[r], models) +
          " together, but it has only " + AmountText(r, queue.guarantee[r], models));
    }
  }
  return {};
}

}  // namespace

// All amounts but memory are in thousandths. The sign is written separately where the whole part is
// 0, which has none.
std::string AmountText(size_t resource, int64_t amount, const std::vector<std::string>& models) {
  if (resource == static_cast<size_t>(SharedResource::kMemory)) {
    return WithThousands(amount) + " MiB of memory";
  }
  std::string text = WithThousands(amount / 1000);
  if (amount % 1000 != 0) {
    std::string digits = std::to_string(1000 + (amount < 0 ? -amount : amount) % 1000).substr(1);
    while (digits.back() == '0') digits.pop_back();
    text = (amount < 0 && amount > -1000 ? "-" : "") + text + "." + digits;
  }
  if (resource < kSharedResources) return text + " " + std::string(kSharedResourceNames[resource]);
  const size_t model = resource - kSharedResources;
  return text + " accelerators of model " + (model < models.size() ? models[model] : "unknown");
}

std::vector<std::string> QuotaModels(const std::vector<QueueSpec>& queues) {
  std::set<std::string> names;
  for (const QueueSpec& queue : queues) {
    for (const ModelQuota& quota : queue.models) names.insert(quota.model);
  }
  return {names.begin(), names.end()};
}

// Requires that `models` is sorted, as QuotaModels returns it: the position of a model in it is its
// dimension in all queues. A model without a quota in this queue has no guarantee and no limit.
QueueSpec WithModelDimensions(const QueueSpec& queue, const std::vector<std::string>& models) {
  QueueSpec resolved = queue;
  for (size_t r = kSharedResources; r < kQuotaDimensions; ++r) {
    resolved.guarantee[r] = 0;
    resolved.limit[r] = resolved.lend[r] = resolved.per_user.amounts[r] = kUnlimited;
  }
  for (const ModelQuota& quota : queue.models) {
    const auto found = std::lower_bound(models.begin(), models.end(), quota.model);
    if (found == models.end() || *found != quota.model) continue;
    const size_t r = kSharedResources + static_cast<size_t>(found - models.begin());
    resolved.guarantee[r] = quota.guarantee;
    resolved.limit[r] = quota.limit;
    resolved.lend[r] = quota.lend;
    resolved.per_user.amounts[r] = quota.per_user;
  }
  return resolved;
}

Status CheckQueues(const std::vector<QueueSpec>& queues) {
  if (queues.size() > kMaxQueues) {
    return InvalidArgument("more than " + WithThousands(kMaxQueues) + " queues");
  }
  Index index;
  for (const QueueSpec& queue : queues) {
    if (queue.name.empty()) return InvalidArgument("a queue needs a name");
    if (!index.emplace(queue.name, &queue).second) {
      return InvalidArgument(Named(queue) + "there are two of this name");
    }
  }
  const std::vector<std::string> models = QuotaModels(queues);
  if (models.size() > kMaxQuotaModels) {
    return InvalidArgument("the queues have quotas for " + std::to_string(models.size()) +
                           " device models, among them " + Printable(models.back(), 64) +
                           "; at most " + std::to_string(kMaxQuotaModels) + " may have quotas");
  }
  std::vector<QueueSpec> resolved;
  for (const QueueSpec& queue : queues) resolved.push_back(WithModelDimensions(queue, models));
  // From here on the index points into `resolved`, which must not grow any more.
  for (const QueueSpec& queue : resolved) index[queue.name] = &queue;
  for (const QueueSpec& queue : resolved) {
    ASSIGN_OR_RETURN(const auto path, PathToRoot(queue, index));
    RETURN_IF_ERROR(CheckLimits(queue, path, models));
    RETURN_IF_ERROR(CheckUsers(queue, path));
    RETURN_IF_ERROR(CheckModelSum(queue));
  }
  return CheckSums(resolved, models);
}

// Requires that the queues passed CheckQueues: with a circle of parents this would not end.
std::vector<const QueueSpec*> PathOf(const std::vector<QueueSpec>& queues, std::string_view name) {
  std::vector<const QueueSpec*> path;
  while (!name.empty()) {
    const auto found = std::find_if(queues.begin(), queues.end(),
                                    [&](const QueueSpec& queue) { return queue.name == name; });
    if (found == queues.end()) break;
    path.push_back(&*found);
    name = found->parent;
  }
  return path;
}

}  // namespace longhaul::spec
