#include "profiler/across/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "profiler/rank/intervals.h"

namespace longhaul::profiler {
namespace {

constexpr double kNotable = 1.01;   // a rank's time over its peers' median
constexpr double kSlowWire = 1.25;  // a link's wire over its siblings' median
constexpr int64_t kLateNs = 10'000;
constexpr double kStallShare = 0.2;  // of a step, at least
constexpr double kStallFactor = 20;  // over the median of its like

constexpr double kNotableFault = 0.01;  // of a step

// What can be put right, where the rest can at most be lessened.
bool IsFault(Cause cause) {
  return cause != Cause::kExposedCommunication && cause != Cause::kHostOverhead &&
         cause != Cause::kImbalance;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", share * 100);
  return text;
}

std::string Milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f ms", seconds * 1e3);
  return text;
}

RankTotals Total(const Job& job, size_t rank, const std::vector<ExposedPiece>& exposed) {
  RankTotals totals;
  const RankSummary& summary = job.ranks[rank];
  for (const Segment& segment : summary.segments) {
    const int64_t length = segment.end_ns - segment.begin_ns;
    totals.spent_ns[static_cast<size_t>(segment.spent)] += length;
    totals.phase_ns[static_cast<size_t>(segment.phase)] += length;
    totals.wall_ns += length;
  }
  std::array<int64_t, kDimensions> shown = {};
  for (const ExposedPiece& piece : exposed) {
    const auto dimension = static_cast<size_t>(piece.dimension);
    const int64_t length = piece.end_ns - piece.begin_ns;
    shown[dimension] += length;
    switch (piece.what) {
      case Exposure::kWire:
        totals.wire_ns[dimension] += length;
        break;
      case Exposure::kWait:
        totals.wait_ns[dimension] += length;
        break;
      case Exposure::kBubble:
        totals.bubble_ns += length;
        break;
      case Exposure::kLateBubble:
        totals.late_bubble_ns += length;
        break;
    }
  }
  if (summary.segments.empty()) return totals;
  const Interval window = {summary.segments.front().begin_ns, summary.segments.back().end_ns};
  std::array<int64_t, kDimensions> whole = {};
  for (size_t i = 0; i < summary.collectives.size(); ++i) {
    const Collective& call = summary.collectives[i];
    whole[static_cast<size_t>(job.DimensionOf(rank, i))] += std::max<int64_t>(
        0, std::min(call.end_ns, window.end) - std::max(call.start_ns, window.begin));
  }
  for (size_t d = 0; d < kDimensions; ++d) {
    totals.hidden_ns[d] = std::max<int64_t>(0, whole[d] - shown[d]);
  }
  return totals;
}

class Finder {
 public:
  explicit Finder(const Job& job) : job_(job), replay_(job) {}

  Findings Run() {
    stages_ = FindStages(job_);
    out_.exposed = CutExposed(job_, stages_);
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      out_.totals.push_back(Total(job_, rank, out_.exposed.pieces[rank]));
      out_.steps = std::max(out_.steps, job_.ranks[rank].steps.size());
    }
    CountLastArrivals();
    base_s_ = replay_.Run();
    const double steps = static_cast<double>(std::max<size_t>(out_.steps, 1));
    out_.replayed_step_s = base_s_ / steps;
    out_.step_s = Measured() / steps;
    out_.path = FindCriticalPath(job_);
    TellStages();
    Peers();
    Stalls();
    Stragglers();
    Links();
    Exposed();
    Imbalance();
    Overheads();
    const auto fault = [this](const Finding& f) {
      return IsFault(f.cause) && f.seconds_per_step >= kNotableFault * out_.step_s;
    };
    std::stable_sort(out_.findings.begin(), out_.findings.end(),
                     [&fault](const Finding& a, const Finding& b) {
                       if (fault(a) != fault(b)) return fault(a);
                       return a.seconds_per_step > b.seconds_per_step;
                     });
    return std::move(out_);
  }

 private:
  double Steps() const { return static_cast<double>(std::max<size_t>(out_.steps, 1)); }

