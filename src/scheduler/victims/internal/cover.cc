#include "scheduler/victims/internal/cover.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler::internal {

// Renumbers the jobs and pieces of one domain densely, in ascending order of their global numbers.
// The dense numbers let the search use arrays instead of maps.
Cover::Cover(std::span<const VictimJob> all_jobs, std::span<const VictimPiece> all_pieces,
             const VictimDomain& domain)
    : need(domain.need),
      first_holder(domain.first_holder),
      weights(domain.weights),
      each(domain.each) {
  CHECK(need >= 0 && each >= 1 && !first_holder.empty());
  CHECK(first_holder.front() == 0 &&
        first_holder.back() == static_cast<int32_t>(domain.holders.size()));
  AddHosts(domain);
  // Pieces in `others` hold no unit here, but the proof may require that they leave, so the search
  // must be able to choose them.
  std::vector<int32_t> seen = domain.holders;
  seen.insert(seen.end(), domain.others.begin(), domain.others.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  std::vector<int32_t> owners;
  for (const int32_t piece : seen) {
    CHECK(piece >= 0 && static_cast<size_t>(piece) < all_pieces.size()) << "piece " << piece;
    owners.push_back(all_pieces[static_cast<size_t>(piece)].job);
  }
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  for (const int32_t job : owners) {
    CHECK(job >= 0 && static_cast<size_t>(job) < all_jobs.size()) << "job " << job;
    const VictimJob& from = all_jobs[static_cast<size_t>(job)];
    CHECK(from.cost >= 0 && from.cost <= kMaxVictimCost) << "job " << job << " costs " << from.cost;
    CHECK(from.max_shrunk >= 0) << "job " << job << " may give up " << from.max_shrunk;
    jobs.push_back({job, from.cost, from.max_shrunk, from.may_stop, {}});
  }
  for (const int32_t piece : seen) {
    const VictimPiece& from = all_pieces[static_cast<size_t>(piece)];
    const auto job = std::lower_bound(owners.begin(), owners.end(), from.job) - owners.begin();
    CHECK(from.shrink_cost <= kMaxVictimCost) << "piece " << piece << " costs " << from.shrink_cost;
    // A job that can spare no piece has no pieces that go alone. The search then tests one value
    // only.
    const bool shrinks = jobs[static_cast<size_t>(job)].max_shrunk > 0;
    jobs[static_cast<size_t>(job)].pieces.push_back(static_cast<int32_t>(pieces.size()));
    pieces.push_back({piece, static_cast<int32_t>(job), shrinks ? from.shrink_cost : -1});
  }
  holders.reserve(domain.holders.size());
  for (const int32_t piece : domain.holders) {
    holders.push_back(
        static_cast<int32_t>(std::lower_bound(seen.begin(), seen.end(), piece) - seen.begin()));
  }
}

// Without hosts in the domain each unit is a slot, which is the same as one host for each unit. The
// search thus has a single form. Hosts without units are dropped: nothing can be freed there.
void Cover::AddHosts(const VictimDomain& domain) {
  for (size_t unit = 0; unit < domain.units(); ++unit) {
    CHECK(first_holder[unit] < first_holder[unit + 1]) << "unit " << unit << " has no holder";
  }
  if (domain.hosts.empty()) {
    CHECK(each == 1);
    weights.assign(domain.units(), 1);
    for (int32_t unit = 0; unit < static_cast<int32_t>(domain.units()); ++unit) {
      hosts.push_back({unit, unit + 1, 0, 1});
    }
    return;
  }
  CHECK(weights.size() == domain.units());
  int32_t first = 0;
  for (const VictimHost& host : domain.hosts) {
    CHECK(host.last_unit >= first && host.loose >= 0 && host.most >= 0);
    if (host.last_unit > first) hosts.push_back({first, host.last_unit, host.loose, host.most});
    first = host.last_unit;
  }
  CHECK(static_cast<size_t>(first) == domain.units());
}

Selection Selection::Nobody(const Cover& cover) {
  Selection nobody;
  nobody.whole.assign(cover.jobs.size(), 0);
  nobody.shrunk.assign(cover.pieces.size(), 0);
  nobody.cost = 0;
  return nobody;
}

int32_t Selection::Freed(const Cover& cover) const {
  int32_t freed = 0;
  for (const Cover::Host& host : cover.hosts) {
    int64_t gone = 0;
    for (int32_t unit = host.first_unit; unit < host.last_unit; ++unit) {
      const auto holders = cover.Holders(static_cast<size_t>(unit));
      const bool free = std::all_of(holders.begin(), holders.end(),
                                    [&](int32_t piece) { return Gone(cover, piece); });
      gone += free ? cover.weights[static_cast<size_t>(unit)] : 0;
    }
    freed += cover.SlotsOf(host, gone);
  }
  return freed;
}

std::vector<Victim> Selection::Victims(const Cover& cover,
                                       std::span<const VictimJob> all_jobs) const {
  std::vector<Victim> victims;
  for (size_t job = 0; job < cover.jobs.size(); ++job) {
    const int32_t global = cover.jobs[job].global;
    if (whole[job] != 0) {
      victims.push_back({global, all_jobs[static_cast<size_t>(global)].means, {}});
      continue;
    }
    Victim victim{global, Means::kShrink, {}};
    for (const int32_t piece : cover.jobs[job].pieces) {
      if (shrunk[static_cast<size_t>(piece)] == 0) continue;
      victim.pieces.push_back(cover.pieces[static_cast<size_t>(piece)].global);
    }
    if (!victim.pieces.empty()) victims.push_back(std::move(victim));
  }
  return victims;
}

// Union-find over jobs, with path halving. The smaller number always becomes the root, so that the
// components come in the order of their first jobs.
std::vector<Component> Components(const Cover& cover) {
  std::vector<int32_t> parent(cover.jobs.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto find = [&](int32_t job) {
    while (parent[static_cast<size_t>(job)] != job) {
      int32_t& up = parent[static_cast<size_t>(job)];
      up = parent[static_cast<size_t>(up)];
      job = up;
    }
    return job;
  };
  const auto job_of = [&](int32_t piece) { return cover.pieces[static_cast<size_t>(piece)].job; };
  // Two jobs on one host are joined even if they share no unit, because the slots of a host are
  // counted from the sum of what its holders free.
  for (const Cover::Host& host : cover.hosts) {
    const int32_t first = job_of(cover.Holders(static_cast<size_t>(host.first_unit)).front());
    for (int32_t unit = host.first_unit; unit < host.last_unit; ++unit) {
      for (const int32_t piece : cover.Holders(static_cast<size_t>(unit))) {
        const int32_t other = find(job_of(piece));
        const int32_t root = find(first);
        parent[static_cast<size_t>(std::max(root, other))] = std::min(root, other);
      }
    }
  }
  std::vector<int32_t> index(cover.jobs.size(), -1);
  std::vector<Component> components;
  for (size_t job = 0; job < cover.jobs.size(); ++job) {
    const auto root = static_cast<size_t>(find(static_cast<int32_t>(job)));
    if (index[root] < 0) {
      index[root] = static_cast<int32_t>(components.size());
      components.emplace_back();
    }
    components[static_cast<size_t>(index[root])].jobs.push_back(static_cast<int32_t>(job));
  }
  for (size_t host = 0; host < cover.hosts.size(); ++host) {
    const auto unit = static_cast<size_t>(cover.hosts[host].first_unit);
    const auto root = static_cast<size_t>(find(job_of(cover.Holders(unit).front())));
    components[static_cast<size_t>(index[root])].hosts.push_back(static_cast<int32_t>(host));
  }
  return components;
}

}  // namespace longhaul::scheduler::internal
