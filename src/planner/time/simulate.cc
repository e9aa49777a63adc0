#include "planner/time/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace longhaul::planner {

namespace {

using spec::PipelineSchedule;

constexpr double kSettledPeriods = 16;
constexpr double kNever = std::numeric_limits<double>::infinity();

bool SplitsBackward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kZeroBubbleH1 || schedule == PipelineSchedule::kZeroBubbleV;
}

struct Work {
  uint32_t chunk = 0;
  uint32_t micro_batch = 0;
  PassKind pass = PassKind::kForward;
};

class Simulation {
 public:
  Simulation(std::span<const StageTime> stages, const PipelineShape& shape)
      : stages_(stages),
        shape_(shape),
        ranks_(static_cast<uint32_t>(stages.size())),
        chunks_(shape.schedule == PipelineSchedule::kZeroBubbleV ? 2 : shape.virtual_pipeline),
        micro_batches_(static_cast<uint32_t>(shape.micro_batches)),
        free_(stages.size(), 0) {
    const size_t cells = size_t{ranks_} * chunks_ * micro_batches_;
    forward_end_.assign(cells, kNever);
    backward_end_.assign(cells, kNever);
  }

  std::vector<PipelineTask> Run() {
    if (SplitsBackward(shape_.schedule)) {
      RunGreedy();
    } else {
      RunOrdered();
    }
    std::stable_sort(tasks_.begin(), tasks_.end(),
                     [](const auto& a, const auto& b) { return a.stage < b.stage; });
    return std::move(tasks_);
  }

 private:
  // One cell for each pass of a rank, chunk and micro-batch.
  size_t Cell(uint32_t rank, uint32_t chunk, uint32_t micro_batch) const {
    return (size_t{rank} * chunks_ + chunk) * micro_batches_ + micro_batch;
  }

  // Place of a rank's chunk in the model; V-shaped schedules run the second chunk backwards.
  uint32_t Depth(uint32_t rank, uint32_t chunk) const {
    if (shape_.schedule == PipelineSchedule::kZeroBubbleV && chunk == 1)
      return 2 * ranks_ - 1 - rank;
    return chunk * ranks_ + rank;
  }
  uint32_t RankAt(uint32_t depth) const {
    if (shape_.schedule == PipelineSchedule::kZeroBubbleV && depth >= ranks_) {
      return 2 * ranks_ - 1 - depth;
    }
    return depth % ranks_;
  }

  // When the input of the work is there; kNever where what it comes from has not run.
  double Arrival(uint32_t rank, const Work& work) const {
    const uint32_t depth = Depth(rank, work.chunk);
    const double hop = shape_.send_s * (1 - shape_.exposed_sends);
    if (work.pass == PassKind::kForward) {
      if (depth == 0) return 0;
      const uint32_t from = RankAt(depth - 1);
      const double end = forward_end_[Cell(from, (depth - 1) / ranks_, work.micro_batch)];
      return from == rank ? end : end + hop;
    }
    const double own = forward_end_[Cell(rank, work.chunk, work.micro_batch)];
    if (work.pass == PassKind::kWeightGradient || depth + 1 == ranks_ * chunks_) return own;
    const uint32_t from = RankAt(depth + 1);
    const double end = backward_end_[Cell(from, (depth + 1) / ranks_, work.micro_batch)];
    return std::max(own, from == rank ? end : end + hop);
  }

  // The exposed part of a send blocks the rank that sends; the rest delays only the receiver
  // (Arrival).
  double Duration(uint32_t rank, PassKind pass) const {
    const StageTime& stage = stages_[rank];
    const double wait = ranks_ > 1 ? shape_.send_s * shape_.exposed_sends : 0;
    const double weight = SplitsBackward(shape_.schedule) ? stage.weight_gradient_s : 0;
    if (pass == PassKind::kForward) return stage.forward_s / chunks_ + wait;
    if (pass == PassKind::kBackward) return (stage.backward_s - weight) / chunks_ + wait;
    return weight / chunks_;
  }

  void Execute(uint32_t rank, const Work& work, double start) {
    const double end = start + Duration(rank, work.pass);
    free_[rank] = end;
    const size_t cell = Cell(rank, work.chunk, work.micro_batch);
    if (work.pass == PassKind::kForward) forward_end_[cell] = end;
    if (work.pass == PassKind::kBackward) backward_end_[cell] = end;
    tasks_.push_back({rank, work.chunk, work.micro_batch, work.pass, start, end});
  }

  // Micro-batches go through the chunks in groups of as many as there are ranks.
  std::vector<Work> Passes(PassKind pass) const {
    std::vector<Work> passes;
    for (uint32_t group = 0; group < micro_batches_; group += ranks_) {
      const uint32_t end = std::min(group + ranks_, micro_batches_);
      for (uint32_t c = 0; c < chunks_; ++c) {
        for (uint32_t m = group; m < end; ++m) {
          passes.push_back({pass == PassKind::kForward ? c : chunks_ - 1 - c, m, pass});
        }
      }
    }
    return passes;
  }

  std::vector<Work> OrderOf(uint32_t rank) const {
    const std::vector<Work> forwards = Passes(PassKind::kForward);
    const std::vector<Work> backwards = Passes(PassKind::kBackward);
    const auto count = static_cast<uint32_t>(forwards.size());
    uint32_t first = count;  // forwards before the first backward
    if (shape_.schedule == PipelineSchedule::kOneForwardOneBackward) {
      first = chunks_ == 1 ? ranks_ - rank - 1 : 2 * (ranks_ - rank - 1) + (chunks_ - 1) * ranks_;
      first = std::min(first, count);
    }
    std::vector<Work> order(forwards.begin(), forwards.begin() + first);
    for (uint32_t i = first; i < count; ++i) {
      order.push_back(forwards[i]);
      order.push_back(backwards[i - first]);
    }
    order.insert(order.end(), backwards.begin() + (count - first), backwards.end());
    return order;
  }

