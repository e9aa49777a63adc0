#include "engines/slurm/allocation.h"

#include <algorithm>
#include <utility>

namespace longhaul::engines::slurm {

Allocation::Allocation(const AllocationOptions& options, std::string first_job)
    : options_(options), first_job_(std::move(first_job)), pause_(options.first_pause) {}

Allocation::Orders Allocation::Observe(const std::vector<JobNow>& jobs, Instant now) {
  Orders orders;
  std::map<std::string, std::string> holds;
  std::set<std::string> living;
  for (const JobNow& job : jobs) {
    if (job.id != first_job_ && !asked_.contains(job.id)) continue;
    if (job.lives()) living.insert(job.id);
    // A job that is completing still has its nodes, but gives them back.
    if (!job.runs()) continue;
    for (const std::string& node : job.nodes) holds.emplace(node, job.id);
    if (job.id != first_job_ && gave_.insert(job.id).second) pause_ = options_.first_pause;
  }
  for (const auto& [node, job] : holds) {
    const auto before = held_.find(node);
    if (before == held_.end() || before->second != job) orders.added.push_back({node, job});
  }
  for (const auto& [node, job] : held_) {
    const auto now_in = holds.find(node);
    if (now_in == holds.end() || now_in->second != job) orders.fenced.push_back({node, job});
  }
  held_ = std::move(holds);
  for (auto job = asked_.begin(); job != asked_.end();) {
    if (living.contains(job->first)) {
      ++job;
      continue;
    }
    if (!gave_.contains(job->first)) Pause(now);
    job = asked_.erase(job);
  }
  // A job that waits will give what it asks for; one that runs has given what it could.
  uint64_t expected = held_.size();
  for (const auto& [job, nodes] : asked_) {
    if (!gave_.contains(job)) expected += nodes;
  }
  if (expected < options_.nodes && now >= not_before_) {
    orders.missing = static_cast<uint32_t>(options_.nodes - expected);
  }
  return orders;
}

void Allocation::Asked(const std::string& job, uint32_t nodes) { asked_[job] = nodes; }

void Allocation::Refused(Instant now) { Pause(now); }

void Allocation::Pause(Instant now) {
  not_before_ = now + pause_;
  pause_ = std::min<Duration>(2 * pause_, kMaxPause);
}

std::vector<std::string> Allocation::jobs() const {
  std::vector<std::string> all = further();
  all.push_back(first_job_);
  return all;
}

std::vector<std::string> Allocation::held() const {
  std::vector<std::string> nodes;
  for (const auto& [node, job] : held_) nodes.push_back(node);
  return nodes;
}

std::vector<std::string> Allocation::further() const {
  std::vector<std::string> all;
  for (const auto& [job, nodes] : asked_) all.push_back(job);
  return all;
}

}  // namespace longhaul::engines::slurm
