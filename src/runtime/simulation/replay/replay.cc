#include "runtime/simulation/replay/replay.h"

#include <algorithm>
#include <utility>

namespace longhaul::runtime::simulation {
namespace {

LossPart PartOf(proto::Category category) {
  switch (category) {
    case proto::PRODUCTIVE:
      return LossPart::kProductive;
    case proto::SNAPSHOT:
      return LossPart::kCheckpoint;
    case proto::LOST_WORK:
      return LossPart::kLostWork;
    case proto::DETECT:
      return LossPart::kDetect;
    case proto::DIAGNOSE:
    case proto::QUEUE:
      return LossPart::kDecide;
    case proto::REPAIR:
    case proto::START_UP_TIME:
      return LossPart::kRestart;
    case proto::RENDEZVOUS_TIME:
      return LossPart::kGroups;
    case proto::RESTORE_TIME:
      return LossPart::kRestore;
    case proto::STALL:
      return LossPart::kSlow;
    default:
      return LossPart::kOther;
  }
}

}  // namespace

SimulationOptions ReplaySimulation(const ReplaySettings& settings, std::vector<TracedFault> trace,
                                   uint64_t seed) {
  SimulationOptions options;
  options.nodes = settings.nodes + settings.spares;
  options.spares = settings.spares;
  options.length = settings.length;
  options.seed = seed;
  options.fault_factor = 0;
  options.trace = std::move(trace);
  options.operator_reaction = settings.operator_reaction;
  options.check_shows = settings.check_shows;
  options.physics = settings.physics;
  options.controller = settings.controller;
  options.per_worker_limit = 0;
  options.every_step = true;
  options.peers = true;
  return options;
}

TimeParts PartsOf(const SimulationResult& result, Duration length) {
  TimeParts parts;
  const auto& ledger = result.status.ledger();
  // The mean over the ranks, of which the gang always has the same number.
  const double ranks =
      ledger.wall_seconds() > 0 ? ledger.rank_seconds() / ledger.wall_seconds() : 1;
  for (const auto& entry : ledger.categories()) {
    parts[PartOf(entry.category())] += entry.rank_seconds() / ranks;
  }
  // The ledger has a part of the slow steps as stalls; the rest is productive there.
  const double slow = ToSeconds(result.slow_excess) - parts[LossPart::kSlow];
  if (slow > 0) {
    parts[LossPart::kProductive] -= slow;
    parts[LossPart::kSlow] += slow;
  }
  const double redone = std::min(ToSeconds(result.redone_by_hand), parts[LossPart::kProductive]);
  parts[LossPart::kProductive] -= redone;
  parts[LossPart::kLostWork] += redone;
  if (result.status.state() == proto::FAILED) {
    parts[LossPart::kOther] += std::max(0.0, ToSeconds(length) - parts.Total());
  }
  return parts;
}

}  // namespace longhaul::runtime::simulation
