#include "scheduler/victims/internal/cover_search.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

constexpr int kShift = 16;  // shares are whole numbers of 2^-16 of a cost

using Wide = __int128;

}  // namespace

CoverSearch::CoverSearch(const Cover& cover, const std::vector<Component>& components,
                         const std::vector<size_t>& branched, const SmallComponents* rest,
                         Budget& budget)
    : cover_(cover), rest_(rest), budget_(budget) {
  for (const size_t i : branched) {
    slots_.insert(slots_.end(), components[i].slots.begin(), components[i].slots.end());
    jobs_.insert(jobs_.end(), components[i].jobs.begin(), components[i].jobs.end());
  }
  std::sort(slots_.begin(), slots_.end());
  job_.assign(cover.jobs.size(), kOpen);
  piece_.assign(cover.pieces.size(), kOpen);
  shrunk_.assign(cover.jobs.size(), 0);
}

// Gone: it frees its slots. Kept: it never will. Open: not decided.
CoverSearch::State CoverSearch::PieceState(int32_t piece) const {
  const auto p = static_cast<size_t>(piece);
  const auto j = static_cast<size_t>(cover_.pieces[p].job);
  if (job_[j] == kGone || piece_[p] == kGone) return kGone;
  if (job_[j] == kOpen) return kOpen;
  const bool can_shrink = cover_.pieces[p].shrink_cost >= 0 && piece_[p] == kOpen &&
                          shrunk_[j] < cover_.jobs[j].max_shrunk;
  return can_shrink ? kOpen : kKept;
}

// Of `wanted` freed slots a job can hold no more than it holds and no more than all: its cost,
// shared among that many of them, never exceeds what it costs.
int64_t CoverSearch::Share(int32_t piece, int32_t wanted) const {
  const auto p = static_cast<size_t>(piece);
  const auto j = static_cast<size_t>(cover_.pieces[p].job);
  int64_t share = kNoCost;
  if (job_[j] == kOpen) {
    share = (cover_.jobs[j].cost << kShift) / std::min(wanted, alive_of_job_[j]);
  }
  const int64_t alone = cover_.pieces[p].shrink_cost;
  if (alone >= 0 && piece_[p] == kOpen && shrunk_[j] < cover_.jobs[j].max_shrunk) {
    share = std::min(share, (alone << kShift) / std::min(wanted, alive_of_piece_[p]));
  }
  return share;
}

CoverSearch::Look CoverSearch::LookAround() {
  Look look;
  alive_of_job_.assign(cover_.jobs.size(), 0);
  alive_of_piece_.assign(cover_.pieces.size(), 0);
  last_slot_.assign(cover_.jobs.size(), -1);
  std::vector<int32_t> alive;
  for (const int32_t slot : slots_) {
    const std::span<const int32_t> holders = cover_.Holders(static_cast<size_t>(slot));
    bool freed = true;
    bool kept = false;
    for (const int32_t piece : holders) {
      const State state = PieceState(piece);
      freed = freed && state == kGone;
      kept = kept || state == kKept;
    }
    budget_.steps += static_cast<int64_t>(holders.size());
    if (freed) ++look.freed;
    if (freed || kept) continue;
    alive.push_back(slot);
    for (const int32_t piece : holders) {
      if (PieceState(piece) != kOpen) continue;
      ++alive_of_piece_[static_cast<size_t>(piece)];
      const auto job = static_cast<size_t>(cover_.pieces[static_cast<size_t>(piece)].job);
      if (last_slot_[job] == slot) continue;
      last_slot_[job] = slot;
      ++alive_of_job_[job];
    }
  }
  // Where a proof refused enough slots, at least one more must go.
  const int32_t missing = std::max(cover_.need - look.freed, proof_ != nullptr ? 1 : 0);
  shares_.clear();
  int64_t cheapest = kNoCost;
  int64_t dearest = -1;
  for (const int32_t slot : alive) {
    int64_t sum = 0;
    int32_t worst = -1;
    int64_t worst_share = -1;
    for (const int32_t piece : cover_.Holders(static_cast<size_t>(slot))) {
      if (PieceState(piece) != kOpen) continue;
      // Two pieces of a job on one slot share the job's price; count it once.
      const auto job = cover_.pieces[static_cast<size_t>(piece)].job;
      bool counted = false;
      for (const int32_t other : cover_.Holders(static_cast<size_t>(slot))) {
        if (other == piece) break;
        counted = counted || (cover_.pieces[static_cast<size_t>(other)].job == job &&
                              PieceState(other) == kOpen);
      }
      const int64_t share = Share(piece, std::max(missing, 1));
      if (!counted) sum += share;
      if (share > worst_share) {
        worst = piece;
        worst_share = share;
      }
    }
    shares_.push_back(sum);
    if (sum < cheapest || (sum == cheapest && worst_share > dearest)) {
      cheapest = sum;
      dearest = worst_share;
      look.branch_piece = worst;
    }
  }
  std::sort(shares_.begin(), shares_.end());
  Wide prefix = Wide{cost_} << kShift;
  Wide bound = Wide{kNoCost} << kShift;
  for (size_t x = 0; x <= shares_.size() && x <= static_cast<size_t>(missing); ++x) {
    if (x > 0) prefix += shares_[x - 1];
    const int32_t others = missing - static_cast<int32_t>(x);
    const int64_t tail = others == 0 ? 0 : rest_ != nullptr ? rest_->Cost(others) : kNoCost;
    if (tail < kNoCost) bound = std::min(bound, prefix + (Wide{tail} << kShift));
  }
  const Wide whole = (bound + (Wide{1} << kShift) - 1) >> kShift;
  look.bound = whole >= kNoCost ? kNoCost : static_cast<int64_t>(whole);
  return look;
}

