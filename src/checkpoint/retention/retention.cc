#include "checkpoint/retention/retention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace longhaul::checkpoint {
namespace {

std::string NameOf(const Manifest& manifest) {
  return CheckpointDirectory::NameOf(manifest.step, manifest.attempt);
}

}  // namespace

// `checkpoints` has the newest first. The newest always stays, whatever the policy says.
std::vector<bool> Stays(const RetentionPolicy& policy, const std::vector<Manifest>& checkpoints) {
  std::vector<bool> stays(checkpoints.size());
  std::vector<size_t> judged;
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    const Manifest& one = checkpoints[i];
    stays[i] = i < std::max<uint64_t>(policy.last, 1) ||
               (policy.every > 0 && one.step % policy.every == 0) ||
               std::find(policy.steps.begin(), policy.steps.end(), one.step) != policy.steps.end();
    if (one.validation_loss && std::isfinite(*one.validation_loss)) judged.push_back(i);
  }
  // Of equal ones the newer.
  std::stable_sort(judged.begin(), judged.end(), [&](size_t a, size_t b) {
    return *checkpoints[a].validation_loss < *checkpoints[b].validation_loss;
  });
  for (size_t i = 0; i < judged.size() && i < policy.best; ++i) stays[judged[i]] = true;
  return stays;
}

Result<Collection> PlanCollection(CheckpointDirectory& directory, const RetentionPolicy& policy,
                                  const CollectProgress& progress) {
  Collection plan;
  ASSIGN_OR_RETURN(std::vector<Manifest> committed, directory.List());
  if (policy.begin.has_value()) {
    std::stable_partition(committed.begin(), committed.end(), [&policy](const Manifest& one) {
      return one.attempt >= policy.begin->attempt || one.step <= policy.begin->step;
    });
  }
  std::vector<bool> stays = Stays(policy, committed);
  const auto read = [&](size_t i) -> Status {
    Status whole = directory.Verify(committed[i], progress);
    if (whole.ok()) plan.good = NameOf(committed[i]);
    if (whole.code() == Code::kCancelled) return whole;
    if (!whole.ok()) {
      plan.notes.push_back(NameOf(committed[i]) + " is no good: " + whole.message());
    }
    return {};
  };
  // A step that the caller has verified, or is using, need not be read again.
  for (size_t i = 0; i < committed.size() && policy.vouched > 0; ++i) {
    if (committed[i].step != policy.vouched || !plan.good.empty()) continue;
    plan.good = NameOf(committed[i]);
    stays[i] = true;
  }
  const bool any_goes = std::find(stays.begin(), stays.end(), false) != stays.end();
  // Before anything is removed, one checkpoint has to be proven good by reading it. Those that stay
  // anyway are read first. If none of them is good, the newest good one of the others stays too.
  for (const bool of_kept : {true, false}) {
    for (size_t i = 0; any_goes && plan.good.empty() && i < committed.size(); ++i) {
      if (stays[i] != of_kept) continue;
      RETURN_IF_ERROR(read(i));
      if (of_kept || plan.good.empty()) continue;
      stays[i] = true;
      plan.notes.push_back(plan.good + " stays: it is the newest good one");
    }
  }
  if (any_goes && plan.good.empty()) {
    plan.notes.push_back("nothing is removed: none is good");
    std::fill(stays.begin(), stays.end(), true);
  }
  for (size_t i = 0; i < committed.size(); ++i) {
    (stays[i] ? plan.kept : plan.removed).push_back(std::move(committed[i]));
  }
  return plan;
}

Status RemovePlanned(CheckpointDirectory& directory, const Collection& plan) {
  // The oldest first, so that an interruption leaves the newer ones.
  for (auto each = plan.removed.rbegin(); each != plan.removed.rend(); ++each) {
    RETURN_IF_ERROR(directory.Remove(each->step, each->attempt));
  }
  return {};
}

Result<Collection> Collect(CheckpointDirectory& directory, const RetentionPolicy& policy,
                           uint64_t current_attempt, const CollectProgress& progress) {
  ASSIGN_OR_RETURN(Collection plan, PlanCollection(directory, policy, progress));
  RETURN_IF_ERROR(RemovePlanned(directory, plan));
  // What has no manifest is no checkpoint; one whose manifest was damaged may still be read by a
  // person, so it goes only where something good is left.
  if (plan.good.empty()) return plan;
  RETURN_IF_ERROR(directory.RemoveUncommitted(current_attempt));
  return plan;
}

}  // namespace longhaul::checkpoint
