#include "profiler/across/exposure.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/across/schedule_play.h"

namespace longhaul::profiler {
namespace {

// Where in a step a bubble may be expected.
enum class Place { kEnds, kTurn, kElsewhere };

// What of a segment is waiting: its end.
int64_t WaitEnd(const ProfiledJob& job, size_t rank, const Segment& segment) {
  const int32_t instance = job.instance_of[rank][static_cast<size_t>(segment.collective)];
  if (instance < 0) return segment.begin_ns;
  return std::clamp(job.instances[static_cast<size_t>(instance)].last_arrival_ns, segment.begin_ns,
                    segment.end_ns);
}

// Whether the call has a member on another stage: then waiting for it is a bubble, else it is
// waiting for a peer.
bool SpansStages(const ProfiledJob& job, const Stages& stages, size_t rank,
                 const Segment& segment) {
  const int32_t instance = job.instance_of[rank][static_cast<size_t>(segment.collective)];
  if (stages.count < 2 || instance < 0) return false;
  const std::vector<Member>& members = job.instances[static_cast<size_t>(instance)].members;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return stages.of[member.rank] != stages.of[rank];
  });
}

bool IsModelWork(const Segment& segment) {
  return IsCompute(segment.spent) &&
         (segment.phase == Phase::kForward || IsBackward(segment.phase));
}

// When a rank computed what in a step; empty where it did not.
struct StepWork {
  int64_t first = INT64_MAX;
  int64_t first_backward = INT64_MAX;
  int64_t last_forward = INT64_MIN;
  int64_t last = INT64_MIN;

  // Chunks of a stage's layers wait for each other once both ways run, too.
  Place Of(int64_t wait_begin, bool before_backward, bool chunks) const {
    if (wait_begin < first || wait_begin >= last) return Place::kEnds;
    if (chunks) return Place::kTurn;
    const bool steady = wait_begin >= first_backward && wait_begin < last_forward;
    return before_backward && !steady ? Place::kTurn : Place::kElsewhere;
  }
};

// For one rank. The allowed idle time at a step's places follows from its stage; without any known
// backward pass, and with passes of weights' gradients, all of it may be anywhere.
class Cutter {
 public:
  Cutter(const ProfiledJob& job, const Stages& stages, size_t rank, const Exposed& times)
      : job_(job), stages_(stages), rank_(rank) {
    due_ns_ = std::llround(times.due_slots * static_cast<double>(times.slot_ns));
    const RankSummary& summary = job.ranks[rank];
    // The first and last work of each step, forward and backward, decide at which place of the step
    // a wait is.
    work_.resize(std::max<size_t>(summary.steps.size(), 1));
    for (const Segment& segment : summary.segments) {
      if (!IsModelWork(segment)) continue;
      StepWork& work = work_[StepOf(segment.begin_ns)];
      work.first = std::min(work.first, segment.begin_ns);
      work.last = std::max(work.last, segment.end_ns);
      if (IsBackward(segment.phase)) {
        work.first_backward = std::min(work.first_backward, segment.begin_ns);
        placed_ = true;
      } else {
        work.last_forward = std::max(work.last_forward, segment.end_ns);
      }
    }
    placed_ = placed_ && !stages.weight_passes;
  }

  std::vector<ExposedPiece> Cut() {
    const auto& segments = job_.ranks[rank_].segments;
    // Whether the computation after each segment belongs to a backward pass.
    std::vector<bool> before_backward(segments.size());
    bool next = false;
    for (size_t i = segments.size(); i-- > 0;) {
      before_backward[i] = next;
      if (IsModelWork(segments[i])) next = IsBackward(segments[i].phase);
    }
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = segments[i];
      if (segment.spent != Spent::kExposed) continue;
      const Dimension dimension = job_.DimensionOf(rank_, static_cast<size_t>(segment.collective));
      const int64_t arrived = WaitEnd(job_, rank_, segment);
      if (SpansStages(job_, stages_, rank_, segment)) {
        const int64_t due = arrived - Late(segment.begin_ns, arrived, before_backward[i]);
        Add({segment.begin_ns, due, Exposure::kBubble, dimension});
        Add({due, arrived, Exposure::kLateBubble, dimension});
      } else {
        Add({segment.begin_ns, arrived, Exposure::kWait, dimension});
      }
      Add({arrived, segment.end_ns, Exposure::kWire, dimension});
    }
    return std::move(pieces_);
  }

 private:
  size_t StepOf(int64_t time) const {
    const auto& steps = job_.ranks[rank_].steps;
    const auto after = std::upper_bound(steps.begin(), steps.end(), time,
                                        [](int64_t t, const Step& s) { return t < s.begin_ns; });
    return after == steps.begin() ? 0 : static_cast<size_t>(after - steps.begin()) - 1;
  }

  // The part of a bubble that the schedule does not require.
  // Each step has a budget of idle time for each place. A wait takes from the budget of its place,
  // and what exceeds the budget is late. Requires calls in the order of time.
  int64_t Late(int64_t begin, int64_t end, bool before_backward) {
    const size_t step = StepOf(begin);
    if (step != step_) {
      step_ = step;
      const auto stage = static_cast<int64_t>(stages_.of[rank_]);
      const auto last = std::max<int64_t>(static_cast<int64_t>(stages_.count) - 1, 1);
      const int64_t ends = due_ns_ * stage / last;
      left_ = placed_ ? std::array{ends, due_ns_ - ends, int64_t{0}}
                      : std::array{int64_t{0}, int64_t{0}, due_ns_};
    }
    const Place place =
        placed_ ? work_[step].Of(begin, before_backward, stages_.chunks > 1) : Place::kElsewhere;
    int64_t& left = left_[static_cast<size_t>(place)];
    const int64_t due = std::min(left, end - begin);
    left -= due;
    return end - begin - due;
  }

  void Add(const ExposedPiece& piece) {
    if (piece.begin_ns < piece.end_ns) pieces_.push_back(piece);
  }

  const ProfiledJob& job_;
  const Stages& stages_;
  const size_t rank_;
  int64_t due_ns_ = 0;          // a step
  std::vector<StepWork> work_;  // [step]
  bool placed_ = false;         // the schedule determines the place
  size_t step_ = SIZE_MAX;
  std::array<int64_t, 3> left_ = {};  // by place
  std::vector<ExposedPiece> pieces_;
};

