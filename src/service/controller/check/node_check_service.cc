#include "service/controller/check/node_check_service.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.h"
#include "io/clock.h"
#include "service/agent/check/self_test.h"
#include "service/controller/check/device_rows.h"

namespace longhaul::service {
namespace {

namespace node_check = runtime::node_check;
using node_check::NodeCheck;
using node_check::Verdict;

constexpr size_t kMostProgress = 64;  // lines
constexpr size_t kMostRequests = 64;  // that wait
constexpr size_t kLongestDetail = 300;
constexpr Duration kLookAtNodes =
    std::chrono::milliseconds(250);  // for nodes that have disconnected
// A larger difference misleads whoever compares the logs of nodes, and soon certificates.
constexpr double kMostClockSeconds = 10;

std::string Digits(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Of an agent's measurement, which may be any text and number.
proto::Measurement Checked(const proto::Measurement& measurement) {
  proto::Measurement checked;
  checked.set_name(Printable(measurement.name(), 40));
  checked.set_value(std::isfinite(measurement.value()) ? measurement.value() : 0);
  checked.set_unit(Printable(measurement.unit(), 20));
  checked.set_verdict(measurement.verdict() == "good" ? "good" : "bad");
  checked.set_detail(Printable(measurement.detail(), kLongestDetail));
  return checked;
}

// By how much the agent's clock is ahead, in seconds, if both ways took as long (as NTP does).
proto::Measurement ClockDifference(const proto::SelfTestResult& result, int64_t sent_at_ns,
                                   Instant received_at) {
  const double there = static_cast<double>(result.received_at_ns() - sent_at_ns);
  const double back = static_cast<double>(result.sent_at_ns() - ToNanoseconds(received_at));
  proto::Measurement measurement;
  measurement.set_name("clock difference");
  measurement.set_unit("s");
  measurement.set_value((there + back) / 2 * 1e-9);
  measurement.set_verdict("good");
  if (std::abs(measurement.value()) > kMostClockSeconds) {
    measurement.set_verdict("bad");
    measurement.set_detail("the clock differs from the controller's by " +
                           Digits("%.1f s", measurement.value()));
  }
  return measurement;
}

// The seconds for a fixed amount of work, of a rate.
std::optional<double> InverseOf(const proto::Measurement& measurement) {
  if (measurement.verdict() == "bad" || !(measurement.value() > 0)) return std::nullopt;
  return 1 / measurement.value();
}

node_check::SelfTest Summary(const proto::SelfTestResult& result) {
  node_check::SelfTest test;
  for (const proto::Measurement& each : result.measurements()) {
    if (each.verdict() == "bad" && test.failure.empty()) test.failure = each.detail();
    if (each.name() == kMatrixProduct) test.compute_seconds = InverseOf(each);
    if (each.name() == kMemoryCopy) test.memory_seconds = InverseOf(each);
    if (each.name() == kDiskWrite) test.disk_seconds = InverseOf(each);
  }
  return test;
}

std::string CountText(size_t count, const char* one, const char* several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

}  // namespace

proto::Event NodesCheckedEvent(const runtime::NodeCheckOrder& order,
                               const proto::CheckStatus& status) {
  proto::Event event;
  event.set_at_ns(ToNanoseconds(io::Now()));
  proto::NodesChecked& checked = *event.mutable_nodes_checked();
  checked.set_job_id(order.job);
  checked.set_fault(order.fault);
  checked.set_attempt(order.attempt);
  checked.set_error(status.error());
  const auto is_faulty = [](const std::string& verdict) {
    return verdict == ToString(Verdict::kBad) || verdict == ToString(Verdict::kSlow);
  };
  for (const proto::CheckedNode& node : status.nodes()) {
    if (is_faulty(node.verdict())) {
      proto::NodesChecked::Faulty& faulty = *checked.add_faulty();
      faulty.set_name(node.name());
      faulty.set_evidence(node.evidence());
    } else if (node.verdict() != ToString(Verdict::kGood)) {
      checked.add_others(node.name() + " is " + node.verdict() + ": " + node.evidence());
    }
  }
  for (const proto::CheckedLink& link : status.links()) {
    if (is_faulty(link.verdict())) {
      proto::NodesChecked::Link& bad = *checked.add_links();
      bad.set_first(link.first());
      bad.set_second(link.second());
      bad.set_evidence(link.evidence());
    } else {
      checked.add_others("the connection of " + link.first() + " and " + link.second() + " is " +
                         link.verdict() + ": " + link.evidence());
    }
  }
  for (const proto::CheckedSwitch& each : status.switches()) {
    checked.add_others("the switch " + each.name() + " is " + each.verdict() + ": " +
                       each.evidence());
  }
  return event;
}

NodeCheckService::NodeCheckService(NodeCheckPort port, NodeCheckLimits limits)
    : port_(std::move(port)), limits_(limits) {
  thread_ = std::thread([this] { Serve(); });
}

NodeCheckService::~NodeCheckService() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool NodeCheckService::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

Result<std::vector<NodeCheckService::Target>> NodeCheckService::Choose(
    const std::vector<std::string>& nodes) const {
  std::vector<Target> all = port_.targets();
  std::set<std::string> wanted(nodes.begin(), nodes.end());
  std::vector<Target> chosen;
  for (Target& target : all) {
    if (nodes.empty()) {
      if (target.idle && (target.connected || target.accepts_work)) chosen.push_back(target);
    } else if (wanted.erase(target.node) > 0) {
      if (!target.idle) {
        return FailedPrecondition(target.node +
                                  " runs jobs; a check uses only nodes without jobs: drain it "
                                  "first, or leave it out");
      }
      chosen.push_back(target);
    }
  }
  if (!wanted.empty()) return NotFound("no node named " + Printable(*wanted.begin(), 80));
  if (chosen.empty()) return FailedPrecondition("there is no node without jobs to check");
  if (chosen.size() > node_check::kMostNodes) {
    return InvalidArgument("a check has at most " + WithThousands(node_check::kMostNodes) +
                           " nodes, not " + WithThousands(static_cast<int64_t>(chosen.size())) +
                           "; name some of them");
  }
  return chosen;
}

NodeCheckService::Members NodeCheckService::MembersOf(std::vector<Target> targets) {
  Members members;
  for (const Target& target : targets) {
    if (!target.connected) members.absent.push_back(target.node);
  }
  std::erase_if(targets, [](const Target& target) { return !target.connected; });
  std::map<std::string, uint32_t> number;
  for (const Target& target : targets) {
    if (target.leaf.empty()) {
      members.switch_of.push_back(node_check::kNoSwitch);
      continue;
    }
    const auto [found, is_new] =
        number.emplace(target.leaf, static_cast<uint32_t>(members.switches.size()));
    if (is_new) members.switches.push_back(target.leaf);
    members.switch_of.push_back(found->second);
  }
  members.left.resize(targets.size(), false);
  members.self_tests.resize(targets.size());
  members.devices.resize(targets.size());
  members.command_limits.resize(targets.size(), Duration(0));
  members.targets = std::move(targets);
  return members;
}

Result<proto::CheckStatus> NodeCheckService::Start(const std::vector<std::string>& nodes,
                                                   const std::string& by, uint64_t seed) {
  ASSIGN_OR_RETURN(std::vector<Target> chosen, Choose(nodes));
  const std::lock_guard lock(mutex_);
  if (stopping_) return Unavailable("the controller is stopping");
  if (!requests_.empty() || (status_.check() != 0 && !status_.finished())) {
    return FailedPrecondition("check " + std::to_string(status_.check()) + " of " +
                              status_.started_by() + " is running; one check runs at a time");
  }
  BeginStatus(by);
  Request& request = requests_.emplace_back();
  request.targets = std::move(chosen);
  request.seed = seed;
  changed_.notify_all();
  return status_;
}

void NodeCheckService::CheckJob(const runtime::NodeCheckOrder& order,
                                std::function<void(const proto::CheckStatus&)> done) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  if (requests_.size() >= kMostRequests) {
    proto::CheckStatus refused;
    refused.set_error("too many node checks wait");
    return done(refused);
  }
  Request& request = requests_.emplace_back();
  request.order = order;
  request.done = std::move(done);
  changed_.notify_all();
}

void NodeCheckService::BeginStatus(const std::string& by) {
  const uint64_t number = status_.check() + 1;
  status_ = {};
  status_.set_check(number);
  status_.set_started_at_ns(ToNanoseconds(io::Now()));
  status_.set_started_by(by);
  round_ = 0;
}

std::vector<NodeCheckService::Target> NodeCheckService::TargetsOf(
    const runtime::NodeCheckOrder& order) const {
  const std::set<NodeId> wanted(order.nodes.begin(), order.nodes.end());
  std::vector<Target> targets = port_.targets();
  std::erase_if(targets, [&](const Target& target) {
    const bool free = target.idle || target.job == order.job;
    return !wanted.contains(NodeId(target.node)) || !free;
  });
  return targets;
}

void NodeCheckService::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !requests_.empty(); });
    if (stopping_) return;
    Request request = std::move(requests_.front());
    requests_.pop_front();
    if (!request.order.has_value()) {
      lock.unlock();
      Run(MembersOf(std::move(request.targets)), request.seed);
      lock.lock();
      continue;
    }
    BeginStatus("job " + request.order->job);
    request.seed = status_.check();
    lock.unlock();
    Members members = MembersOf(TargetsOf(*request.order));
    members.job = request.order->job;
    Run(std::move(members), request.seed);
    lock.lock();
    if (stopping_) return;
    const proto::CheckStatus status = status_;
    lock.unlock();
    request.done(status);
    lock.lock();
  }
}

