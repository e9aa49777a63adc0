#include "profiler/across/totals.h"

#include <algorithm>

#include "profiler/rank/intervals.h"

namespace longhaul::profiler {
namespace {

constexpr int64_t kLateNs = 10'000;

RankTotals Total(const ProfiledJob& job, size_t rank, const std::vector<ExposedPiece>& exposed) {
  RankTotals totals;
  const RankSummary& summary = job.ranks[rank];
  for (const Segment& segment : summary.segments) {
    const int64_t length = segment.end_ns - segment.begin_ns;
    totals.spent_ns[static_cast<size_t>(segment.spent)] += length;
    totals.phase_ns[static_cast<size_t>(segment.phase)] += length;
    totals.wall_ns += length;
  }
  std::array<int64_t, kDimensions> shown = {};
  for (const ExposedPiece& piece : exposed) {
    const auto dimension = static_cast<size_t>(piece.dimension);
    const int64_t length = piece.end_ns - piece.begin_ns;
    shown[dimension] += length;
    switch (piece.what) {
      case Exposure::kWire:
        totals.wire_ns[dimension] += length;
        break;
      case Exposure::kWait:
        totals.wait_ns[dimension] += length;
        break;
      case Exposure::kBubble:
        totals.bubble_ns += length;
        break;
      case Exposure::kLateBubble:
        totals.late_bubble_ns += length;
        break;
    }
  }
  if (summary.segments.empty()) return totals;
  const Interval window = {summary.segments.front().begin_ns, summary.segments.back().end_ns};
  std::array<int64_t, kDimensions> whole = {};
  for (size_t i = 0; i < summary.collectives.size(); ++i) {
    const Collective& call = summary.collectives[i];
    const auto dimension = static_cast<size_t>(job.DimensionOf(rank, i));
    ++totals.calls[dimension];
    // The only rank of its world never waits.
    const bool alone = summary.metadata.world_size == 1;
    if (alone || job.instance_of[rank][i] >= 0) ++totals.matched_calls[dimension];
    whole[dimension] += std::max<int64_t>(
        0, std::min(call.end_ns, window.end) - std::max(call.start_ns, window.begin));
  }
  for (size_t d = 0; d < kDimensions; ++d) {
    totals.hidden_ns[d] = std::max<int64_t>(0, whole[d] - shown[d]);
  }
  return totals;
}

// Compares with the second to last arrival, since being last by less than the clocks' uncertainty
// says nothing about a rank.
void CountLastArrivals(const ProfiledJob& job, std::vector<RankTotals>* totals) {
  for (const Instance& instance : job.instances) {
    int64_t second = INT64_MIN;
    for (size_t m = 0; m < instance.members.size(); ++m) {
      if (m == instance.last_member) continue;
      const Member& member = instance.members[m];
      second = std::max(second, job.ranks[member.rank].collectives[member.collective].start_ns);
    }
    if (instance.last_arrival_ns - second > kLateNs) {
      ++(*totals)[instance.members[instance.last_member].rank].last_arrivals;
    }
  }
}

}  // namespace

int64_t RankTotals::compute_ns() const {
  int64_t sum = 0;
  for (size_t i = 0; i < kComputeClasses; ++i) sum += spent_ns[i];
  return sum;
}

int64_t RankTotals::sum_ns() const {
  int64_t sum = 0;
  for (size_t i = 0; i < kSpentKinds; ++i) {
    if (static_cast<Spent>(i) != Spent::kExposed) sum += spent_ns[i];
  }
  for (size_t d = 0; d < kDimensions; ++d) sum += wait_ns[d] + wire_ns[d];
  return sum + bubble_ns + late_bubble_ns;
}

std::string WhyWaitingIsUnknown(const ProfiledJob& job) {
  return job.ranks.size() == 1 ? "it needs the traces of the other ranks"
                               : "no call was matched with another rank's";
}

bool AllWaitingUnknown(const std::vector<RankTotals>& totals) {
  bool unknown = false;
  for (const RankTotals& of_rank : totals) {
    for (size_t d = 0; d < kDimensions; ++d) {
      if (of_rank.matched_calls[d] > 0) return false;
      unknown = unknown || !of_rank.waiting_known(d);
    }
  }
  return unknown;
}

std::vector<RankTotals> TotalsOf(const ProfiledJob& job, const Exposed& exposed) {
  std::vector<RankTotals> totals;
  for (size_t rank = 0; rank < job.ranks.size(); ++rank) {
    totals.push_back(Total(job, rank, exposed.pieces[rank]));
  }
  CountLastArrivals(job, &totals);
  return totals;
}

}  // namespace longhaul::profiler
