#include "service/controller/rest/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <utility>

namespace longhaul::service {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Label values in Prometheus's text format: backslash, quotation mark and line end are escaped.
std::string Escaped(const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// All samples of one metric. They must follow each other, after one HELP and TYPE.
class Family {
 public:
  Family(std::string& out, const char* name, const char* type, const char* help)
      : out_(out), name_(name) {
    out_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }

  void Add(const Labels& labels, double value) {
    out_ += name_;
    const char* separator = "{";
    for (const auto& [label, text] : labels) {
      out_ += fmt::format("{}{}=\"{}\"", separator, label, Escaped(text));
      separator = ",";
    }
    if (!labels.empty()) out_ += '}';
    out_ += ' ' + Number(value) + '\n';
  }

 private:
  std::string& out_;
  std::string name_;
};

struct JobMetric {
  const char* name;
  const char* type;
  const char* help;
  double (*value)(const proto::JobStatus&);
};

constexpr JobMetric kJobMetrics[] = {
    {"longhaul_job_step", "gauge", "Last step reported of the present attempt.",
     [](const proto::JobStatus& job) { return static_cast<double>(job.step()); }},
    {"longhaul_job_loss", "gauge", "Last training loss, nats a token.",
     [](const proto::JobStatus& job) { return job.loss(); }},
    {"longhaul_job_validation_loss", "gauge", "Last validation loss, nats a token.",
     [](const proto::JobStatus& job) { return job.validation_loss(); }},
    {"longhaul_job_tokens_per_second", "gauge", "Recent speed over the whole job.",
     [](const proto::JobStatus& job) { return job.tokens_per_second(); }},
    {"longhaul_job_goodput_ratio", "gauge", "Productive time over all but queueing.",
     [](const proto::JobStatus& job) { return job.ledger().goodput(); }},
    {"longhaul_job_restarts_total", "counter", "Attempts opened because of a fault.",
     [](const proto::JobStatus& job) { return static_cast<double>(job.restarts()); }},
    {"longhaul_job_faults_total", "counter", "Faults seen.",
     [](const proto::JobStatus& job) { return static_cast<double>(job.faults_size()); }},
    {"longhaul_job_committed_step", "gauge", "Newest step with a checkpoint on disk.",
     [](const proto::JobStatus& job) { return static_cast<double>(job.committed_step()); }},
};

void AddJobs(const MetricsInput& input, std::string& out) {
  Family state(out, "longhaul_job_state", "gauge", "1 for the state the job is in.");
  for (const proto::JobStatus& job : input.jobs) {
    state.Add({{"job", job.job().id()}, {"state", LowerCase(proto::JobState_Name(job.state()))}},
              1);
  }
  for (const JobMetric& metric : kJobMetrics) {
    Family family(out, metric.name, metric.type, metric.help);
    for (const proto::JobStatus& job : input.jobs) {
      family.Add({{"job", job.job().id()}}, metric.value(job));
    }
  }
  // A gauge: time may move between categories when a rollback makes work lost.
  Family ledger(out, "longhaul_job_rank_seconds", "gauge",
                "Time of all ranks by category of the goodput ledger.");
  for (const proto::JobStatus& job : input.jobs) {
    for (const proto::CategoryTime& time : job.ledger().categories()) {
      ledger.Add(
          {{"job", job.job().id()}, {"category", LowerCase(proto::Category_Name(time.category()))}},
          time.rank_seconds());
    }
  }
}

void AddNodes(const MetricsInput& input, std::string& out) {
  Family connected(out, "longhaul_node_connected", "gauge",
                   "1 while the node's agent is connected.");
  for (const proto::NodeStatus& node : input.nodes) {
    connected.Add({{"node", node.name()}}, node.connected() ? 1 : 0);
  }
  Family used(out, "longhaul_node_used_slots", "gauge", "Workers placed on the node.");
  for (const proto::NodeStatus& node : input.nodes)
    used.Add({{"node", node.name()}}, node.used_slots());
  Family losses(out, "longhaul_node_losses_total", "counter", "Times the node was lost.");
  for (const proto::NodeStatus& node : input.nodes)
    losses.Add({{"node", node.name()}}, node.losses());
}

}  // namespace

std::string RenderMetrics(const MetricsInput& input) {
  std::string out;
  AddJobs(input, out);
  AddNodes(input, out);
  const auto connected =
      std::count_if(input.nodes.begin(), input.nodes.end(),
                    [](const proto::NodeStatus& node) { return node.connected(); });
  Family(out, "longhaul_nodes_connected", "gauge", "Nodes whose agent is connected.")
      .Add({}, static_cast<double>(connected));
  Family(out, "longhaul_log_events_total", "counter", "Events in the controller's log.")
      .Add({}, static_cast<double>(input.logged_events));
  Family(out, "longhaul_log_writable", "gauge", "0 while the log can't be written.")
      .Add({}, input.log_writable ? 1 : 0);
  Family(out, "longhaul_event_streams", "gauge", "Open streams of server-sent events.")
      .Add({}, static_cast<double>(input.event_streams));
  return out;
}

}  // namespace longhaul::service