Result<proto::CheckStatus> NodeCheckService::Status(uint64_t check) const {
  const std::lock_guard lock(mutex_);
  if (check != 0 && check == status_.check()) return status_;
  return NotFound("no check " + std::to_string(check) + "; the controller keeps the newest one, " +
                  (status_.check() == 0 ? "and none has run since it started"
                                        : "which is " + std::to_string(status_.check())));
}

void NodeCheckService::TakeAnswer(const NodeId& node, const proto::CheckAnswer& answer) {
  {
    const std::lock_guard lock(mutex_);
    // Late answers of earlier rounds and checks mean nothing any more.
    if (!awaiting_ || answer.check() != status_.check() || answer.round() != round_) return;
    answers_[node.value()] = {answer, io::Now()};
  }
  changed_.notify_all();
}

NodeCheckService::Answers NodeCheckService::Exchange(
    const std::map<std::string, proto::CheckOrder>& orders, const std::string& job,
    Duration limit) {
  uint64_t number = 0;
  uint32_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    number = status_.check();
    round = ++round_;
    awaiting_ = true;
    answers_.clear();
  }
  std::set<std::string> awaited;
  for (const auto& [node, order] : orders) {
    proto::CheckOrder sent = order;
    sent.set_job_id(job);
    sent.set_check(number);
    sent.set_round(round);
    if (port_.send(NodeId(node), sent)) awaited.insert(node);
  }
  const Instant deadline = io::MonotonicNow() + limit;
  while (!Await(awaited, std::min(kLookAtNodes, deadline - io::MonotonicNow())) &&
         io::MonotonicNow() < deadline) {
    for (const Target& target : port_.targets()) {
      if (!target.connected) awaited.erase(target.node);
    }
  }
  const std::lock_guard lock(mutex_);
  awaiting_ = false;
  return std::exchange(answers_, {});
}

