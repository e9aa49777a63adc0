#include "runtime/simulation/replay/baseline.h"

#include <algorithm>
#include <numeric>

namespace longhaul::runtime::simulation {
namespace {

constexpr std::array<std::string_view, kLossParts> kPartNames = {
    "productive", "slow steps", "snapshots", "lost work", "detect",
    "decide",     "restart",    "groups",    "restore",   "other"};

bool IsHardware(const TracedFault& fault) {
  return fault.scope != FaultScope::kProcess && fault.scope != FaultScope::kStorage &&
         fault.scope != FaultScope::kState && fault.scope != FaultScope::kJob;
}

class BaselineRun {
 public:
  BaselineRun(const BaselineSystem& system, Duration length)
      : system_(system), end_(ToSeconds(length)) {}

  TimeParts Run(const std::vector<TracedFault>& trace) {
    Recover();
    for (const TracedFault& fault : trace) {
      AdvanceTo(ToSeconds(fault.at));
      Strike(fault);
    }
    AdvanceTo(end_);
    return parts_;
  }

 private:
  struct Phase {
    LossPart part;
    double seconds;
  };

  void Recover() {
    Add(LossPart::kRestart, system_.restart);
    Add(LossPart::kGroups, kGroupInit);
    Add(LossPart::kRestore, system_.reload);
  }

  void Add(LossPart part, Duration duration) { waits_.push_back({part, ToSeconds(duration)}); }

  // First the phases of the recovery, then training.
  void AdvanceTo(double until) {
    until = std::min(until, end_);
    while (now_ < until && !waits_.empty()) {
      Phase& phase = waits_.front();
      const double spent = std::min(phase.seconds, until - now_);
      parts_[phase.part] += spent;
      now_ += spent;
      phase.seconds -= spent;
      if (phase.seconds <= 0) waits_.erase(waits_.begin());
    }
    while (now_ < until) Train(until);
  }

  // Up to the end of a checkpoint, of the slow time or `until`, whichever is first.
  void Train(double until) {
    const double interval = ToSeconds(system_.checkpoint_interval);
    const double block = ToSeconds(system_.checkpoint_block);
    if (unsaved_ >= interval) {
      const double spent = std::min(block - blocked_, until - now_);
      parts_[LossPart::kCheckpoint] += spent;
      now_ += spent;
      blocked_ += spent;
      if (blocked_ >= block) unsaved_ = blocked_ = 0;
      return;
    }
    const bool slow = now_ < slow_until_;
    const double factor = slow ? kSlowFactor : 1;
    double spent = std::min((interval - unsaved_) * factor, until - now_);
    if (slow) spent = std::min(spent, slow_until_ - now_);
    parts_[LossPart::kProductive] += spent / factor;
    parts_[LossPart::kSlow] += spent - spent / factor;
    unsaved_ += spent / factor;
    now_ += spent;
  }

  void LoseWork() {
    parts_[LossPart::kProductive] -= unsaved_;
    parts_[LossPart::kLostWork] += unsaved_;
    unsaved_ = blocked_ = 0;
  }

  void Strike(const TracedFault& fault) {
    if (fault.scope == FaultScope::kSlowDevice) {
      slow_until_ = ToSeconds(fault.at + fault.notice);
      AdvanceTo(slow_until_);
    }
    const bool planned = fault.scope == FaultScope::kNode && fault.notice > Duration(0);
    if (planned && system_.drains) {
      waits_.clear();
      if (unsaved_ > 0) Add(LossPart::kCheckpoint, system_.checkpoint_block);
      unsaved_ = blocked_ = 0;
      Add(LossPart::kRestart, system_.replace);
      return Recover();
    }
    if (fault.scope == FaultScope::kState && fault.silent) {
      // All work since the damage is void, and so is that since the checkpoint before it.
      LoseWork();
      waits_.clear();
      Add(LossPart::kLostWork, fault.repair);
      return Recover();
    }
    LoseWork();
    waits_.clear();
    Detect(fault);
    const bool machine = fault.scope == FaultScope::kNode || fault.scope == FaultScope::kRack;
    const bool persistent = IsHardware(fault) && !machine && fault.repair > Duration(0);
    if (IsHardware(fault)) Add(LossPart::kDecide, system_.diagnose);
    // The restart fails again until an operator has found the part.
    if (persistent && !system_.locates) Add(LossPart::kDecide, kOperator);
    if (machine || persistent) Add(LossPart::kRestart, system_.replace);
    Recover();
  }

  void Detect(const TracedFault& fault) {
    const bool machine = fault.scope == FaultScope::kNode || fault.scope == FaultScope::kRack;
    Duration detect = system_.detect_exit;
    if (fault.silent) detect = machine ? system_.detect_node : system_.detect_hang;
    if (fault.scope == FaultScope::kJob) detect = std::max(detect, fault.repair);
    Add(LossPart::kDetect, detect);
  }

  const BaselineSystem& system_;
  double end_;
  double now_ = 0;
  double unsaved_ = 0;  // work since the last checkpoint
  double blocked_ = 0;  // of the checkpoint in progress
  double slow_until_ = 0;
  std::vector<Phase> waits_;
  TimeParts parts_;
};

}  // namespace

std::string_view NameOf(LossPart part) { return kPartNames[static_cast<size_t>(part)]; }

double TimeParts::Total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

TimeParts RunBaseline(const BaselineSystem& system, const std::vector<TracedFault>& trace,
                      Duration length) {
  return BaselineRun(system, length).Run(trace);
}

}  // namespace longhaul::runtime::simulation
