#include "scheduler/internal/take_event.h"

#include <algorithm>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "scheduler/internal/placer.h"
#include "scheduler/internal/rank_places.h"

namespace longhaul::scheduler::internal {

namespace {

using spec::NodeCondition;

constexpr uint16_t kGoodHealth = 1'000;
constexpr uint16_t kTrustedHealth = 800;  // a suspect that healed so far is ready again
constexpr int64_t kHealthAnHour = 10;

// The most tasks of a shape that an empty cluster could take in one domain of the tier.
int64_t MostWhenEmpty(Books& books, ShapeId shape, Tier tier) {
  const auto [known, fresh] = books.most_when_empty.try_emplace({shape, tier}, 0);
  if (!fresh) return known->second;
  const DomainTree& tree = *books.tree;
  const bool by_host = tier == kHostTier;
  const int32_t domains = tier == kClusterTier ? 1 : by_host ? tree.hosts() : tree.domains(tier);
  int64_t most = 0;
  for (int32_t d = 0; d < domains; ++d) {
    int64_t sum = 0;
    for (int32_t host = tree.FirstHost(tier, d); host < tree.LastHost(tier, d); ++host) {
      sum += books.state.SlotsWhenEmpty(static_cast<NodeIndex>(host), shape, kMaxGangTasks);
    }
    most = std::max(most, sum);
  }
  known->second = most;
  return most;
}

// One task a host, on hosts whose islands are alike.
int64_t MostOnRails(Books& books, const Shape& shape, Tier tier) {
  const ShapeId id = books.state.Intern(shape);
  const std::vector<std::vector<uint8_t>> kinds = RailIslands(books, id);
  const DomainTree& tree = *books.tree;
  const bool by_host = tier == kHostTier;
  const int32_t domains = tier == kClusterTier ? 1 : by_host ? tree.hosts() : tree.domains(tier);
  int64_t most = 0;
  for (const std::vector<uint8_t>& islands : kinds) {
    for (int32_t d = 0; d < domains; ++d) {
      int64_t hosts = 0;
      for (int32_t host = tree.FirstHost(tier, d); host < tree.LastHost(tier, d); ++host) {
        const auto node = static_cast<NodeIndex>(host);
        const bool serves =
            HasIslands(books, node, islands) && books.state.SlotsWhenEmpty(node, id, 1) > 0;
        hosts += serves ? 1 : 0;
      }
      most = std::max(most, hosts);
    }
  }
  return most;
}

// Whether groups that compete for the same cards could all be placed with nothing else there. Tried
// on the state itself, in a transaction that is undone.
bool FitsWhenEmpty(Books& books, const JobRequest& request) {
  const Savepoint before = books.state.Save();
  for (const JobNumber number : books.placed) {
    for (const HeldTask& task : books.at(number).tasks) books.state.Remove(task.slot);
  }
  for (NodeIndex node = 0; node < books.state.size(); ++node) {
    for (uint32_t device = 0; device < books.state.node(node).devices; ++device) {
      if (books.state.node(node).free_share[device] < kWholeCard) {
        books.state.SetDeviceHealthy(node, device, true);
      }
    }
    if (!books.state.node(node).ready()) books.state.SetCondition(node, NodeCondition::kReady);
  }
  Job job;
  job.number = books.next_job;
  job.request = std::make_shared<const JobRequest>(request);
  std::vector<int32_t> counts;
  for (const GroupRequest& group : request.groups) {
    job.shapes.push_back(books.state.Intern(group.shape));
    counts.push_back(group.minimum);
  }
  Placer placer(books.policy.seed);
  std::vector<HeldTask> placed;
  const bool fits = placer.Place(books, job, counts, {}, Admit::kReady, placed);
  books.state.RollBack(before);
  return fits;
}

class Taker {
 public:
  explicit Taker(Books& books) : books_(books) {}