  double Measured() const {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (const RankSummary& rank : job_.ranks) {
      if (rank.segments.empty()) continue;
      first = std::min(first, rank.segments.front().begin_ns);
      last = std::max(last, rank.segments.back().end_ns);
    }
    return first > last ? 0 : static_cast<double>(last - first) * 1e-9;
  }

  static double Work(const Change& change, size_t rank, Spent spent) {
    return change.work ? change.work(rank, spent) : 1;
  }
  static double WireOf(const Change& change, size_t i) { return change.wire ? change.wire(i) : 1; }
  double Named(size_t rank, Spent spent) const {
    double factor = 1;
    for (const Change& change : named_) factor *= Work(change, rank, spent);
    return factor;
  }
  double NamedWire(size_t i) const {
    double factor = 1;
    for (const Change& change : named_) factor *= WireOf(change, i);
    return factor;
  }

  double NamedMoment(size_t rank, int64_t begin_ns) const {
    double factor = 1;
    for (const Change& change : named_) {
      if (change.moment) factor *= change.moment(rank, begin_ns);
    }
    return factor;
  }

  void Add(Cause cause, std::string subject, std::vector<size_t> ranks, const Change& change,
           std::string evidence, bool named = false) {
    Finding finding;
    finding.cause = cause;
    finding.subject = std::move(subject);
    for (const size_t rank : ranks) finding.ranks.push_back(job_.ranks[rank].metadata.rank);
    // What all ranks share is priced with the named faults already put right.
    Change both = change;
    double base_s = base_s_;
    if (named) {
      named_.push_back(change);
    } else {
      both.work = [&](size_t rank, Spent spent) {
        return Named(rank, spent) * Work(change, rank, spent);
      };
      both.wire = [&](size_t i) { return NamedWire(i) * WireOf(change, i); };
      both.moment = [&](size_t rank, int64_t begin_ns) { return NamedMoment(rank, begin_ns); };
      Change fixed;
      fixed.work = [&](size_t rank, Spent spent) { return Named(rank, spent); };
      fixed.wire = [&](size_t i) { return NamedWire(i); };
      fixed.moment = both.moment;
      base_s = replay_.Run(fixed);
    }
    finding.seconds_per_step = (base_s - replay_.Run(both)) / Steps();
    finding.evidence = std::move(evidence);
    const double floor_s = std::max(job_.clocks.residual_us_p95 * 1e-6, out_.step_s * 0.001);
    if (finding.seconds_per_step > floor_s) out_.findings.push_back(std::move(finding));
  }

  void CountLastArrivals() {
    for (const Instance& instance : job_.instances) {
      int64_t second = INT64_MIN;
      for (size_t m = 0; m < instance.members.size(); ++m) {
        if (m == instance.last_member) continue;
        const Member& member = instance.members[m];
        second = std::max(second, job_.ranks[member.rank].collectives[member.collective].start_ns);
      }
      if (instance.last_arrival_ns - second > kLateNs) {
        ++out_.totals[instance.members[instance.last_member].rank].last_arrivals;
      }
    }
  }

