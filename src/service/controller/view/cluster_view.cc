#include "service/controller/view/cluster_view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "service/controller/view/run_view.h"

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMsInNanoseconds = 1'000'000;
constexpr const char* kAbsent = "absent";

// Gives each distinct text a number, in the order of their first use.
class Table {
 public:
  size_t NumberOf(const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, numbers_.size());
    if (is_new) texts_.push_back(text);
    return at->second;
  }
  const Json& texts() const { return texts_; }

 private:
  std::map<std::string, size_t> numbers_;
  Json texts_ = Json::array();
};

// The domains of a node from the highest level down, as one text: "block-1 leaf-3".
std::string PlaceOf(const spec::DeclaredNode& node) {
  std::string place;
  for (auto domain = node.domains.rbegin(); domain != node.domains.rend(); ++domain) {
    if (domain->empty()) continue;
    if (!place.empty()) place += " ";
    place += *domain;
  }
  return place;
}

class NodeColumns {
 public:
  void Add(const std::string& name, const std::string& place, const proto::NodeStatus* node,
           uint32_t slots) {
    json_["name"].push_back(name);
    json_["place"].push_back(places_.NumberOf(place));
    json_["condition"].push_back(
        conditions_.NumberOf(node == nullptr ? kAbsent : node->condition()));
    json_["slots"].push_back(slots);
    json_["used"].push_back(node == nullptr ? 0 : node->used_accelerators());
    const bool runs = node != nullptr && node->jobs_size() > 0;
    json_["job"].push_back(runs ? Json(jobs_.NumberOf(node->jobs(0))) : Json(-1));
    json_["reservation"].push_back(node != nullptr && node->has_window() && node->window().open()
                                       ? Json(reservations_.NumberOf(node->window().reservation()))
                                       : Json(-1));
  }

  Json Take() && {
    json_["places"] = places_.texts();
    json_["conditions"] = conditions_.texts();
    json_["jobs"] = jobs_.texts();
    json_["reservations"] = reservations_.texts();
    return std::move(json_);
  }

 private:
  Json json_ = {{"name", Json::array()},       {"place", Json::array()},
                {"condition", Json::array()},  {"slots", Json::array()},
                {"used", Json::array()},       {"job", Json::array()},
                {"reservation", Json::array()}};
  Table places_;
  Table conditions_;
  Table jobs_;
  Table reservations_;
};

// The declared nodes in the order of the cluster file, which keeps domains together, then others.
Json NodesJson(const ClusterViewInput& input) {
  std::map<std::string, const proto::NodeStatus*> joined;
  for (const proto::NodeStatus& node : input.nodes) joined[node.name()] = &node;
  NodeColumns columns;
  std::set<std::string> shown;
  if (input.declaration.has_value()) {
    for (const spec::DeclaredNode& declared : input.declaration->nodes) {
      const auto found = joined.find(declared.name);
      const proto::NodeStatus* node = found == joined.end() ? nullptr : found->second;
      const auto absent = input.absent.find(declared.name);
      const uint32_t slots =
          node != nullptr ? node->slots() : (absent == input.absent.end() ? 0 : absent->second);
      columns.Add(declared.name, PlaceOf(declared), node, slots);
      shown.insert(declared.name);
    }
  }
  for (const proto::NodeStatus& node : input.nodes) {
    if (!shown.contains(node.name())) columns.Add(node.name(), "", &node, node.slots());
  }
  return std::move(columns).Take();
}

// -1 in the messages: unlimited.
Json Limited(double accelerators) { return accelerators < 0 ? Json() : Json(accelerators); }

Json QueueJson(const proto::QueueStatus& queue) {
  return {{"name", queue.name()},
          {"parent", queue.parent()},
          {"guarantee", Limited(queue.guarantee().accelerators())},
          {"limit", Limited(queue.limit().accelerators())},
          {"usage", queue.usage().accelerators()},
          {"borrowed", queue.borrowed().accelerators()},
          {"running", queue.running()},
          {"waiting", queue.waiting()}};
}

Json InstantMs(const std::optional<Instant>& at) {
  return at.has_value() ? Json(ToNanoseconds(*at) / kMsInNanoseconds) : Json();
}

Json WaitingJson(const WaitingJob& job) {
  return {{"id", job.id},
          {"queue", job.queue},
          {"owner", job.owner},
          {"workers", job.workers},
          {"submitted_at_ms", job.submitted_at_ns / kMsInNanoseconds},
          {"sentence", job.sentence},
          {"explained", job.explained},
          {"expected_start_ms", InstantMs(job.expected_start)},
          {"expected_late_ms", InstantMs(job.expected_late)}};
}

Json RunningJson(const RunningJob& job) {
  return {{"id", job.id},
          {"queue", job.queue},
          {"owner", job.owner},
          {"state", job.state},
          {"workers", job.workers},
          {"step", job.step},
          {"total_steps", job.total_steps},
          {"goodput", job.goodput},
          {"eta_seconds", job.eta_seconds},
          {"faults", job.faults}};
}

}  // namespace

Json ClusterViewJson(const ClusterViewInput& input) {
  Json queues = Json::array();
  for (const proto::QueueStatus& queue : input.queues) queues.push_back(QueueJson(queue));
  Json waiting = Json::array();
  for (const WaitingJob& job : input.waiting) waiting.push_back(WaitingJson(job));
  Json running = Json::array();
  for (const RunningJob& job : input.running) running.push_back(RunningJson(job));
  return {{"version", kViewVersion},       {"now_ms", ToNanoseconds(input.now) / kMsInNanoseconds},
          {"nodes", NodesJson(input)},     {"queues", std::move(queues)},
          {"waiting", std::move(waiting)}, {"waiting_total", input.waiting_total},
          {"running", std::move(running)}, {"running_total", input.running_total},
          {"occupancy", input.occupancy}};
}

}  // namespace longhaul::service
