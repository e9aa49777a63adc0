#include "engines/slurm/allocation.h"

#include <algorithm>
#include <utility>

namespace longhaul::engines::slurm {

Allocation::Allocation(const AllocationOptions& options, std::string first_job)
    : options_(options),
      first_job_(std::move(first_job)),
      target_(options.size.maximum),
      patience_(options.size.parts.size() + 1, {options.first_pause, {}}),
      unused_pause_(options.unused_limit) {}

void Allocation::SetTarget(uint32_t nodes) {
  target_ = std::clamp(nodes, options_.size.minimum(), options_.size.maximum);
}

void Allocation::SetBusy(const std::set<std::string>& agents, Instant now) {
  for (auto& [job, further] : further_) {
    if (further.request.part != growth() || !further.gave || further.leaves) continue;
    const std::vector<std::string> nodes = NodesOf(job);
    const bool busy = std::any_of(nodes.begin(), nodes.end(), [&agents](const std::string& node) {
      return agents.contains(AgentNameOf(node));
    });
    if (busy) {
      further.unused_since.reset();
      unused_pause_ = options_.unused_limit;
    } else if (!further.unused_since) {
      further.unused_since = now;
    }
    further.unused = !busy && now - *further.unused_since >= options_.unused_limit;
  }
}

Allocation::Orders Allocation::Observe(const std::vector<JobNow>& jobs, Instant now) {
  Orders orders;
  std::map<std::string, std::string> holds;
  std::set<std::string> living;
  for (const JobNow& job : jobs) {
    const auto further = further_.find(job.id);
    if (job.id != first_job_ && further == further_.end()) continue;
    if (job.lives()) living.insert(job.id);
    // A job that is completing still has its nodes, but gives them back.
    if (!job.runs()) continue;
    for (const std::string& node : job.nodes) holds.emplace(node, job.id);
    if (further == further_.end() || std::exchange(further->second.gave, true)) continue;
    patience_[further->second.request.part].pause = options_.first_pause;
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
  Forget(living, now);
  const std::vector<uint32_t> have = Held();
  bool whole = true;
  for (size_t part = 0; part < growth(); ++part) {
    whole = whole && have[part] >= options_.size.parts[part];
  }
  complete_ = complete_ || whole;
  GiveBackUnused(now, orders);
  const std::vector<uint32_t> expected = Expected();
  AskForParts(expected, now, orders);
  Resize(expected[growth()], now, orders);
  return orders;
}

void Allocation::GiveBackUnused(Instant now, Orders& orders) {
  for (const auto& [job, further] : further_) {
    if (!further.unused || further.leaves) continue;
    Release(job, orders);
    orders.unused.push_back(job);
  }
  if (orders.unused.empty()) return;
  patience_[growth()].not_before = now + unused_pause_;
  unused_pause_ = std::min<Duration>(2 * unused_pause_, kMaxUnusedPause);
}

// Drops the further jobs that have ended.
void Allocation::Forget(const std::set<std::string>& living, Instant now) {
  for (auto job = further_.begin(); job != further_.end();) {
    if (living.contains(job->first)) {
      ++job;
      continue;
    }
    const Further& ended = job->second;
    if (!ended.gave && !ended.leaves) Pause(ended.request.part, now);
    job = further_.erase(job);
  }
}

std::vector<uint32_t> Allocation::Held() const {
  std::vector<uint32_t> nodes(growth() + 1);
  for (const auto& [node, job] : held_) {
    const auto further = further_.find(job);
    if (further == further_.end()) {
      ++nodes[0];
    } else if (!further->second.leaves) {
      ++nodes[further->second.request.part];
    }
  }
  return nodes;
}

// A job that waits will give what it asks for; one that runs has given what it could.
std::vector<uint32_t> Allocation::Expected() const {
  std::vector<uint32_t> nodes = Held();
  for (const auto& [job, further] : further_) {
    if (!further.gave && !further.leaves) nodes[further.request.part] += further.request.nodes;
  }
  return nodes;
}

void Allocation::AskForParts(const std::vector<uint32_t>& expected, Instant now, Orders& orders) {
  for (size_t part = 0; part < growth(); ++part) {
    const uint32_t wanted = options_.size.parts[part];
    if (expected[part] >= wanted || now < patience_[part].not_before) continue;
    orders.requests.push_back({part, wanted - expected[part], false});
  }
}

// `expected`: of the growth.
void Allocation::Resize(uint32_t expected, Instant now, Orders& orders) {
  const RunSize& size = options_.size;
  const uint32_t wanted = target_ - size.minimum();
  // A group that has lost a node may hold no whole replica: another job replaces it.
  for (const auto& [job, further] : further_) {
    if (further.request.part != growth() || !further.gave || further.leaves) continue;
    const auto left = static_cast<uint32_t>(NodesOf(job).size());
    if (left >= further.request.nodes) continue;
    Release(job, orders);
    expected -= left;
  }
  bool waits = false;
  while (expected > wanted) {
    const std::string* newest = nullptr;
    // A job that waits is newer than all that have nodes.
    for (const auto& [job, further] : further_) {
      if (further.request.part != growth() || further.leaves) continue;
      if (newest == nullptr || further.number > further_.at(*newest).number) newest = &job;
    }
    if (newest == nullptr) return;
    expected -= std::min(expected, further_.at(*newest).request.nodes);
    Release(*newest, orders);
  }
  for (const auto& [job, further] : further_) {
    waits = waits || (further.request.part == growth() && !further.gave && !further.leaves);
  }
  const uint32_t nodes = std::min(size.group, wanted - expected) / size.step * size.step;
  if (!complete_ || waits || nodes == 0 || now < patience_[growth()].not_before) return;
  orders.requests.push_back({growth(), nodes, size.minimum() + expected + nodes > size.usual});
}

void Allocation::Release(const std::string& job, Orders& orders) {
  further_.at(job).leaves = true;
  orders.release.push_back(job);
}

void Allocation::Asked(const std::string& job, const Request& request) {
  Further& further = further_[job];
  further.request = request;
  further.number = ++last_number_;
}

void Allocation::Refused(const Request& request, Instant now) { Pause(request.part, now); }

void Allocation::Pause(size_t part, Instant now) {
  Patience& patience = patience_[part];
  patience.not_before = now + patience.pause;
  patience.pause = std::min<Duration>(2 * patience.pause, kMaxPause);
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
  for (const auto& [job, request] : further_) all.push_back(job);
  return all;
}

std::vector<std::string> Allocation::NodesOf(const std::string& job) const {
  std::vector<std::string> nodes;
  for (const auto& [node, in] : held_) {
    if (in == job) nodes.push_back(node);
  }
  return nodes;
}

const Request* Allocation::RequestOf(const std::string& job) const {
  const auto found = further_.find(job);
  return found == further_.end() ? nullptr : &found->second.request;
}

}  // namespace longhaul::engines::slurm
