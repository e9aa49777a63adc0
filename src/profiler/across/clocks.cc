#include "profiler/across/clocks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "profiler/across/clock_bases.h"

namespace longhaul::profiler {
namespace {

constexpr size_t kMaxObservations = 50'000;
constexpr int kRounds = 12;
constexpr double kHuber = 1.345;      // 95 % efficient on normal errors (Huber 1981)
constexpr double kPoorUs = 1000;      // waiting and wire times are as short as this
constexpr double kDriftPrior = 1e-4;  // 100 ppm: no oscillator of a server is worse
// Nor does a clock that is being set run off by more than twice NTP's 500 ppm. Times that say so
// are damaged.
constexpr double kMostDrift = 1e-3;

// e_a - e_b of one collective, at time t.
struct Observation {
  size_t a = 0, b = 0;
  double t = 0;      // seconds from the middle
  double delta = 0;  // seconds
  double weight = 1;
};

// Solves the symmetric positive definite system in place (Cholesky); false if it isn't one.
bool Solve(std::vector<double>* matrix, std::vector<double>* right) {
  const size_t n = right->size();
  std::vector<double>& m = *matrix;
  for (size_t j = 0; j < n; ++j) {
    for (size_t k = 0; k < j; ++k) {
      for (size_t i = j; i < n; ++i) m[i * n + j] -= m[i * n + k] * m[j * n + k];
    }
    if (!(m[j * n + j] > 0)) return false;
    const double root = std::sqrt(m[j * n + j]);
    for (size_t i = j; i < n; ++i) m[i * n + j] /= root;
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) (*right)[i] -= m[i * n + k] * (*right)[k];
    (*right)[i] /= m[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) (*right)[i] -= m[k * n + i] * (*right)[k];
    (*right)[i] /= m[i * n + i];
  }
  return true;
}

// The value below which the share of the values lies, without interpolation. Takes a copy, which it
// partly sorts.
double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(at), values.end());
  return values[at];
}

class Fit {
 public:
  explicit Fit(ProfiledJob* job) : job_(*job), hosts_(job->clocks.hosts.size()) {}

  // Sends and receives are observed only where the collectives do not connect all hosts: their ends
  // agree less well, since a message can be posted. After the fit, hosts with an impossible drift
  // lose it and the fit begins anew, as their slope has also bent the fit of the others.
  void Run() {
    Observe(true);
    std::vector<bool> reached = Connect();
    if (std::find(reached.begin(), reached.end(), false) != reached.end()) {
      const size_t before = observations_.size();
      Observe(false);
      reached = Connect();
      if (observations_.size() > before) {
        job_.warnings.push_back(
            "some hosts share no collective: their clocks are aligned by sends and receives, whose "
            "ends agree less well");
      }
    }
    Warn(reached);
    if (observations_.empty() || hosts_ < 2) return;
    steady_.assign(hosts_, false);
    do {
      offsets_.assign(hosts_, 0);
      drifts_.assign(hosts_, 0);
      for (int round = 0; round < kRounds; ++round) {
        if (!Round()) break;
      }
    } while (Steady());
    Apply();
    Report();
  }

