#include "runtime/simulation/audit.h"

#include <algorithm>
#include <cmath>

namespace longhaul::runtime::simulation {

void Audit::Violate(std::string what) {
  constexpr size_t kEnough = 20;
  if (violations_.size() < kEnough) violations_.push_back(std::move(what));
}

// `lineage_` has one entry for each step that counts, with the attempt that took it. A restore cuts
// it at the restored step.
void Audit::AttemptBegins(uint64_t attempt, uint64_t restored_step) {
  if (attempt <= attempt_) {
    return Violate("attempt " + std::to_string(attempt) + " begins after attempt " +
                   std::to_string(attempt_));
  }
  if (restored_step > lineage_.size()) {
    return Violate("attempt " + std::to_string(attempt) + " restored step " +
                   std::to_string(restored_step) + ", but only " + std::to_string(lineage_.size()) +
                   " were taken");
  }
  attempt_ = attempt;
  lineage_.resize(restored_step);
}

void Audit::Stepped(uint64_t attempt, uint64_t first, uint64_t last) {
  if (attempt != attempt_) {
    return Violate("attempt " + std::to_string(attempt) + " steps in the time of attempt " +
                   std::to_string(attempt_));
  }
  if (first != lineage_.size() + 1 || last < first) {
    return Violate("step " + std::to_string(first) + " follows step " +
                   std::to_string(lineage_.size()) + ": samples lost or used twice");
  }
  lineage_.resize(last, static_cast<uint32_t>(attempt));
  taken_ += last - first + 1;
  highest_ = std::max(highest_, last);
}

void Audit::Sized(Instant at, uint32_t ranks) {
  if (over_) return;
  rank_seconds_ += ranks_ * ToSeconds(at - sized_);
  sized_ = at;
  ranks_ = ranks;
}

void Audit::Over(Instant at) {
  Sized(at, 0);
  over_ = true;
}

// Kept apart from the controller's own accounting, from the notifications alone, so that an error
// in one of them shows as a difference.
void Audit::Holds(const std::string& job, Instant at, uint32_t ranks) {
  held_ += AcceleratorTime{all_held_ranks_} * (at - held_until_).count();
  held_until_ = at;
  uint32_t& held = held_ranks_[job];
  all_held_ranks_ += ranks;
  all_held_ranks_ -= held;
  held = ranks;
}

void Audit::CompareUsage(const Controller::UsageTotals& totals, Instant now) {
  // Each rank has a whole accelerator; the totals are in thousandths.
  const AcceleratorTime expected =
      (held_ + AcceleratorTime{all_held_ranks_} * (now - held_until_).count()) * 1'000;
  const auto text = [](AcceleratorTime time) { return std::to_string(ToHours(time / 1'000)); };
  if (totals.held != expected) {
    Violate("the accounting has " + text(totals.held) + " accelerator-hours, " + text(expected) +
            " were held");
  }
  const AcceleratorTime from_ledgers =
      totals.ledgers + totals.difference.leaving - totals.difference.without_nodes;
  if (totals.held != from_ledgers) {
    Violate("the accounting has " + text(totals.held) +
            " accelerator-hours, the goodput ledgers have " + text(from_ledgers));
  }
}

void Audit::Compare(const proto::JobStatus& status, Instant now) {
  if (status.highest_step() > highest_) {
    Violate("the controller counts step " + std::to_string(status.highest_step()) + ", only " +
            std::to_string(highest_) + " were taken");
  }
  if (status.samples_committed() > highest_ * global_batch_) {
    Violate("more samples are committed than were used");
  }
  if (status.memory_step() > highest_ || status.committed_step() > highest_) {
    Violate("a snapshot of a step that was never taken");
  }
  const auto& ledger = status.ledger();
  const double expected = rank_seconds_ + ranks_ * ToSeconds(std::max(now, sized_) - sized_);
  if (std::fabs(ledger.rank_seconds() - expected) > 1e-6 * std::max(1.0, expected)) {
    Violate("the ledger's categories sum to " + std::to_string(ledger.rank_seconds()) +
            " rank seconds, the time of its ranks to " + std::to_string(expected));
  }
}

}  // namespace longhaul::runtime::simulation