  void TellStages() {
    std::map<size_t, std::vector<size_t>> stages;
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      stages[stages_.of[rank]].push_back(rank);
    }
    if (stages.size() < 2) return;
    const double p = static_cast<double>(stages.size());
    double bubble = 0;
    for (const auto& [number, ranks] : stages) {
      Pipeline::Stage stage;
      for (const size_t rank : ranks) {
        stage.ranks.push_back(job_.ranks[rank].metadata.rank);
        const RankTotals& totals = out_.totals[rank];
        stage.compute_s += static_cast<double>(totals.compute_ns()) * 1e-9;
        stage.late_s += static_cast<double>(totals.late_bubble_ns) * 1e-9;
        stage.bubble_s +=
            static_cast<double>(totals.bubble_ns + totals.late_bubble_ns + Outside(rank)) * 1e-9;
      }
      const double scale = 1 / (Steps() * static_cast<double>(ranks.size()));
      stage.compute_s *= scale;
      stage.late_s *= scale;
      stage.bubble_s *= scale;
      stage.due_s = (p - 1) * static_cast<double>(out_.exposed.slot_ns) * 1e-9;
      bubble += stage.bubble_s;
      out_.pipeline.stages.push_back(std::move(stage));
    }
    out_.pipeline.measured_bubble = out_.step_s > 0 ? bubble / p / out_.step_s : 0;
    out_.pipeline.micro_batches = stages_.micro_batches;
    if (out_.pipeline.micro_batches == 0) return;
    out_.pipeline.expected_bubble =
        (p - 1) / (static_cast<double>(out_.pipeline.micro_batches) + p - 1);
  }

  // Of the job's time before the rank's first step and behind its last.
  int64_t Outside(size_t rank) const {
    const auto& segments = job_.ranks[rank].segments;
    if (segments.empty()) return 0;
    return std::llround(Measured() * 1e9) - (segments.back().end_ns - segments.front().begin_ns);
  }

  void Peers() {
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank)
      peers_[stages_.of[rank]].push_back(rank);
  }

  uint64_t ComputeKernels(size_t rank) const {
    uint64_t count = 0;
    for (const KernelTotal& kernel : job_.ranks[rank].kernels) {
      if (kernel.kind < KernelClass::kCommunication) count += kernel.count;
    }
    return count;
  }

  // Of each rank the factor by which its `part` exceeds its peers' median.
  template <typename Part>
  std::map<size_t, double> Excess(Part part, double least_s) const {
    std::map<size_t, double> excess;
    for (const auto& [stage, ranks] : peers_) {
      if (ranks.size() < 2) continue;
      for (const size_t rank : ranks) {
        std::vector<double> others;
        for (const size_t other : ranks) {
          if (other != rank) others.push_back(part(out_.totals[other]));
        }
        const double median = Median(std::move(others));
        const double own = part(out_.totals[rank]);
        if (own > kNotable * median && own - median > least_s * 1e9 * Steps()) {
          excess[rank] = median / own;
        }
      }
    }
    return excess;
  }

  void Stalls() {
    const auto least_ns = static_cast<int64_t>(out_.step_s * kStallShare * 1e9);
    StalledCalls(least_ns);
    StalledWork(least_ns);
  }

  std::string StepAt(size_t rank, int64_t time_ns) const {
    std::string name;
    for (const Step& step : job_.ranks[rank].steps) {
      if (step.begin_ns <= time_ns) name = step.name;
    }
    return name.empty() ? "before the first step" : "in " + name;
  }

  // A call that took so long on the wire once: one of its members stood still in it. It is the one
  // that left it long after the others, or else whose process had much less of a processor.
  void StalledCalls(int64_t least_ns) {
    std::map<std::tuple<size_t, CollectiveKind, int64_t>, std::vector<double>> families;
    const auto family = [this](const Instance& i) {
      return std::make_tuple(static_cast<size_t>(job_.groups[i.group].dimension), i.kind, i.bytes);
    };
    for (const Instance& instance : job_.instances) {
      families[family(instance)].push_back(static_cast<double>(instance.wire_ns()));
    }
    for (size_t i = 0; i < job_.instances.size(); ++i) {
      const Instance& instance = job_.instances[i];
      if (instance.wire_ns() < least_ns) continue;
      const double usual = Median(families.at(family(instance)));
      if (static_cast<double>(instance.wire_ns()) < kStallFactor * usual) continue;
      std::vector<Member> members;
      for (const Member& m : instance.members) {
        const Collective& call = job_.ranks[m.rank].collectives[m.collective];
        if (instance.end_ns - call.end_ns < instance.wire_ns() / 2) members.push_back(m);
      }
      const bool stayed = members.size() == 1;
      const auto cpu = [this](const Member& m) {
        return job_.ranks[m.rank].collectives[m.collective].cpu_ns;
      };
      std::stable_sort(members.begin(), members.end(),
                       [&](const Member& a, const Member& b) { return cpu(a) < cpu(b); });
      const bool told = stayed || (cpu(members[0]) >= 0 && cpu(members[0]) * 3 < cpu(members[1]));
      if (told) members.resize(1);
      std::vector<size_t> ranks;
      std::string subject = told ? "rank" : "one of ranks";
      for (const Member& m : members) {
        ranks.push_back(m.rank);
        subject += " " + std::to_string(job_.ranks[m.rank].metadata.rank);
      }
      Change change;
      change.wire = [i, usual, &instance](size_t other) {
        return other == i ? usual / static_cast<double>(instance.wire_ns()) : 1.0;
      };
      std::string evidence = StepAt(ranks.front(), instance.last_arrival_ns) + " one " +
                             std::string(ToString(instance.kind)) + " took " +
                             Milliseconds(static_cast<double>(instance.wire_ns()) * 1e-9) +
                             " after all had come, its like " + Milliseconds(usual * 1e-9);
      if (stayed) {
        evidence += "; the others left it long before";
      } else if (told) {
        evidence += "; the rank's process had the least of a processor meanwhile";
      }
      Add(Cause::kStall, subject, ranks, change, std::move(evidence), true);
    }
  }

  void StalledWork(int64_t least_ns) {
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      std::array<std::vector<double>, kSpentKinds> lengths;
      for (const Segment& s : job_.ranks[rank].segments) {
        lengths[static_cast<size_t>(s.spent)].push_back(static_cast<double>(s.end_ns - s.begin_ns));
      }
      for (const Segment& s : job_.ranks[rank].segments) {
        const auto length = static_cast<double>(s.end_ns - s.begin_ns);
        const bool works = IsCompute(s.spent) || s.spent == Spent::kHost || s.spent == Spent::kCopy;
        if (!works || s.end_ns - s.begin_ns < least_ns) continue;
        const double usual = Median(lengths[static_cast<size_t>(s.spent)]);
        if (length < kStallFactor * usual || lengths[static_cast<size_t>(s.spent)].size() < 4) {
          continue;
        }
        Change change;
        change.moment = [rank, s, scale = usual / length](size_t other, int64_t begin_ns) {
          return other == rank && begin_ns >= s.begin_ns && begin_ns < s.end_ns ? scale : 1.0;
        };
        const std::string subject = "rank " + std::to_string(job_.ranks[rank].metadata.rank);
        Add(Cause::kStall, subject, {rank}, change,
            StepAt(rank, s.begin_ns) + " it once spent " + Milliseconds(length * 1e-9) + " on " +
                std::string(ToString(s.spent)) + " without a break, where " +
                Milliseconds(usual * 1e-9) + " are usual",
            true);
      }
    }
  }

  void Stragglers() {
    const double least_s = out_.step_s * 0.002;
    const auto compute = [](const RankTotals& t) { return static_cast<double>(t.compute_ns()); };
    const auto host = [](const RankTotals& t) {
      return static_cast<double>(t.spent_ns[static_cast<size_t>(Spent::kHost)]);
    };
    const auto input = [](const RankTotals& t) {
      return static_cast<double>(t.spent_ns[static_cast<size_t>(Spent::kInput)]);
    };
    Report(Cause::kSlowKernels, Excess(compute, least_s), &IsCompute, "computes");
    Report(
        Cause::kLateHost, Excess(host, least_s), [](Spent s) { return s == Spent::kHost; },
        "waits for its host");
    Report(
        Cause::kInput, Excess(input, least_s), [](Spent s) { return s == Spent::kInput; },
        "waits for its input");
  }

  template <typename Belongs>
  void Report(Cause cause, const std::map<size_t, double>& excess, Belongs belongs,
              const std::string& verb) {
    std::map<size_t, std::vector<size_t>> by_host;
    for (const auto& [rank, factor] : excess) by_host[job_.host_of[rank]].push_back(rank);
    for (const auto& [host, ranks] : by_host) {
      const auto on_host =
          static_cast<size_t>(std::count(job_.host_of.begin(), job_.host_of.end(), host));
      const bool whole = ranks.size() == on_host && on_host > 1 && job_.clocks.hosts.size() > 1;
      if (whole) {
        One(cause, job_.clocks.hosts[host].name, ranks, excess, belongs, verb);
        continue;
      }
      for (const size_t rank : ranks) {
        One(cause, "rank " + std::to_string(job_.ranks[rank].metadata.rank), {rank}, excess,
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
    const size_t rank = ranks.front();
    const double over = 1 / std::max(excess.at(rank), 1e-3) - 1;
    const size_t peers = peers_.at(stages_.of[rank]).size() - 1;
    std::string evidence =
        subject + " " + verb + " " + (over > 10 ? "many times" : Percent(over)) + " longer than " +
        (peers == 1 ? "its peer" : "the median of its " + std::to_string(peers) + " peers");
    if (cause == Cause::kSlowKernels) {
      std::vector<double> counts;
      for (const size_t peer : peers_.at(stages_.of[rank])) {
        if (peer != rank) counts.push_back(static_cast<double>(ComputeKernels(peer)));
      }
      const double own = static_cast<double>(ComputeKernels(rank));
      const bool more = own > Median(std::move(counts)) * kNotable;
      if (more) cause = Cause::kMoreWork;
      evidence += more ? ", with more kernels" : ", with as many kernels";
    }
    evidence +=
        "; it came last to " + std::to_string(out_.totals[rank].last_arrivals) + " collectives";
    Add(cause, subject, ranks, change, std::move(evidence), true);
  }

  // The ranks of an exchange; of a send and receive the sender first.
  std::vector<int64_t> PairOf(const Instance& instance) const {
    std::vector<int64_t> ranks;
    for (const Member& m : instance.members) {
      const Collective& call = job_.ranks[m.rank].collectives[m.collective];
      const int64_t rank = job_.ranks[m.rank].metadata.rank;
      if (call.kind == CollectiveKind::kSend)
        ranks.insert(ranks.begin(), rank);
      else
        ranks.push_back(rank);
    }
    return ranks;
  }

  // Exchanges of one dimension, kind and size are siblings; groups that take longer stand out.
  void Links() {
    struct Wire {
      std::vector<double> seconds;
      std::vector<size_t> instances;
    };
    using Pair = std::vector<int64_t>;
    std::map<std::tuple<Dimension, bool, int64_t>, std::map<Pair, Wire>> families;
    for (size_t i = 0; i < job_.instances.size(); ++i) {
      const Instance& instance = job_.instances[i];
      Pair ranks = PairOf(instance);
      const bool up = ranks.front() < ranks.back();
      Wire& wire = families[{job_.groups[instance.group].dimension, up, instance.bytes}][ranks];
      wire.seconds.push_back(static_cast<double>(instance.wire_ns()) * 1e-9);
      wire.instances.push_back(i);
    }
    std::map<Pair, std::map<size_t, double>> slow;  // the factor of each instance
    std::map<Pair, double> worst;
    for (const auto& [family, groups] : families) {
      if (groups.size() < 3) continue;
      for (const auto& [ranks, wire] : groups) {
        std::vector<double> others;
        for (const auto& [other, times] : groups) {
          if (other != ranks) others.push_back(Median(times.seconds));
        }
        const double usual = Median(std::move(others));
        const double own = Median(wire.seconds);
        if (own < kSlowWire * usual || own - usual < 2e-6) continue;
        for (const size_t i : wire.instances) slow[ranks][i] = usual / own;
        worst[ranks] = std::max(worst[ranks], own / usual);
      }
    }
    for (const auto& [ranks, factors] : slow) {
      Change change;
      change.wire = [scale = factors](size_t i) {
        const auto found = scale.find(i);
        return found == scale.end() ? 1.0 : found->second;
      };
      std::string name = "link";
      for (const int64_t rank : ranks) {
        name += (rank == ranks.front() ? " " : "-") + std::to_string(rank);
      }
      char text[160];
      std::snprintf(text, sizeof(text),
                    "%.1f times the wire time of like exchanges, over %zu calls", worst[ranks],
                    factors.size());
      std::vector<size_t> places;
      for (const Member& m : job_.instances[factors.begin()->first].members) {
        places.push_back(m.rank);
      }
      Add(Cause::kSlowLink, name, places, change, text, true);
    }
  }

  void Exposed() {
    for (size_t d = 0; d < kDimensions; ++d) {
      int64_t wire = 0;
      for (const RankTotals& totals : out_.totals) wire += totals.wire_ns[d];
      if (wire == 0) continue;
      Change change;
      change.wire = [this, d](size_t i) {
        const Group& group = job_.groups[job_.instances[i].group];
        return static_cast<size_t>(group.dimension) == d ? 0.0 : 1.0;
      };
      const double mean_s =
          static_cast<double>(wire) * 1e-9 / (Steps() * static_cast<double>(job_.ranks.size()));
      Add(Cause::kExposedCommunication, std::string(ToString(static_cast<Dimension>(d))), {},
          change,
          "exposed on the wire " + Milliseconds(mean_s) + " a step and rank (" +
              Percent(mean_s / out_.step_s) + " of the step); worth if it were all hidden");
    }
  }

  void Imbalance() {
    const auto& stages = out_.pipeline.stages;
    if (stages.size() < 2) return;
    double mean = 0, most = 0;
    size_t slowest = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      mean += stages[s].compute_s / static_cast<double>(stages.size());
      if (stages[s].compute_s > most) slowest = s;
      most = std::max(most, stages[s].compute_s);
    }
    if (!(most > kNotable * mean)) return;
    Change change;
    change.work = [&](size_t rank, Spent spent) {
      return IsCompute(spent) ? mean / std::max(stages[stages_.of[rank]].compute_s, 1e-12) : 1.0;
    };
    std::vector<size_t> ranks = peers_.at(slowest);
    Add(Cause::kImbalance, "stage " + std::to_string(slowest), ranks, change,
        "computes " + Percent(most / mean - 1) + " longer than the mean stage");
  }

  void Overheads() {
    const auto add = [this](Spent which, Cause cause, const std::string& name) {
      int64_t sum = 0;
      for (const RankTotals& totals : out_.totals)
        sum += totals.spent_ns[static_cast<size_t>(which)];
      if (sum == 0) return;
      Change change;
      change.work = [which](size_t, Spent spent) { return spent == which ? 0.0 : 1.0; };
      const double mean_s =
          static_cast<double>(sum) * 1e-9 / (Steps() * static_cast<double>(job_.ranks.size()));
      Add(cause, name, {}, change, Percent(mean_s / out_.step_s) + " of the step on the mean rank");
    };
    add(Spent::kHost, Cause::kHostOverhead, "all ranks");
    add(Spent::kInput, Cause::kInput, "all ranks");
  }

  const Job& job_;
  Replay replay_;
  Findings out_;
  double base_s_ = 0;
  std::vector<Change> named_;
  Stages stages_;
  std::map<size_t, std::vector<size_t>> peers_;
};

}  // namespace