bool NodeCheckService::Await(const std::set<std::string>& nodes, Duration limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::max(limit, Duration(0)), [&] {
    return stopping_ || std::all_of(nodes.begin(), nodes.end(),
                                    [this](const auto& node) { return answers_.contains(node); });
  });
}

// A job may have begun on a node since the last round.
void NodeCheckService::UpdateIdle(Members& members) const {
  std::map<std::string, bool> idle;
  for (const Target& target : port_.targets()) {
    idle[target.node] = target.idle || (!members.job.empty() && target.job == members.job);
  }
  for (size_t i = 0; i < members.targets.size(); ++i) {
    if (!idle[members.targets[i].node]) members.left[i] = true;
  }
}

void NodeCheckService::RunSelfTests(const std::vector<uint32_t>& nodes, bool first,
                                    Members& members, NodeCheck& check) {
  std::map<std::string, proto::CheckOrder> orders;
  const int64_t sent_at_ns = ToNanoseconds(io::Now());
  for (const uint32_t node : nodes) {
    if (members.left[node]) continue;
    orders[members.targets[node].node].mutable_self_test()->set_sent_at_ns(sent_at_ns);
  }
  if (orders.empty()) return;
  const Answers answers = Exchange(orders, members.job, limits_.self_test);
  size_t answered = 0;
  for (const uint32_t node : nodes) {
    const auto found = answers.find(members.targets[node].node);
    const bool busy = found != answers.end() && found->second.content.busy();
    if (busy) members.left[node] = true;
    if (found == answers.end() || !found->second.content.has_self_test()) {
      if (first)
        check.TakeSelfTest(node, busy ? std::optional(node_check::SelfTest()) : std::nullopt);
      continue;
    }
    ++answered;
    const proto::SelfTestResult& result = found->second.content.self_test();
    proto::SelfTestResult checked;
    for (const proto::Measurement& each : result.measurements()) {
      if (checked.measurements_size() < 16) *checked.add_measurements() = Checked(each);
    }
    *checked.add_measurements() = ClockDifference(result, sent_at_ns, found->second.at);
    check.TakeSelfTest(node, Summary(checked));
    if (!first) continue;
    members.self_tests[node] = std::move(checked);
    members.command_limits[node] = CommandLimitOf(result);
  }
  Report((first ? "self tests: " : "self tests again: ") + std::to_string(answered) + " of " +
         CountText(orders.size(), "node", "nodes") + " answered");
}

