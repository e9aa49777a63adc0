#include "profiler/across/profiled_job.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "profiler/across/clocks.h"

namespace longhaul::profiler {
namespace {

constexpr int64_t kUsualRanksPerHost = 8;
constexpr int64_t kMaxShift = 64;    // calls by which windows may differ
constexpr size_t kMaxLookAhead = 8;  // calls that may be lost in a row

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return lower;
}

Dimension DimensionOfText(const std::string& text) {
  // "data_parallel_group_with_cp" is data, so data is tested before context.
  constexpr std::pair<std::string_view, Dimension> kWords[] = {
      {"expert", Dimension::kExpert},
      {"mesh_ep", Dimension::kExpert},
      {"pipeline", Dimension::kPipeline},
      {"mesh_pp", Dimension::kPipeline},
      {"tensor", Dimension::kTensor},
      {"mesh_tp", Dimension::kTensor},
      {"data_parallel", Dimension::kData},
      {"mesh_dp", Dimension::kData},
      {"fsdp", Dimension::kData},
      {"context", Dimension::kContext},
      {"mesh_cp", Dimension::kContext},
      // Of our own trainer: all parts and stages of a replica, which is no one dimension.
      {"replica_parallel", Dimension::kWorld},
  };
  for (const auto& [word, dimension] : kWords) {
    if (text.find(word) != text.npos) return dimension;
  }
  return Dimension::kUnknown;
}

class Assembler {
 public:
  Assembler(ProfiledJob* job, const JobOptions& options) : job_(*job), options_(options) {}

