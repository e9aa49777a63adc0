#include "runtime/controller/job/job_faults.h"

#include <algorithm>

#include "runtime/controller/job/snapshot_tracker.h"

namespace longhaul::runtime::controller {

namespace {

// Of failures with one restart so many are recorded. A switch may take many nodes with it.
constexpr size_t kMostOfOneRestart = 8;
// The death of a silent node may stay unknown this long after its peers failed.
constexpr Duration kLateEvidence = std::chrono::seconds(15);

// Whether such a fault is never the consequence of another.
bool IsCertain(proto::FaultClass fault) {
  return fault == proto::FaultClass::kNode || fault == proto::FaultClass::kProcess ||
         fault == proto::FaultClass::kHang || fault == proto::FaultClass::kStorage ||
         fault == proto::FaultClass::kNumeric || fault == proto::FaultClass::kDevice;
}

// Whether such a fault is the cause of what the workers on its node report.
bool ExplainsEnds(proto::FaultClass fault) {
  return fault == proto::FaultClass::kNode || fault == proto::FaultClass::kDevice;
}

// An attempt can pass a stage more than once for one fault, when the restart itself fails. Only the
// first time is kept.
void StampOnce(proto::Fault& fault, RestartStage stage, int64_t at_ns) {
  switch (stage) {
    case RestartStage::kStarted:
      if (fault.started_at_ns() == 0) fault.set_started_at_ns(at_ns);
      break;
    case RestartStage::kRendezvous:
      if (fault.rendezvous_at_ns() == 0) fault.set_rendezvous_at_ns(at_ns);
      break;
    case RestartStage::kRestoring:
      if (fault.restoring_at_ns() == 0) fault.set_restoring_at_ns(at_ns);
      break;
    case RestartStage::kStepping:
      if (fault.stepping_at_ns() == 0) fault.set_stepping_at_ns(at_ns);
      break;
    case RestartStage::kFirstStep:
      if (fault.first_step_at_ns() == 0) fault.set_first_step_at_ns(at_ns);
      break;
  }
}

}  // namespace

BadTime BadTimeOf(const proto::Ledger& ledger) {
  BadTime bad;
  for (const auto& entry : ledger.categories()) {
    switch (entry.category()) {
      case proto::LOST_WORK:
      case proto::DETECT:
      case proto::DIAGNOSE:
      case proto::REPAIR:
      case proto::START_UP_TIME:
      case proto::RENDEZVOUS_TIME:
      case proto::RESTORE_TIME:
        bad[entry.category()] += entry.rank_seconds();
        break;
      default:
        break;
    }
  }
  return bad;
}

JobFaults::Record& JobFaults::Add(uint64_t highest_step) {
  Record& record = records_.emplace_back();
  record.fault.set_number(static_cast<uint32_t>(records_.size()));
  record.highest_before = highest_step;
  newest_ = records_.size() - 1;
  return record;
}

void JobFaults::Describe(Record& record, const Evidence& evidence, const proto::Job& spec,
                         const WorkerGroup& group) const {
  record.kind = evidence.fault;
  record.fault.set_class_name(std::string(NameOf(evidence.fault)));
  record.fault.set_what(evidence.what);
  record.fault.set_node(evidence.node);
  record.fault.set_rank(evidence.rank);
  record.fault.set_injected(WasInjected(evidence, spec, group));
}

// A node that dies in silence is missed only after its peers have failed: what looked like their
// error was its death.
bool JobFaults::IsRealCauseOfNewest(const Evidence& evidence, Instant now) const {
  if (!ExplainsEnds(evidence.fault) || !has_unresolved()) return false;
  const proto::Fault& fault = newest();
  return newest_class() == proto::FaultClass::kError && fault.first_step_at_ns() == 0 &&
         ToNanoseconds(now) - fault.happened_at_ns() < kLateEvidence.count();
}

bool JobFaults::Take(const Evidence& evidence, const proto::Job& spec, const WorkerGroup& group,
                     uint64_t attempt, uint64_t highest_step, Instant now) {
  Record& record = IsRealCauseOfNewest(evidence, now) ? records_[newest_] : Add(highest_step);
  Describe(record, evidence, spec, group);
  failed_attempt_ = attempt;
  undecided_ = true;
  // The record of an earlier error is reused for its real cause, and keeps the earlier time.
  if (record.fault.happened_at_ns() != 0) return false;
  // The clock of the reporting node may be ahead of the controller's.
  record.fault.set_happened_at_ns(ToNanoseconds(std::min(evidence.happened, now)));
  record.fault.set_detected_at_ns(ToNanoseconds(now));
  return true;
}

bool JobFaults::Improve(const Evidence& evidence, const proto::Job& spec,
                        const WorkerGroup& group) {
  if (records_.empty()) return false;
  Record& record = records_[newest_];
  proto::Fault& fault = record.fault;
  // Certainty ranks before time: an exit code of a peer may come first, but a lost node explains
  // it. Evidence for the same node replaces the text in any case, because it describes the node's
  // loss more exactly.
  const bool is_certain = IsCertain(record.kind);
  const bool earlier = ToNanoseconds(evidence.happened) < fault.happened_at_ns();
  const bool better =
      (evidence.certain && !is_certain) || (evidence.certain == is_certain && earlier);
  const bool same_node = ExplainsEnds(evidence.fault) && fault.node() == evidence.node;
  if (!better && !same_node) return false;
  Describe(record, evidence, spec, group);
  if (earlier) fault.set_happened_at_ns(ToNanoseconds(evidence.happened));
  return true;
}

// Only what comes from outside of the program has a cause of its own: programs end because their
// peers have ended, also by a signal. What happens on the node of another failure is a part of it.
bool JobFaults::IsAnother(const Evidence& evidence) const {
  const auto is_from_outside = [](proto::FaultClass fault) {
    return fault == proto::FaultClass::kNode || fault == proto::FaultClass::kProcess;
  };
  if (records_.empty() || evidence.node.empty() || !evidence.certain) return false;
  if (!is_from_outside(evidence.fault) || !is_from_outside(newest_class())) return false;
  const std::vector<const proto::Fault*> others = OthersOfNewest();
  const auto is_there = [&evidence](const proto::Fault& fault) {
    return fault.node() == evidence.node;
  };
  return !is_there(newest()) && others.size() + 1 < kMostOfOneRestart &&
         std::ranges::none_of(others, [&](const auto* fault) { return is_there(*fault); });
}

std::vector<const proto::Fault*> JobFaults::OthersOfNewest() const {
  std::vector<const proto::Fault*> others;
  for (const Record& record : records_) {
    if (record.with == newest().number()) others.push_back(&record.fault);
  }
  return others;
}

std::vector<const proto::Fault*> JobFaults::AddAnother(const Evidence& evidence,
                                                       const proto::Job& spec,
                                                       const WorkerGroup& group, Instant now) {
  const size_t before = newest_;
  Record& added = Add(records_[before].highest_before);
  Record& earlier = records_[before];
  Describe(added, evidence, spec, group);
  added.fault.set_happened_at_ns(ToNanoseconds(std::min(evidence.happened, now)));
  added.fault.set_detected_at_ns(ToNanoseconds(now));
  added.bad_before = earlier.bad_before;  // the cost of all is counted from the first one on
  const bool leads = undecided_ && evidence.fault == proto::FaultClass::kNode &&
                     earlier.kind != proto::FaultClass::kNode;
  if (!leads) {
    newest_ = before;
    added.with = earlier.fault.number();
    if (!undecided_) DecideOthers(now);
    return {&added.fault};
  }
  for (Record& record : records_) {
    const bool other = &record == &earlier || record.with == earlier.fault.number();
    if (other) record.with = added.fault.number();
  }
  return {&earlier.fault, &added.fault};
}

// A fault that names no node, such as the hang of all, is no evidence against the one that another
// names.
std::string JobFaults::RepeatedNode() const {
  size_t failures = 0;
  std::string node;
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    const proto::Fault& fault = record->fault;
    if (fault.first_step_at_ns() != 0) break;
    failures += record->CausedRestart() ? 1 : 0;
    if (fault.injected()) return "";
    if (node.empty()) node = fault.node();
    if (!fault.node().empty() && fault.node() != node) return "";
  }
  return failures >= 2 && newest().node() == node ? node : "";
}

