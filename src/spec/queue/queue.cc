#include "spec/queue/queue.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace longhaul::spec {

namespace {

std::string Named(const QueueSpec& queue) { return "queue '" + queue.name + "': "; }

using Index = std::map<std::string_view, const QueueSpec*>;

// From the queue to the top; fails on a circle or an unknown parent.
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

Status CheckLimits(const QueueSpec& queue, const std::vector<const QueueSpec*>& path) {
  for (size_t r = 0; r < kSharedResources; ++r) {
    for (const QueueSpec* above : path) {
      if (queue.guarantee[r] <= above->limit[r]) continue;
      return InvalidArgument(
          Named(queue) + "guarantees " + AmountText(r, queue.guarantee[r]) + ", above the limit " +
          (above == &queue ? "" : "of '" + above->name + "' ") + "of " +
          AmountText(r, above->limit[r]) + ": lower the guarantee or raise the limit");
    }
  }
  return {};
}

}  // namespace

std::string AmountText(size_t resource, int64_t amount) {
  if (resource == static_cast<size_t>(SharedResource::kMemory)) {
    return WithThousands(amount) + " MiB of memory";
  }
  std::string text = WithThousands(amount / 1000);
  if (amount % 1000 != 0) {
    std::string digits = std::to_string(1000 + (amount < 0 ? -amount : amount) % 1000).substr(1);
    while (digits.back() == '0') digits.pop_back();
    text = (amount < 0 && amount > -1000 ? "-" : "") + text + "." + digits;
  }
  return text + " " + std::string(kSharedResourceNames[resource]);
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
  std::map<std::string_view, SharedAmounts> sums;
  for (const QueueSpec& queue : queues) {
    ASSIGN_OR_RETURN(const auto path, PathToRoot(queue, index));
    RETURN_IF_ERROR(CheckLimits(queue, path));
    RETURN_IF_ERROR(CheckUsers(queue, path));
    if (!queue.parent.empty()) sums[queue.parent] += queue.guarantee;
  }
  for (const QueueSpec& queue : queues) {
    const auto found = sums.find(queue.name);
    if (found == sums.end()) continue;
    for (size_t r = 0; r < kSharedResources; ++r) {
      if (found->second[r] <= queue.guarantee[r]) continue;
      return InvalidArgument(Named(queue) + "its children are guaranteed " +
                             AmountText(r, found->second[r]) + " together, but it has only " +
                             AmountText(r, queue.guarantee[r]));
    }
  }
  return {};
}

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
