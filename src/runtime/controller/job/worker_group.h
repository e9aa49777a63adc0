// The workers of a job in its present attempt: their nodes, and how far their start has progressed.
//
// A member is one node of the gang. Its index is its place: its node rank and its account in the
// goodput ledger. Leaves out what the nodes hold in memory (snapshot_tracker.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "scheduler/state/state.h"

namespace longhaul::runtime::controller {

struct Member {
  NodeId node;
  scheduler::GpuMask devices = 0;  // of the node; 0: they are not assigned
  // In the present attempt:
  bool started = false;
  bool closed = false;  // its workers have ended
  proto::PhaseEntered::Phase phase = proto::PhaseEntered::PHASE_UNSPECIFIED;
  uint32_t ranks_done = 0;     // exited with 0
  uint64_t reported_step = 0;  // initially the restored step
};

class WorkerGroup {
 public:
  using Phase = proto::PhaseEntered::Phase;

  bool empty() const { return members_.empty(); }
  size_t size() const { return members_.size(); }
  const std::vector<Member>& members() const { return members_; }
  const Member& member(size_t place) const { return members_[place]; }
  std::optional<size_t> PlaceOf(const std::string& node) const;
  bool contains(const std::string& node) const { return places_.contains(node); }

  // Sets the nodes of the gang, by place, and their devices (none: not assigned). No workers run on
  // them yet. Requires as many devices as nodes, or none.
  void Replace(const std::vector<NodeId>& nodes,
               const std::vector<scheduler::GpuMask>& devices = {});
  // The devices of the members are no longer theirs.
  void ForgetDevices();
  // Removes all nodes, until the job is placed again.
  void Clear();

  // Begins the attempt of `lease` after `restored_step`, with `world` ranks.
  void BeginAttempt(const proto::DataLease& lease, uint64_t restored_step, uint32_t world);
  // The rendezvous store is open. Returns whether this is new.
  bool OpenStore(uint32_t port, const std::string& torch_version);
  // The workers of a member have been started. Returns whether those of all members now are.
  bool Start(size_t place, const proto::WorkersStarted& started, uint32_t ranks, Instant now);
  // The member has entered the phase and, implicitly, those before it. Returns whether all members
  // have. Requires a later phase than the member's present one.
  bool EnterPhase(size_t place, Phase phase);
  void Report(size_t place, uint64_t step) { members_[place].reported_step = step; }
  void ReportAll(uint64_t step);
  // A rank of the member exited with 0. Returns whether all ranks have.
  bool EndRank(size_t place, uint32_t ranks_per_node);
  void Close(size_t place) { members_[place].closed = true; }
  void CloseAll();

  bool all_closed() const;
  bool a_rank_has_ended() const;
  uint64_t ranks_done() const;  // exited with 0
  // Whether the workers of the first node have processes.
  bool first_started() const { return members_[0].started; }
  uint32_t store_port() const { return store_port_; }                  // 0: not open yet
  const std::string& torch_version() const { return torch_version_; }  // of the store; may be empty
  const proto::DataLease& lease() const { return lease_; }
  const std::vector<int64_t>& pids() const { return pids_; }  // by rank
  Instant started_at() const { return started_at_; }          // when all workers had processes

 private:
  std::vector<Member> members_;
  std::unordered_map<std::string, size_t> places_;  // by node
  uint32_t members_started_ = 0;
  std::array<uint32_t, proto::PhaseEntered::Phase_ARRAYSIZE> members_in_phase_{};
  uint32_t store_port_ = 0;
  std::string torch_version_;
  proto::DataLease lease_;
  std::vector<int64_t> pids_;
  Instant started_at_{};
};

}  // namespace longhaul::runtime::controller
