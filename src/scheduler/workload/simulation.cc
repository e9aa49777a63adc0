#include "scheduler/workload/simulation.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <queue>
#include <set>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "scheduler/internal/slot_tables.h"

namespace longhaul::scheduler::workload {

namespace {

constexpr double kShortRun = 10;  // seconds: the bound of the bounded slow-down
constexpr size_t kSamples = 720;  // of use over time

// Quantiles are the nearest rank, without interpolation, so each is a wait that occurred.
WaitFigures FiguresOf(std::vector<double> waits) {
  WaitFigures figures;
  figures.jobs = waits.size();
  if (waits.empty()) return figures;
  std::sort(waits.begin(), waits.end());
  const auto quantile = [&](double q) {
    return waits[static_cast<size_t>(std::llround(q * static_cast<double>(waits.size() - 1)))];
  };
  figures.mean_s =
      std::accumulate(waits.begin(), waits.end(), 0.0) / static_cast<double>(waits.size());
  figures.p50_s = quantile(0.50);
  figures.p95_s = quantile(0.95);
  figures.p99_s = quantile(0.99);
  return figures;
}

// What one job goes through.
struct Life {
  const TraceJob* job = nullptr;
  JobId id;
  Instant submitted{};
  Duration length{};
  int64_t milli = 0;  // thousandths of GPUs
  bool running = false;
  bool started_once = false;
  bool rejected = false;
  bool done = false;
  Instant first_start{};
  Instant started{};
  std::vector<TaskPlacement> tasks;  // while it runs
  Duration done_work{};              // safe in snapshots
  uint64_t generation = 0;
};

// Plays a trace against one scheduler. The simulation counts free GPUs by itself and checks them at
// each decision, so a scheduler that overbooks a host fails here.
class Run {
 public:
  // `requests` has one entry a job.
  Run(Scheduler scheduler, const std::vector<TraceJob>& jobs, std::vector<JobRequest> requests,
      const Contender& contender, const SimulationOptions& options)
      : scheduler_(std::move(scheduler)),
        contender_(contender),
        options_(options),
        requests_(std::move(requests)),
        tree_(internal::TreeOf(scheduler_.topology())) {
    for (uint32_t node = 0; node < scheduler_.topology().size(); ++node) {
      const size_t gpus = scheduler_.topology().kind_of(node).devices.size();
      whole_.push_back(static_cast<int64_t>(gpus) * kWholeGpu);
      capacity_ += whole_.back();
    }
    free_ = whole_;
    for (const TraceJob& job : jobs) {
      Life& life = lives_.emplace_back();
      life.job = &job;
      life.id = requests_[lives_.size() - 1].id;
      life.submitted = ArrivalOf(job);
      life.length = LengthOf(job);
      life.milli = DesiredGpuMilli(requests_[lives_.size() - 1]);
      index_[life.id.value()] = lives_.size() - 1;
      events_.push({life.submitted, 1, lives_.size() - 1, 0});
    }
    result_.contender = contender.name;
    result_.jobs = jobs.size();
    begin_ = last_ = lives_.front().submitted;
    end_of_arrivals_ = lives_.back().submitted;
    for (const spec::QueueSpec& queue : QueuesOf(jobs, capacity_ / kWholeGpu)) {
      tenants_[queue.name].guarantee = queue.guarantee[0];
    }
  }

  Result<SimulationResult> Go() {
    int stalled = 0;
    while (!events_.empty() || waiting_ > 0) {
      Instant now;
      if (events_.empty()) {
        // Only promises are left to wait for.
        const auto deadline = scheduler_.NextDeadline();
        if (!deadline || ++stalled > 10'000) {
          return InternalError(std::to_string(waiting_) + " jobs wait in an empty cluster under " +
                               contender_.name);
        }
        now = std::max(last_ + std::chrono::seconds(1), *deadline);
      } else {
        stalled = 0;
        now = events_.top().at;
      }
      Pass(now);
      // All events of one instant are applied before the round, so that it decides on all of them
      // together.
      while (!events_.empty() && events_.top().at == now) {
        const Happening next = events_.top();
        events_.pop();
        Take(next);
      }
      const std::vector<Decision> decisions = scheduler_.Decide(now);
      // All that move leave their places before anybody takes them.
      for (const Decision& decision : decisions) {
        if (decision.kind != DecisionKind::kMove) continue;
        const Life& life = lives_[index_.at(decision.job.value())];
        Book(life, life.tasks, 1);
      }
      for (const Decision& decision : decisions) Follow(decision);
      ++result_.rounds;
      if (options_.check) RETURN_IF_ERROR(scheduler_.CheckInvariants());
      if (options_.on_round) options_.on_round(scheduler_, now);
      if (options_.on_progress && result_.rounds % 512 == 0) options_.on_progress(now);
    }
    Sum();
    return std::move(result_);
  }

