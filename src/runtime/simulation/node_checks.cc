#include "runtime/simulation/node_checks.h"

#include <numeric>
#include <optional>
#include <utility>

#include "runtime/node_check/simulated_cluster.h"
#include "runtime/simulation/controller_host.h"

namespace longhaul::runtime::simulation {
namespace {

constexpr double kHealthyPairSeconds = 0.02;
constexpr double kHealthyComputeSeconds = 0.1;

}  // namespace

void SimNodeChecks::Begin(const NodeCheckOrder& order) {
  auto check = std::make_shared<Check>();
  check->order = order;
  for (const NodeId& node : order.nodes) check->nodes.push_back(world_.index.at(node.value()));
  const auto count = static_cast<uint32_t>(check->nodes.size());
  check->machine = std::make_unique<node_check::NodeCheck>(
      count, std::vector<uint32_t>(count, node_check::kNoSwitch), order.fault);
  world_.queue.After(world_.options.physics.self_test, [this, check] {
    std::vector<uint32_t> all(check->nodes.size());
    std::iota(all.begin(), all.end(), 0u);
    TakeSelfTests(*check, all);
    RunRound(check);
  });
}

bool SimNodeChecks::Shows(const SimNode& node) const {
  return node.broken_until > world_.queue.now() && node.check_shows;
}

bool SimNodeChecks::FailsPair(const SimNode& client, const SimNode& server) {
  const node_check::Noise noise;
  for (const SimNode* node : {&client, &server}) {
    if (node->core == nullptr || !node->connected) return true;
    if (node->broken_link && Shows(*node) && world_.random.Uniform() >= noise.missed) return true;
  }
  return world_.random.Uniform() < noise.failure;
}

void SimNodeChecks::TakeSelfTests(Check& check, const std::vector<uint32_t>& nodes) {
  for (const uint32_t number : nodes) {
    const SimNode& node = world_.nodes[check.nodes[number]];
    std::optional<node_check::SelfTest> test;
    if (node.core != nullptr && node.connected) {
      test.emplace();
      if (!node.broken_link && Shows(node)) test->failure = "the accelerators do not answer";
      test->compute_seconds = test->memory_seconds = test->disk_seconds = kHealthyComputeSeconds;
    }
    check.machine->TakeSelfTest(number, test);
  }
}

// The tests of a round run at the same time, so it takes as long as the slowest.
void SimNodeChecks::RunRound(std::shared_ptr<Check> check) {
  const node_check::Round round = check->machine->NextRound();
  if (round.pair_tests.empty() && round.self_tests.empty()) return Finish(*check);
  Duration time{};
  for (const node_check::PairTest& test : round.pair_tests) {
    const SimNode& client = world_.nodes[check->nodes[test.client]];
    const SimNode& server = world_.nodes[check->nodes[test.server]];
    node_check::PairMeasurement measurement;
    measurement.pair = node_check::MakePair(test.client, test.server);
    measurement.failed = FailsPair(client, server);
    if (!measurement.failed) {
      measurement.seconds = kHealthyPairSeconds * (1 + 0.2 * (world_.random.Uniform() - 0.5));
    }
    const Physics& physics = world_.options.physics;
    time = std::max(time, measurement.failed ? physics.failed_pair_test : physics.pair_test);
    check->machine->TakePair(measurement);
  }
  if (!round.self_tests.empty()) {
    TakeSelfTests(*check, round.self_tests);
    time += world_.options.physics.self_test;
  }
  world_.queue.After(time, [this, check] { RunRound(check); });
}

void SimNodeChecks::Finish(const Check& check) {
  const node_check::Verdicts verdicts = check.machine->Conclude();
  const auto is_faulty = [](node_check::Verdict verdict) {
    return verdict == node_check::Verdict::kBad || verdict == node_check::Verdict::kSlow;
  };
  const auto name_of = [&](uint32_t node) { return world_.nodes[check.nodes[node]].id.value(); };
  proto::Event event;
  event.set_at_ns(ToNanoseconds(world_.queue.now()));
  proto::NodesChecked& checked = *event.mutable_nodes_checked();
  checked.set_job_id(check.order.job);
  checked.set_fault(check.order.fault);
  checked.set_attempt(check.order.attempt);
  for (uint32_t node = 0; node < check.nodes.size(); ++node) {
    if (!is_faulty(verdicts.nodes[node].verdict)) continue;
    proto::NodesChecked::Faulty& faulty = *checked.add_faulty();
    faulty.set_name(name_of(node));
    faulty.set_evidence(verdicts.nodes[node].evidence);
  }
  for (const node_check::LinkVerdict& link : verdicts.links) {
    if (!is_faulty(link.verdict)) continue;
    proto::NodesChecked::Link& bad = *checked.add_links();
    bad.set_first(name_of(link.link.first));
    bad.set_second(name_of(link.link.second));
    bad.set_evidence(link.evidence);
  }
  host_.Feed(event);
}

}  // namespace longhaul::runtime::simulation
