#include "scheduler/victims/internal/cover_search.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

constexpr int kShift = 16;  // shares are whole numbers of 2^-16 of a cost
constexpr int kRounds = 4;  // of moving prices; more raise the bound little

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

int32_t CoverSearch::CountAlive() {
  alive_of_job_.assign(cover_.jobs.size(), 0);
  alive_of_piece_.assign(cover_.pieces.size(), 0);
  last_slot_.assign(cover_.jobs.size(), -1);
  held_.clear();
  first_held_.assign(1, 0);
  int32_t count = 0;
  for (const int32_t slot : slots_) {
    const std::span<const int32_t> holders = cover_.Holders(static_cast<size_t>(slot));
    budget_.steps += static_cast<int64_t>(holders.size());
    bool freed = true;
    bool kept = false;
    for (const int32_t piece : holders) {
      const State state = PieceState(piece);
      freed = freed && state == kGone;
      kept = kept || state == kKept;
    }
    if (freed) ++count;
    if (freed || kept) continue;
    for (const int32_t piece : holders) {
      if (PieceState(piece) != kOpen) continue;
      ++alive_of_piece_[static_cast<size_t>(piece)];
      const int32_t job = cover_.pieces[static_cast<size_t>(piece)].job;
      // Two pieces of a job on one slot share its price: the job is counted once.
      if (last_slot_[static_cast<size_t>(job)] == slot) continue;
      last_slot_[static_cast<size_t>(job)] = slot;
      ++alive_of_job_[static_cast<size_t>(job)];
      held_.push_back({job, piece, 0, false});
    }
    first_held_.push_back(static_cast<int32_t>(held_.size()));
  }
  return count;
}

void CoverSearch::SharePrices(int32_t missing) {
  sum_.assign(first_held_.size() - 1, 0);
  for (size_t slot = 0; slot < sum_.size(); ++slot) {
    for (auto h = static_cast<size_t>(first_held_[slot]);
         h < static_cast<size_t>(first_held_[slot + 1]); ++h) {
      Held& held = held_[h];
      const auto j = static_cast<size_t>(held.job);
      held.price = Share(held.piece, missing);
      held.divisible = job_[j] == kOpen && cover_.jobs[j].max_shrunk == 0 &&
                       alive_of_job_[j] <= missing && alive_of_job_[j] > 1;
      sum_[slot] += held.price;
    }
  }
}

void CoverSearch::ShiftPrices(int64_t threshold) {
  spare_.assign(cover_.jobs.size(), 0);
  cheap_.assign(cover_.jobs.size(), 0);
  for (size_t slot = 0; slot < sum_.size(); ++slot) {
    int64_t excess = sum_[slot] - threshold;
    for (auto h = static_cast<size_t>(first_held_[slot]);
         h < static_cast<size_t>(first_held_[slot + 1]); ++h) {
      Held& held = held_[h];
      if (!held.divisible) continue;
      if (excess > 0) {
        const int64_t moved = std::min(excess, held.price);
        held.price -= moved;
        sum_[slot] -= moved;
        excess -= moved;
        spare_[static_cast<size_t>(held.job)] += moved;
      } else if (excess < 0) {
        ++cheap_[static_cast<size_t>(held.job)];
      }
    }
  }
  for (size_t slot = 0; slot < sum_.size(); ++slot) {
    if (sum_[slot] >= threshold) continue;
    for (auto h = static_cast<size_t>(first_held_[slot]);
         h < static_cast<size_t>(first_held_[slot + 1]); ++h) {
      const auto j = static_cast<size_t>(held_[h].job);
      if (!held_[h].divisible || spare_[j] == 0) continue;
      const int64_t part = spare_[j] / cheap_[j];
      held_[h].price += part;
      sum_[slot] += part;
      spare_[j] -= part;
      --cheap_[j];
    }
  }
}

int64_t CoverSearch::PriceBound(int32_t missing) {
  sorted_ = sum_;
  std::sort(sorted_.begin(), sorted_.end());
  Wide prefix = Wide{cost_} << kShift;
  Wide bound = Wide{kNoCost} << kShift;
  for (size_t x = 0; x <= sorted_.size() && x <= static_cast<size_t>(missing); ++x) {
    if (x > 0) prefix += sorted_[x - 1];
    const int32_t others = missing - static_cast<int32_t>(x);
    const int64_t tail = others == 0 ? 0 : rest_ != nullptr ? rest_->Cost(others) : kNoCost;
    if (tail < kNoCost) bound = std::min(bound, prefix + (Wide{tail} << kShift));
  }
  const Wide whole = (bound + (Wide{1} << kShift) - 1) >> kShift;
  return whole >= kNoCost ? kNoCost : static_cast<int64_t>(whole);
}

CoverSearch::Look CoverSearch::LookAround() {
  Look look;
  look.freed = CountAlive();
  // Where a proof refused enough slots, at least one more must go.
  const int32_t missing = std::max(cover_.need - look.freed, proof_ != nullptr ? 1 : 0);
  if (missing <= 0) {
    look.bound = cost_;
    return look;
  }
  SharePrices(missing);
  int64_t cheapest = kNoCost;
  int64_t dearest = -1;
  for (size_t slot = 0; slot < sum_.size(); ++slot) {
    int32_t worst = -1;
    int64_t worst_price = -1;
    for (auto h = static_cast<size_t>(first_held_[slot]);
         h < static_cast<size_t>(first_held_[slot + 1]); ++h) {
      if (held_[h].price <= worst_price) continue;
      worst = held_[h].piece;
      worst_price = held_[h].price;
    }
    if (sum_[slot] < cheapest || (sum_[slot] == cheapest && worst_price > dearest)) {
      cheapest = sum_[slot];
      dearest = worst_price;
      look.branch_piece = worst;
    }
  }
  look.bound = PriceBound(missing);
  for (int round = 0; round < kRounds && look.bound < below_ && !sorted_.empty(); ++round) {
    const size_t last = std::min(sorted_.size(), static_cast<size_t>(missing)) - 1;
    ShiftPrices(sorted_[last]);
    look.bound = std::max(look.bound, PriceBound(missing));
    budget_.steps += static_cast<int64_t>(held_.size());
  }
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
