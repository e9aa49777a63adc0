#include "runtime/controller/handlers/numeric_faults.h"

#include <cmath>
#include <cstdio>

#include "runtime/controller/handlers/fault_handler.h"
#include "runtime/controller/handlers/job_closer.h"

namespace longhaul::runtime::controller {

namespace {

using Kind = NumericFinding::Kind;
using Policy = proto::NumericPolicy;

// Rollbacks whose bad steps are close to each other, although none repeats. More of them would not
// decide the cause either.
constexpr uint32_t kMostCloseRollbacks = 3;

std::string LossText(double loss) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", loss);
  return text;
}

Policy::Action ActionOf(const JobRecord& job, Kind kind) {
  const Policy& policy = job.spec().numeric();
  return kind == Kind::kSpike ? policy.spike() : policy.not_finite();
}

std::string ListOf(const std::set<uint32_t>& ranks) {
  std::string list;
  for (const uint32_t rank : ranks) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  return list;
}

// "step 120 used the samples at the positions 3808 to 3839"; empty: the ledger does not know.
std::string SamplesOf(const JobRecord& job, const NumericFinding& finding) {
  const uint64_t batch = job.spec().data().global_batch();
  if (job.spec().data().samples() == 0 || batch == 0 || finding.first_step == 0) return "";
  return "; " + finding.Steps() + " used the samples at the positions " +
         std::to_string((finding.first_step - 1) * batch) + " to " +
         std::to_string(finding.last_step * batch - 1) + " of the data set";
}

std::string TextOf(const NumericFinding& finding) {
  return "the loss of " + finding.Steps() + " " + finding.numbers +
         (finding.place.empty() ? "" : ", reported by " + finding.place);
}

std::string NotFiniteNumbers() { return "is not finite (NaN or infinity)"; }

// How far the losses of the replay agree with those before it.
std::string ComparisonOf(const NumericWatch::Suspicion& suspicion) {
  const uint64_t all = suspicion.equal + suspicion.different;
  if (all == 0) return "no loss of a step before it could be compared";
  const std::string steps = std::to_string(all) + (all == 1 ? " step" : " steps");
  if (suspicion.different == 0) {
    return "the losses of the " + steps + " before it are the same, bit for bit";
  }
  return "the losses of " + std::to_string(suspicion.different) + " of the " + steps +
         " before it differ, so the program is not deterministic and this is weaker evidence";
}

}  // namespace

void NumericFaults::TakeReport(JobRecord& job, const proto::StepReported& report,
                               uint64_t first_step, size_t place, Instant at) {
  TakeNotFinite(job, report, first_step, place, at);
  if (!job.faults.undecided() && (place == 0 || report.whole_job())) TakeSpike(job, report, at);
  if (job.faults.undecided()) return;
  EndReplayIfClean(job);
  const uint64_t steps = NumericWatch::StepsOfProof(job.spec().numeric());
  if (steps > 0) job.numeric.NoteGood(job.StepOfAll(), steps);
}

// Once for each row of such losses, with the ranks of the node that reported first.
void NumericFaults::TakeNotFinite(JobRecord& job, const proto::StepReported& report,
                                  uint64_t first_step, size_t place, Instant at) {
  NumericFinding finding{Kind::kNotFinite, first_step, report.last_step(), {}, {}, {}};
  for (const uint32_t rank : report.not_finite_ranks()) {
    if (rank < job.world()) finding.ranks.insert(rank);
  }
  std::set<uint32_t> marked = finding.ranks;
  // A loss that was read from the output is the whole job's.
  if (report.whole_job() && report.has_loss() && !std::isfinite(report.loss())) marked.insert(0);
  const auto first = static_cast<uint32_t>(place * job.local());
  const uint32_t count = report.whole_job() ? job.world() : job.local();
  if (!job.progress.TakeNotFinite(first, count, marked)) return;
  finding.numbers = NotFiniteNumbers();
  if (ActionOf(job, Kind::kNotFinite) != Policy::WARN) return Raise(job, finding, at);
  const std::string who = ListOf(finding.ranks);
  context_.AddMessage(
      job.id(), proto::MessageNotification::WARNING,
      "the loss of step " + std::to_string(report.last_step()) + " " + finding.numbers +
          (who.empty() ? "" : ", reported by worker " + who) +
          (job.spec().workload().built_in() ? "; the trainer ends" : "; training continues"));
}

