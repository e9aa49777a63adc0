// The scheduler's constants, all in one place, each with its reason.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "scheduler/share/fair_order.h"
#include "scheduler/small_jobs/policy.h"

namespace longhaul::scheduler {

enum class Backfill : uint8_t {
  kNone,          // strictly in order: a job that doesn't fit stops its queue
  kReservations,  // later jobs may start if no reservation suffers
};

// How hosts are chosen. All but kExact are rivals to compare with (internal/rival_placement.h).
enum class PlacementRule : uint8_t {
  kExact,       // fewest switches, then least leftover
  kBestFit,     // fullest hosts first, wherever they are
  kGreedyTree,  // the lowest domain that holds all, else the fullest leaves in turn (Slurm's tree)
  kSampled,     // 5 leaves in 50 looked at, ties at random (kube-scheduler's sampling)
};

// The number of placements and search steps of a round that is not limited.
constexpr int64_t kUnlimitedSteps = int64_t{1} << 62;

struct Policy {
  PlacementRule placement = PlacementRule::kExact;
  Backfill backfill = Backfill::kReservations;
  // Reservations a queue. 1 is EASY; as many as there are jobs is conservative backfill. Eight
  // covers the gangs that could start within hours without planning for those that can't.
  uint32_t reservations = 8;
  // A reservation moves only for a gain of more than this: flapping ones delay everybody.
  Duration reservation_gain = std::chrono::minutes(5);
  // A promise whose holder has left goes to the next job like it, if it was planned within this
  // time: what has changed since is little, and planning is the dearest thing that a round does.
  Duration promise_kept = std::chrono::seconds(30);
  // How often reservations are planned anew although nothing forces it.
  Duration replan_period = std::chrono::minutes(10);

  // So long a gang that lost tasks keeps its other GPUs while nothing can take their place; then
  // it stops and waits in its queue. None: at once.
  Duration repair_patience = Duration(0);
  // Nodes may still be joining: guarantees may add up to more than there is now.
  bool growing_cluster = false;

  bool preempt = true;
  // No job is stopped more often than this in a day by others' needs.
  uint32_t evictions_a_day = 3;
  // A step of priority weighs as much as the loss of this many GPU-seconds in a victim's cost.
  int64_t priority_gpu_seconds = 3'600;

  Duration bind_deadline = std::chrono::minutes(2);  // several API calls and an image's start
  // Waiting raises a job by one step of priority each period, at most so many.
  Duration aging_period = std::chrono::hours(6);
  int32_t aging_steps = 8;
  // A job has the place in its queue of one that was submitted later by the duration that it states
  // (JobRequest::limit), at most by so much, and by so much if it states none: jobs of equal
  // priority go in the order in which they would have ended had they started at once. A job that
  // was stopped has the place of its arrival. As much as a step of priority by waiting; zero: the
  // order of arrival.
  Duration shorter_first = std::chrono::hours(6);
  // A job that has waited for longer goes before the jobs of other queues, and keeps its place for
  // as long against their guarantees; zero: never. With a day, simulated waits of a month with 115
  // % demand (Philly trace, October 2017) are shorter than EASY's in each class of sizes at p95 and
  // p99; with two days those of jobs of one GPU are longer, with less the guarantees suffer.
  Duration longest_wait = std::chrono::hours(24);
  // Reservations of such jobs that others' guarantees do not delay.
  uint32_t overdue_reservations = 4;
  // The reservations of a gang may keep so many thousandths of the accelerator time idle that the
  // gang will use, once other jobs wait that could start; 0: no limit.
  int64_t reservation_idle_milli = 250;
  // A gang that is expected to run for less may keep as much idle as one that runs for so long.
  Duration least_idle_run = std::chrono::minutes(20);
  share::FairShare fair_share = share::FairShare::kPresent;
  Duration usage_half_life = std::chrono::hours(24 * 7);  // Slurm's default

  // A fault takes this many thousandths of a node's health, and an hour without one returns ten.
  uint16_t fault_health = 400;
  uint16_t probation_health = 500;                 // below: suspect
  Duration probation_job = std::chrono::hours(1);  // suspect nodes take only shorter work
  // So many nodes of one leaf lost within the window: the leaf's switch is suspected.
  uint32_t leaf_faults = 3;
  Duration leaf_window = std::chrono::minutes(5);

  Duration elastic_period = std::chrono::minutes(1);

  // Small jobs are placed for what arrives (small_jobs/): a new mix after so many tasks at most,
  // since every score changes with it; 0: only the shapes announced as expected.
  int64_t mix_period = 20'000;
  // ... where so much of what arrives differs, per mille; less is chance, and not worth new scores.
  int64_t mix_change = 30;
  SmallJobPolicy small_jobs;

  // What a job's crossing of one more leaf or block slows it by, parts per million: the price of a
  // replacement far from the survivors. A guess between the 2 % and 10 % that published training
  // runs gain by aligned groups (arXiv 2509.15940); the planner's figure should replace it.
  int64_t leaf_slowdown_ppm = 20'000;
  int64_t block_slowdown_ppm = 50'000;

  // Whether running jobs may be moved at all (DecisionKind::kMove): the engine must know how.
  bool moves = true;
  // Moves that unlock a waiting gang are looked for this often; zero: never. They are bought when
  // the wait they save is worth twice what they lose, for at most so many thousandths of the
  // cluster's time, and no job is moved twice within the pause.
  Duration defragment_period = std::chrono::minutes(10);
  int64_t move_budget_milli = 10;
  Duration move_pause = std::chrono::hours(1);
  uint64_t seed = 1;  // of kSampled alone
};

// Equal policies have equal hashes: part of what decisions are a function of.
uint64_t HashOf(const Policy& policy);

}  // namespace longhaul::scheduler
