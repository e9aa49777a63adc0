// The best layouts of a job, by branch and bound over the tree of space.h.
//
// Shapes are visited by their bound, in rounds. A family of shapes (one set of sizes) may prune by
// its own best so far and by the last entry of the list of the best when the round began; so each
// family's work is independent of the others in its round, and the result and every count are the
// same on any number of threads. A region is pruned only when its bound is not below that, or
// longer than deadline and budget allow, or its memory above the limit, or no framework has options
// for it; each pruned region is recorded with its rule and bound, which proof.h checks against the
// final best. Of equals the first wins: the usual order, no recompute, no offload before others.
// recompute, no offload before others.
//
// The search has a best layout early and can end early. Where each stage may have its own
// recompute, the much smaller space with one choice for all stages is searched first; its best
// layouts are in the list from then on. A limit on evaluated plans (effort), which does not depend
// on the machine or its threads, or a clock of the caller's, may end the search: unvisited points
// then have a lower bound, and the outcome states how far the best may be from the optimum.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "planner/search/oracle.h"
#include "planner/search/space.h"

namespace longhaul::planner::search {

// The reasons why points were not evaluated one by one; kEvaluated: they were.
enum class Rule {
  kEvaluated,
  kStatesMemory,   // a mean stage's states alone fill the GPU
  kShapeTime,      // by the bound of the shape
  kStagesTime,     // of the stages
  kFramework,      // no framework has options for it
  kStatesTime,     // of the states
  kAnyMemory,      // by memory, with any recompute
  kMemory,         // does not fit, computed exactly
  kRecomputeTime,  // for any place of the groups
  kDominated,      // the same with less recompute or without offload fits
  kNotSearched,    // the effort or the clock ended the search earlier
};
constexpr size_t kRules = 11;
std::string_view ToString(Rule rule);  // "states alone do not fit", ...

// A part of the tree: all points that begin with these choices. From the recompute on, also those
// with a heavier recompute or with offload instead of none, because they cannot be faster (except a
// recompute by stage, which is separate); of kDominated only those. Of kMemory with some layers of
// each stage in full, those with fewer.
struct Region {
  uint32_t shape = 0;       // index into Shapes(job)
  spec::Training training;  // the choices down to where it was pruned
  Rule rule = Rule::kEvaluated;
  double bound = 0;  // seconds, or bytes of kStatesMemory
  uint64_t points = 0;
};

struct Candidate {
  spec::Training training;
  double step_s = 0;
  int64_t memory_bytes = 0;
  double objective = 0;  // the step times the weight of a second of it on that many GPUs
};

struct Outcome {
  std::vector<Candidate> best;  // at most `keep`, best first, one a family; empty: nothing fits
  std::array<uint64_t, kRules> points{};  // by rule
  uint64_t shapes = 0;
  uint64_t oracle_calls = 0;
  std::vector<Region> pruned;  // with keep_regions
  bool cancelled = false;
  bool limited = false;  // by the effort or the clock: kNotSearched has points
  // Bound of all unvisited points, in the objective; infinite where the search completed.
  double open_bound = std::numeric_limits<double>::infinity();
  double searched_share = 0;  // of the families
  // Where nothing fits: the layout that needs least memory, of those evaluated.
  Candidate smallest;

  uint64_t total_points() const;
  // The largest share of its objective by which the best may lie above the optimum: 0 where it is
  // the optimum, 1 where nothing is known.
  double gap() const;
};

// The progress of a search.
struct Standing {
  double share = 0;                 // of the families
  const Candidate* best = nullptr;  // so far; null: none yet
  double gap = 1;                   // as of an outcome that ended here
};

struct Options {
  uint32_t keep = 5;
  bool keep_regions = false;
  // Runs task(worker, index) for every index below the count, worker below `workers`, possibly
  // concurrently for different workers.
  using Task = std::function<void(size_t worker, size_t index)>;
  std::function<void(size_t count, const Task& task)> execute;  // absent: one after the other
  size_t workers = 1;
  // Called between rounds; false cancels.
  std::function<bool(const Standing& standing)> progress;
  // Called often and by any worker; true cancels. The outcome keeps the results so far.
  std::function<bool()> stop;
  // The plans to evaluate before the search ends, of bounds, figures and choices of recompute; 0:
  // no limit. A round that has begun is completed.
  uint64_t effort = 0;
  // Called like stop; true ends the search as the effort does. The outcome then depends on the
  // machine.
  std::function<bool()> expired;
};

Outcome Search(const PlanRequest& job, const OracleFactory& oracle, const Options& options = {});

}  // namespace longhaul::planner::search
