#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "profiler/across/suspects.h"

namespace longhaul::profiler {
namespace {

constexpr double kStallShare = 0.2;  // of a step, at least
constexpr double kStallFactor = 20;  // over the median of similar ones
// And over the third longest of them: a shared processor takes many pieces their turn, of like
// length, which is a late host and no stall.
constexpr double kOnceFactor = 3;
constexpr size_t kStallsAtMost = 2;  // of a kind on a rank

// The least that stands out of these, of which there are some.
// Up to kStallsAtMost values may stand out; the next one must already be of the usual kind.
double LeastStall(std::vector<double> lengths) {
  std::sort(lengths.begin(), lengths.end());
  const size_t n = lengths.size();
  const double next = n > kStallsAtMost ? lengths[n - 1 - kStallsAtMost] : 0;
  return std::max(kStallFactor * Median(std::move(lengths)), kOnceFactor * next);
}

class StallFinder {
 public:
  explicit StallFinder(const Surroundings& around) : around_(around) {}

  std::vector<Suspect> Find() {
    const auto least_ns = static_cast<int64_t>(around_.step_s * kStallShare * 1e9);
    StalledCalls(least_ns);
    StalledWork(least_ns);
    return std::move(found_);
  }

 private:
  std::string StepAt(size_t rank, int64_t time_ns) const {
    std::string name;
    for (const Step& step : around_.job.ranks[rank].steps) {
      if (step.begin_ns <= time_ns) name = step.name;
    }
    return name.empty() ? "before the first step" : "in " + name;
  }

  // A call that took so long on the wire once: one of its members stood still in it. It is the one
  // that left it long after the others, or else whose process had much less of a processor.
  void StalledCalls(int64_t least_ns) {
    std::map<std::tuple<size_t, CollectiveKind, int64_t>, std::vector<double>> families;
    const auto family = [this](const Instance& i) {
      return std::make_tuple(static_cast<size_t>(around_.job.groups[i.group].dimension), i.kind,
                             i.bytes);
    };
    for (const Instance& instance : around_.job.instances) {
      // Calls of one dimension, kind and size take similarly long, whichever group they are of.
      families[family(instance)].push_back(static_cast<double>(instance.wire_ns()));
    }
    for (size_t i = 0; i < around_.job.instances.size(); ++i) {
      const Instance& instance = around_.job.instances[i];
      if (instance.wire_ns() < least_ns) continue;
      const std::vector<double>& like = families.at(family(instance));
      if (static_cast<double>(instance.wire_ns()) < LeastStall(like)) continue;
      const double usual = Median(like);
      std::vector<Member> members;
      for (const Member& m : instance.members) {
        const Collective& call = around_.job.ranks[m.rank].collectives[m.collective];
        if (instance.end_ns - call.end_ns < instance.wire_ns() / 2) members.push_back(m);
      }
      const bool stayed = members.size() == 1;
      const auto cpu = [this](const Member& m) {
        return around_.job.ranks[m.rank].collectives[m.collective].cpu_ns;
      };
      std::stable_sort(members.begin(), members.end(),
                       [&](const Member& a, const Member& b) { return cpu(a) < cpu(b); });
      const bool identified =
          stayed || (cpu(members[0]) >= 0 && cpu(members[0]) * 3 < cpu(members[1]));
      if (identified) members.resize(1);
      std::vector<size_t> ranks;
      std::string subject = identified ? "rank" : "one of ranks";
      for (const Member& m : members) {
        ranks.push_back(m.rank);
        subject += " " + std::to_string(around_.job.ranks[m.rank].metadata.rank);
      }
      Change change;
      change.wire = [i, usual, &instance](size_t other) {
        return other == i ? usual / static_cast<double>(instance.wire_ns()) : 1.0;
      };
      std::string evidence = StepAt(ranks.front(), instance.last_arrival_ns) + " one " +
                             std::string(ToString(instance.kind)) + " took " +
                             Milliseconds(static_cast<double>(instance.wire_ns()) * 1e-9) +
                             " after all had come, similar ones " + Milliseconds(usual * 1e-9);
      if (stayed) {
        evidence += "; the others left it long before";
      } else if (identified) {
        evidence += "; the rank's process had the least of a processor meanwhile";
      }
      found_.push_back({Cause::kStall, subject, ranks, std::move(evidence), change});
    }
  }

  void StalledWork(int64_t least_ns) {
    for (size_t rank = 0; rank < around_.job.ranks.size(); ++rank) {
      // Of a kind, and of a kind in a phase: a product of the backward is twice the forward's.
      constexpr size_t kAnyPhase = kPhases;
      std::array<std::array<std::vector<double>, kPhases + 1>, kSpentKinds> lengths;
      for (const Segment& s : around_.job.ranks[rank].segments) {
        const auto length = static_cast<double>(s.end_ns - s.begin_ns);
        auto& kind = lengths[static_cast<size_t>(s.spent)];
        kind[kAnyPhase].push_back(length);
        if (IsCompute(s.spent)) kind[static_cast<size_t>(s.phase)].push_back(length);
      }
      for (const Segment& s : around_.job.ranks[rank].segments) {
        const auto length = static_cast<double>(s.end_ns - s.begin_ns);
        const bool works = IsCompute(s.spent) || s.spent == Spent::kHost || s.spent == Spent::kCopy;
        if (!works || s.end_ns - s.begin_ns < least_ns) continue;
        const auto& kind = lengths[static_cast<size_t>(s.spent)];
        const std::vector<double>& of_phase = kind[static_cast<size_t>(s.phase)];
        constexpr size_t kFew = 4;
        const std::vector<double>& like = of_phase.size() < kFew ? kind[kAnyPhase] : of_phase;
        if (like.size() < kFew || length < LeastStall(like)) continue;
        const double usual = Median(like);
        Change change;
        change.moment = [rank, s, scale = usual / length](size_t other, int64_t begin_ns) {
          return other == rank && begin_ns >= s.begin_ns && begin_ns < s.end_ns ? scale : 1.0;
        };
        const std::string subject = "rank " + std::to_string(around_.job.ranks[rank].metadata.rank);
        std::string evidence = StepAt(rank, s.begin_ns) + " it once spent " +
                               Milliseconds(length * 1e-9) + " on " +
                               std::string(ToString(s.spent)) + " without a break, where " +
                               Milliseconds(usual * 1e-9) + " are usual";
        found_.push_back({Cause::kStall, subject, {rank}, std::move(evidence), change});
      }
    }
  }

  const Surroundings& around_;
  std::vector<Suspect> found_;
};

}  // namespace

std::vector<Suspect> FindStalls(const Surroundings& around) { return StallFinder(around).Find(); }

}  // namespace longhaul::profiler
