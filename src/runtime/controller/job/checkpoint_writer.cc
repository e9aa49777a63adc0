#include "runtime/controller/job/checkpoint_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace longhaul::runtime::controller {

namespace {

// Steps whose pieces may be on their way to disk at once; more means that commits never come.
constexpr size_t kMostPending = 8;
// Steps whose contents are remembered. Memories hold fewer, but a slow disk may be long at one.
constexpr size_t kMostContents = 8;

}  // namespace

void CheckpointWriter::NoteContents(size_t place, const proto::SnapshotSealed& sealed,
                                    uint32_t local, uint32_t world) {
  if (static_cast<uint32_t>(sealed.contents_size()) != local) return;
  StepContents& contents = contents_[sealed.step()];
  if (contents.attempt != sealed.attempt()) contents = {sealed.attempt(), RankContents(world), {}};
  for (uint32_t i = 0; i < local; ++i) {
    contents.ranks[place * local + i] = sealed.contents(static_cast<int>(i));
  }
  // Removes the oldest step that no write needs. Contents of a step that is being written are kept,
  // because IsWhole compares against its writers.
  for (auto each = contents_.begin(); contents_.size() > kMostContents;) {
    const bool on_its_way =
        pending_.contains(each->first) || (order_ && order_->step == each->first);
    if (!on_its_way) {
      contents_.erase(each);
      break;
    }
    if (++each == contents_.end()) break;
  }
}

const CheckpointWriter::StepContents* CheckpointWriter::ContentsOf(uint64_t attempt, uint64_t step,
                                                                   uint32_t world) const {
  const auto found = contents_.find(step);
  if (found == contents_.end() || found->second.attempt != attempt) return nullptr;
  return found->second.ranks.size() == world ? &found->second : nullptr;
}

bool CheckpointWriter::IsBusy(const std::function<bool(const NodeId&)>& will_answer) {
  if (!order_.has_value()) return false;
  const bool answered =
      std::all_of(order_->nodes.begin(), order_->nodes.end(),
                  [&](const auto& entry) { return entry.second || will_answer(entry.first); });
  // An order that one of its nodes never completes would block all later ones.
  if (!answered) order_.reset();
  return answered;
}

bool CheckpointWriter::Order(uint64_t attempt, uint64_t step, const std::vector<NodeId>& nodes,
                             const AttemptShape& shape) {
  PersistOrder order{attempt, step, {}, {}};
  const auto writers = shape.replicated ? nodes : Deal(nodes, order, shape);
  const auto pending = pending_.find(step);
  // After a restart of the gang the same step may be ordered again. Nodes that had written their
  // pieces are not ordered to do so twice.
  const bool begun = pending != pending_.end() && pending->second.attempt == attempt;
  bool open = false;
  for (const NodeId& writer : writers) {
    const bool done = begun && pending->second.nodes.contains(writer.value());
    open = open || !done;
    order.nodes[writer] = done;
  }
  if (open) order_ = std::move(order);
  return open;
}

// Of ranks that hold the same, one writes: the nodes that have a share are left, and each one's is
// in the order. All of them, and all of their ranks, when nothing is known of what they hold.
std::vector<NodeId> CheckpointWriter::Deal(const std::vector<NodeId>& nodes, PersistOrder& order,
                                           const AttemptShape& shape) {
  const uint32_t local = shape.local;
  // The contents are indexed by rank, so they are usable only if the writers are all nodes of the
  // attempt that sealed the step.
  const StepContents* known = ContentsOf(order.attempt, order.step, shape.world());
  if (known == nullptr || known->ranks.size() != nodes.size() * local) return nodes;
  StepContents& contents = contents_.at(order.step);
  const auto shares = ShareOut(contents.ranks, local);
  std::vector<NodeId> writers;
  contents.writers.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (shares[i].empty()) continue;
    writers.push_back(nodes[i]);
    contents.writers.insert(nodes[i].value());
    // A node that writes all of its ranks gets an order without a list.
    if (shares[i].size() < local) order.ranks[nodes[i]] = shares[i];
  }
  return writers;
}

void CheckpointWriter::MarkFailed(uint64_t step, const std::string& reason) {
  if (step < unsaved_step_) return;
  unsaved_step_ = step;
  unsaved_reason_ = reason;
}

void CheckpointWriter::NodePersisted(const NodeId& node, uint64_t attempt, uint64_t step) {
  if (!order_.has_value() || order_->attempt != attempt) return;
  const auto found = order_->nodes.find(node);
  if (found == order_->nodes.end()) return;
  if (order_->step < step && !found->second) {
    // It has passed over that step: an older agent, which chooses by itself what it writes.
    MarkFailed(order_->step, node.value() + " has written a later step in its place");
    order_.reset();
    return;
  }
  if (order_->step != step) return;
  found->second = true;
  const bool all = std::all_of(order_->nodes.begin(), order_->nodes.end(),
                               [](const auto& entry) { return entry.second; });
  if (all) order_.reset();
}

// One node that cannot write makes the step incomplete, so the order ends for all.
void CheckpointWriter::NodeFailed(const NodeId& node, uint64_t attempt, uint64_t step,
                                  const std::string& reason) {
  if (!order_.has_value() || order_->step != step) return;
  if (order_->attempt != attempt || !order_->nodes.contains(node)) return;
  MarkFailed(step, reason);
  order_.reset();
}

