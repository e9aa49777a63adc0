#include "scheduler/gang/elastic_counts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace longhaul::scheduler {

namespace {

constexpr int64_t kMaxValue = int64_t{1} << 40;
constexpr size_t kMaxJobs = size_t{1} << 20;
constexpr int64_t kNone = std::numeric_limits<int64_t>::min() / 4;

using Wide = __int128;

// One step up along a job's concave hull.
struct HullStep {
  int32_t job = 0;
  int32_t option = 0;  // reached by the step
  int64_t gpus = 0;    // more than before the step, at least 1
  int64_t value = 0;
};

// Compares value per GPU by cross-multiplication in 128 bits: the order is total and the same on
// each machine, which a quotient in floating point does not guarantee. A job's own steps stay in
// the order of its options, because the slopes of a hull fall.
bool Steeper(const HullStep& a, const HullStep& b) {
  const Wide left = Wide{a.value} * b.gpus;
  const Wide right = Wide{b.value} * a.gpus;
  if (left != right) return left > right;
  return a.job != b.job ? a.job < b.job : a.option < b.option;
}

class Allocation {
 public:
  Allocation(std::span<const ElasticJob> jobs, int64_t capacity, ElasticAnswer& answer)
      : jobs_(jobs), capacity_(capacity), answer_(answer) {}

  const ElasticOption& Option(size_t job, int32_t option) const {
    return jobs_[job].options[static_cast<size_t>(option)];
  }
  const ElasticOption& Chosen(size_t job) const { return Option(job, answer_.choices[job]); }

  // The best allocation by dynamic programming over GPUs: exact.
  void Exact(int64_t unit);
  // Along the hulls, steepest first: fills the choices and the bound.
  void Greedy();
  // Any one job, then any two jobs, to the best options that fit.
  void Exchange(int64_t& steps);
  void Sum();

 private:
  std::vector<HullStep> HullSteps() const;
  bool ImproveOne(size_t job);
  bool ImproveTwo(size_t a, size_t b, int64_t& steps);

