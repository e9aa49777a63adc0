// A check of a gang's nodes between two attempts, after hangs that nothing else explains.
#pragma once

#include <cstdint>

namespace longhaul::runtime::controller {

class NodeInquiry {
 public:
  enum class Stage { kNone, kEndsWorkers, kRuns };

  Stage stage() const { return stage_; }
  // Whether a check was begun for the fault with this number, also if it has ended since.
  bool was_begun(uint32_t fault) const { return fault_ == fault; }

  void Begin(uint32_t fault) {
    fault_ = fault;
    stage_ = Stage::kEndsWorkers;
  }
  void Run() { stage_ = Stage::kRuns; }
  void End() { stage_ = Stage::kNone; }
  // The check's result was lost: another is begun for the same fault.
  void Forget() {
    fault_ = 0;
    stage_ = Stage::kNone;
  }

 private:
  uint32_t fault_ = 0;  // the newest that a check was begun for; faults are counted from 1
  Stage stage_ = Stage::kNone;
};

}  // namespace longhaul::runtime::controller