  void Run() {
    Hosts();
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) Groups(rank);
    InferDimensions();
    job_.instance_of.resize(job_.ranks.size());
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      job_.instance_of[rank].assign(job_.ranks[rank].collectives.size(), -1);
    }
    Match();
    for (const auto& of : job_.instance_of) {
      for (const int32_t instance : of) ++(instance >= 0 ? job_.matched : job_.unmatched);
    }
    TimeInstances(&job_);
  }

 private:
  // The option is a correction by the user, so it replaces even the names of hosts in the traces.
  // The hosts are numbered in the order of their first ranks.
  void Hosts() {
    std::map<std::string, size_t> names;
    int64_t per_host = options_.ranks_per_host;
    if (per_host <= 0) {
      for (const RankSummary& rank : job_.ranks) {
        per_host = std::max(per_host, rank.metadata.devices);
      }
    }
    if (per_host <= 0) per_host = kUsualRanksPerHost;
    ranks_per_host_ = per_host;
    for (const RankSummary& rank : job_.ranks) {
      const std::string name = rank.metadata.host.empty() || options_.ranks_per_host > 0
                                   ? "host " + std::to_string(rank.metadata.rank / per_host)
                                   : rank.metadata.host;
      const auto [place, fresh] = names.emplace(name, job_.clocks.hosts.size());
      if (fresh) job_.clocks.hosts.push_back({name, 0, 0, true});
      job_.host_of.push_back(place->second);
    }
  }

  // Each trace numbers its groups by itself. A group is identified over all ranks by name,
  // description, members and size; groups of one name can be different groups, such as the tensor
  // groups of two replicas.
  void Groups(size_t rank) {
    std::vector<size_t>& of = job_.group_of.emplace_back();
    for (const LocalGroup& local : job_.ranks[rank].groups) {
      std::vector<int64_t> ranks = local.ranks;
      std::sort(ranks.begin(), ranks.end());
      auto key = std::make_tuple(local.name, local.description, ranks, local.size);
      const auto [place, fresh] = groups_.emplace(std::move(key), job_.groups.size());
      if (fresh) {
        job_.groups.push_back(
            {local.name, local.description, std::move(ranks), Dimension::kUnknown});
      }
      of.push_back(place->second);
    }
  }

  Dimension NamedDimension(const Group& group) const {
    const std::string text = Lower(group.name + " " + group.description);
    for (const auto& [part, dimension] : options_.dimensions) {
      if (text.find(Lower(part)) != text.npos) return dimension;
    }
    return DimensionOfText(text);
  }

  // By description; else by what its ranks look like.
  void InferDimensions() {
    std::set<size_t> point_to_point;
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      for (const Collective& c : job_.ranks[rank].collectives) {
        if (c.kind == CollectiveKind::kSend || c.kind == CollectiveKind::kReceive) {
          point_to_point.insert(job_.group_of[rank][c.group]);
        }
      }
    }
    // The traces may be of some ranks only, so the size of the world is the largest that any of
    // them reports.
    int64_t world = static_cast<int64_t>(job_.ranks.size());
    for (const RankSummary& rank : job_.ranks) world = std::max(world, rank.metadata.world_size);
    for (size_t g = 0; g < job_.groups.size(); ++g) {
      Group& group = job_.groups[g];
      group.dimension = NamedDimension(group);
      if (group.dimension != Dimension::kUnknown) continue;
      if (point_to_point.contains(g)) {
        group.dimension = Dimension::kPipeline;
      } else if (group.ranks.empty() || static_cast<int64_t>(group.ranks.size()) == world) {
        group.dimension = Dimension::kWorld;
        // Adjacent ranks on one host: the usual place of tensor parallelism.
      } else if (group.ranks.back() - group.ranks.front() + 1 ==
                     static_cast<int64_t>(group.ranks.size()) &&
                 group.ranks.front() / ranks_per_host_ == group.ranks.back() / ranks_per_host_) {
        group.dimension = Dimension::kTensor;
      } else {
        group.dimension = Dimension::kData;
      }
    }
  }

  // Calls that belong together: of one group, and for sends and receives of one pair and direction.
  using Key = std::tuple<size_t, int64_t, int64_t>;
  struct Calls {
    std::map<size_t, std::vector<size_t>> by_rank;  // places in collectives, in order
  };

  Key KeyOf(size_t rank, const Collective& call) const {
    const size_t group = job_.group_of[rank][call.group];
    const int64_t self = job_.ranks[rank].metadata.rank;
    if (call.kind == CollectiveKind::kSend && call.peer >= 0) return {group, self, call.peer};
    if (call.kind == CollectiveKind::kReceive && call.peer >= 0) return {group, call.peer, self};
    return {group, -1, -1};
  }

  // A std::map, so that the instances are numbered in the order of their keys and not of a hash.
  void Match() {
    std::map<Key, Calls> families;
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      const auto& calls = job_.ranks[rank].collectives;
      for (size_t i = 0; i < calls.size(); ++i) {
        families[KeyOf(rank, calls[i])].by_rank[rank].push_back(i);
      }
    }
    for (auto& [key, calls] : families) {
      if (calls.by_rank.size() < 2) continue;
      for (auto& [rank, list] : calls.by_rank) SortByLaunch(rank, &list);
      bool numbered = true;
      for (const auto& [rank, list] : calls.by_rank) {
        for (const size_t i : list) {
          numbered = numbered && job_.ranks[rank].collectives[i].sequence >= 0;
        }
      }
      if (numbered)
        MatchBySequence(std::get<0>(key), calls);
      else
        MatchByOrder(std::get<0>(key), calls);
    }
  }

  // Members make their calls in the same order; on several streams they may begin in another.
  void SortByLaunch(size_t rank, std::vector<size_t>* list) const {
    const auto launch = [&](size_t i) { return job_.ranks[rank].collectives[i].launch_ns; };
    if (std::any_of(list->begin(), list->end(),
                    [&](size_t i) { return launch(i) == kNotLaunched; })) {
      return;
    }
    std::stable_sort(list->begin(), list->end(),
                     [&](size_t a, size_t b) { return launch(a) < launch(b); });
  }

  // A call without a partner shows nothing about other ranks.
  void AddInstance(size_t group, std::vector<Member> members) {
    if (members.size() < 2) return;
    Instance instance;
    instance.group = group;
    for (const Member& member : members) {
      const Collective& call = job_.ranks[member.rank].collectives[member.collective];
      instance.kind = call.kind;
      instance.bytes = std::max(instance.bytes, call.bytes);
      job_.instance_of[member.rank][member.collective] =
          static_cast<int32_t>(job_.instances.size());
    }
    instance.members = std::move(members);
    job_.instances.push_back(std::move(instance));
  }

  void MatchBySequence(size_t group, const Calls& calls) {
    std::map<std::pair<int64_t, int>, std::vector<Member>> by_number;
    for (const auto& [rank, list] : calls.by_rank) {
      std::map<std::pair<int64_t, int>, int> seen;
      for (const size_t i : list) {
        const Collective& call = job_.ranks[rank].collectives[i];
        // A coalesced call has several kernels under one number.
        const int kind = IsSymmetric(call.kind) ? static_cast<int>(call.kind) : -1;
        const int repeat = seen[{call.sequence, kind}]++;
        by_number[{call.sequence, kind * 1000 + repeat}].push_back({rank, i});
      }
    }
    for (auto& [number, members] : by_number) AddInstance(group, std::move(members));
  }

  // A send matches a receive. Sizes are compared for symmetric collectives only: for others the two
  // sides may record different counts.
  bool Alike(size_t rank_a, size_t a, size_t rank_b, size_t b) const {
    const Collective& x = job_.ranks[rank_a].collectives[a];
    const Collective& y = job_.ranks[rank_b].collectives[b];
    const bool pair = !IsSymmetric(x.kind) && !IsSymmetric(y.kind);
    return (x.kind == y.kind || pair) && (x.elements == y.elements || !IsSymmetric(x.kind));
  }

  // The shift at which most calls of `list` agree with those of the reference; the smallest of the
  // best ones.
  int64_t BestShift(size_t reference, const std::vector<size_t>& base, size_t rank,
                    const std::vector<size_t>& list) const {
    int64_t best = 0;
    int64_t best_score = INT64_MIN;
    // Shifts in the order 0, -1, 1, -2, 2, ...: the first of equal scores is the smallest. A
    // disagreement counts against a shift, so a long overlap without agreement does not win.
    for (int64_t step = 0; step <= 2 * kMaxShift; ++step) {
      const int64_t shift = step % 2 == 0 ? step / 2 : -(step + 1) / 2;
      int64_t score = 0;
      for (size_t i = 0; i < list.size(); ++i) {
        const int64_t j = static_cast<int64_t>(i) + shift;
        if (j < 0 || j >= static_cast<int64_t>(base.size())) continue;
        score += Alike(rank, list[i], reference, base[static_cast<size_t>(j)]) ? 1 : -1;
      }
      if (score > best_score) {
        best_score = score;
        best = shift;
      }
    }
    return best;
  }

  // Every rank is matched with the first one, the reference. After a call that does not agree, both
  // lists continue at the nearest place where they agree again; if there is none, one call of each
  // is left out.
  void MatchByOrder(size_t group, const Calls& calls) {
    const auto& [reference, base] = *calls.by_rank.begin();
    std::vector<std::vector<Member>> members(base.size());
    for (size_t j = 0; j < base.size(); ++j) members[j].push_back({reference, base[j]});
    for (auto it = std::next(calls.by_rank.begin()); it != calls.by_rank.end(); ++it) {
      const auto& [rank, list] = *it;
      const int64_t shift = BestShift(reference, base, rank, list);
      auto i = static_cast<size_t>(std::max<int64_t>(0, -shift));
      auto j = static_cast<size_t>(std::max<int64_t>(0, shift));
      while (i < list.size() && j < base.size()) {
        if (!Alike(rank, list[i], reference, base[j]) &&
            !Resume(rank, list, &i, reference, base, &j)) {
          ++i;
          ++j;
          continue;
        }
        members[j].push_back({rank, list[i]});
        ++i;
        ++j;
      }
    }
    for (auto& instance : members) AddInstance(group, std::move(instance));
  }

  // The nearest places from which three calls in a row agree again.
  bool Resume(size_t rank, const std::vector<size_t>& list, size_t* i, size_t reference,
              const std::vector<size_t>& base, size_t* j) const {
    for (size_t ahead = 1; ahead <= kMaxLookAhead; ++ahead) {
      for (const auto& [di, dj] : {std::pair<size_t, size_t>{ahead, 0}, {0, ahead}}) {
        size_t agree = 0;
        while (agree < 3 && *i + di + agree < list.size() && *j + dj + agree < base.size() &&
               Alike(rank, list[*i + di + agree], reference, base[*j + dj + agree])) {
          ++agree;
        }
        if (agree == 3) {
          *i += di;
          *j += dj;
          return true;
        }
      }
    }
    return false;
  }

  ProfiledJob& job_;
  const JobOptions& options_;
  int64_t ranks_per_host_ = kUsualRanksPerHost;
  std::map<std::tuple<std::string, std::string, std::vector<int64_t>, int64_t>, size_t> groups_;
};

