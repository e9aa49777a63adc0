#include "runtime/controller/job/job.h"

#include <algorithm>

#include "runtime/controller/controller.h"

namespace longhaul::runtime::controller {

bool IsTransition(proto::JobState from, proto::JobState to) {
  if (IsTerminal(from)) return false;
  if (IsTerminal(to) || from == to) return true;
  switch (from) {
    case proto::QUEUED:
      return to == proto::STARTING || to == proto::RECOVERING;
    case proto::STARTING:
    case proto::RUNNING:
    case proto::RECOVERING:
      return to == proto::RUNNING || to == proto::RECOVERING || to == proto::LEAVING ||
             to == proto::STOPPING;
    case proto::LEAVING:
      return true;
    default:
      // What is being stopped does not start to run again because of an event that was on its way.
      return false;
  }
}

bool JobLifecycle::live() const { return !IsTerminal(state_); }

void JobLifecycle::SkipAttempts(uint64_t newest) { attempt_ = std::max(attempt_, newest); }

bool JobLifecycle::Enter(proto::JobState state, const std::string& reason, bool leaving) {
  if (state_ == state && reason_ == reason) return false;
  if (!IsTransition(state_, state)) return false;
  if (leaving && state == proto::RUNNING) return false;
  state_ = state;
  reason_ = reason;
  return true;
}

void JobLifecycle::BeginClosing(proto::JobState outcome, const std::string& reason) {
  closing_ = outcome;
  reason_ = reason;
}

void JobLifecycle::AddResult(const std::string& json) {
  constexpr size_t kMostResults = 64;
  if (results_.size() < kMostResults) results_.push_back(json);
}

}  // namespace longhaul::runtime::controller