size_t JobFaults::FailuresWithoutStep() const {
  size_t failures = 0;
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    if (record->fault.first_step_at_ns() != 0) break;
    failures += record->CausedRestart() ? 1 : 0;
  }
  return failures;
}

void JobFaults::Restate(const std::string& what, const std::string& node, int32_t rank) {
  proto::Fault& fault = records_[newest_].fault;
  fault.set_what(what);
  fault.set_node(node);
  fault.set_rank(rank);
}

const proto::Fault& JobFaults::AddToAction(uint32_t number, const std::string& text) {
  proto::Fault& fault = records_.at(number - 1).fault;
  fault.set_action(fault.action() + "; " + text);
  return fault;
}

void JobFaults::NameNode(const std::string& node, const std::string& evidence) {
  proto::Fault& fault = records_[newest_].fault;
  fault.set_node(node);
  fault.set_what(fault.what() + "; the check of its nodes names " + node + ": " + evidence);
}

const proto::Fault& JobFaults::AddContinued(const Evidence& evidence, const proto::Job& spec,
                                            const WorkerGroup& group, uint64_t step,
                                            uint64_t highest_step, const BadTime& bad_before,
                                            Instant now) {
  Record& record = Add(highest_step);
  Describe(record, evidence, spec, group);
  record.continued = true;
  record.fault.set_action("continued it with SIGCONT");
  record.fault.set_from_step(step);
  record.fault.set_happened_at_ns(ToNanoseconds(evidence.happened));
  record.fault.set_detected_at_ns(ToNanoseconds(now));
  record.fault.set_decided_at_ns(ToNanoseconds(now));
  record.bad_before = bad_before;
  return record.fault;
}