// Of those nodes that have a check command.
void NodeCheckService::RunDeviceTests(const std::vector<uint32_t>& nodes, Members& members,
                                      NodeCheck& check) {
  std::map<std::string, proto::CheckOrder> orders;
  Duration limit(0);
  UpdateIdle(members);
  for (const uint32_t node : nodes) {
    if (members.left[node] || members.command_limits[node] <= Duration(0)) continue;
    orders[members.targets[node].node].mutable_device_test();
    limit = std::max(limit, members.command_limits[node]);
  }
  if (orders.empty()) return;
  const Answers answers = Exchange(orders, members.job, limit + limits_.device_test);
  size_t answered = 0;
  for (const uint32_t node : nodes) {
    if (!orders.contains(members.targets[node].node)) continue;
    const auto found = answers.find(members.targets[node].node);
    if (found != answers.end() && found->second.content.busy()) {
      members.left[node] = true;
    } else if (found == answers.end() || !found->second.content.has_device_test()) {
      check.TakeDeviceTest(node, std::nullopt);
    } else {
      check.TakeDeviceTest(node, DeviceTestOf(found->second.content.device_test()));
      ++answered;
    }
  }
  Report("check commands: " + std::to_string(answered) + " of " +
         CountText(orders.size(), "node", "nodes") + " answered");
}

void NodeCheckService::RunPairTests(const std::vector<node_check::PairTest>& tests,
                                    Members& members, uint64_t seed, NodeCheck& check) {
  std::map<std::string, proto::CheckOrder> orders;
  std::vector<node_check::PairTest> run;
  for (const node_check::PairTest& test : tests) {
    if (members.left[test.client] || members.left[test.server]) continue;
    const Target& server = members.targets[test.server];
    proto::PairTest& order = *orders[members.targets[test.client].node].mutable_pair_test();
    order.set_node(server.node);
    order.set_address(server.address);
    order.set_port(server.peer_port);
    order.set_seed(seed);
    run.push_back(test);
  }
  if (run.empty()) return;
  const Answers answers = Exchange(orders, members.job, limits_.pair_test);
  size_t failed = 0;
  for (const node_check::PairTest& test : run) {
    node_check::PairMeasurement measurement;
    measurement.pair = node_check::MakePair(test.client, test.server);
    const auto found = answers.find(members.targets[test.client].node);
    if (found != answers.end() && found->second.content.busy()) {
      members.left[test.client] = true;
      continue;
    }
    const proto::PairTestResult* result =
        found == answers.end() ? nullptr : &found->second.content.pair_test();
    const bool usable = result != nullptr && result->error().empty() && result->small_ns() > 0 &&
                        result->large_ns() > 0 && result->small_ns() < INT64_MAX / 2 &&
                        result->large_ns() < INT64_MAX / 2;
    measurement.failed = !usable;
    failed += usable ? 0 : 1;
    if (usable) {
      measurement.seconds = static_cast<double>(result->small_ns() + result->large_ns()) * 1e-9;
    }
    check.TakePair(measurement);
  }
  Report("pair tests: " + std::to_string(run.size() - failed) + " of " +
         CountText(run.size(), "pair", "pairs") + " passed");
}

