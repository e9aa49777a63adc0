// The shapes of Kueue's performance tests, in virtual time with the decisions' CPU time charged.
//
// A clock of its own: a round takes what it took on this thread's CPU, and what arrives or ends
// meanwhile is seen by the next round. Kueue admits workloads against quotas and places nothing;
// here every unit is a task with a GPU of its own on a host, and the third shape's gangs lie in
// one rack. Kueue's own figures include its API server, so the rows are not the same measurement.
#include <algorithm>
#include <cstdio>
#include <map>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "base/text.h"
#include "scheduler/bench/rows.h"

namespace longhaul::scheduler::bench {

namespace {

struct Kind {
  int count = 0;  // a queue
  int32_t units = 1;
  double run_s = 0;
  double every_s = 0;
  int32_t priority = 0;
};

struct KueueShape {
  const char* name;
  int cohorts = 5;
  int queues = 6;  // a cohort
  std::vector<Kind> kinds;
  uint32_t racks = 1;
  uint32_t hosts = 75;  // a rack, of 8 GPUs
  bool topology = false;
  double kueue_s = 0;

  // No schedule is shorter: the work over the quotas, and the last arrival with its run.
  double FloorSeconds() const {
    double work = 0;
    double last = 0;
    for (const Kind& kind : kinds) {
      work += kind.count * kind.units * kind.run_s;
      last = std::max(last, kind.every_s * (kind.count - 1) + kind.run_s);
    }
    return std::max(work / 20, last);
  }
};

Duration Seconds(double s) { return Duration(static_cast<int64_t>(s * 1e9)); }

class Shaped {
 public:
  explicit Shaped(const KueueShape& shape) : shape_(shape), scheduler_(Make(shape)) {
    for (int c = 0; c < shape.cohorts; ++c) {
      for (int q = 0; q < shape.queues; ++q) {
        for (const Kind& kind : shape.kinds) {
          for (int i = 0; i < kind.count; ++i) {
            happenings_.push({now_ + Seconds(kind.every_s * i), jobs_.size(), 0});
            jobs_.push_back({&kind, "c" + std::to_string(c) + "-q" + std::to_string(q), 0, false});
          }
        }
      }
    }
  }

  void Run() {
    const Instant begin = now_;
    double cpu = 0;
    size_t rounds = 0;
    while (done_ < jobs_.size()) {
      CHECK(!happenings_.empty()) << done_ << " of " << jobs_.size() << " are done";
      now_ = std::max(now_, happenings_.top().at);
      const double before = CpuSeconds();
      while (!happenings_.empty() && happenings_.top().at <= now_) {
        const Happening next = happenings_.top();
        happenings_.pop();
        Take(next);
      }
      const std::vector<Decision> decisions = scheduler_.Decide(now_);
      const double spent = CpuSeconds() - before;
      cpu += spent;
      ++rounds;
      now_ += Seconds(spent);
      for (const Decision& decision : decisions) Follow(decision);
    }
    char text[240];
    std::snprintf(text, sizeof text,
                  "%s workloads in %.1f s of simulated time (floor %.1f, Kueue's own %.0f), "
                  "%.2f s CPU, %zu rounds, %zu evictions",
                  WithThousands(static_cast<int64_t>(jobs_.size())).c_str(),
                  ToSeconds(now_ - begin), shape_.FloorSeconds(), shape_.kueue_s, cpu, rounds,
                  evictions_);
    PrintRow(shape_.name, text);
  }

 private:
  struct Workload {
    const Kind* kind;
    std::string queue;
    uint64_t generation = 0;
    bool submitted = false;
  };
  struct Happening {
    Instant at;
    size_t job = 0;
    uint64_t generation = 0;
    friend bool operator<(const Happening& a, const Happening& b) {
      return std::tie(a.at, a.job, a.generation) > std::tie(b.at, b.job, b.generation);
    }
  };

