#include "runtime/controller/job/job.h"

#include <algorithm>

#include "runtime/controller/controller.h"

namespace longhaul::runtime::controller {

bool IsTransition(wire::JobState from, wire::JobState to) {
  if (IsTerminal(from)) return false;
  if (IsTerminal(to) || from == to) return true;
  switch (from) {
    case wire::QUEUED:
      return to == wire::STARTING || to == wire::RECOVERING;
    case wire::STARTING:
    case wire::RUNNING:
    case wire::RECOVERING:
      return to == wire::RUNNING || to == wire::RECOVERING || to == wire::LEAVING ||
             to == wire::STOPPING;
    case wire::LEAVING:
      return true;
    default:
      // What is being stopped does not start to run again because of an event that was on its way.
      return false;
  }
}

bool JobLifecycle::live() const { return !IsTerminal(state_); }

void JobLifecycle::SkipEpochs(uint64_t newest) { epoch_ = std::max(epoch_, newest); }

bool JobLifecycle::Enter(wire::JobState state, const std::string& reason, bool leaving) {
  if (state_ == state && reason_ == reason) return false;
  if (!IsTransition(state_, state)) return false;
  if (leaving && state == wire::RUNNING) return false;
  state_ = state;
  reason_ = reason;
  return true;
}

void JobLifecycle::BeginClosing(wire::JobState outcome, const std::string& reason) {
  closing_ = outcome;
  reason_ = reason;
}

void JobLifecycle::AddResult(const std::string& json) {
  constexpr size_t kMostResults = 64;
  if (results_.size() < kMostResults) results_.push_back(json);
}

}  // namespace longhaul::runtime::controller
