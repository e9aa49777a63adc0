#include "runtime/controller/job/hang/stack_inquiry.h"

#include <algorithm>
#include <utility>

namespace longhaul::runtime::controller {

namespace {

constexpr size_t kShownFiles = 4;
constexpr size_t kLongestStack = 8'192;

}  // namespace

void StackInquiry::Begin(Evidence hang, std::set<std::string> nodes) {
  Cancel();
  pending_ = true;
  hang_ = std::move(hang);
  awaited_ = std::move(nodes);
}

void StackInquiry::Cancel() { *this = StackInquiry(); }

bool StackInquiry::Take(const std::string& node, const proto::WorkersProbed& answer) {
  if (!pending_ || !answer.with_stacks() || awaited_.erase(node) == 0) return false;
  for (const proto::WorkersProbed::Worker& worker : answer.workers()) {
    if (worker.process_state() == "gone") continue;
    stacks_.push_back(
        {worker.rank(), node, worker.process_state(), worker.stack().substr(0, kLongestStack)});
  }
  if (!answer.stacks_file().empty()) files_.push_back(answer.stacks_file());
  return awaited_.empty();
}

Evidence StackInquiry::Conclude() {
  const StackGroups groups = GroupStacks(stacks_);
  Evidence evidence = std::move(hang_);
  const std::string text = Describe(groups);
  if (!text.empty()) evidence.what += "; stacks: " + text;
  for (size_t i = 0; i < files_.size() && i < kShownFiles; ++i) {
    evidence.what += (i == 0 ? " (" : ", ") + files_[i];
  }
  if (!files_.empty()) evidence.what += files_.size() > kShownFiles ? ", ...)" : ")";
  if (evidence.rank < 0 && groups.outliers.size() == 1) {
    const auto odd = std::find_if(stacks_.begin(), stacks_.end(), [&](const WorkerStack& each) {
      return each.rank == groups.outliers[0];
    });
    evidence.rank = static_cast<int32_t>(odd->rank);
    evidence.node = odd->node;
  }
  Cancel();
  return evidence;
}

}  // namespace longhaul::runtime::controller
