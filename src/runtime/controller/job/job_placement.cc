#include "runtime/controller/job/job_placement.h"

namespace longhaul::runtime::controller {

namespace {

// Changes of size that are kept for people to read.
constexpr size_t kMostSizes = 1000;

}  // namespace

void JobPlacement::FinishVacate() {
  vacate_.reset();
  // The placement that it would confirm has ended.
  transaction_ = 0;
  ++preemptions_;
}

void JobPlacement::NoteSize(uint32_t nodes, uint64_t attempt, const std::string& reason,
                            Instant now) {
  if (!sizes_.empty() && sizes_.back().nodes() == nodes) return;
  if (!sizes_.empty()) ++resizes_;
  if (sizes_.size() >= kMostSizes) sizes_.erase(sizes_.begin());
  proto::SizeChange& change = sizes_.emplace_back();
  change.set_at_ns(ToNanoseconds(now));
  change.set_nodes(nodes);
  change.set_attempt(attempt);
  change.set_reason(reason);
}

}  // namespace longhaul::runtime::controller
