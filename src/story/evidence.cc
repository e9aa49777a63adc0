#include "story/evidence.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "proto/fault_class.h"

namespace longhaul::story {
namespace {

using proto::FaultClass;

constexpr size_t kMostObservations = 12;
// An event about a node, or about all workers, concerns a fault if it is this close to it: the time
// in which a lost node is noticed (docs of agent_grace) with a margin.
constexpr int64_t kBefore_ns = 5'000'000'000;

std::string Worker(uint32_t rank, const std::string& node) {
  return "Worker " + std::to_string(rank) + (node.empty() ? "" : " on " + node);
}

std::string SignalText(int32_t signal) {
  const char* name = nullptr;
  if (signal > 0) name = sigabbrev_np(signal);
  return "signal " + std::to_string(signal) +
         (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

std::string ExitText(const proto::Event& event) {
  const proto::WorkerExited& exited = event.worker_exited();
  std::string text = Worker(exited.rank(), event.node());
  if (!exited.reached_limit().empty()) return text + " was ended: " + exited.reached_limit() + ".";
  text += exited.signal() != 0 ? " was ended by " + SignalText(exited.signal())
                               : " exited with code " + std::to_string(exited.exit_code());
  if (exited.error_at_ns() > 0) text += "; its error file states the error";
  return text + ".";
}

std::string ProbeText(const proto::Event& event) {
  std::string text = "The agent of " + event.node() + " read the state of its workers:";
  std::string separator = " ";
  constexpr int kMostWorkers = 8;
  const auto& workers = event.workers_probed().workers();
  for (int i = 0; i < std::min(workers.size(), kMostWorkers); ++i) {
    const auto& worker = workers[i];
    text += separator + "worker " + std::to_string(worker.rank()) + " is in state " +
            worker.process_state() + ", has used " +
            SecondsText(static_cast<double>(worker.cpu_ns()) * 1e-9) +
            " of processor time and has reported step " + std::to_string(worker.last_step());
    if (worker.resumed()) text += "; it was stopped and was continued with SIGCONT";
    separator = "; ";
  }
  if (workers.size() > kMostWorkers) {
    text += "; and " + std::to_string(workers.size() - kMostWorkers) + " more";
  }
  return text + ".";
}

std::string DisconnectText(const RecordedEvent& recorded) {
  const proto::Event& event = recorded.event;
  std::string text = "The connection of the agent of " + event.node() + " ended";
  const std::string& reason = event.agent_disconnected().reason();
  if (!reason.empty()) text += " (" + Headline(reason) + ")";
  if (recorded.silent_ns >= 0) {
    text += "; its last event had been received " +
            SecondsText(static_cast<double>(recorded.silent_ns) * 1e-9) + " before";
  }
  return text + ".";
}

bool IsCloseTo(const FaultStory& fault, const RecordedEvent& recorded) {
  return recorded.logged_at_ns >= fault.happened_at_ns - kBefore_ns &&
         recorded.logged_at_ns <= fault.detected_at_ns + kBefore_ns;
}

// The sentence of an event that concerns the fault; nothing for other events.
class Observer {
 public:
  explicit Observer(const FaultStory& fault) : fault_(fault) {}

  std::optional<std::string> Sentence(const RecordedEvent& recorded) const {
    const proto::Event& event = recorded.event;
    switch (event.kind_case()) {
      case proto::Event::kWorkerExited:
        return OfExit(event);
      case proto::Event::kWorkersFailedToStart:
        if (event.workers_failed_to_start().attempt() != fault_.attempt) return std::nullopt;
        return "The agent of " + event.node() + " could not start its workers: " +
               Headline(event.workers_failed_to_start().reason()) + ".";
      case proto::Event::kSnapshotFailed:
        if (event.snapshot_failed().attempt() != fault_.attempt) return std::nullopt;
        if (!event.snapshot_failed().while_restoring()) return std::nullopt;
        return Worker(event.snapshot_failed().rank(), event.node()) +
               " could not restore the copy of step " +
               std::to_string(event.snapshot_failed().step()) + ": " +
               Headline(event.snapshot_failed().reason()) + ".";
      case proto::Event::kWorkersProbed:
        if (event.workers_probed().attempt() != fault_.attempt || !IsClose(recorded)) break;
        return ProbeText(event);
      case proto::Event::kWorkerWaits:
        if (event.worker_waits().attempt() != fault_.attempt || !IsClose(recorded)) break;
        return Worker(event.worker_waits().rank(), event.node()) +
               " waited for a slot to take a snapshot: " +
               Headline(event.worker_waits().holders()) + ".";
      case proto::Event::kAgentDisconnected:
        if (!IsOfLostNode(recorded)) break;
        return DisconnectText(recorded);
      case proto::Event::kAgentJoined:
        if (!IsOfLostNode(recorded) || recorded.logged_at_ns < fault_.happened_at_ns) break;
        return "An agent of " + event.node() + " connected.";
      case proto::Event::kControllerStarted:
        if (!IsClose(recorded) || recorded.logged_at_ns < fault_.happened_at_ns) break;
        return "The controller was started again.";
      default:
        break;
    }
    return std::nullopt;
  }

 private:
  // Workers that Longhaul ended because of the fault are no evidence.
  std::optional<std::string> OfExit(const proto::Event& event) const {
    const proto::WorkerExited& exited = event.worker_exited();
    if (exited.attempt() != fault_.attempt) return std::nullopt;
    if (exited.was_stopped()) {
      return Worker(exited.rank(), event.node()) +
             " was stopped (state T) when the workers were ended.";
    }
    if (exited.asked()) return std::nullopt;
    if (exited.exit_code() == 0 && exited.signal() == 0) return std::nullopt;
    std::string text = ExitText(event);
    if (fault_.rank >= 0 && exited.rank() != static_cast<uint32_t>(fault_.rank)) {
      text += " This was not taken as the cause.";
    }
    return text;
  }

  // At the end of a run, too, the connections of all agents end.
  bool IsOfLostNode(const RecordedEvent& recorded) const {
    return proto::FaultClassOf(fault_.class_name) == FaultClass::kNode &&
           recorded.event.node() == fault_.node && IsClose(recorded);
  }

  bool IsClose(const RecordedEvent& recorded) const { return IsCloseTo(fault_, recorded); }

  const FaultStory& fault_;
};

}  // namespace

const proto::WorkerExited* ExitOf(const RunRecord& record, const FaultStory& fault) {
  if (fault.rank < 0) return nullptr;
  for (const RecordedEvent& recorded : record.events) {
    if (recorded.event.kind_case() != proto::Event::kWorkerExited) continue;
    const proto::WorkerExited& exited = recorded.event.worker_exited();
    const bool same = exited.attempt() == fault.attempt &&
                      exited.rank() == static_cast<uint32_t>(fault.rank) && !exited.asked();
    if (same && (exited.signal() != 0 || exited.exit_code() != 0)) return &exited;
  }
  return nullptr;
}

std::vector<Moment> ObservationsOf(const RunRecord& record, const FaultStory& fault) {
  const Observer observer(fault);
  std::vector<Moment> all;
  bool disconnected = false;
  for (const RecordedEvent& recorded : record.events) {
    const bool ends = recorded.event.kind_case() == proto::Event::kAgentDisconnected;
    const std::optional<std::string> sentence = observer.Sentence(recorded);
    if (!sentence.has_value()) continue;
    // The next agent of the node disconnects as well, at the end of a short run.
    if (ends && std::exchange(disconnected, true)) continue;
    // The clock of the process that observed it, unless that is ahead of the log's.
    const int64_t at_ns = recorded.event.at_ns();
    const bool plausible = at_ns > 0 && at_ns <= recorded.logged_at_ns;
    all.push_back({plausible ? at_ns : recorded.logged_at_ns, *sentence});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Moment& a, const Moment& b) { return a.at_ns < b.at_ns; });
  if (all.size() > kMostObservations) {
    const size_t more = all.size() - kMostObservations;
    all.resize(kMostObservations);
    all.push_back({all.back().at_ns, Plural(more, "further observation") + " of the same kinds."});
  }
  return all;
}

std::vector<WorkerStack> StacksOf(const RunRecord& record, const FaultStory& fault) {
  constexpr size_t kMostStacks = 16;
  std::map<uint32_t, WorkerStack> newest;
  for (const RecordedEvent& recorded : record.events) {
    if (recorded.event.kind_case() != proto::Event::kWorkersProbed) continue;
    const proto::WorkersProbed& probed = recorded.event.workers_probed();
    if (probed.attempt() != fault.attempt || !IsCloseTo(fault, recorded)) continue;
    for (const proto::WorkersProbed::Worker& worker : probed.workers()) {
      if (worker.stack().empty()) continue;
      WorkerStack stack{worker.rank(), recorded.event.node(), {}};
      for (const std::string_view call : Split(worker.stack(), '\n')) {
        stack.calls.emplace_back(call);
      }
      newest[worker.rank()] = std::move(stack);
    }
  }
  std::vector<WorkerStack> stacks;
  for (auto& [rank, stack] : newest) {
    if (stacks.size() < kMostStacks) stacks.push_back(std::move(stack));
  }
  return stacks;
}

std::string DetectorOf(const FaultStory& fault) {
  const std::optional<FaultClass> kind = proto::FaultClassOf(fault.class_name);
  if (!kind.has_value()) return "The controller recorded it.";
  const std::string agent = fault.node.empty() ? "the node's agent" : "the agent of " + fault.node;
  switch (*kind) {
    case FaultClass::kProcess:
    case FaultClass::kError:
      return "The kernel reported the end of the process to " + agent + ".";
    case FaultClass::kNode:
      return "The controller lost the connection of " + agent +
             ", and the agent did not come back with its workers in time.";
    case FaultClass::kHang:
      return fault.rank >= 0 ? "The controller missed step reports, and " + agent +
                                   " found the process stopped."
                             : "The controller missed step reports for longer than its limit.";
    case FaultClass::kStart:
      return "The start of the workers failed, as " + agent + " reported.";
    case FaultClass::kStorage:
      return "The worker verified the bytes of the copy while it restored its state.";
    case FaultClass::kNumeric:
      return "The controller checked the losses that the workers reported with their steps.";
    case FaultClass::kDevice:
      return "The device's driver wrote it to the kernel's log, which " + agent + " reads.";
  }
  return "";
}

std::string CauseOf(const FaultStory& fault) {
  if (fault.injected) return "The run's own plan injected this fault (--inject).";
  const std::optional<FaultClass> kind = proto::FaultClassOf(fault.class_name);
  if (!kind.has_value()) return "This program does not know this class of faults.";
  switch (*kind) {
    case FaultClass::kProcess:
      return fault.signal == SIGKILL
                 ? "A signal from outside the program ended it. SIGKILL is sent by the kernel when "
                   "memory runs out, by operators and by batch systems."
                 : "A signal from outside the program ended it.";
    case FaultClass::kError:
      return "The program failed by itself: its own error or a signal that it caused.";
    case FaultClass::kNode:
      return "The node or its agent was lost, with all workers there.";
    case FaultClass::kHang:
      return "The workers made no progress, and no process reported a reason.";
    case FaultClass::kStart:
      return "The node could not start the workers.";
    case FaultClass::kStorage:
      return "A stored copy of the state was damaged or could not be read.";
    case FaultClass::kNumeric:
      return "The program, its data or a device computed a loss that is no usable number. A replay "
             "of the step decides between them (numeric: {not_finite: rollback}): the action below "
             "has its result.";
    case FaultClass::kDevice:
      return "A device failed. It is of no use until it is reset, so the node is cordoned.";
  }
  return "";
}

}  // namespace longhaul::story