void CoverSearch::Consider(int32_t freed) {
  const int32_t missing = std::max(0, cover_.need - freed);
  const int64_t tail = missing == 0 ? 0 : rest_ != nullptr ? rest_->Cost(missing) : kNoCost;
  if (tail >= kNoCost || cost_ + tail >= below_) return;
  Selection trial = Selection::Nobody(cover_);
  for (size_t j = 0; j < job_.size(); ++j) trial.whole[j] = job_[j] == kGone ? 1 : 0;
  for (size_t p = 0; p < piece_.size(); ++p) trial.shrunk[p] = piece_[p] == kGone ? 1 : 0;
  trial.cost = cost_ + tail;
  if (missing > 0) rest_->Choose(missing, trial);
  if (proof_ != nullptr) {
    ++budget_.proofs;
    if (!(*proof_)(trial)) return;
  }
  below_ = trial.cost;
  best_ = std::move(trial);
}

void CoverSearch::TryWhole(int32_t job) {
  const auto j = static_cast<size_t>(job);
  job_[j] = kGone;
  cost_ += cover_.jobs[j].cost;
  Descend();
  cost_ -= cover_.jobs[j].cost;
  job_[j] = kOpen;
}

void CoverSearch::Try(int32_t piece, bool shrink) {
  const auto p = static_cast<size_t>(piece);
  const auto j = static_cast<size_t>(cover_.pieces[p].job);
  const State before = job_[j];
  job_[j] = kKept;
  piece_[p] = shrink ? kGone : kKept;
  if (shrink) {
    ++shrunk_[j];
    cost_ += cover_.pieces[p].shrink_cost;
  }
  Descend();
  if (shrink) {
    --shrunk_[j];
    cost_ -= cover_.pieces[p].shrink_cost;
  }
  piece_[p] = kOpen;
  job_[j] = before;
}

void CoverSearch::Descend() {
  const Look look = LookAround();
  const int64_t before = below_;
  Consider(look.freed);
  const bool enough = look.freed >= cover_.need;
  if (enough && (proof_ == nullptr || below_ < before)) return;
  if (look.bound >= below_ || look.branch_piece < 0) return;
  if (OutOfBudget()) {
    bound_ = std::min(bound_, look.bound);
    return;
  }
  const int32_t piece = look.branch_piece;
  const auto p = static_cast<size_t>(piece);
  const int32_t job = cover_.pieces[p].job;
  const auto j = static_cast<size_t>(job);
  const bool can_shrink = cover_.pieces[p].shrink_cost >= 0 && piece_[p] == kOpen &&
                          shrunk_[j] < cover_.jobs[j].max_shrunk;
  if (can_shrink) Try(piece, true);
  if (job_[j] == kOpen) TryWhole(job);
  Try(piece, false);
}

Selection CoverSearch::Run(int64_t below, const Proof* proof) {
  proof_ = proof;
  below_ = below;
  bound_ = kNoCost;
  best_ = Selection{};
  Descend();
  bound_ = std::min(bound_, below_);
  return best_;
}

int64_t CoverSearch::RootBound() {
  proof_ = nullptr;
  return LookAround().bound;
}

}  // namespace longhaul::scheduler::internal