bool JobFaults::is_own_fault() const {
  return newest_class() == proto::FaultClass::kError || newest_class() == proto::FaultClass::kStart;
}

// Only errors of the program count as fruitless. Hardware may fail many times in a row without the
// program being at fault; `max_restarts` bounds that.
std::optional<std::string> JobFaults::WhyGiveUp(const RestartLimits& limits) {
  // Where no steps are reported, to have lasted is the only sign of progress.
  if (limits.has_lasted) fruitless_ = 0;
  if (is_own_fault() && fruitless_ + 1 >= limits.fruitless) {
    return "failed " + std::to_string(fruitless_ + 1) +
           " times without a step in between; the last time: " + newest().what();
  }
  if (restarts_ >= limits.restarts) {
    return "out of restarts (" + std::to_string(limits.restarts) +
           " allowed); the last fault: " + newest().what();
  }
  return std::nullopt;
}

void JobFaults::Decide(const std::string& action, Instant now) {
  proto::Fault& fault = records_[newest_].fault;
  fault.set_decided_at_ns(ToNanoseconds(now));
  fault.set_action(action);
  DecideOthers(now);
}

void JobFaults::DecideOthers(Instant now) {
  for (Record& record : records_) {
    if (record.with != newest().number() || record.fault.decided_at_ns() != 0) continue;
    record.fault.set_decided_at_ns(ToNanoseconds(now));
    record.fault.set_action(std::string(proto::kSameRestart) + std::to_string(record.with));
    record.fault.set_from_step(newest().from_step());
  }
}

void JobFaults::CountRestart() {
  if (is_own_fault()) ++fruitless_;
  ++restarts_;
}

void JobFaults::DecideRestart(const Restart& restart, Instant now) {
  proto::Fault& fault = records_[newest_].fault;
  const uint64_t from = restart.restore.step();
  fault.set_from_step(from);
  if (!restart.restores_by_itself) {
    fault.set_lost_steps(fault.lost_steps() + restart.reached - std::min(restart.reached, from));
  }
  std::string action = "restart from " + std::string(TierName(restart.restore.tier())) +
                       " at step " + std::to_string(from);
  if (from == 0) {
    action = restart.from_unknown ? "restart all workers" : "restart from the beginning";
  }
  if (restart.nodes != restart.nodes_before) {
    action = "continue with " + std::to_string(restart.nodes) + " nodes in place of " +
             std::to_string(restart.nodes_before) + ", " + action;
  } else if (newest_class() == proto::FaultClass::kNode || restart.node_left) {
    action = "replace the node, " + action;
  }
  if (newest_class() == proto::FaultClass::kNumeric) action = "roll back and replay, " + action;
  Decide(action, now);
}

