#include "profiler/across/exposure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace longhaul::profiler {
namespace {

// Where in a step a bubble may be expected.
enum class Place { kEnds, kTurn, kElsewhere };

// What of a segment is waiting: its end.
int64_t WaitEnd(const Job& job, size_t rank, const Segment& segment) {
  const int32_t instance = job.instance_of[rank][static_cast<size_t>(segment.collective)];
  if (instance < 0) return segment.begin_ns;
  return std::clamp(job.instances[static_cast<size_t>(instance)].last_arrival_ns, segment.begin_ns,
                    segment.end_ns);
}

bool SpansStages(const Job& job, const Stages& stages, size_t rank, const Segment& segment) {
  const int32_t instance = job.instance_of[rank][static_cast<size_t>(segment.collective)];
  if (stages.count < 2 || instance < 0) return false;
  const std::vector<Member>& members = job.instances[static_cast<size_t>(instance)].members;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return stages.of[member.rank] != stages.of[rank];
  });
}

bool IsBackward(Phase phase) { return phase == Phase::kBackward || phase == Phase::kWeights; }

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

// Of one rank. What a step's places may idle follows from its stage; without any backward pass
// told, and with passes of weights' gradients, all of it may be anywhere.
class Cutter {
 public:
  Cutter(const Job& job, const Stages& stages, size_t rank, const Exposed& times)
      : job_(job), stages_(stages), rank_(rank) {
    due_ns_ = std::llround(times.due_slots * static_cast<double>(times.slot_ns));
    const RankSummary& summary = job.ranks[rank];
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
    placed_ = placed_ && times.weights_ns == 0;
  }

  std::vector<ExposedPiece> Cut() {
    const auto& segments = job_.ranks[rank_].segments;
    // Whether what is computed behind each segment is of a backward pass.
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

  // What of a bubble the schedule doesn't ask for.
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

  const Job& job_;
  const Stages& stages_;
  const size_t rank_;
  int64_t due_ns_ = 0;          // a step
  std::vector<StepWork> work_;  // [step]
  bool placed_ = false;         // the schedule says where
  size_t step_ = SIZE_MAX;
  std::array<int64_t, 3> left_ = {};  // by place
  std::vector<ExposedPiece> pieces_;
};

// The means over ranks of how long a micro-batch kept them busy, and with its weights' gradients.
void TimeSlots(const Job& job, const Stages& stages, Exposed* times) {
  if (stages.count < 2 || stages.micro_batches == 0) return;
  double slot = 0, weights = 0;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const RankSummary& summary = job.ranks[rank];
    int64_t busy = 0, busy_weights = 0;
    for (const Segment& segment : summary.segments) {
      if (segment.phase != Phase::kForward && !IsBackward(segment.phase)) continue;
      int64_t length = segment.end_ns - segment.begin_ns;
      if (segment.spent == Spent::kExposed && SpansStages(job, stages, rank, segment)) {
        length -= WaitEnd(job, rank, segment) - segment.begin_ns;
      }
      busy += length;
      if (segment.phase == Phase::kWeights) busy_weights += length;
    }
    const auto steps = static_cast<double>(std::max<size_t>(1, summary.steps.size()));
    slot += static_cast<double>(busy) / steps;
    weights += static_cast<double>(busy_weights) / steps;
  }
  const auto runs = static_cast<double>(job.ranks.size() * stages.micro_batches);
  times->slot_ns = static_cast<int64_t>(slot / runs);
  times->weights_ns = static_cast<int64_t>(weights / runs);
  if (slot <= 0) return;
  times->due_slots = static_cast<double>(stages.count - 1) / static_cast<double>(stages.chunks) *
                     std::max(0.0, 1 - 2 * weights / slot);
}

// Of the first stage's sends those to the last one give a chunk's gradients back.
void CountMicroBatches(const Job& job, size_t first, Stages* stages) {
  std::map<int64_t, size_t> stage_of;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    stage_of[job.ranks[rank].metadata.rank] = stages->of[rank];
  }
  uint64_t on = 0, back = 0;
  for (const Collective& call : job.ranks[first].collectives) {
    if (call.kind != CollectiveKind::kSend) continue;
    const auto peer = stage_of.find(call.peer);
    const bool last = peer != stage_of.end() && peer->second + 1 == stages->count;
    // With two stages the last one is the next one too.
    ++(last && (stages->count > 2 || IsBackward(call.phase)) ? back : on);
  }
  const uint64_t steps = std::max<size_t>(job.ranks[first].steps.size(), 1);
  on /= steps;
  back /= steps;
  stages->micro_batches = on > back ? on - back : on;
  if (on > back && on % (on - back) == 0) stages->chunks = on / (on - back);
}

}  // namespace

Stages FindStages(const Job& job) {
  Stages stages;
  stages.of.assign(job.ranks.size(), 0);
  size_t first = job.ranks.size();  // a rank of stage 0
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    for (const size_t g : job.group_of[rank]) {
      const Group& group = job.groups[g];
      if (group.dimension != Dimension::kPipeline || group.ranks.size() < 2) continue;
      const auto place =
          std::find(group.ranks.begin(), group.ranks.end(), job.ranks[rank].metadata.rank);
      if (place == group.ranks.end()) continue;
      stages.of[rank] = std::max(stages.of[rank], static_cast<size_t>(place - group.ranks.begin()));
    }
    stages.count = std::max(stages.count, stages.of[rank] + 1);
    if (stages.of[rank] == 0 && first == job.ranks.size()) first = rank;
  }
  if (stages.count < 2 || first == job.ranks.size()) return stages;
  CountMicroBatches(job, first, &stages);
  return stages;
}

Exposed CutExposed(const Job& job, const Stages& stages) {
  Exposed exposed;
  TimeSlots(job, stages, &exposed);
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    exposed.pieces.push_back(Cutter(job, stages, rank, exposed).Cut());
  }
  return exposed;
}

}  // namespace longhaul::profiler
