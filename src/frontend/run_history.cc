#include "frontend/run_history.h"

#include <limits>

namespace longhaul::frontend {

void RunHistory::Take(const proto::Notice& notice) {
  const int64_t at_ns = notice.at_ns();
  switch (notice.kind_case()) {
    case proto::Notice::kStep: {
      const proto::StepNotice& step = notice.step();
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
    case proto::Notice::kAttempt:
      attempts.push_back({at_ns, notice.attempt()});
      break;
    case proto::Notice::kSnapshot:
      snapshots.push_back({at_ns, notice.snapshot()});
      break;
    case proto::Notice::kState:
      states.push_back({at_ns, notice.state().state()});
      break;
    case proto::Notice::kFault:
      faults[notice.fault().number()] = notice.fault();
      break;
    case proto::Notice::kNode:
      nodes.push_back({at_ns, notice.node().name(), notice.node().connected()});
      break;
    case proto::Notice::kMessage:
      messages.push_back(notice);
      break;
    case proto::Notice::KIND_NOT_SET:
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