 private:
  // Of symmetric collectives; or of all other exchanges, at a tenth of the weight.
  void Observe(bool symmetric) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (const Instance& instance : job_.instances) {
      first = std::min(first, instance.end_ns);
      last = std::max(last, instance.end_ns);
    }
    if (job_.instances.empty()) return;
    // Times count from the middle of the trace. Offset and drift are then nearly uncorrelated, and
    // the doubles keep nanoseconds. Of very many instances only every stride-th is used, so the
    // matrix stays cheap to fill.
    middle_ = first + (last - first) / 2;
    const size_t stride = job_.instances.size() / kMaxObservations + 1;
    for (size_t i = 0; i < job_.instances.size(); i += stride) {
      const Instance& instance = job_.instances[i];
      if (IsSymmetric(instance.kind) != symmetric) continue;
      // One observation for each pair of the first host and another one: the mean end of the ranks
      // of each host. A longer call shows less about the clocks, so the weight falls with the
      // shortest member's length.
      std::map<size_t, std::pair<double, int>> ends;
      int64_t shortest = INT64_MAX;
      for (const Member& member : instance.members) {
        const Collective& call = job_.ranks[member.rank].collectives[member.collective];
        auto& [sum, count] = ends[job_.host_of[member.rank]];
        sum += static_cast<double>(call.end_ns - middle_) * 1e-9;
        ++count;
        shortest = std::min(shortest, call.end_ns - call.start_ns);
      }
      const double weight = (symmetric ? 1 : 0.1) / (1e-5 + static_cast<double>(shortest) * 1e-9);
      const auto& [host, end] = *ends.begin();
      const double base = end.first / end.second;
      for (auto it = std::next(ends.begin()); it != ends.end(); ++it) {
        const double other = it->second.first / it->second.second;
        observations_.push_back({it->first, host, other, other - base, weight});
      }
    }
  }

  // Which hosts hang together with the first.
  // A fixed point: at most as many rounds as hosts.
  std::vector<bool> Connect() const {
    std::vector<bool> reached(hosts_);
    reached[0] = true;
    for (bool more = true; more;) {
      more = false;
      for (const Observation& o : observations_) {
        if (reached[o.a] == reached[o.b]) continue;
        reached[o.a] = reached[o.b] = true;
        more = true;
      }
    }
    return reached;
  }

  void Warn(const std::vector<bool>& reached) {
    for (size_t h = 0; h < hosts_; ++h) {
      job_.clocks.hosts[h].connected = reached[h];
      if (reached[h]) continue;
      job_.warnings.push_back("the clock of " + job_.clocks.hosts[h].name +
                              " can't be aligned: it shares no exchange with the first host's");
    }
  }

  // Takes clocks that no clock runs like for ones without drift; whether there were any.
  bool Steady() {
    bool any = false;
    for (size_t h = 1; h < hosts_; ++h) {
      if (steady_[h] || std::abs(drifts_[h]) <= kMostDrift) continue;
      any = steady_[h] = true;
    }
    if (any && passes_++ > 0) steady_.assign(hosts_, true);  // one pass more is enough
    return any;
  }

  double Residual(const Observation& o) const {
    return o.delta - (offsets_[o.a] - offsets_[o.b]) - (drifts_[o.a] - drifts_[o.b]) * o.t;
  }

  // One step of iteratively reweighted least squares over offsets and drifts of hosts 1 and up.
  bool Round() {
    std::vector<double> sizes;
    for (const Observation& o : observations_) sizes.push_back(std::abs(Residual(o)));
    // The median of absolute residuals times 1.4826 estimates the standard deviation of normal
    // errors, and outliers do not change it. The floor keeps the weights finite where all residuals
    // are zero.
    const double scale = std::max(1.4826 * Percentile(sizes, 0.5), 1e-9);
    const size_t n = 2 * (hosts_ - 1);
    std::vector<double> matrix(n * n);
    std::vector<double> right(n);
    double total = 0;
    for (size_t i = 0; i < observations_.size(); ++i) {
      const Observation& o = observations_[i];
      const double weight = o.weight * (sizes[i] <= kHuber * scale ? 1 : kHuber * scale / sizes[i]);
      total += weight;
      // Columns with their signs; host 0 has none.
      const std::pair<size_t, double> columns[] = {{2 * o.a, 1},
                                                   {2 * o.a + 1, steady_[o.a] ? 0 : o.t},
                                                   {2 * o.b, -1},
                                                   {2 * o.b + 1, steady_[o.b] ? 0 : -o.t}};
      for (const auto& [c, x] : columns) {
        if (c < 2) continue;
        right[c - 2] += weight * x * o.delta;
        for (const auto& [d, y] : columns) {
          if (d >= 2) matrix[(c - 2) * n + d - 2] += weight * x * y;
        }
      }
    }
    // Faint priors keep unconnected hosts where they are and drifts within reason.
    // The prior on drifts is scaled by the noise, so that it only matters where the observations do
    // not determine a drift.
    const double faint = total / static_cast<double>(observations_.size()) * 1e-9;
    for (size_t h = 0; h + 1 < hosts_; ++h) {
      matrix[2 * h * n + 2 * h] += faint;
      matrix[(2 * h + 1) * n + 2 * h + 1] +=
          faint + total / static_cast<double>(hosts_) * std::pow(scale / kDriftPrior, 2) * 1e-6;
    }
    if (!Solve(&matrix, &right)) return false;
    for (size_t h = 1; h < hosts_; ++h) {
      offsets_[h] = right[2 * (h - 1)];
      drifts_[h] = right[2 * (h - 1) + 1];
    }
    return true;
  }

  // Subtracts offset and drift at the time itself, rounded to whole nanoseconds. The instances are
  // timed anew, because arrivals and ends have moved.
  void Apply() {
    for (size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      const size_t host = job_.host_of[rank];
      const double offset = offsets_[host];
      const double drift = drifts_[host];
      const auto shift = [&](int64_t* time) {
        const double seconds = static_cast<double>(*time - middle_) * 1e-9;
        *time -= std::llround((offset + drift * seconds) * 1e9);
      };
      ShiftTimes(&job_.ranks[rank], shift);
    }
    TimeInstances(&job_);
  }

  void Report() {
    ClockReport& report = job_.clocks;
    std::vector<double> sizes;
    for (const Observation& o : observations_) sizes.push_back(std::abs(Residual(o)) * 1e6);
    report.observations = observations_.size();
    report.residual_us_median = Percentile(sizes, 0.5);
    report.residual_us_p95 = Percentile(sizes, 0.95);
    if (report.residual_us_p95 > kPoorUs) {
      job_.warnings.push_back(
          "clocks of hosts can't be aligned well: between hosts, do not trust waiting and wire "
          "times");
    }
    for (size_t h = 0; h < hosts_; ++h) {
      report.hosts[h].offset_us += offsets_[h] * 1e6;
      report.hosts[h].drift_ppm = drifts_[h] * 1e6;
    }
    // Three times the 95th percentile of the residual (in microseconds, hence the factor 3,000 to
    // nanoseconds) and one microsecond: what exceeds this is no error of the clocks.
    const auto slack = static_cast<int64_t>(3000 * report.residual_us_p95) + 1000;
    for (const Instance& instance : job_.instances) {
      if (!IsSymmetric(instance.kind)) continue;
      for (const Member& member : instance.members) {
        const Collective& call = job_.ranks[member.rank].collectives[member.collective];
        if (call.end_ns + slack < instance.last_arrival_ns) ++report.causality_violations;
      }
    }
  }

  ProfiledJob& job_;
  const size_t hosts_;
  int64_t middle_ = 0;
  std::vector<Observation> observations_;
  std::vector<double> offsets_, drifts_;
  std::vector<bool> steady_;  // taken for without drift
  int passes_ = 0;
};

}  // namespace

void AlignClocks(ProfiledJob* job) {
  NearClocks(job);
  Fit(job).Run();
}

}  // namespace longhaul::profiler