 private:
  struct Happening {
    Instant at;
    int order = 0;  // ends before arrivals
    size_t life = 0;
    uint64_t generation = 0;

    friend bool operator>(const Happening& a, const Happening& b) {
      return std::tie(a.at, a.order, a.life) > std::tie(b.at, b.order, b.life);
    }
  };
  struct Tenant {
    int64_t guarantee = 0;
    int64_t running = 0;  // GPUs
    int64_t waiting = 0;
  };

  // Integrates use, shortfall and fragmentation over the span since the last event, in which they
  // are constant. The span before the last arrival counts separately, because afterwards the
  // cluster only drains.
  void Pass(Instant now) {
    const double hours = ToSeconds(now - last_) / 3600;
    const double gpu_hours = static_cast<double>(used_) * hours;
    used_gpu_hours_ += gpu_hours;
    if (last_ < end_of_arrivals_) {
      const double part =
          ToSeconds(std::min(now, end_of_arrivals_) - last_) / 3600 / std::max(hours, 1e-300);
      used_in_arrivals_ += gpu_hours * part;
      for (const auto& [name, tenant] : tenants_) {
        const int64_t entitled = std::min(tenant.guarantee, tenant.running + tenant.waiting);
        shortfall_ +=
            static_cast<double>(std::max<int64_t>(0, entitled - tenant.running)) * hours * part;
      }
    }
    int64_t broken = 0;
    int64_t idle = 0;
    for (size_t host = 0; host < free_.size(); ++host) {
      idle += free_[host];
      if (free_[host] != whole_[host]) broken += free_[host];
    }
    if (idle > 0) {
      fragmented_hours_ += static_cast<double>(broken) / static_cast<double>(idle) * hours;
      idle_hours_ += hours;
    }
    samples_.push_back({ToSeconds(now - begin_) / 3600, used_, waiting_});
    last_ = now;
  }

  void Tell(const Event& event) { scheduler_.Apply(event, last_); }

  void Take(const Happening& next) {
    Life& life = lives_[next.life];
    if (next.order == 1) {
      ++waiting_;
      tenants_[life.job->tenant].waiting += life.milli;
      Tell(JobSubmitted{requests_[next.life]});
      return;
    }
    if (!life.running || life.generation != next.generation) return;
    life.running = false;
    life.done = true;
    tenants_[life.job->tenant].running -= life.milli;
    Book(life, scheduler_.TasksOf(life.id), 1);
    Tell(JobEnded{life.id});
  }

  // SchedulerState tasks in (sign -1) or out (+1) of this simulation's own count.
  void Book(const Life& life, const std::vector<TaskPlacement>& tasks, int64_t sign) {
    const JobRequest& request = requests_[index_.at(life.id.value())];
    for (const TaskPlacement& task : tasks) {
      const int64_t milli =
          request.groups[static_cast<size_t>(task.group)].shape.gpu_milli() * sign;
      free_[task.node] += milli;
      used_ -= milli;
      CHECK(free_[task.node] >= 0) << "a host is over its GPUs";
    }
  }

  void Follow(const Decision& decision) {
    const std::string line = ToString(decision);
    result_.log_hash = Hash64(std::string_view(line), result_.log_hash);
    ++result_.decisions;
    if (options_.on_decision) options_.on_decision(decision, last_);
    switch (decision.kind) {
      case DecisionKind::kStart:
        return Start(decision);
      case DecisionKind::kEvict:
      case DecisionKind::kSuspend:
        return Evict(decision);
      case DecisionKind::kMove:
        return Move(decision);
      case DecisionKind::kReject: {
        Life& life = lives_[index_.at(decision.job.value())];
        life.rejected = true;
        if (result_.rejected++ == 0) {
          result_.first_rejection = life.job->name + ": " + decision.reason;
        }
        --waiting_;
        tenants_[life.job->tenant].waiting -= life.milli;
        return;
      }
      default:
        return;
    }
  }