int64_t RankTotals::compute_ns() const {
  int64_t sum = 0;
  for (size_t i = 0; i < kComputeClasses; ++i) sum += spent_ns[i];
  return sum;
}

int64_t RankTotals::sum_ns() const {
  int64_t sum = 0;
  for (size_t i = 0; i < kSpentKinds; ++i) {
    if (static_cast<Spent>(i) != Spent::kExposed) sum += spent_ns[i];
  }
  for (size_t d = 0; d < kDimensions; ++d) sum += wait_ns[d] + wire_ns[d];
  return sum + bubble_ns + late_bubble_ns;
}

std::string_view ToString(Cause cause) {
  constexpr std::array<std::string_view, 9> kNames = {
      "slow kernels",          "more work",       "late host",     "late input", "slow link",
      "exposed communication", "stage imbalance", "host overhead", "stall"};
  return kNames[static_cast<size_t>(cause)];
}

std::string_view RemedyOf(Cause cause) {
  switch (cause) {
    case Cause::kSlowKernels:
      return "look at its clock, power and heat, or run without its node";
    case Cause::kMoreWork:
      return "balance what the ranks are given: sequence lengths, experts, layers";
    case Cause::kLateHost:
      return "look at what else runs on its processor, and where its threads are bound";
    case Cause::kInput:
      return "more loader workers, a deeper prefetch, or data nearer by";
    case Cause::kSlowLink:
      return "look at the link's counters and cables, or keep the pair off it";
    case Cause::kExposedCommunication:
      return "start it earlier behind computation, or plan a smaller dimension (longhaul plan)";
    case Cause::kImbalance:
      return "move layers from the long stage to the others";
    case Cause::kHostOverhead:
      return "fewer and larger kernels: graphs, fusion, a bigger micro-batch";
    case Cause::kStall:
      return "look into the node's log at that time";
  }
  return "";
}

Findings FindAll(const Job& job) { return Finder(job).Run(); }

}  // namespace longhaul::profiler
