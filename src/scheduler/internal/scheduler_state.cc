#include "scheduler/internal/scheduler_state.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

// Jobs of one line fail alike: equal needs, equal rules, and lengths within a factor of two.
// Limits of users make jobs of different users unlike.
std::string LineKey(const JobEntry& job, int length_bucket, bool by_owner) {
  const JobRequest& request = *job.request;
  std::string key;
  key.reserve(128);
  const auto add = [&key](int64_t number) {
    std::array<char, 24> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    key.append(text.data(), end).push_back(',');
  };
  add(job.queue);
  add(request.priority);
  add(request.required);
  add(length_bucket);
  add(request.preemption == Preemption::kNever);
  // A job whose last tasks have not stopped cannot start, while others like it can.
  add(job.leaving);
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const GroupRequest& group = request.groups[g];
    add(static_cast<int64_t>(job.shapes[g]));
    add(group.minimum);
    add(group.desired);
    add(group.step);
    add(group.required);
    add(group.slice);
    add(group.slice_tier);
    add(group.max_per_host);
    add(group.max_per_domain);
    add(group.spread_tier);
    add(group.rail_aligned);
    add(group.one_model);
  }
  if (!request.preempts) key += "preempts nobody,";
  if (by_owner) key += "owner " + request.owner;
  return key;
}

}  // namespace

SchedulerState::SchedulerState(std::shared_ptr<const spec::Topology> topology_in,
                               std::shared_ptr<const DomainTree> tree_in,
                               share::QueueTree queues_in, const Policy& policy_in)
    : topology(std::move(topology_in)),
      tree(std::move(tree_in)),
      policy(policy_in),
      model_dimensions(*topology, queues_in.models()),
      resources(*topology),
      tables(*tree),
      queues(std::move(queues_in)),
      idle_queues(queues),
      decayed(queues.size(), policy.usage_half_life),
      lines_of_queue(queues.size()),
      placed_priorities(queues.size()),
      faulted_at(topology->size()),
      leaving_on(topology->size()) {
  for (NodeIndex node = 0; node < topology->size(); ++node) {
    const spec::NodeKind& kind = topology->kind_of(node);
    if (!kind.devices.empty()) device_models |= uint64_t{1} << kind.model;
  }
}

// A shape counts against the quota of a device model only if it can land on no other one. Until a
// job that several models could serve is placed, its model is open and counts in the sum over all
// models alone.
spec::SharedAmounts SchedulerState::AmountsOf(const Shape& shape, int64_t tasks) const {
  spec::SharedAmounts amounts = scheduler::AmountsOf(shape, tasks);
  const uint64_t models = shape.models & device_models;
  if (!counts_models() || !shape.needs_devices() || std::popcount(models) != 1) return amounts;
  const size_t dimension = model_dimensions.Of(static_cast<uint16_t>(std::countr_zero(models)));
  if (dimension != 0) amounts[dimension] = amounts[0];
  return amounts;
}

spec::SharedAmounts SchedulerState::MinimumAmounts(const JobEntry& job) const {
  if (!counts_models()) return scheduler::MinimumAmounts(*job.request);
  spec::SharedAmounts sum;
  for (size_t g = 0; g < job.shapes.size(); ++g) {
    sum += AmountsOf(resources.shape(job.shapes[g]), job.request->groups[g].minimum);
  }
  return sum;
}

share::Holding SchedulerState::MinimumOf(const JobEntry& job) const {
  return WholeOf(job, MinimumAmounts(job));
}

bool SchedulerState::MixesModels(const JobEntry& job) const {
  std::map<int32_t, uint16_t> model_of_group;
  return std::any_of(job.tasks.begin(), job.tasks.end(), [&](const HeldTask& task) {
    const Shape& shape = job.request->groups[static_cast<size_t>(task.group)].shape;
    const uint16_t model = topology->kind_of(resources.task(task.slot).node).model;
    return shape.needs_devices() &&
           model_of_group.try_emplace(task.group, model).first->second != model;
  });
}

spec::SharedAmounts SchedulerState::AmountsOf(const JobEntry& job, const HeldTask& task) const {
  const Shape& shape = job.request->groups[static_cast<size_t>(task.group)].shape;
  spec::SharedAmounts amounts = scheduler::AmountsOf(shape, 1);
  if (!counts_models() || !shape.needs_devices()) return amounts;
  const size_t dimension =
      model_dimensions.Of(topology->kind_of(resources.task(task.slot).node).model);
  if (dimension != 0) amounts[dimension] = amounts[0];
  return amounts;
}

