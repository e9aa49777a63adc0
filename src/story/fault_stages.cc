#include "story/fault_stages.h"

#include <algorithm>

#include "proto/fault_class.h"

namespace longhaul::story {
namespace {

// What the stages may take when one worker dies and its state is in local memory.
constexpr double kDetectBudget = 0.001;      // its pidfd becomes readable
constexpr double kDecideBudget = 0.002;      // event, fence, decision, logged
constexpr double kStartBudget = 0.010;       // the others killed and reaped, all forked again
constexpr double kRendezvousBudget = 0.040;  // store and process group

}  // namespace

std::vector<FaultStage> StagesOf(const proto::Fault& fault) {
  std::vector<FaultStage> stages;
  const bool in_place = proto::FaultClassOf(fault.class_name()) == proto::FaultClass::kProcess;
  const struct {
    const char* name;
    int64_t at_ns;
    double budget_seconds;
  } kStages[] = {
      {"detected", fault.detected_at_ns(), in_place ? kDetectBudget : 0},
      {"decided", fault.decided_at_ns(), in_place ? kDecideBudget : 0},
      {"processes started", fault.started_at_ns(), in_place ? kStartBudget : 0},
      {"in rendezvous", fault.rendezvous_at_ns(), 0},
      {"group formed", fault.restoring_at_ns(), in_place ? kRendezvousBudget : 0},
      {"state restored", fault.stepping_at_ns(), 0},
      {"first step done", fault.first_step_at_ns(), 0},
      {"first new step done", fault.new_step_at_ns(), 0},
  };
  const int64_t began_ns =
      fault.happened_at_ns() != 0 ? fault.happened_at_ns() : fault.detected_at_ns();
  int64_t before_ns = began_ns;
  for (const auto& stage : kStages) {
    if (stage.at_ns == 0) continue;
    // One worker may enter a stage before the last one has left the one before: that took nothing.
    const int64_t at_ns = std::max(stage.at_ns, before_ns);
    stages.push_back({stage.name, static_cast<double>(at_ns - began_ns) * 1e-9,
                      static_cast<double>(at_ns - before_ns) * 1e-9, stage.budget_seconds});
    before_ns = at_ns;
  }
  return stages;
}

}  // namespace longhaul::story
