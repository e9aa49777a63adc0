// All ranks of a job together: groups named by dimension, collectives matched, clocks aligned.
//
// A collective's instance is the same call on each member. Calls are matched within their group (or
// pair, for sends and receives) by sequence number where the trace has it, else by order: the shift
// at which kinds and sizes agree best, and after a lost call the nearest point where they agree
// again. After AlignClocks (across/clocks.h) times of all ranks are on one clock, and an instance
// is divided: a rank waits from its own arrival to the last one's, and the rest is wire time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "profiler/rank/summary.h"

namespace longhaul::profiler {

enum class Dimension : uint8_t { kTensor, kContext, kExpert, kData, kPipeline, kWorld, kUnknown };
constexpr size_t kDimensions = 7;
std::string_view ToString(Dimension dimension);

struct Group {
  std::string name;
  std::string description;
  std::vector<int64_t> ranks;  // sorted; empty: unknown
  Dimension dimension = Dimension::kUnknown;
};

struct Member {
  size_t rank = 0;        // index in Job::ranks
  size_t collective = 0;  // index in its collectives
};

struct Instance {
  size_t group = 0;
  CollectiveKind kind = CollectiveKind::kUnknown;
  int64_t bytes = 0;
  std::vector<Member> members;  // by rank
  // On the common clock.
  int64_t last_arrival_ns = 0;
  size_t last_member = 0;  // index in `members`
  int64_t end_ns = 0;
  int64_t wire_ns() const { return end_ns > last_arrival_ns ? end_ns - last_arrival_ns : 0; }
};

struct ClockReport {
  struct Host {
    std::string name;
    double offset_us = 0;  // against the first host, at the middle of the trace
    double drift_ppm = 0;
    bool connected = true;
  };
  std::vector<Host> hosts;
  size_t observations = 0;
  double residual_us_median = 0;
  double residual_us_p95 = 0;
  uint64_t causality_violations = 0;  // a member ended before the last began, by over the residual
};

struct JobOptions {
  int64_t ranks_per_host = 0;  // 0: as in the traces, else 8
  // Overrides: a group whose name or description holds the text is of that dimension.
  std::vector<std::pair<std::string, Dimension>> dimensions;
};

struct ProfiledJob {
  std::vector<RankSummary> ranks;  // by rank number
  std::vector<Group> groups;
  std::vector<Instance> instances;
  std::vector<std::vector<int32_t>> instance_of;  // [rank][collective], or -1
  std::vector<std::vector<size_t>> group_of;      // [rank][local group]
  std::vector<size_t> host_of;                    // [rank]
  ClockReport clocks;
  uint64_t matched = 0;  // calls
  uint64_t unmatched = 0;
  std::vector<int64_t> missing_ranks;  // of the world, as far as the traces show
  std::vector<std::string> warnings;

  Dimension DimensionOf(size_t rank, size_t collective) const {
    return groups[group_of[rank][ranks[rank].collectives[collective].group]].dimension;
  }
};

// Rejects an empty list and the same rank twice.
Result<ProfiledJob> AssembleJob(std::vector<RankSummary> ranks, const JobOptions& options = {});

// Recomputes arrivals and ends of all instances from the ranks' times.
void TimeInstances(ProfiledJob* job);

}  // namespace longhaul::profiler