void NumericFaults::TakeSpike(JobRecord& job, const proto::StepReported& report, Instant at) {
  const Policy::Action action = ActionOf(job, Kind::kSpike);
  if (!report.has_loss() || !std::isfinite(report.loss())) return;
  const bool keep = NumericWatch::StepsOfProof(job.spec().numeric()) > 0;
  if (action == Policy::IGNORE && !keep) return;
  const auto spike = job.numeric.TakeLoss(report.last_step(), report.loss(), keep);
  if (!spike.has_value() || action == Policy::IGNORE) return;
  NumericFinding finding{Kind::kSpike, spike->first_step, spike->last_step, {}, {}, {}};
  finding.numbers = "is " + LossText(spike->loss) + " at the end, above the limit of " +
                    LossText(spike->limit) + " (the median of the losses before is " +
                    LossText(spike->median) + ")";
  if (action != Policy::WARN) return Raise(job, finding, at);
  context_.AddMessage(job.id(), proto::MessageNotification::WARNING,
                      TextOf(finding) + "; training continues");
}

// Where the finding was reported.
Evidence NumericFaults::EvidenceOf(JobRecord& job, Instant at) const {
  const NumericFinding& finding = *job.numeric.open();
  // Not certain: another node may have had it at an earlier step, and is about to report that.
  Evidence evidence{proto::FaultClass::kNumeric, "", "", -1, at, /*certain=*/false};
  if (finding.ranks.size() == job.world()) {
    job.numeric.SetPlace("all workers");  // which was first is not known
  } else if (!finding.ranks.empty()) {
    std::set<std::string> nodes;
    for (const uint32_t rank : finding.ranks) {
      nodes.insert(job.group.member(rank / job.local()).node.value());
    }
    std::string names;
    for (const std::string& name : nodes) names += (names.empty() ? "" : ", ") + name;
    if (nodes.size() == 1) evidence.node = names;
    const bool one = finding.ranks.size() == 1;
    if (one) evidence.rank = static_cast<int32_t>(*finding.ranks.begin());
    job.numeric.SetPlace((one ? "worker " : "workers ") + ListOf(finding.ranks) + " on " + names);
  }
  evidence.what = TextOf(finding);
  if (job.numeric.IsAgain()) evidence.what += ", again in the replay";
  return evidence;
}

void NumericFaults::Raise(JobRecord& job, const NumericFinding& finding, Instant at) {
  job.numeric.Open(finding);
  faults_.NoteFault(job, EvidenceOf(job, at));
  if (job.faults.undecided()) return;
  // A job that ends or leaves its nodes takes no fault, but shall not keep the bad states.
  ForgetBadStates(job);
  job.numeric.Close();
}

void NumericFaults::TakeLate(JobRecord& job, const proto::StepReported& report, size_t place) {
  if (!job.numeric.open().has_value() || report.first_step() == 0) return;
  if (job.faults.newest_class() != proto::FaultClass::kNumeric) return;
  if (report.last_step() < report.first_step()) return;
  std::set<uint32_t> ranks;
  for (const uint32_t rank : report.not_finite_ranks()) {
    if (rank / job.local() == place) ranks.insert(rank);
  }
  if (!job.numeric.Improve(report.first_step(), report.last_step(), ranks)) return;
  const Evidence evidence = EvidenceOf(job, context_.now);
  job.faults.Restate(evidence.what, evidence.node, evidence.rank);
  context_.AddFaultNotification(job, job.faults.newest());
}

void NumericFaults::ForgetBadStates(JobRecord& job) {
  const auto good = job.numeric.newest_good();
  if (good.has_value()) job.ForgetStatesAbove(*good);
}