spec::SharedAmounts SchedulerState::AmountsBeside(const JobEntry& job, int64_t tasks) const {
  return AmountsOf(resources.shape(ShapeBesideTasks(job, 0)), tasks);
}

// The tasks are in the order of ranks, and a job shrinks from its highest ranks.
spec::SharedAmounts SchedulerState::AmountsOfLast(const JobEntry& job, int64_t tasks) const {
  if (!counts_models()) return scheduler::AmountsOf(job.request->groups[0].shape, tasks);
  spec::SharedAmounts sum;
  for (size_t i = job.tasks.size() - static_cast<size_t>(tasks); i < job.tasks.size(); ++i) {
    sum += AmountsOf(job, job.tasks[i]);
  }
  return sum;
}

// With quotas by model every group is bound to one model, so that the quota that it counts against
// is defined.
std::vector<Shape> SchedulerState::RestrictedToModels(const GroupRequest& group) const {
  std::vector<Shape> shapes;
  const uint64_t models = group.shape.models & device_models;
  const bool one_model = group.one_model || counts_models();
  if (!one_model || !group.shape.needs_devices() || std::popcount(models) < 2) return shapes;
  for (uint32_t model = 0; model < spec::kMaxDeviceModels; ++model) {
    if ((models >> model & 1) == 0) continue;
    shapes.push_back(group.shape);
    shapes.back().models = uint64_t{1} << model;
  }
  return shapes;
}

std::vector<ShapeId> SchedulerState::ShapesOfModels(const GroupRequest& group) {
  std::vector<ShapeId> shapes;
  for (const Shape& shape : RestrictedToModels(group)) shapes.push_back(resources.Intern(shape));
  return shapes;
}

void SchedulerState::InternShapes(JobEntry& job) {
  job.shapes.clear();
  job.shapes_of_models.clear();
  const std::vector<GroupRequest>& groups = job.request->groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    job.shapes.push_back(resources.Intern(groups[g].shape));
    std::vector<ShapeId> of_models = ShapesOfModels(groups[g]);
    if (of_models.empty()) continue;
    job.shapes_of_models.resize(groups.size());
    job.shapes_of_models[g] = std::move(of_models);
  }
}

ShapeId SchedulerState::ShapeBesideTasks(const JobEntry& job, int32_t group) const {
  const auto g = static_cast<size_t>(group);
  if (job.shapes_of_models.empty()) return job.shapes[g];
  for (const HeldTask& task : job.tasks) {
    if (task.group != group) continue;
    const uint16_t model = topology->kind_of(resources.task(task.slot).node).model;
    for (const ShapeId shape : job.shapes_of_models[g]) {
      if (resources.shape(shape).models == uint64_t{1} << model) return shape;
    }
  }
  return job.shapes[g];
}

// The three counters that can turn a failed attempt into a success: freed room, quotas, and
// reservations.
Seen SchedulerState::Versions() const {
  return {resources.cluster().version, quota_version, reservation_version};
}

// A start adds a possible victim, so preemption is tried again after starts as well.
Seen SchedulerState::PreemptVersions() const {
  return {resources.cluster().version, quota_version + started_version, reservation_version};
}

