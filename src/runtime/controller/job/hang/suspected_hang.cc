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

void SuspectedHang::Cancel() {
  stage_ = Stage::kWatching;
  attempt_ = 0;
  all_answered_ = false;
  all_idle_ = true;
  inquiry_ = StackInquiry();
  workers_.clear();
}

void SuspectedHang::NoteEnd(uint64_t attempt, uint32_t rank, Instant at) {
  Cancel();
  attempt_ = attempt;
  ended_rank_ = rank;
  ended_at_ = at;
}

std::string SuspectedHang::DescribeEnd(Instant now) const {
  constexpr size_t kMostNamed = 16;
  std::string text;
  size_t named = 0;
  for (const auto& [rank, node] : workers_) {
    if (named++ == kMostNamed) break;
    text += (text.empty() ? "worker " : ", worker ") + std::to_string(rank) + " on " + node;
  }
  if (workers_.size() > kMostNamed) {
    text += " and " + std::to_string(workers_.size() - kMostNamed) + " others";
  }
  return text + (workers_.size() == 1 ? " has" : " have") + " not ended, " +
         ToString(now - ended_at_) + " after worker " + std::to_string(ended_rank_) +
         " ended with success";
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
    if (worker.process_state() == "gone") continue;
    workers_[worker.rank()] = node;
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
  std::map<uint32_t, std::string> workers = std::move(workers_);
  Cancel();
  workers_ = std::move(workers);
  attempt_ = attempt;
  if (!hangs) return std::nullopt;
  stage_ = Stage::kNamed;
  return evidence;
}

}  // namespace longhaul::runtime::controller
