#include "service/controller/metrics/metrics.h"

#include <algorithm>
#include <limits>

#include "service/controller/metrics/job_metrics.h"

namespace longhaul::service {
namespace {

constexpr MetricType kNodeGauge = MetricType::kGauge;

struct NodeMetric {
  const char* name;
  MetricType type;
  const char* help;
  double (*value)(const proto::NodeStatus&);
};

constexpr NodeMetric kNodeMetrics[] = {
    {"longhaul_node_connected", kNodeGauge, "1 while the node's agent is connected.",
     [](const proto::NodeStatus& node) -> double { return node.connected() ? 1 : 0; }},
    {"longhaul_node_cordoned", kNodeGauge, "1 while no new job may use the node.",
     [](const proto::NodeStatus& node) -> double { return node.cordoned() ? 1 : 0; }},
    {"longhaul_node_slots", kNodeGauge, "Worker slots of the node.",
     [](const proto::NodeStatus& node) -> double { return node.slots(); }},
    {"longhaul_node_used_slots", kNodeGauge, "Worker slots in use; a share of one counts as it.",
     [](const proto::NodeStatus& node) { return node.used_accelerators(); }},
    {"longhaul_node_health_ratio", kNodeGauge,
     "1 without recent faults; below 0.5 the node is on probation.",
     [](const proto::NodeStatus& node) { return node.health(); }},
    {"longhaul_node_losses_total", MetricType::kCounter, "Times the node was lost.",
     [](const proto::NodeStatus& node) -> double { return node.losses(); }},
};

struct QueueMetric {
  const char* name;
  const char* help;
  double (*value)(const proto::QueueStatus&);
};

double LimitOf(double amount) {
  return amount < 0 ? std::numeric_limits<double>::infinity() : amount;
}

constexpr QueueMetric kQueueMetrics[] = {
    {"longhaul_queue_guaranteed_accelerators", "Accelerators that the queue is entitled to.",
     [](const proto::QueueStatus& queue) { return LimitOf(queue.guarantee().accelerators()); }},
    {"longhaul_queue_limit_accelerators", "Accelerators that the queue may use at most.",
     [](const proto::QueueStatus& queue) { return LimitOf(queue.limit().accelerators()); }},
    {"longhaul_queue_used_accelerators", "Accelerators in use by the queue and those below it.",
     [](const proto::QueueStatus& queue) { return queue.usage().accelerators(); }},
    {"longhaul_queue_borrowed_accelerators", "Of these, those above the guarantee.",
     [](const proto::QueueStatus& queue) { return queue.borrowed().accelerators(); }},
    {"longhaul_queue_running_jobs", "Jobs directly in the queue that have nodes.",
     [](const proto::QueueStatus& queue) { return static_cast<double>(queue.running()); }},
    {"longhaul_queue_waiting_jobs", "Jobs directly in the queue that wait for nodes.",
     [](const proto::QueueStatus& queue) { return static_cast<double>(queue.waiting()); }},
};

void AddNodeMetrics(const std::vector<proto::NodeStatus>& nodes, MetricsText& text) {
  for (const NodeMetric& metric : kNodeMetrics) {
    text.Begin(metric.name, metric.type, metric.help);
    for (const proto::NodeStatus& node : nodes) {
      text.Add({{"node", node.name()}}, metric.value(node));
    }
  }
  const auto connected = std::count_if(
      nodes.begin(), nodes.end(), [](const proto::NodeStatus& node) { return node.connected(); });
  text.Begin("longhaul_nodes_connected", kNodeGauge, "Nodes whose agent is connected.");
  text.Add({}, static_cast<double>(connected));
}

void AddQueueMetrics(const std::vector<proto::QueueStatus>& queues, MetricsText& text) {
  for (const QueueMetric& metric : kQueueMetrics) {
    text.Begin(metric.name, MetricType::kGauge, metric.help);
    for (const proto::QueueStatus& queue : queues) {
      text.Add({{"queue", queue.name()}}, metric.value(queue));
    }
  }
}

void AddControllerMetrics(const MetricsInput& input, MetricsText& text) {
  text.Begin("longhaul_build_info", MetricType::kGauge, "Always 1: the controller's version.");
  text.Add({{"version", LONGHAUL_VERSION}}, 1);
  text.Begin("longhaul_log_events_total", MetricType::kCounter, "Events in the controller's log.");
  text.Add({}, static_cast<double>(input.logged_events));
  text.Begin("longhaul_log_writable", MetricType::kGauge, "0 while the log can't be written.");
  text.Add({}, input.log_writable ? 1 : 0);
  text.Begin("longhaul_event_streams", MetricType::kGauge, "Open streams of server-sent events.");
  text.Add({}, static_cast<double>(input.event_streams));
}

}  // namespace

std::string RenderMetrics(const MetricsInput& input, MetricsFormat format) {
  std::vector<proto::JobStatus> jobs = input.jobs;
  std::erase_if(jobs, [&](const proto::JobStatus& job) {
    return job.ended_at_ns() != 0 &&
           input.now - InstantFromNanoseconds(job.ended_at_ns()) > kMetricsAfterEnd;
  });
  MetricsText text(format);
  AddJobMetrics(jobs, text);
  AddNodeMetrics(input.nodes, text);
  AddQueueMetrics(input.queues, text);
  AddControllerMetrics(input, text);
  return std::move(text).Finish();
}

}  // namespace longhaul::service
