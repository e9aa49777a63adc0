#include "frontend/run_history.h"

#include <limits>

namespace longhaul::frontend {

void RunHistory::Take(const proto::Notification& notification) {
  const int64_t at_ns = notification.at_ns();
  switch (notification.kind_case()) {
    case proto::Notification::kStep: {
      const proto::StepNotification& step = notification.step();
      StepPoint point{step.step(),
                      step.attempt(),
                      at_ns,
                      step.has_loss() || step.loss() != 0
                          ? step.loss()
                          : std::numeric_limits<double>::quiet_NaN(),
                      std::nullopt,
                      step.gradient_norm(),
                      step.tokens_per_second(),
                      step.step_seconds()};
      if (step.has_validation_loss()) point.validation_loss = step.validation_loss();
      steps.push_back(point);
      break;
    }
    case proto::Notification::kAttempt:
      attempts.push_back({at_ns, notification.attempt()});
      break;
    case proto::Notification::kSnapshot:
      snapshots.push_back({at_ns, notification.snapshot()});
      break;
    case proto::Notification::kState:
      states.push_back({at_ns, notification.state().state()});
      break;
    case proto::Notification::kFault:
      faults[notification.fault().number()] = notification.fault();
      break;
    case proto::Notification::kNode:
      nodes.push_back({at_ns, notification.node().name(), notification.node().connected()});
      break;
    case proto::Notification::kMessage:
      messages.push_back(notification);
      break;
    case proto::Notification::KIND_NOT_SET:
      break;
  }
}

std::vector<StepPoint> RunHistory::LastOfEachStep() const {
  std::map<uint64_t, StepPoint> by_step;
  for (const StepPoint& point : steps) by_step[point.step] = point;
  std::vector<StepPoint> points;
  for (const auto& [step, point] : by_step) points.push_back(point);
  return points;
}

}  // namespace longhaul::frontend
