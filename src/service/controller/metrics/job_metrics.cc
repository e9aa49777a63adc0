#include "service/controller/metrics/job_metrics.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "proto/job.pb.h"

namespace longhaul::service {
namespace {

// Seconds. From a worker replaced from warm memory to a restart on other nodes.
constexpr double kRecoveryBounds[] = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600};

struct JobMetric {
  const char* name;
  MetricType type;
  const char* help;
  // Nothing: the value is not known, and there is no sample.
  std::optional<double> (*value)(const proto::JobStatus&);
};

std::optional<double> Known(bool known, double value) {
  return known ? std::optional<double>(value) : std::nullopt;
}
double AsDouble(uint64_t value) { return static_cast<double>(value); }

using Job = proto::JobStatus;
constexpr MetricType kGauge = MetricType::kGauge;
constexpr MetricType kCounter = MetricType::kCounter;

constexpr JobMetric kJobMetrics[] = {
    {"longhaul_job_nodes", kGauge, "Nodes that the job has.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.gang().size()); }},
    {"longhaul_job_step", kGauge, "Last step reported of the present attempt.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.step()); }},
    {"longhaul_job_last_step_timestamp_seconds", kGauge, "When the newest step was reported.",
     [](const Job& job) {
       return Known(job.last_step_at_ns() != 0, ToSeconds(Duration(job.last_step_at_ns())));
     }},
    {"longhaul_job_step_seconds", kGauge, "Moving average of the time of a step.",
     [](const Job& job) { return Known(job.seconds_per_step() > 0, job.seconds_per_step()); }},
    {"longhaul_job_remaining_seconds", kGauge, "Expected time until the last step.",
     [](const Job& job) { return Known(job.eta_seconds() >= 0, job.eta_seconds()); }},
    {"longhaul_job_loss", kGauge, "Last training loss, nats a token.",
     [](const Job& job) { return Known(job.has_loss(), job.loss()); }},
    {"longhaul_job_validation_loss", kGauge, "Last validation loss, nats a token.",
     [](const Job& job) { return Known(job.has_validation_loss(), job.validation_loss()); }},
    {"longhaul_job_tokens_per_second", kGauge, "Recent speed over the whole job.",
     [](const Job& job) { return Known(job.tokens() > 0, job.tokens_per_second()); }},
    {"longhaul_job_slow", kGauge, "1 while workers or connections that were named are slow.",
     [](const Job& job) -> std::optional<double> { return job.slow() ? 1 : 0; }},
    {"longhaul_job_goodput_ratio", kGauge, "Productive time over all but queueing.",
     [](const Job& job) -> std::optional<double> { return job.ledger().goodput(); }},
    {"longhaul_job_stepped_rank_seconds_total", kCounter,
     "Time of all ranks in steps that were done, lost since or not.",
     [](const Job& job) -> std::optional<double> { return job.ledger().stepped_rank_seconds(); }},
    {"longhaul_job_lost_rank_seconds_total", kCounter, "Time of all ranks in steps that were lost.",
     [](const Job& job) -> std::optional<double> { return job.ledger().lost_rank_seconds(); }},
    {"longhaul_job_held_rank_seconds_total", kCounter, "Time of all ranks except queueing.",
     [](const Job& job) -> std::optional<double> { return job.ledger().held_rank_seconds(); }},
    {"longhaul_job_restarts_total", kCounter, "Attempts opened because of a fault.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.restarts()); }},
    {"longhaul_job_faults_total", kCounter, "Faults seen.",
     [](const Job& job) -> std::optional<double> {
       return static_cast<double>(job.faults_size());
     }},
    {"longhaul_job_preemptions_total", kCounter, "Times it was stopped for other jobs.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.preemptions()); }},
    {"longhaul_job_snapshots_total", kCounter, "Snapshots sealed in memory.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.snapshots()); }},
    {"longhaul_job_commits_total", kCounter, "Checkpoints committed on disk.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.commits()); }},
    {"longhaul_job_snapshot_interval_steps", kGauge, "Steps between two snapshots.",
     [](const Job& job) {
       return Known(job.snapshot_interval_steps() > 0, AsDouble(job.snapshot_interval_steps()));
     }},
    {"longhaul_job_memory_step", kGauge, "Newest step with a snapshot in memory.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.memory_step()); }},
    {"longhaul_job_committed_step", kGauge, "Newest step with a checkpoint on disk.",
     [](const Job& job) -> std::optional<double> { return AsDouble(job.committed_step()); }},
};

std::string InLowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void AddInfo(const std::vector<Job>& jobs, MetricsText& text) {
  text.Begin("longhaul_job_info", kGauge, "Always 1: the queue and the owner of the job.");
  for (const Job& job : jobs) {
    const proto::Scheduling& scheduling = job.job().scheduling();
    text.Add(
        {{"job_id", job.job().id()}, {"queue", scheduling.queue()}, {"owner", scheduling.owner()}},
        1);
  }
  text.Begin("longhaul_job_state", kGauge, "1 for the state the job is in, 0 for the others.");
  for (const Job& job : jobs) {
    for (int state = proto::QUEUED; state < proto::JobState_ARRAYSIZE; ++state) {
      text.Add({{"job_id", job.job().id()},
                {"state", InLowerCase(proto::JobState_Name(static_cast<proto::JobState>(state)))}},
               job.state() == state ? 1 : 0);
    }
  }
}

void AddLedger(const std::vector<Job>& jobs, MetricsText& text) {
  text.Begin("longhaul_job_rank_seconds", kGauge,
             "Time of all ranks by category of the goodput ledger. A rollback moves time from "
             "productive to lost_work, so rates need the counters.");
  for (const Job& job : jobs) {
    for (const proto::CategoryTime& time : job.ledger().categories()) {
      text.Add({{"job_id", job.job().id()},
                {"category", InLowerCase(proto::Category_Name(time.category()))}},
               time.rank_seconds());
    }
  }
}

// Each job has a histogram from its start, so that the rate of its first fault is right. A fault
// without a first step is not over, or ended the job.
Histogram RecoveriesOf(const Job& job) {
  Histogram recoveries(kRecoveryBounds);
  for (const proto::Fault& fault : job.faults()) {
    if (fault.first_step_at_ns() == 0) continue;
    const Duration took(fault.first_step_at_ns() - fault.happened_at_ns());
    Exemplar exemplar{
        .labels = {{"fault", std::to_string(fault.number())}, {"class", fault.class_name()}},
        .value = ToSeconds(took),
        .at = InstantFromNanoseconds(fault.first_step_at_ns())};
    if (!fault.node().empty()) exemplar.labels.emplace_back("node", fault.node());
    recoveries.Observe(ToSeconds(took), exemplar);
  }
  return recoveries;
}

void AddRecoveries(const std::vector<Job>& jobs, MetricsText& text) {
  text.Begin("longhaul_fault_recovery_seconds", MetricType::kHistogram,
             "Time from a fault to the first step after it.");
  for (const Job& job : jobs) text.Add({{"job_id", job.job().id()}}, RecoveriesOf(job));
}

}  // namespace

void AddJobMetrics(const std::vector<Job>& jobs, MetricsText& text) {
  AddInfo(jobs, text);
  for (const JobMetric& metric : kJobMetrics) {
    text.Begin(metric.name, metric.type, metric.help);
    for (const Job& job : jobs) {
      const std::optional<double> value = metric.value(job);
      if (value) text.Add({{"job_id", job.job().id()}}, *value);
    }
  }
  AddLedger(jobs, text);
  AddRecoveries(jobs, text);
}

}  // namespace longhaul::service