  void operator()(const JobSubmitted& event) {
    const JobRequest& request = event.request;
    if (books_.by_name.contains(request.id.value())) return;
    Status fits = CheckRequest(request, books_.tree->tiers());
    if (fits.ok()) fits = CheckFits(books_, request);
    if (!fits.ok()) {
      Decision& reject = books_.rejections.emplace_back();
      reject.kind = DecisionKind::kReject;
      reject.job = request.id;
      reject.reason = fits.message();
      return;
    }
    Job job;
    job.number = books_.next_job++;
    job.submitted = books_.now;
    Adopt(job, request);
    books_.by_name[request.id.value()] = job.number;
    Job& kept = books_.jobs.emplace(job.number, std::move(job)).first->second;
    CountArrival(kept);
    books_.Enqueue(kept);
  }

  void operator()(const JobChanged& event) {
    Job* job = books_.Find(event.request.id);
    if (job == nullptr || job->placed) return;
    if (!CheckRequest(event.request, books_.tree->tiers()).ok()) return;
    if (!CheckFits(books_, event.request).ok()) return;
    books_.Dequeue(*job);
    Adopt(*job, event.request);
    books_.Enqueue(*job);
  }

  void operator()(const JobExpedited& event) {
    Job* job = books_.Find(event.job);
    if (job == nullptr || job->placed) return;
    books_.Dequeue(*job);
    job->expedited = ++books_.expedites;
    books_.Enqueue(*job);
  }

  void operator()(const JobEnded& event) {
    Job* job = books_.Find(event.job);
    if (job == nullptr) return;
    if (job->placed) {
      books_.durations.Observe(books_.LikenessOf(*job), job->ran + books_.Elapsed(*job));
      books_.Release(*job);
    } else {
      books_.Dequeue(*job);
    }
    books_.Erase(job->number);
  }

  void operator()(const JobEvictionAsked& event) {
    Job* job = books_.Find(event.job);
    if (job == nullptr || !job->placed) return;
    Decision& evict = books_.rejections.emplace_back();
    evict.kind = DecisionKind::kEvict;
    evict.transaction = books_.next_transaction++;
    evict.job = event.job;
    evict.tasks = books_.PlacementsOf(*job);
    evict.reason = "an operator asked for it";
    books_.Requeue(*job, true);
  }

  void operator()(const JobAdopted& event) {
    const JobRequest& request = event.request;
    if (books_.by_name.contains(request.id.value())) return;
    if (!CheckRequest(request, books_.tree->tiers()).ok()) return;
    if (!request.queue.empty() && books_.queues.Find(request.queue) == share::kNoQueue) return;
    Job fresh;
    fresh.number = books_.next_job++;
    fresh.submitted = std::min(event.submitted, books_.now);
    fresh.expedited = event.expedited;
    books_.expedites = std::max(books_.expedites, event.expedited);
    fresh.ran = std::max(event.ran, Duration(0));
    fresh.evictions = event.evictions;
    Adopt(fresh, request);
    books_.by_name[request.id.value()] = fresh.number;
    Job& job = books_.jobs.emplace(fresh.number, std::move(fresh)).first->second;
    CountArrival(job);
    books_.Enqueue(job);
    for (const NodeIndex node : event.leaving) {
      if (node >= books_.state.size()) continue;
      job.leaving = true;
      job.leaving_nodes.push_back(node);
      books_.leaving_on[node].insert(job.number);
    }
    if (!event.tasks.empty() || !event.lost.empty()) TakeOver(job, event);
  }

  void operator()(const JobStopped& event) {
    Job* job = books_.Find(event.job);
    if (job == nullptr || !job->leaving) return;
    job->leaving = false;
    for (const NodeIndex node : job->leaving_nodes) books_.leaving_on[node].erase(job->number);
    job->leaving_nodes.clear();
    if (job->placed) return;
    books_.lines[job->line].parked = false;
    books_.lines[job->line].preempt_parked = false;
  }

  void operator()(const SnapshotTaken& event) {
    Job* job = books_.Find(event.job);
    if (job != nullptr && job->placed) job->last_snapshot = books_.now;
  }

  void operator()(const TasksBound& event) {
    Raise(event.job, event.transaction, event.ranks, Stage::kBound);
  }
  void operator()(const TasksRunning& event) {
    Raise(event.job, event.transaction, event.ranks, Stage::kRunning);
  }

