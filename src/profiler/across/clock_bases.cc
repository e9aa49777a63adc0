#include "profiler/across/clock_bases.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace longhaul::profiler {
namespace {

constexpr int64_t kApartNs = 1'000'000'000;

int64_t MedianOf(std::vector<int64_t>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>((values->size() - 1) / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

int64_t EndOf(const ProfiledJob& job, const Member& member) {
  return job.ranks[member.rank].collectives[member.collective].end_ns;
}

// [a][b]: by how much the second ends their calls after the first.
using Differences = std::map<size_t, std::map<size_t, std::vector<int64_t>>>;

// Ranks of one host that end their calls together, as far as calls show.
class Parts {
 public:
  // Each rank is compared with the first member of its host in a call. Medians, because single
  // calls may end late on one rank.
  explicit Parts(const ProfiledJob& job) : job_(job), of_(job.ranks.size()) {
    for (size_t rank = 0; rank < of_.size(); ++rank) of_[rank] = rank;
    Differences differences;
    for (const Instance& instance : job.instances) {
      std::map<size_t, Member> firsts;  // by host
      for (const Member& member : instance.members) {
        const auto [first, fresh] = firsts.emplace(job.host_of[member.rank], member);
        if (fresh) continue;
        differences[first->second.rank][member.rank].push_back(EndOf(job, member) -
                                                               EndOf(job, first->second));
      }
    }
    for (auto& [a, others] : differences) {
      for (auto& [b, values] : others) {
        if (std::abs(MedianOf(&values)) < kApartNs) {
          Join(a, b);
        } else {
          apart_.push_back({a, b});
        }
      }
    }
  }

  // Those that stand apart from a larger part of their host.
  // The largest part keeps the host's clock; of equal ones the part with the lowest rank. Parts
  // that share no call with others are not in `apart_` and stay, as nothing is known about their
  // clocks.
  std::vector<std::vector<size_t>> Strangers() const {
    std::map<size_t, std::vector<size_t>> parts;
    for (size_t rank = 0; rank < of_.size(); ++rank) parts[of_[rank]].push_back(rank);
    std::map<size_t, size_t> largest;  // part, by host
    for (const auto& [part, ranks] : parts) {
      const auto [place, fresh] = largest.emplace(job_.host_of[part], part);
      if (!fresh && ranks.size() > parts[place->second].size()) place->second = part;
    }
    std::set<size_t> strange;
    for (const auto& [a, b] : apart_) {
      const size_t main = largest[job_.host_of[a]];
      for (const size_t part : {of_[a], of_[b]}) {
        if (part != main) strange.insert(part);
      }
    }
    std::vector<std::vector<size_t>> found;
    for (const size_t part : strange) found.push_back(parts[part]);
    return found;
  }

 private:
  void Join(size_t a, size_t b) {
    const size_t from = std::max(of_[a], of_[b]);
    const size_t to = std::min(of_[a], of_[b]);
    for (size_t& part : of_) {
      if (part == from) part = to;
    }
  }

  const ProfiledJob& job_;
  std::vector<size_t> of_;  // [rank]: the lowest rank of its part
  std::vector<std::pair<size_t, size_t>> apart_;
};

void SplitRanks(ProfiledJob* job) {
  for (const std::vector<size_t>& ranks : Parts(*job).Strangers()) {
    const size_t first = ranks.front();
    std::string name = job->clocks.hosts[job->host_of[first]].name + ", rank " +
                       std::to_string(job->ranks[first].metadata.rank);
    if (ranks.size() > 1) name += " and " + std::to_string(ranks.size() - 1) + " more";
    job->warnings.push_back(name +
                            ": another clock than its host's (a file that was cut may have "
                            "lost the time that its times count from)");
    for (const size_t rank : ranks) job->host_of[rank] = job->clocks.hosts.size();
    job->clocks.hosts.push_back({std::move(name), 0, 0, true});
  }
}

// Of clocks.
Differences Compare(const ProfiledJob& job) {
  Differences differences;
  for (const Instance& instance : job.instances) {
    const Member& first = instance.members.front();
    const size_t a = job.host_of[first.rank];
    for (const Member& member : instance.members) {
      const size_t b = job.host_of[member.rank];
      if (b == a) continue;
      const int64_t difference = EndOf(job, member) - EndOf(job, first);
      differences[a][b].push_back(difference);
      differences[b][a].push_back(-difference);
    }
  }
  return differences;
}

}  // namespace

void NearClocks(ProfiledJob* job) {
  SplitRanks(job);
  Differences differences = Compare(*job);
  std::vector<int64_t> off(job->clocks.hosts.size());
  // A breadth-first walk over the clocks that share calls, from the first clock of each connected
  // set. Each clock is set relative to the one from which it was reached.
  std::vector<bool> placed(off.size());
  for (size_t root = 0; root < off.size(); ++root) {
    if (placed[root]) continue;
    placed[root] = true;
    std::vector<size_t> reached = {root};
    for (size_t i = 0; i < reached.size(); ++i) {
      for (auto& [next, values] : differences[reached[i]]) {
        if (placed[next]) continue;
        placed[next] = true;
        reached.push_back(next);
        const int64_t difference = MedianOf(&values);
        // A clock that is near enough is left unchanged.
        const int64_t all = off[reached[i]] + difference;
        off[next] = std::abs(all) < kApartNs ? 0 : all;
      }
    }
  }
  bool any = false;
  for (size_t host = 0; host < off.size(); ++host) {
    job->clocks.hosts[host].offset_us = static_cast<double>(off[host]) * 1e-3;
    any = any || off[host] != 0;
  }
  if (!any) return;
  for (size_t rank = 0; rank < job->ranks.size(); ++rank) {
    const int64_t by = off[job->host_of[rank]];
    if (by != 0) ShiftTimes(&job->ranks[rank], [by](int64_t* time) { *time -= by; });
  }
  TimeInstances(job);
}

}  // namespace longhaul::profiler
