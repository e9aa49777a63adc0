#include "runtime/controller/job/worker_group.h"

#include <algorithm>

#include "base/check.h"

namespace longhaul::runtime::controller {

std::optional<size_t> WorkerGroup::PlaceOf(const std::string& node) const {
  const auto found = places_.find(node);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

void WorkerGroup::Replace(const std::vector<NodeId>& nodes,
                          const std::vector<scheduler::GpuMask>& devices) {
  CHECK(devices.empty() || devices.size() == nodes.size());
  members_.assign(nodes.size(), Member());
  places_.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    members_[i].node = nodes[i];
    if (!devices.empty()) members_[i].devices = devices[i];
    places_[nodes[i].value()] = i;
  }
}

void WorkerGroup::ForgetDevices() {
  for (Member& member : members_) member.devices = 0;
}

void WorkerGroup::Clear() {
  Replace({});
  pids_.clear();
  store_port_ = 0;
}

// Everything a member reported belongs to the earlier attempt, except the node itself and its
// devices.
void WorkerGroup::BeginAttempt(const proto::DataLease& lease, uint64_t restored_step,
                               uint32_t world) {
  for (Member& member : members_) {
    member = Member{.node = member.node, .devices = member.devices, .reported_step = restored_step};
  }
  members_started_ = 0;
  members_in_phase_ = {};
  store_port_ = 0;
  lease_ = lease;
  pids_.assign(world, 0);
}

bool WorkerGroup::OpenStore(uint32_t port, const std::string& torch_version) {
  if (store_port_ != 0) return false;
  torch_version_ = torch_version;
  store_port_ = port;
  return true;
}

bool WorkerGroup::Start(size_t place, const proto::WorkersStarted& started, uint32_t ranks,
                        Instant now) {
  members_[place].started = true;
  for (uint32_t i = 0; i < ranks && i < static_cast<uint32_t>(started.pids_size()); ++i) {
    pids_[place * ranks + i] = started.pids(static_cast<int>(i));
  }
  if (++members_started_ < members_.size()) return false;
  started_at_ = now;
  return true;
}

// A node may skip phases, when its ranks pass through them at the same time. It then counts for
// each phase that it has skipped. The result is about the last one: whether all members have
// entered `phase`.
bool WorkerGroup::EnterPhase(size_t place, Phase phase) {
  const int before = members_[place].phase;
  members_[place].phase = phase;
  bool all = false;
  for (int each = before + 1; each <= phase; ++each) {
    all = ++members_in_phase_[static_cast<size_t>(each)] == members_.size();
  }
  return all;
}

void WorkerGroup::ReportAll(uint64_t step) {
  for (Member& member : members_) member.reported_step = step;
}

bool WorkerGroup::EndRank(size_t place, uint32_t ranks_per_node) {
  Member& member = members_[place];
  // The bound keeps a repeated report from completing the gang.
  member.ranks_done = std::min(member.ranks_done + 1, ranks_per_node);
  return ranks_done() == uint64_t{ranks_per_node} * members_.size();
}

uint64_t WorkerGroup::ranks_done() const {
  uint64_t done = 0;
  for (const Member& member : members_) done += member.ranks_done;
  return done;
}

void WorkerGroup::CloseAll() {
  for (Member& member : members_) member.closed = true;
}

bool WorkerGroup::all_closed() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.closed; });
}

bool WorkerGroup::a_rank_has_ended() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.ranks_done > 0; });
}

}  // namespace longhaul::runtime::controller