  void operator()(const TaskRefused& event) {
    Job* job = books_.Find(event.job);
    if (job == nullptr || !job->placed || job->transaction != event.transaction) return;
    const auto task = std::find_if(job->tasks.begin(), job->tasks.end(),
                                   [&](const HeldTask& held) { return held.rank == event.rank; });
    if (task == job->tasks.end() || task->stage == Stage::kRunning) return;
    job->refused_by.insert(books_.state.task(task->slot).node);
    ++job->refusals;
    Lose(*job, static_cast<size_t>(task - job->tasks.begin()));
    books_.state.Commit();
  }

  void operator()(const NodeChanged& event) {
    const auto node = books_.topology->Find(event.node);
    if (!node) return;
    const NodeCondition before = books_.state.node(*node).condition;
    if (before == event.condition) return;
    books_.state.SetCondition(*node, event.condition);
    if (event.condition == NodeCondition::kDown || event.condition == NodeCondition::kDraining) {
      Evacuate(*node, event.condition == NodeCondition::kDown);
    }
    if (event.condition == NodeCondition::kDown) NoteLoss(*node);
    books_.state.Commit();
    SetCapacity();
  }

  void operator()(const DeviceChanged& event) {
    const auto node = books_.topology->Find(event.node);
    if (!node || event.device >= books_.state.node(*node).devices) return;
    if (!event.healthy) {
      const auto card = static_cast<CardMask>(1u << event.device);
      for (const auto& [number, task] : TasksOn(*node)) {
        Job& job = books_.at(number);
        for (size_t i = 0; i < job.tasks.size(); ++i) {
          if (job.tasks[i].slot != task) continue;
          if ((books_.state.task(task).cards & card) != 0) Lose(job, i);
          break;
        }
      }
    }
    books_.state.SetDeviceHealthy(*node, event.device, event.healthy);
    books_.state.Commit();
  }

  void operator()(const NodeFaulted& event) {
    const auto node = books_.topology->Find(event.node);
    if (!node) return;
    HealNodes(books_);
    const int32_t left = std::max(0, books_.state.health(*node) - books_.policy.fault_health);
    books_.state.SetHealth(*node, static_cast<uint16_t>(left));
    books_.faulted_at[*node] = books_.now;
    books_.unhealthy.insert(*node);
    if (left < books_.policy.probation_health && books_.state.node(*node).ready()) {
      books_.state.SetCondition(*node, NodeCondition::kSuspect);
    }
    books_.state.Commit();
  }

  void operator()(const LinkFaulted& event) {
    if (!IsDomain(event.tier, event.domain)) return;
    HealNodes(books_);
    LinkHealth& link = books_.links[{event.tier, event.domain}];
    link.health =
        static_cast<uint16_t>(std::max(0, int32_t{link.health} - books_.policy.fault_health));
    link.faulted_at = books_.now;
    if (link.health < books_.policy.probation_health) link.trusted = false;
    ++books_.quota_version;  // what waits is looked at anew
  }

  void operator()(const LinkChanged& event) {
    if (!IsDomain(event.tier, event.domain)) return;
    if (event.up) {
      books_.links.erase({event.tier, event.domain});
    } else {
      LinkHealth& link = books_.links[{event.tier, event.domain}];
      link.up = link.trusted = false;
      link.faulted_at = books_.now;
    }
    ++books_.quota_version;
  }

  void operator()(const MixExpected& event) {
    for (const auto& [shape, weight] : event.tasks) {
      if (weight < 1 || !books_.state.has_room_for_shapes()) continue;
      books_.arrivals.Count(books_.state.Intern(shape), weight);
    }
    books_.mix = books_.arrivals.Mix();
    books_.mix_arrivals = books_.arrivals.arrivals();
    ++books_.mix_version;
  }

  void operator()(const QueueLimitSet& event) {
    const share::QueueIndex queue = books_.queues.Find(event.queue);
    if (queue == share::kNoQueue || queue == share::kRootQueue) return;
    for (size_t r = 0; r < spec::kSharedResources; ++r) {
      if (event.limit[r] < 0 || event.limit[r] > spec::kUnlimited) return;
    }
    books_.queues.SetLimit(queue, event.limit);
    books_.idle_queues.SetLimit(queue, event.limit);
    ++books_.quota_version;
  }

