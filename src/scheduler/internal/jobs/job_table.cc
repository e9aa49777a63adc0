#include "scheduler/internal/jobs/job_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace longhaul::scheduler::internal {

namespace {

template <typename Entry>
void SortByNumber(std::vector<Entry*>& jobs) {
  std::sort(jobs.begin(), jobs.end(),
            [](const Entry* a, const Entry* b) { return a->number < b->number; });
}

}  // namespace

JobEntry* JobTable::Find(JobNumber number) {
  const auto found = jobs_.find(number);
  return found == jobs_.end() ? nullptr : &found->second;
}

const JobEntry* JobTable::Find(JobNumber number) const {
  return const_cast<JobTable*>(this)->Find(number);
}

JobEntry* JobTable::Find(const JobId& id) {
  const auto found = by_name_.find(id.value());
  return found == by_name_.end() ? nullptr : &jobs_.at(found->second);
}

const JobEntry* JobTable::Find(const JobId& id) const {
  return const_cast<JobTable*>(this)->Find(id);
}

std::vector<JobEntry*> JobTable::InOrder() {
  std::vector<JobEntry*> jobs;
  jobs.reserve(jobs_.size());
  for (auto& [number, job] : jobs_) jobs.push_back(&job);
  SortByNumber(jobs);
  return jobs;
}

std::vector<const JobEntry*> JobTable::InOrder() const {
  std::vector<const JobEntry*> jobs;
  jobs.reserve(jobs_.size());
  for (const auto& [number, job] : jobs_) jobs.push_back(&job);
  SortByNumber(jobs);
  return jobs;
}

JobEntry& JobTable::Add(JobNumber number, std::shared_ptr<const JobRequest> request) {
  const bool fresh = by_name_.try_emplace(request->id.value(), number).second;
  CHECK(fresh) << "a name is used by two jobs";
  const auto [added, is_new] = jobs_.try_emplace(number);
  CHECK(is_new) << "a number is used by two jobs";
  JobEntry& job = added->second;
  job.number = number;
  job.request = std::move(request);
  return job;
}

void JobTable::Erase(JobNumber number) {
  const auto found = jobs_.find(number);
  CHECK(found != jobs_.end()) << "a job is erased that does not exist";
  by_name_.erase(found->second.request->id.value());
  jobs_.erase(found);
}

}  // namespace longhaul::scheduler::internal
