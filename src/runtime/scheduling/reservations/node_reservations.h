// Periods in which some nodes are kept for some jobs, or for none.
//
// A reservation names nodes, or domains with all their nodes, and a period [from, until). In the
// period only the jobs of its holders, which are queues and users, may use the nodes; without a
// holder nobody may (a maintenance window). Before the period a job of others may use the nodes if
// it is expected to end in time.
//
// The scheduler knows nothing of this. Each reservation is a taint of its nodes in the topology
// (TaintOf), and a request is restricted to the nodes whose reservations its job tolerates
// (RestrictTo). ToleranceOf decides which those are, and until when: only time changes it.
//
// A pure class: the time is an argument. Leaves out how a job leaves nodes (ClusterScheduler).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "proto/status.pb.h"
#include "scheduler/state/shape.h"
#include "spec/cluster/topology.h"

namespace longhaul::runtime::scheduling {

// So many reservations divide the nodes into few enough classes (spec::kMaxNodeClasses).
inline constexpr size_t kMostReservations = 64;
inline constexpr size_t kMostReservedNames = spec::kMaxTopologyNodes;
inline constexpr size_t kMostHolders = 64;  // queues, and users, of a reservation
inline constexpr size_t kMostReservationNameBytes = 63;
inline constexpr Duration kLongestReservation = std::chrono::hours(24 * 366);
// Every node belongs to the domain of this name.
inline constexpr std::string_view kAllNodes = "all";

// A node's name, and then the names of all domains that it lies in.
using NodeNames = std::vector<std::string_view>;

// What is known of a job when it is decided which reservations it tolerates.
struct Occupant {
  std::vector<std::string> queues;  // its own, and those above
  std::string user;
  bool placed = false;
  std::optional<Instant>
      ends;                  // when it is expected to end if it runs from now on; absent: unknown
  bool stays = false;        // placed, and nobody may stop it or move it
  std::set<std::string> on;  // placed: the reservations of its nodes
};

struct Tolerance {
  std::set<std::string> names;  // of the reservations whose nodes the job may have
  // When it differs if nothing but time changes and no reservation begins or ends.
  std::optional<Instant> until;
};

class NodeReservations {
 public:
  // Returns kInvalidArgument, kAlreadyExists or kResourceExhausted for a reservation whose name,
  // period or numbers cannot be accepted. `now`: of the request.
  Status Check(const proto::NodeReservation& wanted, Instant now) const;
  // Returns kNotFound for a name that no node and no domain has, with the nearest one, and
  // kAlreadyExists if another reservation has one of the nodes in the same period.
  Status CheckNodes(const proto::NodeReservation& wanted, std::span<const NodeNames> nodes) const;

  // Returns kNotFound when there is none of this name, with the nearest one.
  Status CheckCancel(const std::string& name) const;

  // Requires that both checks accept it.
  void Add(const proto::NodeReservation& reservation);
  // Returns false when there is none.
  bool Cancel(const std::string& name);
  // Drops the reservations that have ended. Returns those that have begun or ended since the last
  // call, in order of time.
  struct Change {
    proto::NodeReservation reservation;
    bool begins = false;  // else it has ended
  };
  std::vector<Change> Advance(Instant now);
  // When Advance has something to return again.
  std::optional<Instant> NextChange() const;

  bool empty() const { return all_.empty(); }
  const std::map<std::string, proto::NodeReservation>& all() const { return all_; }  // by name
  bool IsOpen(const std::string& name) const {
    return open_.contains(name);
  }  // at the last Advance
  // The names of the reservations of a node.
  std::set<std::string> On(const NodeNames& node) const;
  // Whether a reservation is for the job.
  static bool Admits(const proto::NodeReservation& reservation, const Occupant& job);
  Tolerance ToleranceOf(const Occupant& job, Instant now) const;
  // "2 nodes are reserved as gpu-upgrade until 2026-01-31T08:00:00.000Z": of each reservation that
  // is not in `tolerated`. `nodes`: all that there are.
  std::string TextFor(const std::set<std::string>& tolerated,
                      std::span<const NodeNames> nodes) const;
  uint64_t Fingerprint() const;

  static std::string TaintOf(const std::string& reservation);

 private:
  void IndexMembers();

  std::map<std::string, proto::NodeReservation> all_;
  std::set<std::string> open_;  // that Advance has reported as begun
  std::map<std::string, std::vector<std::string>, std::less<>> of_member_;  // names, by member
};

// Adds the taints of all reservations that nodes of the topology have, so that none is in the way.
void TolerateAll(const spec::Topology& topology, std::set<std::string>& tolerates);
// Takes the nodes out of the shape's classes whose reservations are not all in `tolerated`. The
// shape may then fit no node.
void RestrictTo(const std::set<std::string>& tolerated, const spec::Topology& topology,
                scheduler::Shape& shape);

}  // namespace longhaul::runtime::scheduling