 private:
  bool IsDomain(Tier tier, int32_t domain) const {
    return tier >= kLeafTier && tier < books_.tree->tiers() && domain >= 0 &&
           domain < books_.tree->domains(tier);
  }

  void CountArrival(const Job& job) {
    for (size_t g = 0; g < job.shapes.size(); ++g) {
      books_.arrivals.Count(job.shapes[g], job.request->groups[g].minimum);
    }
  }

  void Adopt(Job& job, const JobRequest& request) {
    job.request = std::make_shared<const JobRequest>(request);
    job.queue = request.queue.empty() ? share::kRootQueue : books_.queues.Find(request.queue);
    job.shapes.clear();
    for (const GroupRequest& group : request.groups) {
      job.shapes.push_back(books_.state.Intern(group.shape));
    }
  }

  // What an adopted job holds. What can't be had is lost.
  void TakeOver(Job& job, const JobAdopted& event) {
    std::vector<HeldTask> held;
    std::vector<std::pair<int32_t, int32_t>> lost;
    const auto groups = static_cast<int32_t>(job.shapes.size());
    for (const auto& [group, rank] : event.lost) {
      if (group >= 0 && group < groups) lost.emplace_back(group, rank);
    }
    for (const TaskPlacement& task : event.tasks) {
      if (task.group < 0 || task.group >= groups) continue;
      const ShapeId shape = job.shapes[static_cast<size_t>(task.group)];
      CardMask cards = task.cards;
      if (!MayHold(task, shape)) {
        // Cards that are counted otherwise now: as many as it needs, where it is.
        const bool there = task.node < books_.state.size() &&
                           books_.state.node(task.node).condition != NodeCondition::kDown &&
                           books_.state.Fits(task.node, shape);
        if (!there) {
          lost.emplace_back(task.group, task.rank);
          continue;
        }
        cards = books_.state.ChooseCards(task.node, shape);
      }
      const TaskSlot slot = books_.state.Place(task.node, shape, cards, job.number);
      held.push_back({task.group, task.rank, slot, Stage::kRunning});
    }
    books_.Begin(job, held, books_.now);
    books_.bind_deadlines.erase({*job.bind_by, job.number});
    job.bind_by.reset();
    job.started = std::min(event.started, books_.now);
    job.last_snapshot = std::min(event.last_snapshot, books_.now);
    auto& priorities = books_.placed_priorities[static_cast<size_t>(job.queue)];
    const auto found = priorities.find(job.held_priority);
    if (--found->second == 0) priorities.erase(found);
    job.held_priority = std::clamp<int64_t>(event.held_priority, -kMaxPriority, kMaxPriority + 1);
    ++priorities[job.held_priority];
    if (lost.empty()) LayRanks(books_, job, job.tasks, false);
    books_.NoteEnd(job);
    if (!lost.empty()) {
      job.lost = std::move(lost);
      job.lost_since = books_.now;
      books_.damaged.insert(job.number);
    }
    for (share::QueueIndex up = job.queue; up != share::kNoQueue; up = books_.queues.parent(up)) {
      for (size_t r = 0; r < spec::kSharedResources; ++r) {
        if (books_.queues.usage(up)[r] > books_.queues.limit(up)[r]) books_.over_limit.insert(up);
      }
    }
  }

  // Whether the node has just these cards to give.
  bool MayHold(const TaskPlacement& task, ShapeId id) const {
    if (task.node >= books_.state.size()) return false;
    const NodeState& node = books_.state.node(task.node);
    const Shape& shape = books_.state.shape(id);
    if (node.condition == NodeCondition::kDown || !books_.state.Allows(id, node.group)) {
      return false;
    }
    if (!FitsHost(node, shape)) return false;
    if (!shape.needs_devices()) return task.cards == 0;
    const int wanted = shape.cards > 0 ? shape.cards : 1;
    return CountCards(task.cards) == wanted &&
           (EligibleCards(node, shape) & task.cards) == task.cards;
  }