bool JobFaults::NoteFirstOutput(uint64_t step, uint64_t step_before) {
  if (!has_unresolved()) return false;
  proto::Fault& fault = records_[newest_].fault;
  fault.set_lost_steps(fault.lost_steps() + step_before - std::min(step_before, step));
  fault.set_from_step(step);
  fault.set_action(fault.action() + "; the output continues with step " + std::to_string(step));
  return true;
}

// Several faults may be open at a time, when one happens before the restart for another has reached
// a new step. The stages of the present restart belong to all of them.
void JobFaults::Stamp(RestartStage stage, Instant at) {
  for (size_t i = first_unresolved_; i < records_.size(); ++i) {
    proto::Fault& fault = records_[i].fault;
    if (fault.decided_at_ns() != 0) StampOnce(fault, stage, ToNanoseconds(at));
  }
}

// Where the highest step before the fault was the run's last, the fault is over with that step done
// again or with the run's end; for jobs that never reported a step, with the start of the workers.
const proto::Fault* JobFaults::ResolveNext(const Outlook& outlook, const BadTime& bad, Instant at) {
  if (!has_unresolved()) return nullptr;
  Record& record = records_[first_unresolved_];
  const bool over = outlook.reports ? outlook.step > record.highest_before || outlook.at_end
                                    : outlook.workers_started;
  if (record.fault.decided_at_ns() == 0 || !over) return nullptr;
  if (outlook.reports) record.fault.set_new_step_at_ns(ToNanoseconds(at));
  Charge(record, bad);
  ++first_unresolved_;
  return &record.fault;
}

std::vector<const proto::Fault*> JobFaults::ChargeOpen(const BadTime& bad) {
  std::vector<const proto::Fault*> open;
  for (size_t i = first_unresolved_; i < records_.size(); ++i) {
    Charge(records_[i], bad);
    open.push_back(&records_[i].fault);
  }
  return open;
}

// The cost is the badput that was booked while the fault was open. It cannot be negative; the bound
// covers a ledger that moved time to another category.
void JobFaults::Charge(Record& record, const BadTime& bad) {
  double sum = 0;
  record.fault.clear_costs();
  if (record.with != 0) return record.fault.set_lost_rank_seconds(0);
  for (const auto& [category, rank_seconds] : bad) {
    const auto before = record.bad_before.find(category);
    const double cost = rank_seconds - (before == record.bad_before.end() ? 0.0 : before->second);
    sum += cost;
    if (cost <= 0) continue;
    proto::CategoryTime& entry = *record.fault.add_costs();
    entry.set_category(category);
    entry.set_rank_seconds(cost);
  }
  record.fault.set_lost_rank_seconds(std::max(sum, 0.0));
}

// Counts the planned faults that match the evidence and subtracts the recorded faults that they
// explain already, so that a real fault of the same rank after an injected one is not reported as
// injected.
bool JobFaults::WasInjected(const Evidence& evidence, const proto::Job& spec,
                            const WorkerGroup& group) const {
  int planned = 0;
  for (int i = 0; i < spec.faults_size(); ++i) {
    if (!injected(i)) continue;
    const proto::PlannedFault& fault = spec.faults(i);
    const bool worker = fault.kind() == proto::PlannedFault::KILL_WORKER ||
                        fault.kind() == proto::PlannedFault::STOP_WORKER;
    if (worker && evidence.rank == static_cast<int32_t>(fault.target())) ++planned;
    const bool on_node =
        fault.target() < group.size() && group.member(fault.target()).node.value() == evidence.node;
    const bool node = fault.kind() == proto::PlannedFault::KILL_AGENT ||
                      fault.kind() == proto::PlannedFault::KILL_NODE;
    if (node && evidence.fault == proto::FaultClass::kNode && on_node) ++planned;
  }
  for (const Record& record : records_) {
    const proto::Fault& fault = record.fault;
    const bool same = evidence.rank >= 0 ? fault.rank() == evidence.rank
                                         : fault.rank() < 0 && fault.node() == evidence.node;
    if (same && fault.injected()) --planned;
  }
  return planned > 0;
}

}  // namespace longhaul::runtime::controller
