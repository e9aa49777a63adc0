// Events and decisions as lines: for logs, and to compare two runs.
#include <string>

#include "base/text.h"
#include "scheduler/decision.h"
#include "scheduler/event.h"

namespace longhaul::scheduler {

namespace {

std::string Ranks(const std::vector<int32_t>& ranks) {
  std::string text;
  for (const int32_t rank : ranks) text += " " + std::to_string(rank);
  return text;
}

std::string Text(const JobRequest& request) {
  std::string text = request.id.value() + " queue=" + request.queue + " owner=" + request.owner +
                     " priority=" + std::to_string(request.priority) +
                     " preemption=" + std::to_string(static_cast<int>(request.preemption)) +
                     " required=" + std::to_string(request.required);
  if (!request.preempts) text += " preempts=0";
  if (request.limit) text += " limit_ns=" + std::to_string(request.limit->count());
  if (request.deadline) text += " deadline_ns=" + std::to_string(ToNanoseconds(*request.deadline));
  if (request.layout) {
    const RankLayout& layout = *request.layout;
    text += " layout=" + std::to_string(layout.tensor) + "x" + std::to_string(layout.pipeline);
    for (const int64_t volume :
         {layout.tensor_volume, layout.data_volume, layout.pipeline_volume}) {
      text += ":" + std::to_string(volume);
    }
  }
  for (const GroupRequest& group : request.groups) {
    text += " [" + group.name + ": " + std::to_string(group.minimum) + ".." +
            std::to_string(group.desired) + " by " + std::to_string(group.step) + " of " +
            ToString(group.shape) + ", tier " + std::to_string(group.required) + ", slices " +
            std::to_string(group.slice) + " in " + std::to_string(group.slice_tier) + ", at most " +
            std::to_string(group.max_per_host) + " a host";
    if (group.is_spread()) {
      text += ", spread by " + std::to_string(group.max_per_domain) + " over " +
              std::to_string(group.spread_tier);
    }
    if (group.rail_aligned) text += ", on rails";
    if (group.one_model) text += ", of one model";
    if (!group.speed_milli.empty()) text += ", speeds" + Ranks(group.speed_milli);
    text += "]";
  }
  return text;
}

std::string Text(const std::vector<TaskPlacement>& tasks) {
  std::string text;
  for (const TaskPlacement& task : tasks) {
    text += " " + std::to_string(task.group) + ":" + std::to_string(task.rank) + "@" +
            std::to_string(task.node) + "/" + std::to_string(task.gpus);
  }
  return text;
}

std::string Text(const JobAdopted& event) {
  std::string text = "adopted " + Text(event.request) + Text(event.tasks);
  for (const auto& [group, rank] : event.lost) {
    text += " lost " + std::to_string(group) + ":" + std::to_string(rank);
  }
  for (const NodeIndex node : event.leaving) text += " leaving " + std::to_string(node);
  for (const Instant at : event.evictions) {
    text += " evicted_ns=" + std::to_string(ToNanoseconds(at));
  }
  return text + " submitted_ns=" + std::to_string(ToNanoseconds(event.submitted)) +
         " started_ns=" + std::to_string(ToNanoseconds(event.started)) +
         " snapshot_ns=" + std::to_string(ToNanoseconds(event.last_snapshot)) +
         " ran_ns=" + std::to_string(event.ran.count()) +
         " held=" + std::to_string(event.held_priority) +
         " protected_ns=" + std::to_string(ToNanoseconds(event.protected_until)) +
         " expedited=" + std::to_string(event.expedited);
}

struct EventText {
  std::string operator()(const JobSubmitted& event) { return "submitted " + Text(event.request); }
  std::string operator()(const JobChanged& event) { return "changed " + Text(event.request); }
  std::string operator()(const JobExpedited& event) { return "expedited " + event.job.value(); }
  std::string operator()(const JobEnded& event) {
    return (event.observed ? "ended " : "ended unobserved ") + event.job.value();
  }
  std::string operator()(const JobScaled& event) {
    return "scaled " + event.job.value() + " to " + std::to_string(event.desired);
  }
  std::string operator()(const JobEvictionAsked& event) {
    return "eviction asked of " + event.job.value();
  }
  std::string operator()(const JobAdopted& event) { return Text(event); }
  std::string operator()(const JobStopped& event) { return "stopped " + event.job.value(); }
  std::string operator()(const SnapshotTaken& event) { return "snapshot of " + event.job.value(); }
  std::string operator()(const TasksBound& event) {
    return "bound " + event.job.value() + " " + std::to_string(event.transaction) +
           Ranks(event.ranks);
  }
  std::string operator()(const TasksRunning& event) {
    return "running " + event.job.value() + " " + std::to_string(event.transaction) +
           Ranks(event.ranks);
  }
  std::string operator()(const TaskRefused& event) {
    return "refused " + event.job.value() + " " + std::to_string(event.transaction) + " " +
           std::to_string(event.rank);
  }
  std::string operator()(const NodeChanged& event) {
    return "node " + event.node + " is " + std::string(spec::ToString(event.condition));
  }
  std::string operator()(const DeviceChanged& event) {
    return "device " + std::to_string(event.device) + " of " + event.node +
           (event.healthy ? " is healthy" : " is broken");
  }
  std::string operator()(const NodeShared& event) {
    std::string text = "others use of " + event.node + ": cpu " + std::to_string(event.cpu_milli) +
                       ", memory " + std::to_string(event.memory_mib) + ", devices " +
                       std::to_string(event.devices);
    for (const int64_t amount : event.counted) text += ", " + std::to_string(amount);
    return text;
  }
  std::string operator()(const NodeFaulted& event) { return "fault on " + event.node; }
  std::string operator()(const QueueLimitSet& event) {
    std::string text = "limit of " + event.queue;
    for (const int64_t amount : event.limit.of) text += " " + std::to_string(amount);
    return text;
  }
  std::string operator()(const LinkFaulted& event) {
    return "fault on the links of domain " + std::to_string(event.domain) + " of tier " +
           std::to_string(event.tier);
  }
  std::string operator()(const LinkChanged& event) {
    return "links of domain " + std::to_string(event.domain) + " of tier " +
           std::to_string(event.tier) + (event.up ? " are up" : " are down");
  }
  std::string operator()(const MixExpected& event) {
    std::string text = "expected";
    for (const auto& [shape, weight] : event.tasks) {
      text += " " + std::to_string(weight) + " of " + ToString(shape) + ";";
    }
    return text;
  }
};

constexpr std::string_view kKinds[] = {"start", "grow", "repair",  "shrink", "suspend",
                                       "evict", "undo", "reserve", "reject", "move"};

}  // namespace

std::string ToString(const Event& event) { return std::visit(EventText(), event); }

std::string ToString(const Decision& decision) {
  std::string text(kKinds[static_cast<size_t>(decision.kind)]);
  text += " " + decision.job.value() + " transaction " + std::to_string(decision.transaction);
  if (decision.kind == DecisionKind::kReserve) {
    text += " domain " + std::to_string(decision.tier) + "/" + std::to_string(decision.domain) +
            " from " + std::to_string(ToNanoseconds(decision.from));
  }
  text += Text(decision.tasks);
  for (const GpuOfRank& rank : decision.ranks) {
    text += " r" + std::to_string(rank.node) + "." + std::to_string(rank.gpu);
  }
  for (const JobId& job : decision.after) text += " after " + job.value();
  if (!decision.reason.empty()) text += " because " + decision.reason;
  return text;
}

}  // namespace longhaul::scheduler