  void Start(const Decision& decision) {
    Life& life = lives_[index_.at(decision.job.value())];
    Tell(TasksRunning{decision.job, decision.transaction, {}});
    CompareLeaves(decision);
    Book(life, decision.tasks, -1);
    life.tasks = decision.tasks;
    const bool again = life.started_once;
    if (!life.started_once) life.first_start = last_;
    life.started_once = true;
    life.running = true;
    life.started = last_;
    --waiting_;
    Tenant& tenant = tenants_[life.job->tenant];
    tenant.waiting -= life.milli;
    tenant.running += life.milli;
    const Duration left = life.length - life.done_work;
    events_.push({last_ + left + (again ? options_.restart : Duration(0)), 0,
                  index_.at(decision.job.value()), ++life.generation});
  }

  // It continues from where it was after the time of a restart.
  void Move(const Decision& decision) {
    Life& life = lives_[index_.at(decision.job.value())];
    Book(life, decision.tasks, -1);
    life.tasks = decision.tasks;
    life.done_work = std::min(life.length, life.done_work + (last_ - life.started));
    life.started = last_ + options_.restart;
    ++result_.moves;
    result_.lost_gpu_hours +=
        ToSeconds(options_.restart) / 3600 * static_cast<double>(life.milli) / kWholeGpu;
    Tell(JobStopped{decision.job});
    Tell(TasksRunning{decision.job, decision.transaction, {}});
    events_.push({life.started + (life.length - life.done_work), 0, index_.at(decision.job.value()),
                  ++life.generation});
  }

  // Only work up to the last whole snapshot period is kept. A new generation makes the end that is
  // still queued void.
  void Evict(const Decision& decision) {
    Life& life = lives_[index_.at(decision.job.value())];
    const Duration ran = std::max(Duration(0), last_ - life.started);
    const Duration kept = options_.snapshot_period.count() > 0
                              ? ran / options_.snapshot_period * options_.snapshot_period
                              : Duration(0);
    life.done_work = std::min(life.length, life.done_work + kept);
    result_.lost_gpu_hours += ToSeconds(ran - kept + options_.restart) / 3600 *
                              static_cast<double>(life.milli) / kWholeGpu;
    ++result_.evictions;
    life.running = false;
    ++life.generation;
    ++waiting_;
    Tenant& tenant = tenants_[life.job->tenant];
    tenant.running -= life.milli;
    tenant.waiting += life.milli;
    Book(life, decision.tasks, 1);
    Tell(JobStopped{decision.job});
  }

  // Leaves used against the fewest possible at that moment, from this simulation's own counts.
  void CompareLeaves(const Decision& decision) {
    std::set<int32_t> leaves;
    for (const TaskPlacement& task : decision.tasks) {
      leaves.insert(tree_.LeafOf(static_cast<int32_t>(task.node)));
    }
    const int32_t each = std::popcount(decision.tasks.front().gpus);
    const bool whole = requests_[index_.at(decision.job.value())].groups[0].shape.share == 0;
    if (decision.tasks.size() < 2 || each == 0 || !whole) return;
    std::vector<int32_t> slots(static_cast<size_t>(tree_.leaves()));
    for (size_t host = 0; host < free_.size(); ++host) {
      slots[static_cast<size_t>(tree_.LeafOf(static_cast<int32_t>(host)))] +=
          static_cast<int32_t>(free_[host] / kWholeGpu / each);
    }
    const auto tasks = static_cast<int32_t>(decision.tasks.size());
    const FewestDomains fewest = FewestFor(slots, tasks);
    std::set<int32_t> blocks;
    for (const int32_t leaf : leaves) blocks.insert(BlockOf(leaf));
    ++result_.gangs;
    result_.leaves_ratio += static_cast<double>(leaves.size()) / fewest.leaves;
    result_.blocks_ratio += static_cast<double>(blocks.size()) / fewest.blocks;
    const auto crossed =
        std::make_pair(static_cast<int32_t>(blocks.size()), static_cast<int32_t>(leaves.size()));
    if (crossed > std::make_pair(fewest.blocks, fewest.leaves_in_blocks)) {
      result_.spread_share += 1;
    }
  }

