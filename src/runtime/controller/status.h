// The controller's status reports: the status of jobs and nodes, assembled from their parts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "runtime/controller/controller_context.h"

namespace longhaul::runtime::controller {

class StatusReporter {
 public:
  explicit StatusReporter(const ControllerContext& context) : context_(context) {}

  proto::JobStatus StatusOf(const JobRecord& job, Instant now) const;
  std::optional<proto::JobStatus> StatusOf(const JobId& id, Instant now) const;
  std::vector<proto::JobStatus> AllJobs(Instant now) const;  // by submission
  std::vector<proto::JobStatus> Listing(Instant now) const;  // an array as one
  std::vector<proto::JobStatus> Elements(const JobId& array, Instant now) const;
  // The id of the job or array with this id, or of the only one with this name.
  Result<JobId> Resolve(const std::string& id_or_name) const;
  std::vector<proto::NodeStatus> AllNodes() const;            // by name
  std::vector<Controller::CheckTarget> CheckTargets() const;  // by name
  UsageReport Usage(const UsageQuery& query, Instant now) const;
  Controller::UsageTotals CompareUsage(Instant now) const;
  // Checks that the accounting agrees with the goodput ledgers of all jobs.
  Status CheckUsage() const;
  // Equal states have equal hashes.
  uint64_t StateHash() const;

 private:
  proto::JobStatus StatusOf(const ReleaseUnit& array) const;
  void AddPlaces(const JobRecord& job, proto::JobStatus& status) const;
  void AddProgress(const JobRecord& job, proto::JobStatus& status) const;
  void AddSnapshots(const JobRecord& job, proto::JobStatus& status) const;
  UsageLedger::BooksOf BooksAt(Instant now) const;

  const ControllerContext& context_;
};

}  // namespace longhaul::runtime::controller
