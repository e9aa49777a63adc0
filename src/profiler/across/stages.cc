#include "profiler/across/stages.h"

#include <algorithm>
#include <map>

namespace longhaul::profiler {
namespace {

// A step's sends of the first stage.
struct Sends {
  uint64_t on = 0;       // to the next stage, forward
  uint64_t back_on = 0;  // to the next stage, backward
  uint64_t round = 0;    // to the last stage, which isn't the next
};

Sends CountSends(const ProfiledJob& job, size_t first, const Stages& stages) {
  // Peers are numbers of ranks, which need not be dense: some traces may be missing.
  std::map<int64_t, size_t> stage_of;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    stage_of[job.ranks[rank].metadata.rank] = stages.of[rank];
  }
  Sends sends;
  for (const Collective& call : job.ranks[first].collectives) {
    if (call.kind != CollectiveKind::kSend) continue;
    const auto peer = stage_of.find(call.peer);
    if (stages.count > 2 && peer != stage_of.end() && peer->second + 1 == stages.count) {
      ++sends.round;
    } else {
      ++(IsBackward(call.phase) ? sends.back_on : sends.on);
    }
  }
  const uint64_t steps = std::max<size_t>(job.ranks[first].steps.size(), 1);
  sends.on /= steps;
  sends.back_on /= steps;
  sends.round /= steps;
  return sends;
}

// Whether the rank sent activations on before any had come.
bool SendsBeforeItReceives(const RankSummary& rank) {
  int64_t sent = INT64_MAX, received = INT64_MAX;
  for (const Collective& call : rank.collectives) {
    if (IsBackward(call.phase)) continue;
    if (call.kind == CollectiveKind::kSend) sent = std::min(sent, call.start_ns);
    if (call.kind == CollectiveKind::kReceive) received = std::min(received, call.end_ns);
  }
  return sent < received;
}

// How many micro-batches' forwards the rank computes in a step before its first backward.
double ForwardsAhead(const RankSummary& rank, uint64_t micro_batches) {
  int64_t before = 0, all = 0;
  size_t step = 0;
  bool ahead = true;
  for (const Segment& segment : rank.segments) {
    while (step + 1 < rank.steps.size() && segment.begin_ns >= rank.steps[step + 1].begin_ns) {
      ++step;
      ahead = true;
    }
    if (!IsCompute(segment.spent)) continue;
    if (IsBackward(segment.phase)) ahead = false;
    if (segment.phase != Phase::kForward) continue;
    all += segment.end_ns - segment.begin_ns;
    if (ahead) before += segment.end_ns - segment.begin_ns;
  }
  return all > 0 ? static_cast<double>(before) / static_cast<double>(all) *
                       static_cast<double>(micro_batches)
                 : 0;
}

bool HasWeightPasses(const RankSummary& rank) {
  return std::any_of(rank.segments.begin(), rank.segments.end(), [](const Segment& segment) {
    return IsCompute(segment.spent) && segment.phase == Phase::kWeights;
  });
}

// Whether about as many gradients as activations go from the first stage to the next: it has the
// model's end, too.
bool GoesBothWays(const Sends& sends) {
  const uint64_t least = std::min(sends.on, sends.back_on),
                 most = std::max(sends.on, sends.back_on);
  return sends.round == 0 && least > 0 && 10 * (most - least) <= most;
}

Schedule InferSchedule(const ProfiledJob& job, size_t first, const Sends& sends,
                       const Stages& stages) {
  if (GoesBothWays(sends)) {
    const auto last = std::find(stages.of.begin(), stages.of.end(), stages.count - 1);
    const auto rank = static_cast<size_t>(last - stages.of.begin());
    return SendsBeforeItReceives(job.ranks[rank]) ? Schedule::kDualPipe : Schedule::kZeroBubbleV;
  }
  if (stages.chunks > 1) return Schedule::kInterleaved;
  if (!stages.weight_passes) return Schedule::kOneForwardOneBackward;
  // ZB-H1 has as many ahead as there are stages, ZB-H2 twice as many less one.
  const double between = 1.5 * static_cast<double>(stages.count) - 0.5;
  return ForwardsAhead(job.ranks[first], stages.micro_batches) > between ? Schedule::kZeroBubbleH2
                                                                         : Schedule::kZeroBubbleH1;
}

// Micro-batches and chunks of the schedules with one line of chunks, round the ring of stages.
// With v chunks and m micro-batches the first stage sends v m activations on and (v - 1) m
// gradients round, so the difference is m.
void CountRound(const Sends& sends, Stages* stages) {
  // With two stages the last one is the next one, too.
  const uint64_t on = stages->count > 2 ? sends.on + sends.back_on : sends.on;
  const uint64_t back = stages->count > 2 ? sends.round : sends.back_on;
  stages->micro_batches = on > back ? on - back : on;
  if (on > back && on % (on - back) == 0) stages->chunks = on / (on - back);
}

void TakeSchedule(Schedule schedule, const Sends& sends, Stages* stages) {
  stages->schedule = schedule;
  if (schedule == Schedule::kZeroBubbleV || schedule == Schedule::kDualPipe) {
    stages->micro_batches = sends.on * (schedule == Schedule::kDualPipe ? 2 : 1);
    stages->chunks = 2;
  } else if (schedule != Schedule::kInterleaved) {
    stages->chunks = 1;
  }
}

}  // namespace

Stages FindStages(const ProfiledJob& job, std::optional<Schedule> named) {
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
  stages.weight_passes = HasWeightPasses(job.ranks[first]);
  const Sends sends = CountSends(job, first, stages);
  CountRound(sends, &stages);
  TakeSchedule(named.value_or(InferSchedule(job, first, sends, stages)), sends, &stages);
  return stages;
}

}  // namespace longhaul::profiler