  // The highest level of switches below the whole cluster.
  int32_t BlockOf(int32_t leaf) const {
    const Tier top = tree_.tiers() - 1;
    return top == kLeafTier ? leaf : tree_.DomainOf(top, tree_.First(kLeafTier, leaf));
  }

  struct FewestDomains {
    int32_t leaves = 0;            // wherever they are
    int32_t blocks = 0;            // however many leaves
    int32_t leaves_in_blocks = 0;  // in so few blocks
  };
  // Requires room for the tasks.
  FewestDomains FewestFor(const std::vector<int32_t>& slots, int32_t tasks) const {
    std::map<int32_t, std::vector<int32_t>> blocks;
    for (int32_t leaf = 0; leaf < tree_.leaves(); ++leaf) {
      blocks[BlockOf(leaf)].push_back(slots[static_cast<size_t>(leaf)]);
    }
    // most[j][k]: slots that j blocks and k leaves have at most; -1: not so many.
    const size_t width = slots.size() + 1;
    std::vector<std::vector<int32_t>> most(blocks.size() + 1, std::vector<int32_t>(width, -1));
    most[0][0] = 0;
    for (auto& [block, leaves] : blocks) {
      std::sort(leaves.begin(), leaves.end(), std::greater<>());
      // Both indices descend, so each block is used at most once. Of a block the largest leaves are
      // the best choice of any number.
      for (size_t j = blocks.size(); j >= 1; --j) {
        for (size_t k = width - 1; k >= 1; --k) {
          int32_t taken = 0;
          for (size_t m = 1; m <= leaves.size() && m <= k; ++m) {
            taken += leaves[m - 1];
            if (most[j - 1][k - m] < 0) continue;
            most[j][k] = std::max(most[j][k], most[j - 1][k - m] + taken);
          }
        }
      }
    }
    FewestDomains fewest;
    for (size_t j = 1; j < most.size(); ++j) {
      for (size_t k = 1; k < width; ++k) {
        if (most[j][k] < tasks) continue;
        const auto leaves = static_cast<int32_t>(k);
        if (fewest.blocks == 0) {
          fewest.blocks = static_cast<int32_t>(j);
          fewest.leaves_in_blocks = leaves;
        }
        if (fewest.leaves == 0 || leaves < fewest.leaves) fewest.leaves = leaves;
        break;
      }
    }
    CHECK(fewest.blocks > 0) << "a gang started where it has no room";
    return fewest;
  }

  void Sum() {
    const double arrivals = ToSeconds(end_of_arrivals_ - begin_) / 3600;
    const double whole = ToSeconds(last_ - begin_) / 3600;
    const auto capacity = static_cast<double>(capacity_);  // all in thousandths of GPUs
    result_.makespan = last_ - begin_;
    result_.use = arrivals > 0 ? used_in_arrivals_ / (capacity * arrivals) : 0;
    result_.use_to_end = whole > 0 ? used_gpu_hours_ / (capacity * whole) : 0;
    result_.unfairness = arrivals > 0 ? shortfall_ / (capacity * arrivals) : 0;
    result_.fragmentation = idle_hours_ > 0 ? fragmented_hours_ / idle_hours_ : 0;
    if (result_.gangs > 0) {
      result_.leaves_ratio /= static_cast<double>(result_.gangs);
      result_.blocks_ratio /= static_cast<double>(result_.gangs);
      result_.spread_share /= static_cast<double>(result_.gangs);
    }
    std::vector<double> waits;
    std::vector<double> slowdowns;
    const std::vector<SizeClass> sizes = StandardSizes();
    std::vector<std::vector<double>> by_size(sizes.size());
    double asked = 0;
    for (const Life& life : lives_) {
      asked += ToSeconds(life.length) / 3600 * static_cast<double>(life.milli);
      if (!life.started_once) continue;
      const double wait = ToSeconds(life.first_start - life.submitted);
      const double run = ToSeconds(life.length);
      waits.push_back(wait);
      slowdowns.push_back(std::max(1.0, (wait + run) / std::max(run, kShortRun)));
      for (size_t s = 0; s < sizes.size(); ++s) {
        const int64_t gpus = (life.milli + kWholeGpu - 1) / kWholeGpu;
        if (gpus >= sizes[s].gpus_from && gpus <= sizes[s].gpus_to) {
          by_size[s].push_back(wait);
        }
      }
    }
    result_.demand = arrivals > 0 ? asked / (capacity * arrivals) : 0;
    result_.wait = FiguresOf(waits);
    for (auto& of_size : by_size) result_.wait_by_size.push_back(FiguresOf(std::move(of_size)));
    if (!waits.empty()) {
      result_.largest_wait_s = *std::max_element(waits.begin(), waits.end());
      std::sort(slowdowns.begin(), slowdowns.end());
      result_.slowdown_mean = std::accumulate(slowdowns.begin(), slowdowns.end(), 0.0) /
                              static_cast<double>(slowdowns.size());
      result_.slowdown_p95 = slowdowns[slowdowns.size() * 95 / 100];
    }
    Sample(whole);
  }