void FindMissing(ProfiledJob* job) {
  std::set<int64_t> have;
  int64_t world = 0;
  for (const RankSummary& rank : job->ranks) {
    have.insert(rank.metadata.rank);
    world = std::max(world, rank.metadata.world_size);
  }
  // The size of the world comes from a file, so it is limited.
  constexpr int64_t kMaxWorld = 1 << 20;
  for (int64_t rank = 0; rank < std::min(world, kMaxWorld); ++rank) {
    if (!have.contains(rank)) job->missing_ranks.push_back(rank);
  }
}

// Of ranks on a processor: whether they had a core whenever they had work.
void NoteSharedCores(ProfiledJob* job) {
  double wall = 0, cpu = 0;
  for (const RankSummary& rank : job->ranks) {
    for (const ModelOperator& op : rank.model_operators) {
      wall += static_cast<double>(op.wall_ns);
      cpu += static_cast<double>(op.cpu_ns);
    }
  }
  constexpr double kShared = 0.9;
  if (wall <= 0 || cpu >= kShared * wall) return;
  char text[200];
  std::snprintf(text, sizeof(text),
                "operators had a core %.0f %% of their time (%zu ranks on %lld cores, and whatever "
                "else ran): times by the clock hold the waiting for one",
                100 * cpu / wall, job->ranks.size(),
                static_cast<long long>(job->ranks.front().metadata.devices));
  job->warnings.emplace_back(text);
}

}  // namespace