// A node that has finished its part is no reason to close the order: its files are on disk, whether
// or not it lives.
void CheckpointWriter::DropNode(const NodeId& node) {
  if (!order_.has_value()) return;
  const auto found = order_->nodes.find(node);
  if (found != order_->nodes.end() && !found->second) order_.reset();
}

void CheckpointWriter::TakeFiles(const NodeId& node, const proto::SnapshotPersisted& persisted,
                                 uint32_t world) {
  PendingCommit& commit = pending_[persisted.step()];
  // Of a step that two attempts have sealed, the newer seals are the ones that are ordered.
  if (persisted.attempt() < commit.attempt) return;
  if (commit.attempt != persisted.attempt()) commit = {};
  commit.attempt = persisted.attempt();
  // Who has the right to write the manifest keeps it: it may be writing.
  if (!commit.granted) commit.committer = node;
  // A new agent of a node may report again what the one before it has reported, or more of it.
  commit.nodes.insert(node.value());
  for (const auto& file : persisted.files()) {
    if (file.rank() < world) commit.files[file.rank()] = file;
  }
  while (pending_.size() > kMostPending) pending_.erase(pending_.begin());
}

// Without contents each node of the attempt has to report; with them, only those that have a share.
bool CheckpointWriter::IsWhole(const PendingCommit& commit, uint64_t step,
                               const AttemptShape& shape) const {
  if (shape.replicated) return !commit.nodes.empty();
  const StepContents* contents = ContentsOf(commit.attempt, step, shape.world());
  if (contents == nullptr || contents->writers.empty()) return commit.nodes.size() >= shape.nodes;
  return std::includes(commit.nodes.begin(), commit.nodes.end(), contents->writers.begin(),
                       contents->writers.end());
}

bool CheckpointWriter::Grant(uint64_t step, const AttemptShape& shape) {
  const auto found = pending_.find(step);
  if (found == pending_.end() || found->second.granted) return false;
  if (!IsWhole(found->second, step, shape)) return false;
  found->second.granted = true;
  return true;
}

std::vector<std::vector<uint32_t>> CheckpointWriter::AlsoServedBy(uint64_t step,
                                                                  const AttemptShape& shape) const {
  // With replicated state one file serves all, and no rank has to be named.
  const auto found = pending_.find(step);
  if (found == pending_.end() || shape.replicated) return {};
  const StepContents* contents = ContentsOf(found->second.attempt, step, shape.world());
  if (contents == nullptr) return {};
  std::vector<uint32_t> written;
  for (const auto& [rank, file] : found->second.files) written.push_back(rank);
  return AlsoServed(contents->ranks, written);
}

void CheckpointWriter::WithdrawGrants(const NodeId& node) {
  for (auto& [step, commit] : pending_) {
    if (commit.committer == node) commit.granted = false;
  }
}

void CheckpointWriter::PassGrants(const NodeId& node,
                                  const std::function<bool(const NodeId&)>& will_answer) {
  for (auto& [step, commit] : pending_) {
    if (commit.committer != node) continue;
    for (const std::string& name : commit.nodes) {
      const NodeId other(name);
      if (other == node || !will_answer(other)) continue;
      commit.committer = other;
      commit.granted = false;
      break;
    }
  }
}

bool CheckpointWriter::Commit(uint64_t attempt, uint64_t step) {
  const auto found = pending_.find(step);
  if (found == pending_.end() || found->second.attempt != attempt) return false;
  // Older pending commits are void with this one: retention would remove their checkpoints next,
  // and a restore prefers the newer step.
  pending_.erase(pending_.begin(), std::next(found));
  contents_.erase(contents_.begin(), contents_.upper_bound(step));
  ++commits_;
  return true;
}

void CheckpointWriter::ForgetFailures(uint64_t step) {
  if (HasFailed(step)) ForgetFailedOrder();
  if (save_failure_step_ >= step) ForgetSaveFailure();
}

void CheckpointWriter::NoteSaveFailure(const proto::SnapshotFailed& failed, bool workers_ended) {
  // An agent tries once more when its workers have ended; a manifest is written once.
  const auto found = pending_.find(failed.step());
  const bool of_commit =
      found != pending_.end() && found->second.granted && found->second.attempt == failed.attempt();
  save_failure_ = failed.reason();
  save_failure_step_ = failed.step();
  save_failure_final_ = of_commit || workers_ended;
}

bool CheckpointWriter::IsLost(uint64_t step) const {
  return save_failure_final_ && !save_failure_.empty() && save_failure_step_ >= step;
}

bool CheckpointWriter::IsSaving(uint64_t step) const {
  const auto found = pending_.find(step);
  return order_.has_value() || (found != pending_.end() && found->second.granted);
}

std::string CheckpointWriter::WhyNotSaved(uint64_t step) const {
  // What went wrong with an older step is no reason for this one.
  if (save_failure_step_ >= step && !save_failure_.empty()) return save_failure_;
  return HasFailed(step) ? unsaved_reason_ : "";
}

// A step number above the restored one will be computed again by another attempt, with other bits.
// Everything that is known of it under the earlier attempt would be wrong for the new one.
void CheckpointWriter::Rewind(uint64_t step) {
  contents_.erase(contents_.upper_bound(step), contents_.end());
  unsaved_step_ = std::min(unsaved_step_, step);
  if (save_failure_step_ > step) save_failure_.clear();
  if (order_.has_value() && order_->step > step) order_.reset();
  // Also one that is granted already: if its manifest is still written, that is of a history which
  // the job has left, and its report has no effect (Commit).
  pending_.erase(pending_.upper_bound(step), pending_.end());
}

}  // namespace longhaul::runtime::controller