  // Averages of equal spans of time, so that the picture has a bounded size.
  void Sample(double whole) {
    if (whole <= 0) return;
    std::vector<double> sums(kSamples);
    std::vector<double> waits(kSamples);
    const double span = whole / static_cast<double>(kSamples);
    double before = 0;
    for (const auto& [until, used, waiting] : samples_) {
      double at = before;
      while (at < until) {
        // Where `at` is a border, the division may say either side of it.
        auto bin = static_cast<size_t>(at / span);
        if (static_cast<double>(bin + 1) * span <= at) ++bin;
        if (bin >= kSamples) break;
        const double to = std::min(until, static_cast<double>(bin + 1) * span);
        sums[bin] += (to - at) * static_cast<double>(used);
        waits[bin] += (to - at) * static_cast<double>(waiting);
        at = to;
      }
      before = until;
    }
    for (size_t i = 0; i < kSamples; ++i) {
      const double at = (static_cast<double>(i) + 0.5) * span;
      result_.use_over_time.emplace_back(at, sums[i] / span / static_cast<double>(capacity_));
      result_.waiting_over_time.emplace_back(at, waits[i] / span);
    }
  }

  Scheduler scheduler_;
  const Contender& contender_;
  const SimulationOptions& options_;
  std::vector<JobRequest> requests_;  // by life
  DomainTree tree_;
  std::vector<int64_t> whole_;  // thousandths of GPUs, by host
  std::vector<int64_t> free_;   // the same, counted apart from the scheduler
  int64_t capacity_ = 0;
  std::vector<Life> lives_;
  std::map<std::string, size_t> index_;
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> events_;
  std::map<std::string, Tenant> tenants_;
  Instant begin_{};
  Instant last_{};
  Instant end_of_arrivals_{};
  int64_t used_ = 0;
  int64_t waiting_ = 0;
  double used_gpu_hours_ = 0;
  double used_in_arrivals_ = 0;
  double shortfall_ = 0;
  double fragmented_hours_ = 0;
  double idle_hours_ = 0;
  struct Sampled {
    double until_h = 0;
    int64_t used = 0;
    int64_t waiting = 0;
  };
  std::vector<Sampled> samples_;
  SimulationResult result_;
};

}  // namespace

std::vector<SizeClass> StandardSizes() {
  return {{0, 1}, {2, 4}, {5, 8}, {9, 32}, {33, 1'000'000}};
}

Result<SimulationResult> Simulate(const spec::ClusterDeclaration& cluster,
                                  const std::vector<TraceJob>& jobs, const Contender& contender,
                                  const SimulationOptions& options) {
  if (jobs.empty()) return InvalidArgument("the trace has no job in this span");
  ASSIGN_OR_RETURN(spec::Topology topology, spec::Topology::Create(cluster));
  std::vector<JobRequest> requests;
  for (const TraceJob& job : jobs) {
    Result<JobRequest> request =
        RequestOf(job, requests.size() + 1, topology, contender.tenants_have_queues,
                  options.foresight, options.restart);
    if (!request.ok()) return request.status().WithContext("job '" + job.name + "'");
    requests.push_back(std::move(request).value());
  }
  int64_t gpus = 0;
  for (uint32_t node = 0; node < topology.size(); ++node) {
    gpus += static_cast<int64_t>(topology.kind_of(node).devices.size());
  }
  std::vector<spec::QueueSpec> queues;
  if (contender.tenants_have_queues) queues = QueuesOf(jobs, gpus);
  ASSIGN_OR_RETURN(Scheduler scheduler,
                   Scheduler::Create(std::move(topology), queues, contender.policy));
  return Run(std::move(scheduler), jobs, std::move(requests), contender, options).Go();
}

}  // namespace longhaul::scheduler::workload
