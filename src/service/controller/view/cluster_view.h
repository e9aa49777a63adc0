// The whole cluster as the web page shows it: the nodes by the domains of the network, the queues,
// and the jobs that wait. Columns instead of objects: 5,000 nodes need about 150 kB. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/status.pb.h"
#include "spec/cluster/topology.h"

namespace longhaul::service {

// A job that waits, and why.
struct WaitingJob {
  std::string id;
  std::string queue;
  std::string owner;
  uint64_t workers = 0;
  int64_t submitted_at_ns = 0;
  std::string sentence;
  bool explained = false;                 // by the scheduler; not: `sentence` is the state's reason
  std::optional<Instant> expected_start;  // half of the time it starts before
  std::optional<Instant> expected_late;   // nine of ten times it starts before
};

// A job that has nodes.
struct RunningJob {
  std::string id;
  std::string queue;
  std::string owner;
  std::string state;
  uint64_t workers = 0;
  uint64_t step = 0;
  uint64_t total_steps = 0;  // 0: unknown
  double goodput = 0;
  double eta_seconds = -1;  // -1: unknown
  uint64_t faults = 0;
};

struct ClusterViewInput {
  std::optional<spec::ClusterDeclaration> declaration;
  std::vector<proto::NodeStatus> nodes;    // that have joined, by name
  std::map<std::string, uint32_t> absent;  // of the cluster file: not connected, with their slots
  std::vector<proto::QueueStatus> queues;  // the root first
  std::vector<WaitingJob> waiting;         // the longest waiting one first
  uint64_t waiting_total = 0;
  std::vector<RunningJob> running;  // the first ones by id
  uint64_t running_total = 0;
  nlohmann::ordered_json occupancy;  // of OccupancyHistory
  Instant now;
};

// Returns the answer of GET /v1/view/cluster, docs/openapi.yaml.
nlohmann::ordered_json ClusterViewJson(const ClusterViewInput& input);

}  // namespace longhaul::service
