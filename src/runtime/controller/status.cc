#include "runtime/controller/status.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/text.h"

namespace longhaul::runtime::controller {

namespace {

// The order of map fields is not defined in protobuf's default serialisation, and it would differ
// between two runs that have equal states.
std::string Deterministic(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

// What the hash covers of a job beyond its status.
// State that decides future steps but is in no status message. A replay that differs only here
// would diverge later, so the hash must show it now.
std::string HiddenState(const JobRecord& job) {
  const auto& vacate = job.placement.vacate();
  std::string text = std::to_string(job.group.store_port()) + "," +
                     std::to_string(job.snapshots.restore().step()) + "," +
                     std::to_string(job.faults.undecided()) + "," +
                     std::to_string(job.faults.fruitless()) + "," +
                     std::to_string(static_cast<int>(job.nodes_checked.stage())) + "," +
                     (vacate ? std::to_string(static_cast<int>(vacate->stage)) : "");
  for (const auto& [step, spread] : job.snapshots.spreads()) {
    text += "|" + std::to_string(step);
    for (const auto& place : spread.places) text += "," + std::to_string(place.size());
  }
  for (const NodeId& node : job.placement.target()) text += ">" + node.value();
  for (const scheduler::GpuMask devices : job.placement.target_devices()) {
    if (devices != 0) text += "@" + std::to_string(devices);
  }
  for (size_t i = 0; i < job.group.size(); ++i) {
    const Member& member = job.group.member(i);
    const PlaceMemory& memory = job.snapshots.places()[i];
    text += ";" + std::to_string(member.started) + std::to_string(member.phase) + "," +
            std::to_string(member.reported_step) + "," + std::to_string(memory.sealed.newest()) +
            "," + std::to_string(memory.sealed.second());
    for (const CopyHolder& holder : memory.copies) {
      text += "," + holder.node.value() + "," + std::to_string(holder.steps.newest()) + "," +
              std::to_string(holder.steps.second());
    }
  }
  return text;
}

}  // namespace

proto::JobStatus StatusReporter::StatusOf(const JobRecord& job, Instant now) const {
  proto::JobStatus status;
  *status.mutable_job() = job.spec();
  status.set_state(job.life.state());
  status.set_reason(job.life.reason());
  // The reason of a waiting job changes with the other jobs, so it is computed for the query and
  // not stored.
  if (job.life.state() == proto::QUEUED && job.placement.target().empty() && !job.closing()) {
    const std::string held = context_.releases.WaitText(job.id());
    const std::string waits = held.empty() ? context_.scheduler.WaitText(JobId(job.id())) : held;
    if (!waits.empty()) status.set_reason(waits);
  }
  status.set_preemptions(job.placement.preemptions());
  status.set_moves(job.placement.moves());
  for (const proto::SizeChange& change : job.placement.sizes()) *status.add_sizes() = change;
  status.set_resizes(job.placement.resizes());
  status.set_attempt(job.life.attempt());
  for (const Member& member : job.group.members()) status.add_gang(member.node.value());
  AddPlaces(job, status);
  AddProgress(job, status);
  for (int i = 0; i < job.spec().faults_size(); ++i) {
    if (!job.faults.injected(i)) *status.add_faults_to_come() = job.spec().faults(i);
  }
  *status.mutable_ledger() = job.ledger.Summary(std::max(now, context_.now));
  for (size_t i = 0; i < job.faults.size(); ++i) *status.add_faults() = job.faults.fault(i);
  status.set_restarts(job.faults.restarts());
  AddSnapshots(job, status);
  status.set_submitted_at_ns(ToNanoseconds(job.life.submitted()));
  status.set_ended_at_ns(job.live() ? 0 : ToNanoseconds(job.life.ended()));
  for (const std::string& result : job.life.results()) status.add_results(result);
  status.set_samples_committed(job.data.committed_samples());
  for (const int64_t pid : job.group.pids()) status.add_worker_pids(pid);
  return status;
}

void StatusReporter::AddPlaces(const JobRecord& job, proto::JobStatus& status) const {
  const auto& members = job.group.members();
  const bool assigned = std::any_of(members.begin(), members.end(),
                                    [](const Member& member) { return member.devices != 0; });
  for (size_t i = 0; i < members.size() && assigned; ++i) {
    proto::NodeDevices& node = *status.add_devices();
    node.set_node(members[i].node.value());
    for (uint32_t device = 0; device < spec::kMaxDevices; ++device) {
      if ((members[i].devices >> device & 1) != 0) node.add_devices(device);
    }
  }
  const std::string& preferred = job.spec().scheduling().preferred_topology();
  if (preferred.empty()) return;
  std::vector<std::string> nodes;
  for (const Member& member : members) nodes.push_back(member.node.value());
  status.set_preferred_domain(context_.scheduler.SharedDomain(nodes, preferred));
}

void StatusReporter::AddProgress(const JobRecord& job, proto::JobStatus& status) const {
  const JobProgress& progress = job.progress;
  status.set_step(progress.step());
  status.set_highest_step(progress.highest_step());
  status.set_first_loss(progress.losses().first);
  status.set_loss(progress.losses().newest);
  status.set_validation_loss(progress.losses().newest_validation);
  status.set_first_validation_loss(progress.losses().first_validation);
  status.set_tokens(progress.tokens());
  status.set_tokens_per_second(progress.tokens_per_second());
  status.set_flops(progress.flops());
  status.set_seconds_per_step(progress.step_seconds());
  status.set_eta_seconds(job.live() ? progress.EtaSeconds(job.total_steps()) : -1);
  status.set_output_total_steps(progress.output_total());
  status.set_last_step_at_ns(progress.last_step_at() ? ToNanoseconds(*progress.last_step_at()) : 0);
  status.set_has_loss(progress.losses().has_first);
  status.set_has_validation_loss(progress.losses().has_first_validation);
  status.set_slow(job.live() && job.slowness.has_named());
}

void StatusReporter::AddSnapshots(const JobRecord& job, proto::JobStatus& status) const {
  const SnapshotTracker& snapshots = job.snapshots;
  status.set_memory_step(snapshots.memory_step());
  status.set_committed_step(snapshots.committed_step());
  status.set_committed_attempt(snapshots.committed_attempt());
  status.set_copied_step(job.copier.copied_step());
  status.set_snapshots(snapshots.snapshots());
  status.set_commits(job.writer.commits());
  status.set_snapshot_interval_steps(job.interval.steps());
  status.set_snapshot_interval_reason(job.interval.reason());
  status.set_snapshot_blocked_seconds(job.interval.mean_blocked().count());
  for (const uint64_t each : snapshots.ways()) status.add_snapshot_ways(each);
  status.set_snapshot_waited_seconds(snapshots.slot_waits().count());
  status.set_snapshot_waited_seconds_max(snapshots.longest_slot_wait().count());
}

std::optional<proto::JobStatus> StatusReporter::StatusOf(const JobId& id, Instant now) const {
  const JobRecord* job = context_.jobs.Find(id.value());
  if (job != nullptr) return StatusOf(*job, now);
  if (!context_.releases.IsArray(id.value())) return std::nullopt;
  return StatusOf(*context_.releases.Find(id.value()));
}

// An array runs while an element does; it has ended when all have.
proto::JobStatus StatusReporter::StatusOf(const ReleaseUnit& array) const {
  proto::JobStatus status;
  *status.mutable_job() = array.spec;
  std::map<proto::JobState, uint32_t> counts;
  Instant ended{};
  for (uint32_t index = 0; index < array.count(); ++index) {
    const JobRecord& job = context_.jobs.at(array.ElementId(index));
    ++counts[job.life.state()];
    status.set_submitted_at_ns(ToNanoseconds(job.life.submitted()));
    ended = std::max(ended, job.life.ended());
  }
  uint32_t live = 0;
  for (const auto& [state, jobs] : counts) {
    proto::StateCount& count = *status.add_elements();
    count.set_state(state);
    count.set_jobs(jobs);
    if (!IsTerminal(state)) live += jobs;
  }
  // Of ended elements the worst outcome counts: one failure makes the array failed.
  if (live > counts[proto::QUEUED]) {
    status.set_state(proto::RUNNING);
  } else if (live > 0) {
    status.set_state(proto::QUEUED);
  } else if (counts[proto::FAILED] > 0) {
    status.set_state(proto::FAILED);
  } else {
    status.set_state(counts[proto::STOPPED] > 0 ? proto::STOPPED : proto::SUCCEEDED);
  }
  if (!array.after.jobs().empty() && live > 0) {
    status.set_reason(context_.releases.WaitText(array.ElementId(0)));
  } else {
    status.set_reason(std::to_string(array.succeeded) + " of " + std::to_string(array.count()) +
                      " elements succeeded");
  }
  if (live == 0) status.set_ended_at_ns(ToNanoseconds(ended));
  status.set_eta_seconds(-1);
  return status;
}

std::vector<proto::JobStatus> StatusReporter::Listing(Instant now) const {
  std::vector<proto::JobStatus> all;
  for (const std::string& id : context_.jobs.order()) {
    const JobRecord& job = context_.jobs.at(id);
    if (!job.spec().has_element()) {
      all.push_back(StatusOf(job, now));
      // Elements were added together, in order, so the first one marks the array's position.
    } else if (job.spec().element().index() == 0) {
      all.push_back(StatusOf(*context_.releases.Find(job.spec().element().array())));
    }
  }
  return all;
}

std::vector<proto::JobStatus> StatusReporter::Elements(const JobId& array, Instant now) const {
  std::vector<proto::JobStatus> all;
  if (!context_.releases.IsArray(array.value())) return all;
  const ReleaseUnit& unit = *context_.releases.Find(array.value());
  for (uint32_t index = 0; index < unit.count(); ++index) {
    all.push_back(StatusOf(context_.jobs.at(unit.ElementId(index)), now));
  }
  return all;
}

Result<JobId> StatusReporter::Resolve(const std::string& id_or_name) const {
  if (context_.jobs.contains(id_or_name) || context_.releases.IsArray(id_or_name)) {
    return JobId(id_or_name);
  }
  std::vector<std::string> ids;
  std::vector<std::string_view> known;  // ids and names, to find the nearest
  for (const std::string& id : context_.jobs.order()) {
    const proto::Job& job = context_.jobs.at(id).spec();
    if (job.has_element() && job.element().index() > 0) continue;
    const std::string& own = job.has_element() ? job.element().array() : id;
    if (job.name() == id_or_name) ids.push_back(own);
    known.push_back(own);
    known.push_back(job.name());
  }
  if (ids.size() == 1) return JobId(ids[0]);
  if (ids.empty()) {
    const auto nearest = Nearest(id_or_name, known);
    return NotFound("no job with the id or name " + Printable(id_or_name) +
                    (nearest ? "; did you mean " + std::string(*nearest) + "?" : ""));
  }
  return FailedPrecondition(std::to_string(ids.size()) + " jobs are named " +
                            Printable(id_or_name) + ": say which by its id (" + Join(ids, ", ") +
                            ")");
}

std::vector<proto::JobStatus> StatusReporter::AllJobs(Instant now) const {
  std::vector<proto::JobStatus> all;
  for (const std::string& id : context_.jobs.order()) {
    all.push_back(StatusOf(context_.jobs.at(id), now));
  }
  return all;
}

std::vector<Controller::CheckTarget> StatusReporter::CheckTargets() const {
  std::map<std::string, std::string> leaf_of;
  if (const auto& declared = context_.scheduler.cluster().declaration(); declared.has_value()) {
    for (const spec::DeclaredNode& node : declared->nodes) {
      if (!node.domains.empty()) leaf_of[node.name] = node.domains.front();
    }
  }
  std::vector<Controller::CheckTarget> targets;
  for (const proto::NodeStatus& status : AllNodes()) {
    const Node& node = context_.nodes.at(NodeId(status.name()));
    Controller::CheckTarget& target = targets.emplace_back();
    target.node = status.name();
    target.address = status.address();
    target.peer_port = node.facts.peer_port();
    target.leaf = leaf_of[target.node];
    target.connected = node.reachable();
    target.accepts_work = !node.cordoned && !node.draining;
    target.idle = status.jobs().empty() && node.used_milli == 0;
    if (status.jobs_size() == 1) target.job = status.jobs(0);
  }
  return targets;
}

std::vector<proto::NodeStatus> StatusReporter::AllNodes() const {
  std::vector<proto::NodeStatus> all;
  for (const auto& [id, node] : context_.nodes.all()) {
    if (node.incarnation != 0) all.push_back(context_.StatusOf(node));
  }
  std::map<std::string, std::vector<std::string>> jobs;
  for (const std::string& id : context_.jobs.order()) {
    const JobRecord& job = context_.jobs.at(id);
    if (!job.live()) continue;
    for (const Member& member : job.group.members()) jobs[member.node.value()].push_back(id);
  }
  for (proto::NodeStatus& node : all) {
    for (const std::string& job : jobs[node.name()]) node.add_jobs(job);
  }
  return all;
}

UsageLedger::BooksOf StatusReporter::BooksAt(Instant now) const {
  return [this, now](const std::string& job) { return context_.jobs.at(job).ledger.BooksAt(now); };
}

UsageReport StatusReporter::Usage(const UsageQuery& query, Instant now) const {
  const Instant until = std::max(now, context_.now);
  return context_.usage.Report(query, until, BooksAt(until));
}

Controller::UsageTotals StatusReporter::CompareUsage(Instant now) const {
  const Instant until = std::max(now, context_.now);
  Controller::UsageTotals totals;
  totals.held = context_.usage.Total(until);
  totals.difference = context_.usage.DifferenceAt(BooksAt(until));
  for (const auto& [id, job] : context_.jobs.all()) {
    const GoodputLedger::Books books = job.ledger.BooksAt(until);
    totals.ledgers += books.all - books.queue;
  }
  return totals;
}

// Two independent accounts of the same time: the sum of all goodput ledgers without waiting in
// queues, and the accelerators that the usage ledger saw as held. They differ only by jobs that
// leave or have no nodes, which `difference` contains exactly.
Status StatusReporter::CheckUsage() const {
  RETURN_IF_ERROR(context_.usage.CheckSums());
  const Controller::UsageTotals totals = CompareUsage(context_.now);
  const AcceleratorTime difference =
      totals.ledgers + totals.difference.leaving - totals.difference.without_nodes - totals.held;
  if (difference == 0) return {};
  return InternalError("the jobs' goodput ledgers have " +
                       std::to_string(ToHours(difference / 1'000)) +
                       " accelerator-hours more than the accounting");
}

uint64_t StatusReporter::StateHash() const {
  std::string text;
  for (const proto::NodeStatus& node : AllNodes()) text += Deterministic(node);
  text += std::to_string(context_.scheduler.Fingerprint()) + ",";
  text += std::to_string(context_.usage.Fingerprint()) + ",";
  text += context_.releases.Fingerprint();
  for (const auto& [id, node] : context_.nodes.all()) {
    text += std::to_string(node.last_sequence) + ",";
  }
  for (const std::string& id : context_.jobs.order()) {
    const JobRecord& job = context_.jobs.at(id);
    text += Deterministic(StatusOf(job, context_.now)) + HiddenState(job);
  }
  for (const auto& [name, at] : context_.deadlines.all()) {
    text += std::to_string(static_cast<int>(name.first)) + name.second +
            std::to_string(ToNanoseconds(at));
  }
  return Hash64(text);
}

}  // namespace longhaul::runtime::controller