  static Scheduler Make(const KueueShape& shape) {
    std::vector<spec::QueueSpec> queues;
    for (int c = 0; c < shape.cohorts; ++c) {
      const std::string name = "c" + std::to_string(c);
      spec::QueueSpec& cohort = queues.emplace_back();
      cohort.name = name;
      cohort.guarantee[0] = cohort.limit[0] = int64_t{20'000} * shape.queues;
      for (int q = 0; q < shape.queues; ++q) {
        spec::QueueSpec& queue = queues.emplace_back();
        queue.name = name + "-q" + std::to_string(q);
        queue.parent = name;
        queue.guarantee[0] = 20'000;
        queue.limit[0] = 120'000;  // 100 borrowed
      }
    }
    auto topology = spec::Topology::Create(spec::ClosCluster(1, shape.racks, shape.hosts));
    CHECK(topology.ok()) << topology.status().message();
    auto made = Scheduler::Create(std::move(topology).value(), queues, {});
    CHECK(made.ok()) << made.status().message();
    return std::move(made).value();
  }

  void Take(const Happening& next) {
    Workload& workload = jobs_[next.job];
    const JobId id("w" + std::to_string(next.job));
    if (!workload.submitted) {
      workload.submitted = true;
      JobRequest job = Job(id.value(), workload.queue, workload.kind->units, 1, 100);
      job.priority = workload.kind->priority;
      job.limit = Seconds(workload.kind->run_s);
      job.restart_cost = Duration(0);
      if (shape_.topology) job.groups[0].required = kLeafTier;
      scheduler_.Apply(JobSubmitted{job}, now_);
      return;
    }
    if (next.generation != workload.generation) return;
    scheduler_.Apply(JobEnded{id}, now_);
    ++done_;
  }

  void Follow(const Decision& decision) {
    if (decision.kind == DecisionKind::kReserve) return;
    const size_t index = std::stoul(decision.job.value().substr(1));
    Workload& workload = jobs_[index];
    switch (decision.kind) {
      case DecisionKind::kStart:
      case DecisionKind::kMove:
        if (decision.kind == DecisionKind::kMove) {
          scheduler_.Apply(JobStopped{decision.job}, now_);
        }
        scheduler_.Apply(TasksRunning{decision.job, decision.transaction, {}}, now_);
        happenings_.push({now_ + Seconds(workload.kind->run_s), index, ++workload.generation});
        return;
      case DecisionKind::kEvict:
      case DecisionKind::kSuspend:
        ++evictions_;
        ++workload.generation;
        scheduler_.Apply(JobStopped{decision.job}, now_);
        return;
      default:
        CHECK(false) << ToString(decision);
    }
  }

  const KueueShape& shape_;
  Scheduler scheduler_;
  Instant now_ = InstantFromNanoseconds(1'000'000'000'000);
  std::vector<Workload> jobs_;
  std::priority_queue<Happening> happenings_;
  size_t done_ = 0;
  size_t evictions_ = 0;
};

}  // namespace

void KueueShapes() {
  const KueueShape kShapes[] = {
      {"kueue-15000",
       5,
       6,
       {{350, 1, 0.2, 0.1, 50}, {100, 5, 0.5, 0.5, 100}, {50, 20, 1, 1.2, 200}},
       1,
       75,
       false,
       351},
      {"kueue-50000",
       10,
       100,
       {{35, 1, 0.15, 0.06, 50}, {11, 5, 0.35, 0.3, 100}, {4, 20, 0.7, 0.7, 200}},
       25,
       100,
       false,
       1'179},
      {"kueue-topology",
       5,
       6,
       {{350, 2, 0.2, 0.1, 50}, {100, 4, 0.5, 0.5, 100}, {50, 8, 1, 1.2, 200}},
       10,
       64,
       true,
       401},
  };
  for (const KueueShape& shape : kShapes) Shaped(shape).Run();
}

}  // namespace longhaul::scheduler::bench
