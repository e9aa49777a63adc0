// Turns a user's request into the job that the controller runs: parses, plans, prepares.
//
// Runs on the thread of the REST request, never on the core's, because reading a data set and
// measuring the machine take seconds. Thread-safe; one request at a time prepares data.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/local/layout.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "service/controller/core_loop.h"
#include "service/controller/submission/starting_weights.h"
#include "service/controller/submission/submission_request.h"
#include "spec/cluster/cluster.h"
#include "spec/job/job.h"
#include "spec/job/job_file.h"

namespace longhaul::service {

struct SubmissionOptions {
  std::string state_directory;  // absolute; has the run directories unless a request names one
  std::string trainer;          // the program of longhaul-trainer; empty: there is none
};

// Sets the rules of the network that a job file names.
void SetTopology(const spec::TopologySpec& topology, proto::Scheduling& scheduling);

class Submission {
 public:
  // Requires that `loop` outlives this.
  Submission(SubmissionOptions options, CoreLoop& loop);

  // Returns the jobs of the request's file, each with a unique id and its data in
  // run_directory/data; a job comes after those that it depends on.
  Result<proto::JobsSubmitted> Prepare(const SubmissionRequest& request);

 private:
  // A job on its way: planned, but its data is not prepared.
  struct Draft {
    spec::JobSpec spec;
    planner::LocalPlan plan;
    proto::Job job;
  };
  Result<Draft> Begin(spec::JobSpec spec, const SubmissionRequest& request, bool several);
  Status Complete(const SubmissionRequest& request, Draft& draft);
  // Sets the ids of the jobs that `spec` waits for. `ids`: of the file's earlier jobs.
  Status TakeDependencies(const spec::JobSpec& spec, const spec::JobFile& file,
                          const std::vector<std::string>& ids, proto::Job& job) const;
  Result<proto::Job> PrepareAgain(const proto::Job& before, uint32_t nodes);
  // Returns "NAME-1", or the name with the first free number.
  std::string ReserveId(const std::string& name);
  Result<planner::LocalPlan> Place(const spec::JobSpec& spec, proto::Job& job);
  static spec::JobSpec Within(spec::JobSpec spec, size_t nodes);
  static Status TakeBounds(const spec::JobSpec& spec, const planner::LocalPlan& plan,
                           proto::Job& job);
  Status PrepareWorkload(const spec::JobSpec& spec, const planner::LocalPlan& plan,
                         const nlohmann::ordered_json& from, proto::Job& job);
  static Status FindCheckpoint(const spec::JobSpec& spec, proto::Job& job);
  static Status FindCopies(const spec::JobSpec& spec, bool resume, proto::Job& job);

  const SubmissionOptions options_;
  CoreLoop& loop_;

  std::mutex mutex_;  // guards all below
  std::set<std::string> reserved_;
  std::mutex data_mutex_;  // held while data is prepared or the machine is measured
};

}  // namespace longhaul::service