  std::span<const ElasticJob> jobs_;
  int64_t capacity_;
  ElasticAnswer& answer_;
};

void Allocation::Sum() {
  answer_.value = 0;
  answer_.gpus = 0;
  for (size_t job = 0; job < jobs_.size(); ++job) {
    answer_.value += Chosen(job).value;
    answer_.gpus += Chosen(job).gpus;
  }
}

void Allocation::Exact(int64_t unit) {
  const auto width = static_cast<size_t>(capacity_ / unit) + 1;
  std::vector<int64_t> best(width, kNone);  // with exactly so many units
  std::vector<std::vector<int32_t>> chosen(jobs_.size());
  best[0] = 0;
  // From the last job to the first, so that walking forward settles the first jobs first.
  for (size_t job = jobs_.size(); job-- > 0;) {
    std::vector<int64_t> with(width, kNone);
    chosen[job].assign(width, -1);
    for (size_t o = 0; o < jobs_[job].options.size(); ++o) {
      const ElasticOption& option = jobs_[job].options[o];
      for (auto units = static_cast<size_t>(option.gpus / unit); units < width; ++units) {
        const int64_t rest = best[units - static_cast<size_t>(option.gpus / unit)];
        if (rest == kNone || rest + option.value <= with[units]) continue;
        with[units] = rest + option.value;
        chosen[job][units] = static_cast<int32_t>(o);
      }
    }
    best = std::move(with);
  }
  // The first of equal maxima has the fewest GPUs.
  auto units = static_cast<size_t>(std::max_element(best.begin(), best.end()) - best.begin());
  for (size_t job = 0; job < jobs_.size(); ++job) {
    answer_.choices[job] = chosen[job][units];
    units -= static_cast<size_t>(Chosen(job).gpus / unit);
  }
}

// Of equal slopes the farthest option is taken, so that the slopes of one job strictly fall.
// Options that lie under the hull get no step; only `Exchange` and `Exact` can choose them.
std::vector<HullStep> Allocation::HullSteps() const {
  std::vector<HullStep> steps;
  for (size_t job = 0; job < jobs_.size(); ++job) {
    const auto count = static_cast<int32_t>(jobs_[job].options.size());
    int32_t at = answer_.choices[job];
    while (true) {
      HullStep best;
      for (int32_t next = at + 1; next < count; ++next) {
        const int64_t gpus = Option(job, next).gpus - Option(job, at).gpus;
        const int64_t value = Option(job, next).value - Option(job, at).value;
        if (value <= 0) continue;
        const HullStep step{static_cast<int32_t>(job), next, gpus, value};
        const bool better =
            best.gpus == 0 || Wide{step.value} * best.gpus >= Wide{best.value} * step.gpus;
        if (better) best = step;
      }
      if (best.gpus == 0) break;
      steps.push_back(best);
      at = best.option;
    }
  }
  return steps;
}

// The bound is that of the relaxation in which a step can be taken in part: the steepest steps in
// sequence, and a share of the first one that does not fit. Values are whole, so the share can be
// rounded down. The choices continue past that step with flatter ones that still fit. A job one of
// whose steps did not fit gets no further step: a step counts its GPUs and its value from the
// option before it.
void Allocation::Greedy() {
  std::vector<HullStep> steps = HullSteps();
  std::sort(steps.begin(), steps.end(), Steeper);
  Sum();
  int64_t left = capacity_ - answer_.gpus;
  answer_.bound = answer_.value;
  bool cut = false;  // the relaxation takes part of the first step that doesn't fit, then ends
  std::vector<uint8_t> stopped(jobs_.size());
  for (const HullStep& step : steps) {
    const auto job = static_cast<size_t>(step.job);
    const bool fits = step.gpus <= left;
    if (!cut && fits) answer_.bound += step.value;
    if (!cut && !fits) {
      const Wide part = Wide{step.value} * left / step.gpus;
      answer_.bound += static_cast<int64_t>(part);
      cut = true;
    }
    if (!fits || stopped[job] != 0) {
      stopped[job] = 1;
      continue;
    }
    answer_.choices[job] = step.option;
    left -= step.gpus;
  }
}

bool Allocation::ImproveOne(size_t job) {
  int32_t best = answer_.choices[job];
  const int64_t room = capacity_ - answer_.gpus + Chosen(job).gpus;
  for (int32_t o = 0; o < static_cast<int32_t>(jobs_[job].options.size()); ++o) {
    // Options ascend in GPUs.
    if (Option(job, o).gpus > room) break;
    if (Option(job, o).value > Option(job, best).value) best = o;
  }
  if (best == answer_.choices[job]) return false;
  answer_.choices[job] = best;
  Sum();
  return true;
}

// While the option of `a` grows, the options of `b` that fit beside it only shrink, so one pass
// over both lists covers all pairs. Only a strict gain counts, which makes the exchange end.
bool Allocation::ImproveTwo(size_t a, size_t b, int64_t& steps) {
  const int64_t room = capacity_ - answer_.gpus + Chosen(a).gpus + Chosen(b).gpus;
  int64_t most = Chosen(a).value + Chosen(b).value;
  std::pair<int32_t, int32_t> best(-1, -1);
  const auto of_b = static_cast<int32_t>(jobs_[b].options.size());
  int32_t fit = of_b;                                     // options of b that fit beside a's
  std::vector<int32_t> up_to(static_cast<size_t>(of_b));  // the most valuable option up to each
  for (int32_t o = 1; o < of_b; ++o) {
    const int32_t before = up_to[static_cast<size_t>(o) - 1];
    up_to[static_cast<size_t>(o)] = Option(b, o).value > Option(b, before).value ? o : before;
  }
  for (int32_t o = 0; o < static_cast<int32_t>(jobs_[a].options.size()); ++o) {
    while (fit > 0 && Option(a, o).gpus + Option(b, fit - 1).gpus > room) --fit;
    if (fit == 0) break;
    const int32_t other = up_to[static_cast<size_t>(fit) - 1];
    if (Option(a, o).value + Option(b, other).value <= most) continue;
    most = Option(a, o).value + Option(b, other).value;
    best = {o, other};
  }
  steps += static_cast<int64_t>(jobs_[a].options.size() + jobs_[b].options.size());
  if (best.first < 0) return false;
  const int64_t gpus = Option(a, best.first).gpus + Option(b, best.second).gpus;
  answer_.gpus += gpus - Chosen(a).gpus - Chosen(b).gpus;
  answer_.value += most - Chosen(a).value - Chosen(b).value;
  answer_.choices[a] = best.first;
  answer_.choices[b] = best.second;
  return true;
}

void Allocation::Exchange(int64_t& steps) {
  bool improved = true;
  while (improved && steps > 0) {
    improved = false;
    for (size_t a = 0; a < jobs_.size() && steps > 0; ++a) {
      improved = ImproveOne(a) || improved;
      for (size_t b = a + 1; b < jobs_.size() && steps > 0; ++b) {
        int64_t spent = 0;
        improved = ImproveTwo(a, b, spent) || improved;
        steps -= spent;
      }
    }
  }
}

}  // namespace

ElasticAnswer ChooseElasticCounts(std::span<const ElasticJob> jobs, int64_t capacity,
                                  int64_t max_steps) {
  CHECK(capacity >= 0 && jobs.size() <= kMaxJobs);
  ElasticAnswer answer;
  int64_t unit = 0;
  int64_t options = 0;
  for (size_t job = 0; job < jobs.size(); ++job) {
    CHECK(!jobs[job].options.empty()) << "job " << job << " has no option";
    int32_t last = -1;
    for (const ElasticOption& option : jobs[job].options) {
      CHECK(option.gpus > last) << "job " << job << " has options out of order";
      CHECK(option.value > -kMaxValue && option.value < kMaxValue) << option.value;
      last = option.gpus;
      unit = std::gcd(unit, static_cast<int64_t>(option.gpus));
    }
    options += static_cast<int64_t>(jobs[job].options.size());
    answer.gpus += jobs[job].options.front().gpus;
  }
  answer.choices.assign(jobs.size(), 0);
  answer.feasible = answer.gpus <= capacity;
  if (!answer.feasible) return answer;
  unit = std::max<int64_t>(unit, 1);
  Allocation allocation(jobs, capacity, answer);
  allocation.Greedy();
  allocation.Sum();
  if (answer.value < answer.bound) {
    // The table of the exact method has a row of options for each count of units. All counts are
    // multiples of the greatest common divisor, which keeps the table small for jobs that grow by
    // whole nodes.
    const int64_t width = capacity / unit + 1;
    if (options <= max_steps / width) {
      allocation.Exact(unit);
      allocation.Sum();
      answer.bound = answer.value;
    } else {
      int64_t steps = max_steps;
      allocation.Exchange(steps);
      allocation.Sum();
    }
  }
  answer.proven = answer.value == answer.bound;
  return answer;
}

}  // namespace longhaul::scheduler
