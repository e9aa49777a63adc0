// The state that the coordinators of the controller share: the time, nodes, jobs, deadlines, the
// scheduler, and the commands and notifications of the present step.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "proto/commands.pb.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "runtime/controller/controller.h"
#include "runtime/controller/deadlines.h"
#include "runtime/controller/job/job.h"
#include "runtime/controller/node_table.h"
#include "runtime/controller/release_table.h"
#include "runtime/goodput/usage_ledger.h"
#include "runtime/scheduling/cluster_scheduler.h"

namespace longhaul::runtime::controller {

// All jobs by id, and which of them a step may have changed.
class JobTable {
 public:
  JobRecord& Add(const proto::Job& spec, Instant now, Seconds time_between_failures);
  // Returns null when there is none. Marks the job as touched: it may be changed through the
  // pointer.
  JobRecord* Find(const std::string& id);
  const JobRecord* Find(const std::string& id) const;
  bool contains(const std::string& id) const { return jobs_.contains(id); }
  JobRecord& at(const std::string& id) { return jobs_.at(id); }
  const JobRecord& at(const std::string& id) const { return jobs_.at(id); }
  std::map<std::string, JobRecord>& all() { return jobs_; }  // by id
  const std::map<std::string, JobRecord>& all() const { return jobs_; }
  const std::vector<std::string>& order() const { return order_; }  // of submission

  void Touch(const JobRecord& job);
  void BeginStep() { touched_.clear(); }
  const std::vector<const JobRecord*>& touched() const { return touched_; }

 private:
  std::map<std::string, JobRecord> jobs_;
  std::vector<std::string> order_;
  std::vector<const JobRecord*> touched_;
};

class ControllerContext {
 public:
  explicit ControllerContext(const ControllerOptions& wanted) : options(wanted) {}

  // Sends only to connected agents. The others get their commands when they reconnect.
  void Send(const NodeId& node, proto::Command command);
  // Orders every node of the gang to end its workers of the present attempt.
  void SendKill(const JobRecord& job, Duration grace, const std::string& reason);
  void SendForget(const std::string& job, const NodeId& node);
  // Orders a snapshot every `steps` steps from now on.
  void SendInterval(const JobRecord& job, const NodeId& node, uint64_t steps);

  proto::Notification& AddNotification(const std::string& job);
  void AddMessage(const std::string& job, proto::MessageNotification::Severity severity,
                  std::string text);
  void AddNodeNotification(const NodeId& node);
  void AddFaultNotification(JobRecord& job, const proto::Fault& fault);
  // Adds the sums of the job's ledger at this moment to a notification of the job.
  void AddLedger(JobRecord& job, proto::Notification& notification) const;
  void SetState(JobRecord& job, proto::JobState state, const std::string& reason);

  // Reports the condition of the node to the scheduler.
  void UpdateScheduler(const NodeId& node);
  proto::NodeStatus StatusOf(const Node& node) const;
  // Returns the job if the event is about its present attempt and the node is in its gang; else
  // null.
  JobRecord* CurrentJob(const proto::Event& event, const std::string& id, uint64_t attempt,
                        size_t* place);
  GangView ViewOf(const JobRecord& job) const { return {job.spec(), job.group, nodes}; }

  // Adds the reservation that holds the node, or the next one that will.
  void AddWindow(const Node& node, proto::NodeStatus& status) const;

  const ControllerOptions options;
  Instant now{};
  NodeTable nodes;
  JobTable jobs;
  ReleaseTable releases;
  Deadlines deadlines;
  scheduling::ClusterScheduler scheduler;
  UsageLedger usage;
  std::set<std::string>
      active;                   // the jobs that have trained, and have not ended or lost their gang
  uint64_t active_changes = 0;  // of that set, so far
  Actions out;
};

}  // namespace longhaul::runtime::controller
