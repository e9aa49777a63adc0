#include "runtime/controller/job/hang/suspected_hang.h"

#include <algorithm>
#include <utility>

namespace longhaul::runtime::controller {

namespace {

// Twice the slowest recent step, and so long that both probes are done 10 s after the last step.
constexpr Duration kLeastPatience = std::chrono::seconds(6);

}  // namespace

Duration SuspectedHang::Patience(Duration slowest_report) {
  return std::max(kLeastPatience, 2 * slowest_report);
}

void SuspectedHang::BeginProbe(uint64_t attempt) {
  Cancel();
  stage_ = Stage::kProbed;
  attempt_ = attempt;
}

void SuspectedHang::BeginStacks(Evidence hang, std::set<std::string> nodes) {
  stage_ = Stage::kStacks;
  inquiry_.Begin(std::move(hang), std::move(nodes));
}

bool SuspectedHang::Take(const std::string& node, const proto::WorkersProbed& answer) {
  if (stage_ != Stage::kStacks || !answer.with_stacks()) return false;
  for (const proto::WorkersProbed::Worker& worker : answer.workers()) {
    // A worker that could run and was given no processor is not idle.
    const bool idle = worker.idle_ns() > 0 && worker.process_state() != "R";
    all_idle_ = all_idle_ && idle;
  }
  all_answered_ = inquiry_.Take(node, answer);
  return all_answered_;
}

std::optional<Evidence> SuspectedHang::Conclude() {
  const bool hangs = all_answered_ && all_idle_;
  Evidence evidence = inquiry_.Conclude();
  const uint64_t attempt = attempt_;
  Cancel();
  attempt_ = attempt;
  if (!hangs) return std::nullopt;
  stage_ = Stage::kNamed;
  return evidence;
}

}  // namespace longhaul::runtime::controller
