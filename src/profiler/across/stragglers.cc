#include <algorithm>
#include <map>

#include "profiler/across/host_chain.h"
#include "profiler/across/suspects.h"

namespace longhaul::profiler {
namespace {

constexpr double kNotableRank = 1.01;  // a rank's time over its peers' median

class StragglerFinder {
 public:
  explicit StragglerFinder(const Surroundings& around) : around_(around) {
    for (size_t rank = 0; rank < around.job.ranks.size(); ++rank) {
      peers_[around.stages.of[rank]].push_back(rank);
      const HostChain chain = ChainOf(around.job.ranks[rank]);
      host_waits_known_.push_back(!chain.waits.empty());
      const auto left = [&](int64_t time_ns) { return Unstalled(rank, time_ns); };
      worked_ns_.push_back(static_cast<double>(chain.work_ns(left)));
      loaded_ns_.push_back(static_cast<double>(chain.input_ns()));
    }
  }

  std::vector<Suspect> Find() {
    Compare();
    return std::move(found_);
  }

 private:
  // The share of the rank's work at this time that is left without the stalls.
  double Unstalled(size_t rank, int64_t time_ns) const {
    double share = 1;
    for (const Change& stall : around_.stalls) {
      if (stall.moment) share *= stall.moment(rank, time_ns);
    }
    return share;
  }

  // What the rank spends so, ns, without stalls.
  template <typename Belongs>
  double Spends(size_t rank, Belongs belongs) const {
    double sum_ns = 0;
    for (const Segment& s : around_.job.ranks[rank].segments) {
      if (!belongs(s.spent)) continue;
      sum_ns += Unstalled(rank, s.begin_ns) * static_cast<double>(s.end_ns - s.begin_ns);
    }
    return sum_ns;
  }

  uint64_t ComputeKernels(size_t rank) const {
    uint64_t count = 0;
    for (const KernelTotal& kernel : around_.job.ranks[rank].kernels) {
      if (kernel.kind < KernelClass::kCommunication) count += kernel.count;
    }
    return count;
  }

  // Of each rank the factor by which its `part` exceeds its peers' median.
  template <typename Part>
  // The peers are compared without the rank itself, or a slow rank of few would raise its own
  // median. Both a ratio and an absolute excess are required: a short part may differ by much
  // without effect. Quadratic in the peers of a stage.
  std::map<size_t, double> Excess(Part part, double least_s) const {
    std::map<size_t, double> excess;
    for (const auto& [stage, ranks] : peers_) {
      if (ranks.size() < 2) continue;
      for (const size_t rank : ranks) {
        std::vector<double> others;
        for (const size_t other : ranks) {
          if (other != rank) others.push_back(part(other));
        }
        const double median = Median(std::move(others));
        const double own = part(rank);
        if (own > kNotableRank * median && own - median > least_s * 1e9 * around_.steps) {
          excess[rank] = median / own;
        }
      }
    }
    return excess;
  }

  void Compare() {
    const double least_s = around_.step_s * 0.002;
    const auto compute = [this](size_t rank) { return Spends(rank, &IsCompute); };
    // An idle time may be hidden by an exchange: where the host's own time is known that counts.
    const bool all_known = std::find(host_waits_known_.begin(), host_waits_known_.end(), false) ==
                           host_waits_known_.end();
    const auto host = [this, all_known](size_t rank) {
      return all_known ? worked_ns_[rank] : Spends(rank, [](Spent s) { return s == Spent::kHost; });
    };
    const auto input = [this, all_known](size_t rank) {
      const auto idle = around_.totals[rank].spent_ns[static_cast<size_t>(Spent::kInput)];
      return all_known ? loaded_ns_[rank] : static_cast<double>(idle);
    };
    Report(Cause::kSlowKernels, Excess(compute, least_s), &IsCompute, "computes");
    Report(
        Cause::kLateHost, Excess(host, least_s), [](Spent s) { return s == Spent::kHost; },
        all_known ? "is launched by a host that works" : "waits for its host");
    Report(
        Cause::kInput, Excess(input, least_s), [](Spent s) { return s == Spent::kInput; },
        "waits for its input");
  }

  template <typename Belongs>
  // Where all ranks of a host are slow, the cause is likely the host's, so it is one finding and
  // one change.
  void Report(Cause cause, const std::map<size_t, double>& excess, Belongs belongs,
              const std::string& verb) {
    std::map<size_t, std::vector<size_t>> by_host;
    for (const auto& [rank, factor] : excess) by_host[around_.job.host_of[rank]].push_back(rank);
    for (const auto& [host, ranks] : by_host) {
      const auto on_host = static_cast<size_t>(
          std::count(around_.job.host_of.begin(), around_.job.host_of.end(), host));
      const bool whole =
          ranks.size() == on_host && on_host > 1 && around_.job.clocks.hosts.size() > 1;
      if (whole) {
        One(cause, around_.job.clocks.hosts[host].name, ranks, excess, belongs, verb);
        continue;
      }
      for (const size_t rank : ranks) {
        One(cause, "rank " + std::to_string(around_.job.ranks[rank].metadata.rank), {rank}, excess,
            belongs, verb);
      }
    }
  }

  template <typename Belongs>
  void One(Cause cause, const std::string& subject, const std::vector<size_t>& ranks,
           const std::map<size_t, double>& excess, Belongs belongs, const std::string& verb) {
    Change change;
    change.work = [belongs, ranks, excess](size_t rank, Spent spent) {
      if (!belongs(spent) || std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) return 1.0;
      return excess.at(rank);
    };
    // The figures of the first rank stand for all of a host.
    const size_t rank = ranks.front();
    const double over = 1 / std::max(excess.at(rank), 1e-3) - 1;
    const size_t peers = peers_.at(around_.stages.of[rank]).size() - 1;
    std::string evidence =
        subject + " " + verb + " " + (over > 10 ? "many times" : Percent(over)) + " longer than " +
        (peers == 1 ? "its peer" : "the median of its " + std::to_string(peers) + " peers");
    if (cause == Cause::kSlowKernels) {
      std::vector<double> counts;
      for (const size_t peer : peers_.at(around_.stages.of[rank])) {
        if (peer != rank) counts.push_back(static_cast<double>(ComputeKernels(peer)));
      }
      const double own = static_cast<double>(ComputeKernels(rank));
      const bool more = own > Median(std::move(counts)) * kNotableRank;
      if (more) cause = Cause::kMoreWork;
      evidence += more ? ", with more kernels" : ", with as many kernels";
    }
    evidence +=
        "; it came last to " + std::to_string(around_.totals[rank].last_arrivals) + " collectives";
    found_.push_back({cause, subject, ranks, std::move(evidence), change});
  }

  const Surroundings& around_;
  std::map<size_t, std::vector<size_t>> peers_;  // of a stage
  std::vector<bool> host_waits_known_;           // of each rank: when its host waited
  std::vector<double> worked_ns_, loaded_ns_;
  std::vector<Suspect> found_;
};

}  // namespace

std::vector<Suspect> FindStragglers(const Surroundings& around) {
  return StragglerFinder(around).Find();
}

}  // namespace longhaul::profiler
