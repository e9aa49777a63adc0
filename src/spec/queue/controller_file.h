// The controller's configuration file in YAML: queues, their quotas, and the scheduling options.
//
//   cluster: cluster.yaml            # the nodes; absent: all nodes that join
//   tls: {certificate: controller.crt, key: controller.key, ca: ca.crt}   # absent: none of its own
//   queues:                          # spec/queue/queue.h
//     - name: research
//       guarantee: {accelerators: 8}
//       per_user: {running: 4}
//   default_queue: research          # for jobs that name no queue
//   priorities: {low: -100, high: 100}
//   scheduling:
//     preemption: true
//     backfill: true
//     reservations: 8
//     evictions_a_day: 3
//     aging_period: 6h
//     longest_wait: 24h
//     reservation_idle: 25%
//     fair_share: present            # or history
//     usage_half_life: 7d
//     elastic_period: 1min
//     repair_patience: 10min
//     snapshot_patience: 30s
//     array_limit: 10000
//
// docs/controller-file.md is the user's page. Leaves out the controller's addresses and state
// folder: these are options of its command, because they do not affect decisions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "spec/queue/queue.h"

namespace longhaul::spec {

// The files of the server's TLS, as written, relative to the controller's file. All or none.
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string ca;

  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

struct ControllerSpec {
  std::string cluster_file;  // as written, relative to the file; empty: none
  TlsFiles tls;              // empty: none
  std::vector<QueueSpec> queues;
  std::string default_queue;
  std::map<std::string, int32_t> priorities;  // by name
  bool preemption = true;
  bool backfill = true;
  uint32_t reservations = 8;  // for each queue
  uint32_t evictions_a_day = 3;
  Duration aging_period = std::chrono::hours(6);
  Duration longest_wait = std::chrono::hours(24);  // 0: no job becomes overdue
  // Accelerator time that the reservations of a gang may keep idle, of what the gang will use; 0:
  // no limit.
  uint32_t reservation_idle_percent = 25;
  // Whether what queues have used beyond their guarantees, and not only what they hold, decides
  // which of them is next; it counts half after the half-life.
  bool fair_share_history = false;
  Duration usage_half_life = std::chrono::hours(24 * 7);
  Duration elastic_period = std::chrono::minutes(1);
  Duration repair_patience = std::chrono::minutes(10);
  Duration snapshot_patience = std::chrono::seconds(30);
  uint32_t array_limit = 10'000;  // elements of one array
  bool check_new_nodes = false;   // before a gang starts on them

  friend bool operator==(const ControllerSpec&, const ControllerSpec&) = default;
};

constexpr int32_t kMaxJobPriority = 1'000'000;

// Reads and checks the file. `source` names it in messages: "controller.yaml:3: ...". An empty text
// gives the standard configuration.
Result<ControllerSpec> ParseControllerFile(std::string_view text, std::string_view source);

}  // namespace longhaul::spec
