// Which step is written to disk: one that every node has, named by the controller.
//
// Nodes that chose by themselves would choose different steps as soon as one disk is slower than
// another, and no step would ever have all of its pieces there. docs/commit.md has the protocol.
#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/internal/controller_state.h"

namespace longhaul::runtime {

// The nodes that write a part of `step`, by place; none when one of them can't be asked for it.
std::vector<NodeId> Controller::State::WritersOf(const Job& job, uint64_t step) const {
  const auto has = [step](const auto& steps) { return steps[0] == step || steps[1] == step; };
  const bool one = job.spec.snapshot().replicated();
  std::vector<NodeId> writers;
  if (!job.gang.empty()) {
    for (const Member& member : job.gang) {
      if (!has(member.sealed)) return {};
      writers.push_back(member.node);
      if (one) break;
    }
  } else {
    std::map<size_t, NodeId> places;  // of the gang that has left
    size_t nodes = 0;
    for (const auto& [id, memory] : job.left) {
      if (!has(memory.sealed)) continue;
      places[memory.place] = id;
      nodes = memory.nodes;
    }
    if (one ? !places.contains(0) : (places.empty() || places.size() != nodes)) return {};
    for (const auto& [place, id] : places) {
      writers.push_back(id);
      if (one) break;
    }
  }
  const bool all_there = std::all_of(writers.begin(), writers.end(), [this](const NodeId& id) {
    const Node* node = FindNode(id);
    return node != nullptr && !node->lost;
  });
  return all_there ? writers : std::vector<NodeId>();
}

void Controller::State::OrderPersist(Job& job) {
  if (!job.live()) return;
  const uint64_t step = job.memory_step;
  if (job.order.has_value()) {
    // Who is neither in the gang nor has left it with its memory will not answer.
    const bool answered =
        std::all_of(job.order->nodes.begin(), job.order->nodes.end(), [&job](const auto& entry) {
          const bool there = MemberOf(job, entry.first.value()).has_value();
          return entry.second || there || job.left.contains(entry.first);
        });
    if (answered) return;
    job.order.reset();
  }
  if (step <= job.committed_step || step <= job.unsaved_step) return;
  const auto sealed = job.complete.find(step);
  // Under other ranks other nodes would have to be asked.
  if (sealed == job.complete.end() || sealed->second < job.placed_epoch) return;
  const std::vector<NodeId> writers = WritersOf(job, step);
  if (writers.empty()) return;
  internal::PersistOrder order{sealed->second, step, {}};
  const auto pending = job.pending.find(step);
  const bool begun = pending != job.pending.end() && pending->second.epoch == sealed->second;
  bool open = false;
  for (const NodeId& writer : writers) {
    const bool done = begun && pending->second.nodes.contains(writer.value());
    open = open || !done;
    order.nodes[writer] = done;
  }
  if (!open) return;  // its commit is under way
  job.order = std::move(order);
  SendPersistAgain(job);
}

void Controller::State::SendPersist(const Job& job, const NodeId& node) {
  if (!job.order.has_value()) return;
  const auto found = job.order->nodes.find(node);
  if (found == job.order->nodes.end() || found->second) return;
  wire::Command command;
  auto* persist = command.mutable_persist_snapshot();
  persist->set_job_id(job.spec.id());
  persist->set_epoch(job.order->epoch);
  persist->set_step(job.order->step);
  Send(node, std::move(command));
}

void Controller::State::SendPersistAgain(const Job& job) {
  if (!job.order.has_value()) return;
  for (const auto& [node, done] : job.order->nodes) SendPersist(job, node);
}

void Controller::State::PersistDone(Job& job, const NodeId& node, uint64_t epoch, uint64_t step) {
  if (!job.order.has_value() || job.order->epoch != epoch) return;
  const auto found = job.order->nodes.find(node);
  if (found == job.order->nodes.end()) return;
  if (job.order->step < step && !found->second) {
    // It has passed over that step: an older agent, which writes what it likes.
    job.unsaved_step = std::max(job.unsaved_step, job.order->step);
    job.order.reset();
    return;
  }
  if (job.order->step != step) return;
  found->second = true;
  const bool all = std::all_of(job.order->nodes.begin(), job.order->nodes.end(),
                               [](const auto& entry) { return entry.second; });
  if (all) job.order.reset();
}

void Controller::State::PersistFailed(Job& job, const wire::SnapshotFailed& failed,
                                      const NodeId& node) {
  if (!job.order.has_value() || job.order->step != failed.step()) return;
  if (job.order->epoch != failed.epoch() || !job.order->nodes.contains(node)) return;
  job.unsaved_step = std::max(job.unsaved_step, failed.step());
  job.order.reset();
}

void Controller::State::DropOrderOf(Job& job, const NodeId& node) {
  if (!job.order.has_value()) return;
  const auto found = job.order->nodes.find(node);
  if (found != job.order->nodes.end() && !found->second) job.order.reset();
}

}  // namespace longhaul::runtime
