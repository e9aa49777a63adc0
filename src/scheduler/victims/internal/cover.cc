#include "scheduler/victims/internal/cover.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler::internal {

Cover::Cover(std::span<const VictimJob> all_jobs, std::span<const VictimPiece> all_pieces,
             const VictimDomain& domain)
    : need(domain.need), first_holder(domain.first_holder) {
  CHECK(need >= 1 && !first_holder.empty());
  CHECK(first_holder.front() == 0 &&
        first_holder.back() == static_cast<int32_t>(domain.holders.size()));
  std::vector<int32_t> seen = domain.holders;
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
    jobs.push_back({job, from.cost, from.max_shrunk, {}});
  }
  for (const int32_t piece : seen) {
    const VictimPiece& from = all_pieces[static_cast<size_t>(piece)];
    const auto job = std::lower_bound(owners.begin(), owners.end(), from.job) - owners.begin();
    CHECK(from.shrink_cost <= kMaxVictimCost) << "piece " << piece << " costs " << from.shrink_cost;
    const bool shrinks = jobs[static_cast<size_t>(job)].max_shrunk > 0;
    jobs[static_cast<size_t>(job)].pieces.push_back(static_cast<int32_t>(pieces.size()));
    pieces.push_back({piece, static_cast<int32_t>(job), shrinks ? from.shrink_cost : -1});
  }
  holders.reserve(domain.holders.size());
  for (const int32_t piece : domain.holders) {
    holders.push_back(
        static_cast<int32_t>(std::lower_bound(seen.begin(), seen.end(), piece) - seen.begin()));
  }
  for (size_t slot = 0; slot < slots(); ++slot) {
    CHECK(first_holder[slot] < first_holder[slot + 1]) << "slot " << slot << " has no holder";
  }
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
  for (size_t slot = 0; slot < cover.slots(); ++slot) {
    const std::span<const int32_t> holders = cover.Holders(slot);
    freed += std::all_of(holders.begin(), holders.end(),
                         [&](int32_t piece) { return Gone(cover, piece); })
                 ? 1
                 : 0;
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
  for (size_t slot = 0; slot < cover.slots(); ++slot) {
    const int32_t first = find(job_of(cover.Holders(slot).front()));
    for (const int32_t piece : cover.Holders(slot)) {
      const int32_t other = find(job_of(piece));
      const int32_t root = find(first);
      parent[static_cast<size_t>(std::max(root, other))] = std::min(root, other);
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
  for (size_t slot = 0; slot < cover.slots(); ++slot) {
    const auto root = static_cast<size_t>(find(job_of(cover.Holders(slot).front())));
    components[static_cast<size_t>(index[root])].slots.push_back(static_cast<int32_t>(slot));
  }
  return components;
}

}  // namespace longhaul::scheduler::internal