std::string NumericFaults::WhyNoRollback(const JobRecord& job) const {
  const uint64_t first = job.numeric.open()->first_step;
  const proto::Restore restore =
      job.snapshots.ChooseRestore(context_.ViewOf(job), job.copier.copies());
  if (restore.step() > 0) return "";
  if (job.reads_output() && job.snapshots.snapshots() == 0) {
    return "it cannot be rolled back, because its script restores its own checkpoints and takes "
           "no snapshots";
  }
  return "it cannot be rolled back, because there is no snapshot of step " +
         std::to_string(job.numeric.NewestGood(first)) +
         " or an earlier one (the loss of the step after a snapshot must be good)";
}

bool NumericFaults::Stop(JobRecord& job, const std::string& cause) {
  job.numeric.Close();
  job.faults.Decide("stop the job: " + cause, context_.now);
  context_.AddFaultNotification(job, job.faults.newest());
  const std::string reason = job.faults.newest().what() + ": " + cause;
  context_.SendKill(job, Duration(0), reason);
  closer_.BeginClosing(job, proto::FAILED, reason);
  return true;
}

bool NumericFaults::EndsJob(JobRecord& job) {
  if (!job.numeric.open().has_value()) return false;
  // Better evidence may have shown that it was only the consequence of another fault.
  if (job.faults.newest_class() != proto::FaultClass::kNumeric) {
    job.numeric.Close();
    return false;
  }
  const NumericFinding finding = *job.numeric.open();
  if (job.numeric.IsAgain()) {
    const NumericWatch::Suspicion& before = *job.numeric.suspicion();
    return Stop(job, "the same was found in attempt " + std::to_string(before.attempt) +
                         (before.finding.place.empty() ? "" : " on " + before.finding.place) +
                         ", and the replay from step " + std::to_string(before.restored) +
                         " with the same data repeats it (" + ComparisonOf(before) +
                         "): the program or its data is the cause, not the hardware" +
                         SamplesOf(job, finding));
  }
  if (ActionOf(job, finding.kind) == Policy::STOP) {
    return Stop(job, std::string("numeric.") +
                         (finding.kind == Kind::kSpike ? "spike" : "not_finite") + " is stop" +
                         SamplesOf(job, finding));
  }
  const std::string why_not = WhyNoRollback(job);
  if (!why_not.empty()) return Stop(job, why_not + SamplesOf(job, finding));
  const uint64_t restored =
      job.snapshots.ChooseRestore(context_.ViewOf(job), job.copier.copies()).step();
  job.numeric.BeginReplay(job.life.attempt(), job.faults.newest().number(), restored);
  if (job.numeric.close_rollbacks() > kMostCloseRollbacks) {
    return Stop(job, "it is the numeric fault number " +
                         std::to_string(job.numeric.close_rollbacks()) +
                         " in a row within 100 steps of the one before, and no replay repeats one "
                         "at its step: the cause is not decided" +
                         SamplesOf(job, finding));
  }
  return false;
}

// A step is clean once every node has reported it without the finding.
void NumericFaults::EndReplayIfClean(JobRecord& job) {
  const auto& suspicion = job.numeric.suspicion();
  if (!suspicion.has_value() || job.life.attempt() <= suspicion->attempt) return;
  if (job.StepOfAll() < suspicion->finding.last_step) return;
  const bool check = job.group.size() > 1 && context_.options.node_check_limit > Duration(0);
  const std::string& place = suspicion->finding.place;
  std::string verdict = "the replay from step " + std::to_string(suspicion->restored) +
                        " was clean (" + ComparisonOf(*suspicion) +
                        "): the hardware is suspected, not the program or its data";
  if (!place.empty()) verdict += "; it was reported by " + place;
  if (check) verdict += "; the nodes are checked at the next restart of the workers";
  const proto::Fault& fault = job.faults.AddToAction(suspicion->fault, verdict);
  context_.AddMessage(
      job.id(), proto::MessageNotification::WARNING,
      "numeric fault " + std::to_string(fault.number()) + ", " + fault.what() + ": " + verdict);
  context_.AddFaultNotification(job, fault);
  job.numeric.EndReplay(check);
}

}  // namespace longhaul::runtime::controller