  // By job and rank: numbers of slots depend on what was placed before, and by whom.
  std::vector<std::pair<JobNumber, TaskSlot>> TasksOn(NodeIndex node) const {
    std::set<JobNumber> owners;
    for (TaskSlot slot = books_.state.newest_task(node); slot != kNoTask;
         slot = books_.state.task(slot).older) {
      owners.insert(books_.state.task(slot).owner);
    }
    std::vector<std::pair<JobNumber, TaskSlot>> tasks;
    for (const JobNumber owner : owners) {
      for (const HeldTask& task : books_.at(owner).tasks) {
        if (books_.state.task(task.slot).node == node) tasks.emplace_back(owner, task.slot);
      }
    }
    return tasks;
  }

  void Lose(Job& job, size_t task) {
    if (job.lost.empty()) job.lost_since = books_.now;
    job.lost.emplace_back(job.tasks[task].group, job.tasks[task].rank);
    books_.Drop(job, task);
    books_.damaged.insert(job.number);
  }

  // Down: all tasks are lost. Draining: those of jobs that may be stopped are placed elsewhere.
  void Evacuate(NodeIndex node, bool down) {
    for (const auto& [number, slot] : TasksOn(node)) {
      Job& job = books_.at(number);
      if (!down && (job.request->preemption == Preemption::kNever ||
                    job.request->preemption == Preemption::kShrink)) {
        continue;
      }
      for (size_t i = 0; i < job.tasks.size(); ++i) {
        if (job.tasks[i].slot == slot) {
          Lose(job, i);
          break;
        }
      }
    }
    if (!down) return;
    for (const JobNumber number : books_.leaving_on[node]) {
      std::erase(books_.at(number).leaving_nodes, node);
    }
    books_.leaving_on[node].clear();
  }

  // Several nodes of one leaf within a short time: it is the switch, and its other nodes are not to
  // be burnt one by one.
  void NoteLoss(NodeIndex node) {
    const int32_t leaf = books_.tree->LeafOf(static_cast<int32_t>(node));
    std::vector<Instant>& losses = books_.leaf_losses[leaf];
    losses.push_back(books_.now);
    std::erase_if(losses, [&](Instant at) { return at + books_.policy.leaf_window < books_.now; });
    if (losses.size() < books_.policy.leaf_faults) return;
    for (int32_t host = books_.tree->FirstHost(kLeafTier, leaf);
         host < books_.tree->LastHost(kLeafTier, leaf); ++host) {
      const auto other = static_cast<NodeIndex>(host);
      if (!books_.state.node(other).ready()) continue;
      books_.state.SetCondition(other, NodeCondition::kSuspect);
      books_.state.SetHealth(
          other, std::min<uint16_t>(books_.state.health(other), books_.policy.probation_health));
      books_.faulted_at[other] = books_.now;
      books_.unhealthy.insert(other);
    }
  }

  void SetCapacity() {
    spec::SharedAmounts capacity;
    for (NodeIndex node = 0; node < books_.state.size(); ++node) {
      if (books_.state.node(node).condition == NodeCondition::kDown) continue;
      const spec::NodeKind& kind = books_.topology->kind_of(node);
      capacity += {{static_cast<int64_t>(kind.devices.size()) * kWholeCard, kind.cpu_milli,
                    kind.memory_mib}};
    }
    books_.queues.SetCapacity(capacity);
    ++books_.quota_version;
  }

  void Raise(const JobId& id, uint64_t transaction, const std::vector<int32_t>& ranks,
             Stage stage) {
    Job* job = books_.Find(id);
    if (job == nullptr || !job->placed || job->transaction != transaction) return;
    bool all_bound = true;
    for (HeldTask& task : job->tasks) {
      const bool meant =
          ranks.empty() || std::find(ranks.begin(), ranks.end(), task.rank) != ranks.end();
      if (meant && task.stage < stage) task.stage = stage;
      all_bound &= task.stage != Stage::kAssumed;
    }
    if (!all_bound || !job->bind_by || !job->lost.empty()) return;
    books_.bind_deadlines.erase({*job->bind_by, job->number});
    job->bind_by.reset();
    job->refused_by.clear();
    job->refusals = 0;
  }