std::string_view ToString(Dimension dimension) {
  constexpr std::array<std::string_view, kDimensions> kNames = {
      "tensor", "context", "expert", "data", "pipeline", "world", "unknown"};
  return kNames[static_cast<size_t>(dimension)];
}

void TimeInstances(ProfiledJob* job) {
  for (Instance& instance : job->instances) {
    instance.last_arrival_ns = INT64_MIN;
    instance.end_ns = INT64_MIN;
    for (size_t m = 0; m < instance.members.size(); ++m) {
      const Member& member = instance.members[m];
      const Collective& call = job->ranks[member.rank].collectives[member.collective];
      if (call.start_ns > instance.last_arrival_ns) {
        instance.last_arrival_ns = call.start_ns;
        instance.last_member = m;
      }
      instance.end_ns = std::max(instance.end_ns, call.end_ns);
    }
  }
}

Result<ProfiledJob> AssembleJob(std::vector<RankSummary> ranks, const JobOptions& options) {
  if (ranks.empty()) return InvalidArgument("no trace to look at");
  ProfiledJob job;
  if (ranks.size() == 1 && ranks[0].metadata.rank == kNoRank) ranks[0].metadata.rank = 0;
  for (const RankSummary& rank : ranks) {
    if (rank.metadata.rank == kNoRank) {
      return InvalidArgument(rank.path +
                             " does not say its rank: name it rank-N.json, or write "
                             "distributedInfo.rank into it");
    }
  }
  std::sort(ranks.begin(), ranks.end(), [](const RankSummary& a, const RankSummary& b) {
    return a.metadata.rank < b.metadata.rank;
  });
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].metadata.rank == ranks[i - 1].metadata.rank) {
      return InvalidArgument("rank " + std::to_string(ranks[i].metadata.rank) +
                             " is there twice: " + ranks[i - 1].path + " and " + ranks[i].path);
    }
  }
  job.ranks = std::move(ranks);
  Assembler(&job, options).Run();
  FindMissing(&job);
  AlignClocks(&job);
  NoteSharedCores(&job);
  return job;
}

}  // namespace longhaul::profiler
