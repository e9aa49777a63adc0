#include "profiler/across/exposure.h"

#include <algorithm>
#include <array>

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

bool IsModelWork(const Segment& segment) {
  return IsCompute(segment.spent) &&
         (segment.phase == Phase::kForward || segment.phase == Phase::kBackward);
}

// When a rank computed what in a step; empty where it did not.
struct StepWork {
  int64_t first = INT64_MAX;
  int64_t first_backward = INT64_MAX;
  int64_t last_forward = INT64_MIN;
  int64_t last = INT64_MIN;

  Place Of(int64_t wait_begin, bool before_backward) const {
    if (wait_begin < first || wait_begin >= last) return Place::kEnds;
    const bool steady = wait_begin >= first_backward && wait_begin < last_forward;
    return before_backward && !steady ? Place::kTurn : Place::kElsewhere;
  }
};

// Of one rank. `budget` is what a step's places may idle; without any backward pass told, all of it
// may be anywhere.
class Cutter {
 public:
  Cutter(const Job& job, const Stages& stages, size_t rank, int64_t slot_ns)
      : job_(job), stages_(stages), rank_(rank), slot_ns_(slot_ns) {
    const RankSummary& summary = job.ranks[rank];
    work_.resize(std::max<size_t>(summary.steps.size(), 1));
    for (const Segment& segment : summary.segments) {
      if (!IsModelWork(segment)) continue;
      StepWork& work = work_[StepOf(segment.begin_ns)];
      work.first = std::min(work.first, segment.begin_ns);
      work.last = std::max(work.last, segment.end_ns);
      if (segment.phase == Phase::kBackward) {
        work.first_backward = std::min(work.first_backward, segment.begin_ns);
        backward_ = true;
      } else {
        work.last_forward = std::max(work.last_forward, segment.end_ns);
      }
    }
  }

  std::vector<ExposedPiece> Cut() {
    const auto& segments = job_.ranks[rank_].segments;
    // Whether what is computed behind each segment is of a backward pass.
    std::vector<bool> before_backward(segments.size());
    bool next = false;
    for (size_t i = segments.size(); i-- > 0;) {
      before_backward[i] = next;
      if (IsModelWork(segments[i])) next = segments[i].phase == Phase::kBackward;
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
      const auto last = static_cast<int64_t>(stages_.count) - 1;
      left_ = backward_ ? std::array{stage * slot_ns_, (last - stage) * slot_ns_, int64_t{0}}
                        : std::array{int64_t{0}, int64_t{0}, last * slot_ns_};
    }
    const Place place = backward_ ? work_[step].Of(begin, before_backward) : Place::kElsewhere;
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
  const int64_t slot_ns_;
  std::vector<StepWork> work_;  // [step]
  bool backward_ = false;
  size_t step_ = SIZE_MAX;
  std::array<int64_t, 3> left_ = {};  // by place
  std::vector<ExposedPiece> pieces_;
};

// The mean over ranks of how long a micro-batch kept them busy.
int64_t SlotOf(const Job& job, const Stages& stages) {
  if (stages.count < 2 || stages.micro_batches == 0) return 0;
  double sum = 0;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const RankSummary& summary = job.ranks[rank];
    int64_t busy = 0;
    for (const Segment& segment : summary.segments) {
      if (segment.phase != Phase::kForward && segment.phase != Phase::kBackward) continue;
      busy += segment.end_ns - segment.begin_ns;
      if (segment.spent == Spent::kExposed && SpansStages(job, stages, rank, segment)) {
        busy -= WaitEnd(job, rank, segment) - segment.begin_ns;
      }
    }
    sum +=
        static_cast<double>(busy) / static_cast<double>(std::max<size_t>(1, summary.steps.size()));
  }
  return static_cast<int64_t>(sum / static_cast<double>(job.ranks.size() * stages.micro_batches));
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
  // The first stage sends each micro-batch once.
  uint64_t sends = 0;
  for (const Collective& call : job.ranks[first].collectives) {
    sends += call.kind == CollectiveKind::kSend ? 1 : 0;
  }
  stages.micro_batches = sends / std::max<size_t>(job.ranks[first].steps.size(), 1);
  return stages;
}

Exposed CutExposed(const Job& job, const Stages& stages) {
  Exposed exposed;
  exposed.slot_ns = SlotOf(job, stages);
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    exposed.pieces.push_back(Cutter(job, stages, rank, exposed.slot_ns).Cut());
  }
  return exposed;
}

}  // namespace longhaul::profiler