  // Each rank executes its fixed order as far as inputs have arrived. The loop ends when no rank
  // can continue; a valid schedule has then executed everything, which the CHECK verifies.
  void RunOrdered() {
    std::vector<std::vector<Work>> orders;
    for (uint32_t rank = 0; rank < ranks_; ++rank) orders.push_back(OrderOf(rank));
    std::vector<size_t> next(ranks_, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        while (next[rank] < orders[rank].size()) {
          const Work& work = orders[rank][next[rank]];
          const double arrival = Arrival(rank, work);
          if (arrival == kNever) break;
          Execute(rank, work, std::max(free_[rank], arrival));
          ++next[rank];
          moved = true;
        }
      }
    }
    for (uint32_t rank = 0; rank < ranks_; ++rank) CHECK(next[rank] == orders[rank].size());
  }

  // What a rank has done of one chunk.
  struct Progress {
    uint32_t forwards = 0;
    uint32_t backwards = 0;
    uint32_t weights = 0;
  };

  // The earliest-starting work over all ranks; of one rank backward before forward before weight.
  void RunGreedy() {
    std::vector<Progress> progress(size_t{ranks_} * chunks_);
    const size_t total = 3 * size_t{ranks_} * chunks_ * micro_batches_;
    while (tasks_.size() < total) {
      double best_start = kNever;
      uint32_t best_rank = 0;
      Work best;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        Work work;
        const double start = Choose(rank, &progress[size_t{rank} * chunks_], &work);
        if (start < best_start) {
          best_start = start;
          best_rank = rank;
          best = work;
        }
      }
      CHECK(best_start < kNever);
      Progress& done = progress[size_t{best_rank} * chunks_ + best.chunk];
      if (best.pass == PassKind::kForward) ++done.forwards;
      if (best.pass == PassKind::kBackward) ++done.backwards;
      if (best.pass == PassKind::kWeightGradient) ++done.weights;
      Execute(best_rank, best, best_start);
    }
  }

  double Choose(uint32_t rank, const Progress* progress, Work* chosen) const {
    double best = kNever;
    const auto consider = [&](const Work& work) {
      const double start = std::max(free_[rank], Arrival(rank, work));
      if (start < best) {  // strictly: what is considered first wins
        best = start;
        *chosen = work;
      }
    };
    uint32_t held = 0;
    for (uint32_t c = 0; c < chunks_; ++c) held += progress[c].forwards - progress[c].backwards;
    // The limit of micro-batches held keeps the memory at that of the schedule; without it the
    // greedy choice would run all forwards first.
    const bool v_shaped = shape_.schedule == PipelineSchedule::kZeroBubbleV;
    const uint32_t limit = v_shaped ? 2 * ranks_ : ranks_ - rank;
    for (uint32_t c = chunks_; c-- > 0;) {
      const Progress& p = progress[c];
      if (p.backwards < p.forwards) consider({c, p.backwards, PassKind::kBackward});
    }
    for (uint32_t c = chunks_; c-- > 0;) {
      const Progress& p = progress[c];
      // The last chunk is never held back, so what is held always drains.
      const bool room = held < limit || (c > 0 && p.forwards < progress[c - 1].forwards);
      if (p.forwards < micro_batches_ && room) consider({c, p.forwards, PassKind::kForward});
    }
    for (uint32_t c = 0; c < chunks_; ++c) {
      const Progress& p = progress[c];
      if (p.weights < p.backwards) consider({c, p.weights, PassKind::kWeightGradient});
    }
    return best;
  }

  std::span<const StageTime> stages_;
  PipelineShape shape_;
  uint32_t ranks_;
  uint32_t chunks_;
  uint32_t micro_batches_;
  std::vector<double> free_;  // when a rank can start its next task
  std::vector<double> forward_end_;
  std::vector<double> backward_end_;
  std::vector<PipelineTask> tasks_;
};

double LastEnd(const std::vector<PipelineTask>& tasks) {
  double end = 0;
  for (const PipelineTask& task : tasks) end = std::max(end, task.end_s);
  return end;
}

}  // namespace

std::vector<PipelineTask> SimulatePipeline(std::span<const StageTime> stages,
                                           const PipelineShape& shape) {
  CHECK(!stages.empty() && shape.micro_batches >= 1 && shape.virtual_pipeline >= 1);
  CHECK(shape.schedule != PipelineSchedule::kDualPipe);
  CHECK(static_cast<double>(stages.size()) * shape.virtual_pipeline * shape.micro_batches < 5e5);
  return Simulation(stages, shape).Run();
}

double SimulatedSeconds(std::span<const StageTime> stages, const PipelineShape& shape) {
  // A schedule's pattern repeats after as many micro-batches as there are stages; a stage little
  // slower than another takes several periods to set the pace.
  const auto period = static_cast<double>(stages.size());
  PipelineShape part = shape;
  const double least = kSettledPeriods * period;
  if (shape.micro_batches <= least + period) return LastEnd(SimulatePipeline(stages, part));
  const double periods = std::floor((shape.micro_batches - least) / period);
  part.micro_batches = shape.micro_batches - periods * period;
  // Both simulations have a whole number of periods less than the full one, so their difference is
  // the steady period. The cost does not depend on the number of micro-batches.
  const double once = LastEnd(SimulatePipeline(stages, part));
  part.micro_batches += period;
  const double twice = LastEnd(SimulatePipeline(stages, part));
  return once + periods * (twice - once);
}

}  // namespace longhaul::planner