// The lengths are bucketed by powers of two of the limit in seconds, and a job without a limit is
// in the lowest bucket with the shortest ones.
void SchedulerState::Enqueue(JobEntry& job) {
  const auto seconds = static_cast<uint64_t>(
      std::max<int64_t>(1, job.request->limit.value_or(Duration(0)).count() / 1'000'000'000));
  const std::string key =
      LineKey(job, static_cast<int>(std::bit_width(seconds)), queues.LimitsUsers(job.queue));
  const auto [found, fresh] = line_index.try_emplace(key, static_cast<uint32_t>(lines.size()));
  if (fresh) {
    Line& line = lines.emplace_back();
    line.key = key;
    line.queue = job.queue;
    line.priority = job.request->priority;
  }
  job.line = found->second;
  Line& line = lines[job.line];
  const bool first_come = queues.order(job.queue) == spec::QueueOrder::kFirstCome;
  // A deadline's slack falls alike for all, so its order needs no clock.
  Instant when = job.submitted;
  if (!first_come) {
    // Not what was learnt of similar jobs: that changes, and would put equal jobs in another order
    // than that of their arrival. A job that was stopped keeps the place of its arrival.
    if (job.ran == Duration(0)) {
      when += std::min(policy.shorter_first, job.request->limit.value_or(policy.shorter_first));
    }
    if (job.request->deadline) {
      when = std::min(when, *job.request->deadline - ExpectedRun(job).median);
    }
  }
  job.line_place = when;
  line.jobs[{when, job.number}] = job.number;
  lines_of_queue[static_cast<size_t>(job.queue)].insert(job.line);
  // It may be shorter than those that failed, and it is new: let it be tried.
  line.parked = false;
  line.preempt_parked = false;
  if (job.expedited > 0) expedited.insert(job.number);
  waiting.Add({job.waits_since(), job.number});
}

// The reservation stays with the line. Whether the job starts, changes or ends, the next job of the
// line is alike and may inherit it; Begin discards the one that has been used.
void SchedulerState::Dequeue(JobEntry& job) {
  Line& line = lines[job.line];
  line.jobs.erase({job.line_place, job.number});
  if (line.jobs.empty()) lines_of_queue[static_cast<size_t>(line.queue)].erase(job.line);
  expedited.erase(job.number);
  waiting.Remove({job.waits_since(), job.number});
  const auto held = reservations.find(job.number);
  if (held == reservations.end()) return;
  line.promise = std::move(held->second);
  reservations.erase(held);
  ++reservation_version;
}

bool SchedulerState::IsProtected(const JobEntry& job, share::QueueIndex claimant) const {
  return job.held_priority > kMaxPriority || (claimant != job.queue && now < job.protected_until);
}

bool SchedulerState::IsOverdue(const JobEntry& job) const {
  return policy.longest_wait > Duration(0) && now - job.waits_since() >= policy.longest_wait;
}

// The result is at least one nanosecond ahead, so that a deadline that has passed cannot start
// rounds without end at one time.
std::optional<Instant> SchedulerState::NextOverdue() const {
  std::optional<Instant> next;
  if (!protections.empty()) next = protections.begin()->first;
  if (policy.longest_wait > Duration(0)) {
    if (const auto job = waiting.FirstAfter(overdue_noted)) {
      const Instant at = job->since + policy.longest_wait;
      next = next ? std::min(*next, at) : at;
    }
  }
  if (next) next = std::max(*next, now + Duration(1));
  return next;
}

// A protection that ends makes a job a possible victim, like a start, so it counts as one. Each
// waiting job is noted once: `overdue_noted` moves forward only.
void SchedulerState::NoteOverdue() {
  while (!protections.empty() && protections.begin()->first <= now) {
    protections.erase(protections.begin());
    ++started_version;
  }
  if (policy.longest_wait <= Duration(0)) return;
  const Instant until = now - policy.longest_wait;
  for (const WaitingOrder::Job& job : waiting.Between(overdue_noted, until)) {
    lines[at(job.number).line].parked = false;
  }
  overdue_noted = std::max(overdue_noted, until);
}

void SchedulerState::Protect(JobEntry& job, Instant until) {
  if (!protections.empty()) protections.erase({job.protected_until, job.number});
  job.protected_until = until;
  if (until > now) protections.insert({until, job.number});
}

// A job gains one priority for each aging period that it has waited, at most aging_steps: from its
// place on, so that a line, which is in the order of places, is in this order too. In a queue that
// serves strictly by arrival, priorities have no effect.
int64_t SchedulerState::EffectivePriority(const Line& line, const JobEntry& job) const {
  if (queues.order(job.queue) == spec::QueueOrder::kFirstCome) return 0;
  if (policy.aging_period <= Duration(0)) return line.priority;
  const Duration waited = now - std::max(job.submitted, job.line_place);
  const int64_t periods = std::max<int64_t>(0, waited / policy.aging_period);
  return line.priority + std::min<int64_t>(periods, policy.aging_steps);
}

// A total order, because job numbers are unique: expedited first (the latest expedite before
// earlier ones), then priority, then the place in the line, then the number.
bool SchedulerState::Before(const JobEntry& a, const JobEntry& b) const {
  if (a.expedited != b.expedited) return a.expedited > b.expedited;
  const int64_t priority_a = EffectivePriority(lines[a.line], a);
  const int64_t priority_b = EffectivePriority(lines[b.line], b);
  if (priority_a != priority_b) return priority_a > priority_b;
  if (a.line_place != b.line_place) return a.line_place < b.line_place;
  return a.number < b.number;
}

// Jobs keep their tasks in the order of ranks; pieces, shrinking and reports rely on it.
void SchedulerState::Keep(JobEntry& job, const std::vector<HeldTask>& tasks) {
  spec::SharedAmounts amounts;
  for (const HeldTask& task : tasks) {
    amounts += AmountsOf(job, task);
    job.tasks.push_back(task);
  }
  std::sort(job.tasks.begin(), job.tasks.end(),
            [](const HeldTask& a, const HeldTask& b) { return a.rank < b.rank; });
  job.held += amounts;
  queues.Add(PartOf(job, amounts));
  NoteUsage(job.queue);
  ++started_version;
  resources.Commit();
  NoteElastic(job);
}

// Only use beyond the guarantee counts for the fair order: what a queue has a right to is not held
// against it. A parent's usage changes with its children's, hence the walk to the root.
void SchedulerState::NoteUsage(share::QueueIndex queue) {
  for (share::QueueIndex up = queue; up != share::kNoQueue; up = queues.parent(up)) {
    const int64_t beyond = queues.usage(up)[0] - queues.guarantee(up)[0];
    decayed.SetRate(static_cast<size_t>(up), std::max<int64_t>(0, beyond), now);
  }
}

void SchedulerState::NoteElastic(const JobEntry& job) {
  const GroupRequest& group = job.request->groups[0];
  const bool wants = job.placed && job.request->groups.size() == 1 &&
                     group.desired > group.minimum &&
                     job.tasks.size() < static_cast<size_t>(group.desired);
  if (wants) {
    elastic.insert(job.number);
  } else if (!elastic.empty()) {
    elastic.erase(job.number);
  }
}

void SchedulerState::Drop(JobEntry& job, size_t task) {
  const HeldTask held = job.tasks[task];
  const spec::SharedAmounts amounts = AmountsOf(job, held);
  resources.Remove(held.slot);
  job.tasks.erase(job.tasks.begin() + static_cast<std::ptrdiff_t>(task));
  job.mixes_models = job.mixes_models && MixesModels(job);
  job.held -= amounts;
  queues.Remove(PartOf(job, amounts));
  NoteUsage(job.queue);
  ++quota_version;
  NoteElastic(job);
}

void SchedulerState::Begin(JobEntry& job, const std::vector<HeldTask>& tasks, Instant bind_by_in) {
  // What waiting has raised it by protects it too, or those it went before would stop it.
  // An operator's word is above priorities.
  job.held_priority =
      job.expedited > 0
          ? kMaxPriority + 1
          : std::max<int64_t>(job.request->priority, EffectivePriority(lines[job.line], job));
  Protect(job, IsOverdue(job) ? now + policy.longest_wait : Instant{});
  Dequeue(job);
  lines[job.line].promise.reset();  // it is kept
  job.expedited = 0;
  job.kept_idle_ms = 0;
  job.block = {};
  job.placed = true;
  job.started_in_round = rounds;
  job.transaction = next_transaction++;
  job.started = now;
  job.last_snapshot = now;
  job.bind_by = bind_by_in;
  bind_deadlines.insert({bind_by_in, job.number});
  placed.insert(placed.end(), job.number);
  ++placed_priorities[static_cast<size_t>(job.queue)][job.held_priority];
  queues.Add(WholeOf(job, {}));
  Keep(job, tasks);
  NoteEnd(job);
}

void SchedulerState::NoteEnd(JobEntry& job) {
  ends.erase({job.end_noted, job.number});
  job.end_noted = ExpectedEnd(job);
  ends.insert({job.end_noted, job.number});
}

// Entries in other tables are found by fields of the job, so each is removed before its field
// changes. The last task is dropped first, since erasing from the end moves no others.
void SchedulerState::Release(JobEntry& job) {
  if (job.placed) {
    auto& priorities = placed_priorities[static_cast<size_t>(job.queue)];
    const auto found = priorities.find(job.held_priority);
    if (--found->second == 0) priorities.erase(found);
  }
  while (!job.tasks.empty()) Drop(job, job.tasks.size() - 1);
  if (job.placed) {
    queues.Remove(WholeOf(job, {}));
    // A job that had lost all its tasks frees its user's count alone.
    if (queues.LimitsUsers(job.queue)) ++quota_version;
  }
  resources.Commit();
  job.placed = false;
  job.mixes_models = false;
  Protect(job, Instant{});
  NoteElastic(job);
  job.gpu_of_rank.clear();
  job.lost.clear();
  job.refused_by.clear();
  job.refusals = 0;
  placed.erase(job.number);
  ends.erase({job.end_noted, job.number});
  damaged.erase(job.number);
  if (job.bind_by) bind_deadlines.erase({*job.bind_by, job.number});
  job.bind_by.reset();
}

void SchedulerState::Renumber(JobEntry& job) {
  for (size_t i = 0; i < job.tasks.size(); ++i) job.tasks[i].rank = static_cast<int32_t>(i);
}

void SchedulerState::FormMix() {
  const uint64_t since = arrivals.arrivals() - mix_arrivals;
  // Doubling at first, so that the first mixes come soon and are few.
  const auto period = static_cast<uint64_t>(std::max<int64_t>(0, policy.mix_period));
  if (period == 0 || since < std::min<uint64_t>(period, std::max<uint64_t>(16, mix_arrivals))) {
    return;
  }
  mix_arrivals = arrivals.arrivals();
  TaskMix arrived = arrivals.Mix();
  if (DistancePerMille(mix, arrived) < policy.mix_change) return;
  mix = std::move(arrived);
  ++mix_version;
}

// The nodes are recorded before the tasks are dropped, because a task's node cannot be found
// afterwards. Until the engine reports them as stopped, the old tasks still run there.
void SchedulerState::Uproot(JobEntry& job) {
  job.leaving = true;
  for (const HeldTask& task : job.tasks) {
    const NodeIndex node = resources.task(task.slot).node;
    leaving_on[node].insert(job.number);
    job.leaving_nodes.push_back(node);
  }
  while (!job.tasks.empty()) Drop(job, job.tasks.size() - 1);
  resources.Commit();
}

// A new transaction number makes confirmations of the old placement recognisable as late.
void SchedulerState::Confirmable(JobEntry& job, Duration patience) {
  job.transaction = next_transaction++;
  if (job.bind_by) bind_deadlines.erase({*job.bind_by, job.number});
  job.bind_by = now + patience;
  bind_deadlines.insert({*job.bind_by, job.number});
}

// The time that the job has run is added before Release resets its start.
void SchedulerState::Requeue(JobEntry& job, bool stop_sent) {
  job.ran += Elapsed(job);
  if (stop_sent) {
    job.leaving = true;
    for (const HeldTask& task : job.tasks) {
      const NodeIndex node = resources.task(task.slot).node;
      leaving_on[node].insert(job.number);
      job.leaving_nodes.push_back(node);
    }
  }
  Release(job);
  job.block = {};
  Enqueue(job);
}

// A node's list of leaving jobs must not keep the number of a job that is gone.
void SchedulerState::Erase(JobNumber number) {
  JobEntry& job = at(number);
  for (const NodeIndex node : job.leaving_nodes) leaving_on[node].erase(number);
  jobs.Erase(number);
}

Duration SchedulerState::Elapsed(const JobEntry& job) const {
  return job.placed && now > job.started ? now - job.started : Duration(0);
}

share::JobLikeness SchedulerState::LikenessOf(const JobEntry& job) const {
  return {job.request->owner, queues.name(job.queue), DesiredGpuMilli(*job.request)};
}

share::ExpectedDuration SchedulerState::ExpectedLength(const JobEntry& job) const {
  std::optional<Duration> longest = queues.max_run_time(job.queue);
  // Jobs of one line are expected to take equally long, whatever they have run before.
  if (longest && job.placed) *longest = std::max(*longest - job.ran, Duration(0));
  return durations.Expect(LikenessOf(job), job.request->limit, Elapsed(job), longest);
}

Instant SchedulerState::ExpectedEnd(const JobEntry& job, bool late) const {
  const share::ExpectedDuration run = ExpectedLength(job);
  return job.started + (late ? run.high : run.median);
}

share::ExpectedDuration SchedulerState::ExpectedRun(const JobEntry& job) const {
  return durations.Expect(LikenessOf(job), job.request->limit, Duration(0),
                          queues.max_run_time(job.queue));
}

std::vector<TaskPlacement> SchedulerState::PlacementsOf(const JobEntry& job) const {
  std::vector<TaskPlacement> placements;
  for (const HeldTask& task : job.tasks) {
    const TaskRecord& record = resources.task(task.slot);
    placements.push_back({task.group, task.rank, record.node, record.gpus});
  }
  return placements;
}

}  // namespace longhaul::scheduler::internal