void NodeCheckService::Report(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (status_.progress_size() < static_cast<int>(kMostProgress)) {
    *status_.add_progress() = "round " + std::to_string(round_) + ": " + line;
  }
}

void NodeCheckService::Run(Members members, uint64_t seed) {
  const auto count = static_cast<uint32_t>(members.targets.size());
  if (count == 0) return Finish(members, {}, 0);
  NodeCheck check(count, members.switch_of, seed);
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0u);
  RunSelfTests(all, true, members, check);
  RunDeviceTests(all, members, check);
  for (uint32_t test = 1; test < node_check::kDeviceTests && !stopping(); ++test) {
    RunDeviceTests(check.NodesWithSlowDevices(), members, check);
  }
  while (!stopping()) {
    const node_check::Round round = check.NextRound();
    if (round.pair_tests.empty() && round.self_tests.empty()) break;
    UpdateIdle(members);
    RunPairTests(round.pair_tests, members, seed, check);
    RunSelfTests(round.self_tests, false, members, check);
  }
  const std::vector<node_check::DeviceJudgement> judgements = check.DeviceJudgements();
  for (const uint32_t node : all) {
    if (!check.device_test(node)) continue;
    AddDeviceRows(*check.device_test(node), judgements[node], members.devices[node]);
  }
  Finish(members, check.Conclude(), static_cast<uint32_t>(check.pair_tests()));
}

void NodeCheckService::Finish(const Members& members, const node_check::Verdicts& verdicts,
                              uint32_t pair_tests) {
  const std::lock_guard lock(mutex_);
  Verdict worst = Verdict::kGood;
  const auto set = [&worst](auto& row, const auto& verdict) {
    row.set_verdict(std::string(ToString(verdict.verdict)));
    row.set_evidence(verdict.evidence);
    row.set_margin_nats(verdict.margin);
    worst = std::max(worst, verdict.verdict);
  };
  for (size_t i = 0; i < members.targets.size(); ++i) {
    const Target& target = members.targets[i];
    node_check::NodeVerdict verdict = verdicts.nodes[i];
    if (members.left[i]) {
      verdict = {Verdict::kGood, 0, "not finished: a job began to use the node"};
    }
    proto::CheckedNode& row = *status_.add_nodes();
    row.set_name(target.node);
    *row.mutable_measurements() = members.self_tests[i].measurements();
    *row.mutable_devices() = members.devices[i].devices();
    set(row, verdict);
  }
  for (const std::string& name : members.absent) {
    proto::CheckedNode& row = *status_.add_nodes();
    row.set_name(name);
    set(row, node_check::NodeVerdict{Verdict::kBad, 0, "its agent is not connected"});
  }
  for (const node_check::LinkVerdict& link : verdicts.links) {
    proto::CheckedLink& row = *status_.add_links();
    row.set_first(members.targets[link.link.first].node);
    row.set_second(members.targets[link.link.second].node);
    set(row, link);
  }
  for (const node_check::SwitchVerdict& each : verdicts.switches) {
    proto::CheckedSwitch& row = *status_.add_switches();
    row.set_name(members.switches[each.at]);
    set(row, each);
  }
  status_.set_pair_tests(pair_tests);
  status_.set_verdict(std::string(ToString(worst)));
  if (stopping_) status_.set_error("the controller stopped before the check was finished");
  status_.set_ended_at_ns(ToNanoseconds(io::Now()));
  status_.set_finished(true);
}

}  // namespace longhaul::service
