#include "profiler/across/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "profiler/across/suspects.h"

namespace longhaul::profiler {
namespace {

constexpr double kNotable = 1.01;       // the longest stage over the mean
constexpr double kNotableFault = 0.01;  // of a step

// What can be put right, where the rest is as the job is planned.
bool IsFault(Cause cause) {
  return cause != Cause::kExposedCommunication && cause != Cause::kHostOverhead &&
         cause != Cause::kImbalance;
}

class Finder {
 public:
  Finder(const ProfiledJob& job, std::optional<Schedule> schedule)
      : job_(job), replay_(job), schedule_(schedule) {}

  // Stalls come first: the searches for stragglers and slow links leave them out, or a single stall
  // would make its rank slow in the mean. The sort is stable, so findings of equal worth keep the
  // order of their kinds.
  Findings Run() {
    stages_ = FindStages(job_, schedule_);
    out_.exposed = CutExposed(job_, stages_);
    out_.totals = TotalsOf(job_, out_.exposed);
    for (const RankSummary& rank : job_.ranks) out_.steps = std::max(out_.steps, rank.steps.size());
    base_s_ = replay_.Run();
    const double steps = static_cast<double>(std::max<size_t>(out_.steps, 1));
    out_.replayed_step_s = base_s_ / steps;
    out_.step_s = Measured() / steps;
    out_.path = FindCriticalPath(job_);
    TellStages();
    Surroundings around = {job_, out_.totals, stages_, out_.step_s, steps};
    std::vector<Suspect> suspects = FindStalls(around);
    for (const Suspect& stall : suspects) around.stalls.push_back(stall.change);
    for (auto* find : {&FindStragglers, &FindSlowLinks}) {
      for (Suspect& suspect : find(around)) suspects.push_back(std::move(suspect));
    }
    for (Suspect& suspect : suspects) Add(std::move(suspect), true);
    Exposed();
    Imbalance();
    Overheads();
    std::stable_sort(out_.findings.begin(), out_.findings.end(),
                     [](const Finding& a, const Finding& b) {
                       if (a.fault != b.fault) return a.fault;
                       return a.seconds_per_step > b.seconds_per_step;
                     });
    return std::move(out_);
  }

 private:
  double Steps() const { return static_cast<double>(std::max<size_t>(out_.steps, 1)); }

  // From the first begin to the last end on the common clock, as the replay measures it.
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

  void Add(Suspect suspect, bool named = false) {
    Finding finding;
    finding.cause = suspect.cause;
    finding.subject = std::move(suspect.subject);
    for (const size_t rank : suspect.ranks) {
      finding.ranks.push_back(job_.ranks[rank].metadata.rank);
    }
    const Change& change = suspect.change;
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
    finding.evidence = std::move(suspect.evidence);
    finding.fault =
        IsFault(finding.cause) && finding.seconds_per_step >= kNotableFault * out_.step_s;
    // Worths below the precision of the clocks, or below a thousandth of a step, are noise.
    const double floor_s = std::max(job_.clocks.residual_us_p95 * 1e-6, out_.step_s * 0.001);
    if (finding.seconds_per_step > floor_s) out_.findings.push_back(std::move(finding));
  }

  void TellStages() {
    std::map<size_t, std::vector<size_t>> stages;
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      stages[stages_.of[rank]].push_back(rank);
    }
    if (stages.size() < 2) return;
    const double p = static_cast<double>(stages.size());
    double bubble = 0;
    // A stage that ends earlier than the longest one idles at the end of the trace too; this idle
    // time is part of its bubble.
    int64_t longest = 0;
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) longest = std::max(longest, Own(rank));
    for (const auto& [number, ranks] : stages) {
      Pipeline::Stage stage;
      for (const size_t rank : ranks) {
        stage.ranks.push_back(job_.ranks[rank].metadata.rank);
        const RankTotals& totals = out_.totals[rank];
        stage.compute_s += static_cast<double>(totals.compute_ns()) * 1e-9;
        stage.late_s += static_cast<double>(totals.late_bubble_ns) * 1e-9;
        stage.bubble_s +=
            static_cast<double>(totals.bubble_ns + totals.late_bubble_ns + longest - Own(rank)) *
            1e-9;
      }
      const double scale = 1 / (Steps() * static_cast<double>(ranks.size()));
      stage.compute_s *= scale;
      stage.late_s *= scale;
      stage.bubble_s *= scale;
      stage.due_s = out_.exposed.due_slots * static_cast<double>(out_.exposed.slot_ns) * 1e-9;
      bubble += stage.bubble_s;
      out_.pipeline.stages.push_back(std::move(stage));
    }
    out_.pipeline.measured_bubble = out_.step_s > 0 ? bubble / p / out_.step_s : 0;
    out_.pipeline.micro_batches = stages_.micro_batches;
    out_.pipeline.schedule = stages_.schedule;
    out_.pipeline.chunks = stages_.chunks;
    out_.pipeline.weight_passes = stages_.weight_passes;
    if (out_.pipeline.micro_batches == 0) return;
    const double due = out_.exposed.due_slots;
    out_.pipeline.expected_bubble = due / (static_cast<double>(out_.pipeline.micro_batches) + due);
  }

  // From the rank's first step's begin to its last one's end.
  int64_t Own(size_t rank) const {
    const auto& segments = job_.ranks[rank].segments;
    return segments.empty() ? 0 : segments.back().end_ns - segments.front().begin_ns;
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
      Add({Cause::kExposedCommunication,
           std::string(ToString(static_cast<Dimension>(d))),
           {},
           "exposed on the wire " + Milliseconds(mean_s) + " a step and rank (" +
               Percent(mean_s / out_.step_s) + " of the step); worth if it were all hidden",
           change});
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
    // Every stage is scaled to the mean, the short ones too: to move layers changes all stages, and
    // the sum of the work stays.
    change.work = [&](size_t rank, Spent spent) {
      return IsCompute(spent) ? mean / std::max(stages[stages_.of[rank]].compute_s, 1e-12) : 1.0;
    };
    std::vector<size_t> ranks;
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      if (stages_.of[rank] == slowest) ranks.push_back(rank);
    }
    Add({Cause::kImbalance, "stage " + std::to_string(slowest), ranks,
         "computes " + Percent(most / mean - 1) + " longer than the mean stage", change});
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
      Add({cause,
           name,
           {},
           Percent(mean_s / out_.step_s) + " of the step on the mean rank",
           change});
    };
    add(Spent::kHost, Cause::kHostOverhead, "all ranks");
    add(Spent::kInput, Cause::kInput, "all ranks");
  }

  const ProfiledJob& job_;
  Replay replay_;
  Findings out_;
  double base_s_ = 0;
  std::vector<Change> named_;
  Stages stages_;
  std::optional<Schedule> schedule_;
};

}  // namespace

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

std::string_view ScheduleName(const Pipeline& pipeline) {
  const bool interleaved = pipeline.schedule == Schedule::kInterleaved;
  return interleaved && pipeline.weight_passes ? "interleaved zero-bubble"
                                               : ToString(pipeline.schedule);
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

Findings FindAll(const ProfiledJob& job, std::optional<Schedule> schedule) {
  return Finder(job, schedule).Run();
}

}  // namespace longhaul::profiler