// How long a rank was busy with its passes, in a step.
struct Busy {
  double forward = 0, backward = 0, weights = 0;
};

Busy BusyOf(const ProfiledJob& job, const Stages& stages, size_t rank) {
  const RankSummary& summary = job.ranks[rank];
  Busy busy;
  for (const Segment& segment : summary.segments) {
    if (segment.phase != Phase::kForward && !IsBackward(segment.phase)) continue;
    // Waiting for other stages is no part of a pass; waiting for peers and the wire are.
    int64_t length = segment.end_ns - segment.begin_ns;
    if (segment.spent == Spent::kExposed && SpansStages(job, stages, rank, segment)) {
      length -= WaitEnd(job, rank, segment) - segment.begin_ns;
    }
    (segment.phase == Phase::kForward   ? busy.forward
     : segment.phase == Phase::kWeights ? busy.weights
                                        : busy.backward) += static_cast<double>(length);
  }
  const auto steps = static_cast<double>(std::max<size_t>(1, summary.steps.size()));
  return {busy.forward / steps, busy.backward / steps, busy.weights / steps};
}

PipelineShape ShapeOf(const Stages& stages) {
  const auto whole = [](uint64_t value) {
    return static_cast<int>(std::min<uint64_t>(value, 1 << 24));
  };
  return {stages.schedule, whole(stages.count), whole(stages.micro_batches), whole(stages.chunks)};
}

// The means over ranks, of a chunk. What a schedule doesn't run as weights' passes of their own is
// part of its backwards.
PassTimes MeanTimes(const Stages& stages, const std::vector<Busy>& busy) {
  const PipelineShape shape = ShapeOf(stages);
  const double chunks = shape.schedule == Schedule::kDualPipe ? 1 : shape.chunks;
  const double passes = chunks * shape.micro_batches;
  PassTimes mean;
  for (size_t rank = 0; rank < busy.size(); ++rank) {
    const int split = WeightPasses(shape, static_cast<int>(stages.of[rank]));
    const double weights = split > 0 ? busy[rank].weights / split : 0;
    mean.forward += busy[rank].forward / passes;
    mean.weights += weights;
    mean.inputs += (busy[rank].backward + busy[rank].weights) / passes - weights;
  }
  const auto ranks = static_cast<double>(busy.size());
  return {mean.forward / ranks, std::max(0.0, mean.inputs / ranks), mean.weights / ranks};
}

// How many slots the schedule has each stage idle a step.
double DueSlots(const Stages& stages, const std::vector<Busy>& busy, double slot, double weights) {
  // With passes of F, B and W for the weights' gradients a slot is F + B + W, and each idle slot
  // shrinks to F + B - W: the share 1 - 2 W / slot of it.
  const double one_by_one = static_cast<double>(stages.count - 1);
  switch (stages.schedule) {
    case Schedule::kOneForwardOneBackward:
      return one_by_one;
    case Schedule::kInterleaved:
      return one_by_one / static_cast<double>(stages.chunks) *
             std::max(0.0, 1 - 2 * weights / slot);
    case Schedule::kZeroBubbleH1:
    case Schedule::kZeroBubbleH2:
    case Schedule::kZeroBubbleV:
    case Schedule::kDualPipe:
      break;
  }
  return IdleOf(ShapeOf(stages), MeanTimes(stages, busy)) / slot;
}

void TimeSlots(const ProfiledJob& job, const Stages& stages, Exposed* times) {
  if (stages.count < 2 || stages.micro_batches == 0) return;
  std::vector<Busy> busy;
  double all = 0, weights = 0;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    busy.push_back(BusyOf(job, stages, rank));
    all += busy.back().forward + busy.back().backward + busy.back().weights;
    weights += busy.back().weights;
  }
  const double runs =
      static_cast<double>(job.ranks.size()) * static_cast<double>(stages.micro_batches);
  // One slot is a micro-batch's forward and backward on the mean rank, over all chunks.
  times->slot_ns = static_cast<int64_t>(all / runs);
  if (all > 0) times->due_slots = DueSlots(stages, busy, all / runs, weights / runs);
}

}  // namespace

Exposed CutExposed(const ProfiledJob& job, const Stages& stages) {
  Exposed exposed;
  TimeSlots(job, stages, &exposed);
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    exposed.pieces.push_back(Cutter(job, stages, rank, exposed).Cut());
  }
  return exposed;
}

}  // namespace longhaul::profiler
