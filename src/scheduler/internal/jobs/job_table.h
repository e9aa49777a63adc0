// The jobs of the scheduler, by number and by name. A reference to a job stays valid until the job
// is erased.
//
// A lookup costs the same with ten jobs as with a hundred thousand. Iteration sorts the numbers
// first, because decisions must not depend on the order of a hash table.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/internal/jobs/job_entry.h"

namespace longhaul::scheduler::internal {

class JobTable {
 public:
  size_t size() const { return jobs_.size(); }

  // nullptr: there is no such job.
  JobEntry* Find(JobNumber number);
  const JobEntry* Find(JobNumber number) const;
  JobEntry* Find(const JobId& id);
  const JobEntry* Find(const JobId& id) const;

  // Requires that the job is in the table.
  JobEntry& at(JobNumber number) { return jobs_.at(number); }
  const JobEntry& at(JobNumber number) const { return jobs_.at(number); }

  // All jobs, by number.
  std::vector<JobEntry*> InOrder();
  std::vector<const JobEntry*> InOrder() const;

  // Adds an entry that has its number and its request only. Requires that neither the number nor
  // the name is in the table.
  JobEntry& Add(JobNumber number, std::shared_ptr<const JobRequest> request);
  // Requires that the job is in the table.
  void Erase(JobNumber number);

 private:
  std::unordered_map<JobNumber, JobEntry> jobs_;
  std::unordered_map<std::string, JobNumber> by_name_;
};

}  // namespace longhaul::scheduler::internal