  Books& books_;
};

}  // namespace

void TakeEvent(Books& books, const Event& event) { std::visit(Taker(books), event); }

namespace {

void HealLinks(Books& books) {
  for (auto at = books.links.begin(); at != books.links.end();) {
    LinkHealth& link = at->second;
    const int64_t hours = (books.now - link.faulted_at) / std::chrono::hours(1);
    if (link.up && hours > 0) {
      link.health = static_cast<uint16_t>(
          std::min<int64_t>(kGoodHealth, link.health + hours * kHealthAnHour));
      link.faulted_at += std::chrono::hours(hours);
      const bool trusted = link.trusted || link.health >= kTrustedHealth;
      if (trusted != link.trusted) ++books.quota_version;
      link.trusted = trusted;
    }
    at = link.up && link.health == kGoodHealth ? books.links.erase(at) : std::next(at);
  }
}

}  // namespace

void HealNodes(Books& books) {
  HealLinks(books);
  if (books.unhealthy.empty()) return;
  const std::vector<NodeIndex> nodes(books.unhealthy.begin(), books.unhealthy.end());
  for (const NodeIndex node : nodes) {
    const int64_t hours = (books.now - books.faulted_at[node]) / std::chrono::hours(1);
    if (hours <= 0) continue;
    const int64_t healed =
        std::min<int64_t>(kGoodHealth, books.state.health(node) + hours * kHealthAnHour);
    books.state.SetHealth(node, static_cast<uint16_t>(healed));
    books.faulted_at[node] += std::chrono::hours(hours);
    if (healed >= kTrustedHealth && books.state.node(node).condition == NodeCondition::kSuspect) {
      books.state.SetCondition(node, NodeCondition::kReady);
    }
    if (healed == kGoodHealth) books.unhealthy.erase(node);
  }
  books.state.Commit();
}

Status CheckFits(Books& books, const JobRequest& request) {
  const auto refuse = [&](const std::string& why) {
    return FailedPrecondition("job '" + request.id.value() + "' " + why);
  };
  const share::QueueIndex queue =
      request.queue.empty() ? share::kRootQueue : books.queues.Find(request.queue);
  if (queue == share::kNoQueue) {
    return refuse("names queue '" + Printable(request.queue, 63) + "', which does not exist");
  }
  for (const GroupRequest& group : request.groups) {
    const Tier tier = std::min(group.required, request.required);
    int64_t most = MostWhenEmpty(books, books.state.Intern(group.shape), tier);
    if (group.max_per_domain > 0) {
      const int64_t domains = group.spread_tier == kClusterTier ? 1
                              : group.spread_tier == kHostTier
                                  ? books.tree->hosts()
                                  : books.tree->domains(group.spread_tier);
      most = std::min(most, domains * group.max_per_domain);
    }
    if (group.rail_aligned) most = std::min(most, MostOnRails(books, group.shape, tier));
    if (most >= group.minimum) continue;
    return refuse("needs " + std::to_string(group.minimum) + " tasks of " + ToString(group.shape) +
                  "; the largest size that fits" +
                  (tier == kClusterTier ? " this cluster" : " one of its domains") + " is " +
                  std::to_string(most));
  }
  if (request.groups.size() > 1 && !FitsWhenEmpty(books, request)) {
    return refuse("has " + std::to_string(request.groups.size()) +
                  " groups that do not fit the cluster together, even with nothing else running");
  }
  if (const auto block = books.idle_queues.Check(queue, MinimumAmounts(request))) {
    const bool limit = block->kind == share::QuotaBlock::Kind::kLimit;
    const std::string asked = "needs " + spec::AmountText(block->resource, block->asked) + ", but ";
    return refuse(asked +
                  (limit ? "queue '" + books.queues.name(block->queue) + "' is limited to " +
                               spec::AmountText(block->resource, block->bound)
                         : "the cluster has " + spec::AmountText(block->resource, block->bound) +
                               ", of which the queues lend no more than their lending limits"));
  }
  return {};
}

}  // namespace longhaul::scheduler::internal
