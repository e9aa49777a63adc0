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

void Controller::State::NoteContents(Job& job, size_t member, const wire::SnapshotSealed& sealed) {
  const uint32_t local = job.spec.processes_per_node();
  if (static_cast<uint32_t>(sealed.contents_size()) != local) return;
  internal::StepContents& contents = job.contents[sealed.step()];
  if (contents.epoch != sealed.epoch()) contents = {sealed.epoch(), RankContents(job.world()), {}};
  for (uint32_t i = 0; i < local; ++i) {
    contents.ranks[member * local + i] = sealed.contents(static_cast<int>(i));
  }
  // Memories hold fewer, but a slow disk may be long at one.
  constexpr size_t kRemembered = 8;
  for (auto each = job.contents.begin(); job.contents.size() > kRemembered;) {
    const bool on_its_way =
        job.pending.contains(each->first) || (job.order && job.order->step == each->first);
    if (!on_its_way) {
      job.contents.erase(each);
      break;
    }
    if (++each == job.contents.end()) break;
  }
}

internal::StepContents* Controller::State::ContentsOf(Job& job, uint64_t epoch, uint64_t step) {
  const auto found = job.contents.find(step);
  if (found == job.contents.end() || found->second.epoch != epoch) return nullptr;
  const uint32_t world = NodesOfEpoch(job, epoch) * job.spec.processes_per_node();
  return found->second.ranks.size() == world ? &found->second : nullptr;
}

bool Controller::State::IsWhole(Job& job, const internal::PendingCommit& commit, uint64_t step) {
  if (job.spec.snapshot().replicated()) return !commit.nodes.empty();
  const internal::StepContents* contents = ContentsOf(job, commit.epoch, step);
  if (contents == nullptr || contents->writers.empty()) {
    return commit.nodes.size() >= NodesOfEpoch(job, commit.epoch);
  }
  return std::includes(commit.nodes.begin(), commit.nodes.end(), contents->writers.begin(),
                       contents->writers.end());
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
  std::vector<NodeId> writers = WritersOf(job, step);
  if (writers.empty()) return;
  internal::PersistOrder order{sealed->second, step, {}, {}};
  if (!job.spec.snapshot().replicated()) writers = Deal(job, writers, order);
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

// Of ranks that hold the same, one writes: the nodes that have a share are left, and each one's is
// in the order. All of them, and all of their ranks, when nothing is known of what they hold.
std::vector<NodeId> Controller::State::Deal(Job& job, const std::vector<NodeId>& nodes,
                                            internal::PersistOrder& order) {
  const uint32_t local = job.spec.processes_per_node();
  internal::StepContents* contents = ContentsOf(job, order.epoch, order.step);
  if (contents == nullptr || contents->ranks.size() != nodes.size() * local) return nodes;
  const auto shares = ShareOut(contents->ranks, local);
  std::vector<NodeId> writers;
  contents->writers.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (shares[i].empty()) continue;
    writers.push_back(nodes[i]);
    contents->writers.insert(nodes[i].value());
    if (shares[i].size() < local) order.ranks[nodes[i]] = shares[i];
  }
  return writers;
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
  if (const auto share = job.order->ranks.find(node); share != job.order->ranks.end()) {
    for (const uint32_t rank : share->second) persist->add_ranks(rank);
  }
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
