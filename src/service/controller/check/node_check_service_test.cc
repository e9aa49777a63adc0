// Node checks over agents that are played by this test.

#include "service/controller/check/node_check_service.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "service/agent/check/self_test.h"

namespace longhaul::service {
namespace {

using Target = runtime::Controller::CheckTarget;

constexpr NodeCheckLimits kShortLimits = {
    std::chrono::milliseconds(100), std::chrono::milliseconds(100), std::chrono::milliseconds(100)};

class Checks : public testing::Test {
 protected:
  using Change = std::function<void(const proto::CheckOrder&, proto::CheckAnswer&)>;

  void SetUp() override {
    for (int i = 0; i < 6; ++i) {
      const std::string name = "node-" + std::to_string(i);
      targets_.push_back({name, "127.0.0.1", 1000, "", true, true, true, ""});
    }
    Restart({});
  }

  void Restart(const NodeCheckLimits& limits) {
    NodeCheckPort port;
    port.targets = [this] {
      const std::lock_guard lock(mutex_);
      return targets_;
    };
    // Each service has its own, because the thread of an earlier one may still send.
    const auto to = std::make_shared<NodeCheckService*>();
    port.send = [this, to](const NodeId& node, const proto::CheckOrder& order) {
      return Send(**to, node, order);
    };
    auto service = std::make_unique<NodeCheckService>(std::move(port), limits);
    *to = service.get();
    service_ = std::move(service);
  }

  bool Send(NodeCheckService& service, const NodeId& node, const proto::CheckOrder& order) {
    if (mute_.contains(node.value())) return true;
    proto::CheckAnswer answer;
    answer.set_check(order.check());
    answer.set_round(order.round());
    if (order.has_self_test()) {
      for (const char* name : {kMatrixProduct, kMemoryCopy, kDiskWrite}) {
        proto::Measurement& each = *answer.mutable_self_test()->add_measurements();
        each.set_name(name);
        each.set_value(10);
        each.set_verdict("good");
      }
      answer.mutable_self_test()->set_received_at_ns(order.self_test().sent_at_ns());
      answer.mutable_self_test()->set_sent_at_ns(order.self_test().sent_at_ns());
    } else if (order.has_device_test()) {
      proto::DeviceMeasurement& each = *answer.mutable_device_test()->add_measurements();
      each.set_name("cuda:0");
      each.set_value(600);
      each.set_unit("TFLOP/s");
      each.set_higher_is_better(true);
    } else {
      answer.mutable_pair_test()->set_small_ns(1'000'000);
      answer.mutable_pair_test()->set_large_ns(10'000'000);
      if (mute_.contains(order.pair_test().node())) answer.mutable_pair_test()->set_error("mute");
    }
    if (const auto found = changes_.find(node.value()); found != changes_.end()) {
      found->second(order, answer);
    }
    service.TakeAnswer(node, answer);
    return true;
  }

  // Runs a check to its end.
  proto::CheckStatus Run(const std::vector<std::string>& nodes = {}) {
    const auto started = service_->Start(nodes, "test", 5);
    EXPECT_TRUE(started.ok()) << started.status();
    if (!started.ok()) return {};
    for (;;) {
      const auto status = service_->Status(started->check());
      EXPECT_TRUE(status.ok()) << status.status();
      if (!status.ok() || status->finished()) return status.ok() ? *status : proto::CheckStatus();
      std::this_thread::yield();
    }
  }

  static std::map<std::string, std::string> VerdictsOf(const proto::CheckStatus& status) {
    std::map<std::string, std::string> verdicts;
    for (const proto::CheckedNode& node : status.nodes()) verdicts[node.name()] = node.verdict();
    return verdicts;
  }

  std::mutex mutex_;  // guards the targets
  std::vector<Target> targets_;
  std::set<std::string> mute_;             // set before a check
  std::map<std::string, Change> changes_;  // of answers, by node; set before a check
  std::unique_ptr<NodeCheckService> service_;
};

TEST_F(Checks, GoodNodesAreGood) {
  const proto::CheckStatus status = Run();
  EXPECT_EQ(status.verdict(), "good");
  EXPECT_EQ(status.error(), "");
  ASSERT_EQ(status.nodes_size(), 6);
  for (const proto::CheckedNode& node : status.nodes()) {
    EXPECT_EQ(node.verdict(), "good") << node.evidence();
    EXPECT_EQ(node.measurements_size(), 4) << "with the clock's";
  }
  EXPECT_EQ(status.pair_tests(), 30u);  // all 15 pairs, twice
  EXPECT_EQ(status.progress_size(), 11);
  EXPECT_EQ(status.progress(0), "round 1: self tests: 6 of 6 nodes answered");
  EXPECT_EQ(status.progress(1), "round 2: pair tests: 3 of 3 pairs passed");
}

TEST_F(Checks, ANodeThatDoesNotAnswerIsBad) {
  Restart(kShortLimits);
  mute_ = {"node-4"};
  const proto::CheckStatus status = Run();
  EXPECT_EQ(status.verdict(), "bad");
  for (const auto& [name, verdict] : VerdictsOf(status)) {
    EXPECT_EQ(verdict, name == "node-4" ? "bad" : "good") << name;
  }
  EXPECT_NE(status.nodes(4).evidence().find("did not answer the self test"), std::string::npos);
  EXPECT_NE(status.nodes(4).evidence().find("pair tests failed"), std::string::npos);
  EXPECT_GT(status.nodes(4).margin_nats(), 3);
}

TEST_F(Checks, ASlowPairIsALinkAndASlowProcessorANode) {
  for (const int i : {0, 1}) {
    changes_["node-" + std::to_string(i)] = [i](const auto& order, auto& answer) {
      if (order.pair_test().node() == "node-" + std::to_string(1 - i)) {
        answer.mutable_pair_test()->set_large_ns(90'000'000);
      }
    };
  }
  changes_["node-5"] = [](const auto& order, auto& answer) {
    if (order.has_self_test()) answer.mutable_self_test()->mutable_measurements(0)->set_value(2);
  };
  // The pair is in the plan of one of the first seeds.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto started = service_->Start({}, "test", seed);
    ASSERT_TRUE(started.ok()) << started.status();
    proto::CheckStatus status;
    while (!(status = *service_->Status(started->check())).finished()) std::this_thread::yield();
    EXPECT_EQ(VerdictsOf(status)["node-5"], "slow");
    EXPECT_EQ(VerdictsOf(status)["node-0"], "good");
    if (status.links().empty()) continue;
    EXPECT_EQ(status.links(0).first(), "node-0");
    EXPECT_EQ(status.links(0).second(), "node-1");
    EXPECT_EQ(status.links(0).verdict(), "slow");
    return;
  }
  FAIL() << "no check named the link";
}

TEST_F(Checks, NamesTheLeafSwitchThatTheClusterFileDeclares) {
  for (int i = 0; i < 6; ++i) targets_.push_back(targets_[0]);
  for (int i = 0; i < 12; ++i) {
    targets_[static_cast<size_t>(i)].node = "node-" + std::to_string(i);
    targets_[static_cast<size_t>(i)].leaf = "leaf-" + std::to_string(i / 4);
  }
  const auto at_leaf_1 = [](const std::string& node) {
    return node == "node-4" || node == "node-5" || node == "node-6" || node == "node-7";
  };
  for (const Target& target : targets_) {
    changes_[target.node] = [at_leaf_1, node = target.node](const auto& order, auto& answer) {
      if (!order.has_pair_test()) return;
      if (at_leaf_1(node) || at_leaf_1(order.pair_test().node())) {
        answer.mutable_pair_test()->set_error("lost");
      }
    };
  }
  const proto::CheckStatus status = Run();
  ASSERT_EQ(status.switches_size(), 1);
  EXPECT_EQ(status.switches(0).name(), "leaf-1");
  EXPECT_EQ(status.switches(0).verdict(), "bad");
  for (const auto& [name, verdict] : VerdictsOf(status)) EXPECT_EQ(verdict, "good") << name;
}

TEST_F(Checks, AWrongResultAndAWrongClockAreBad) {
  changes_["node-1"] = [](const auto& order, auto& answer) {
    if (!order.has_self_test()) return;
    answer.mutable_self_test()->mutable_measurements(0)->set_verdict("bad");
    answer.mutable_self_test()->mutable_measurements(0)->set_detail("2 * 2 is 5");
  };
  changes_["node-2"] = [](const auto& order, auto& answer) {
    if (!order.has_self_test()) return;
    answer.mutable_self_test()->set_sent_at_ns(order.self_test().sent_at_ns() + 60'000'000'000);
    answer.mutable_self_test()->set_received_at_ns(answer.self_test().sent_at_ns());
  };
  const proto::CheckStatus status = Run();
  EXPECT_EQ(status.nodes(1).verdict(), "bad");
  EXPECT_EQ(status.nodes(1).evidence(), "2 * 2 is 5");
  EXPECT_EQ(status.nodes(2).verdict(), "bad");
  EXPECT_NE(status.nodes(2).evidence().find("clock"), std::string::npos);
  EXPECT_EQ(status.nodes(3).verdict(), "good");
}

// node-0 has no check command.
TEST_F(Checks, NamesTheNodesWhoseCheckCommandReportsASlowOrFailedDevice) {
  for (int i = 1; i < 6; ++i) {
    changes_["node-" + std::to_string(i)] = [i](const auto& order, auto& answer) {
      if (order.has_self_test()) answer.mutable_self_test()->set_command_limit_ns(1'000'000);
      if (!order.has_device_test()) return;
      proto::DeviceTestResult& test = *answer.mutable_device_test();
      if (i == 1) test.mutable_measurements(0)->set_value(300);
      if (i == 2) test.mutable_measurements(0)->set_failed("2 ECC errors");
      if (i == 3) test.set_failure("it did not end");
      if (i == 4) test.set_mistake("line 1: it is not a JSON object");
    };
  }
  const proto::CheckStatus status = Run();
  const std::map<std::string, std::string> expected = {{"node-0", "good"},      {"node-1", "slow"},
                                                       {"node-2", "bad"},       {"node-3", "bad"},
                                                       {"node-4", "undecided"}, {"node-5", "good"}};
  EXPECT_EQ(VerdictsOf(status), expected);
  EXPECT_EQ(status.progress(1), "round 2: check commands: 5 of 5 nodes answered");
  EXPECT_EQ(status.progress(2), "round 3: check commands: 1 of 1 node answered");
  EXPECT_EQ(status.nodes(0).devices_size(), 0);
  ASSERT_EQ(status.nodes(1).devices_size(), 1);
  EXPECT_EQ(status.nodes(1).devices(0).verdict(), "slow");
  EXPECT_EQ(status.nodes(1).devices(0).median(), 600);
  EXPECT_EQ(status.nodes(1).evidence(), "cuda:0 is slow: 300 TFLOP/s, the median is 600 TFLOP/s");
  EXPECT_EQ(status.nodes(2).evidence(), "cuda:0: 2 ECC errors");
  EXPECT_EQ(status.nodes(3).evidence(), "it did not end");
}

TEST_F(Checks, ACheckCommandThatDoesNotAnswerIsUndecidedAndABusyNodeLeaves) {
  Restart(kShortLimits);
  for (int i = 0; i < 6; ++i) {
    changes_["node-" + std::to_string(i)] = [i](const auto& order, auto& answer) {
      if (order.has_self_test()) answer.mutable_self_test()->set_command_limit_ns(1'000'000);
      if (!order.has_device_test()) return;
      if (i == 1) answer.set_round(answer.round() + 1);
      if (i == 2) answer.clear_device_test();
      if (i == 2) answer.set_busy(true);
    };
  }
  const proto::CheckStatus status = Run();
  EXPECT_EQ(status.nodes(1).verdict(), "undecided");
  EXPECT_EQ(status.nodes(1).evidence(), "did not answer the test of its devices");
  EXPECT_EQ(status.nodes(2).verdict(), "good");
  EXPECT_NE(status.nodes(2).evidence().find("not finished"), std::string::npos);
  EXPECT_EQ(status.nodes(3).verdict(), "good");
}

TEST_F(Checks, AnyDeviceOfAnAgentIsHarmless) {
  changes_["node-1"] = [](const auto& order, auto& answer) {
    if (order.has_self_test()) answer.mutable_self_test()->set_command_limit_ns(INT64_MAX);
    if (!order.has_device_test()) return;
    proto::DeviceTestResult& test = *answer.mutable_device_test();
    test.mutable_measurements(0)->set_value(std::nan(""));
    test.mutable_measurements(0)->set_name(std::string(10'000, 'n'));
    for (int i = 0; i < 1000; ++i) test.add_measurements()->set_value(-1);
  };
  changes_["node-2"] = [](const auto& order, auto& answer) {
    if (order.has_self_test()) answer.mutable_self_test()->set_command_limit_ns(INT64_MIN);
  };
  const proto::CheckStatus status = Run();
  EXPECT_EQ(status.nodes(1).verdict(), "bad");
  EXPECT_EQ(status.nodes(1).devices_size(), 128);
  EXPECT_LE(status.nodes(1).evidence().size(), 1000u);
  EXPECT_EQ(status.nodes(2).devices_size(), 0);
  EXPECT_EQ(status.nodes(2).verdict(), "good");
}

TEST_F(Checks, AnyNumberOfAnAgentIsHarmless) {
  changes_["node-1"] = [](const auto& order, auto& answer) {
    if (order.has_self_test()) {
      answer.mutable_self_test()->mutable_measurements(0)->set_value(std::nan(""));
      answer.mutable_self_test()->mutable_measurements(1)->set_value(-1e300);
      answer.mutable_self_test()->mutable_measurements(2)->set_verdict(std::string(10'000, '\xff'));
      for (int i = 0; i < 1000; ++i) answer.mutable_self_test()->add_measurements();
    } else {
      answer.mutable_pair_test()->set_small_ns(INT64_MAX);
      answer.mutable_pair_test()->set_large_ns(INT64_MIN);
    }
  };
  const proto::CheckStatus status = Run();
  EXPECT_EQ(status.nodes(1).verdict(), "bad");
  EXPECT_LE(status.nodes(1).measurements_size(), 17);
  EXPECT_EQ(status.nodes(0).verdict(), "good");
}

TEST_F(Checks, ChecksOnlyNodesWithoutJobs) {
  targets_[2].idle = false;
  targets_[3].connected = false;
  targets_[4].connected = false;
  targets_[4].accepts_work = false;
  const proto::CheckStatus status = Run();
  const std::map<std::string, std::string> expected = {
      {"node-0", "good"}, {"node-1", "good"}, {"node-3", "bad"}, {"node-5", "good"}};
  EXPECT_EQ(VerdictsOf(status), expected);
  const auto busy = service_->Start({"node-1", "node-2"}, "test", 1);
  EXPECT_EQ(busy.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(busy.status().message().find("node-2 runs jobs"), std::string::npos);
  EXPECT_EQ(service_->Start({"node-9"}, "test", 1).status().code(), Code::kNotFound);
  EXPECT_EQ(VerdictsOf(Run({"node-4"}))["node-4"], "bad");
}

TEST_F(Checks, ANodeOnWhichAJobBeginsLeavesTheCheck) {
  changes_["node-1"] = [this](const auto& order, auto& answer) {
    if (order.has_self_test()) {
      const std::lock_guard lock(mutex_);
      targets_[1].idle = false;
    } else {
      answer.mutable_pair_test()->set_error("must not be asked");
    }
  };
  changes_["node-2"] = [](const auto&, auto& answer) {
    answer.clear_self_test();
    answer.clear_pair_test();
    answer.set_busy(true);
  };
  const proto::CheckStatus status = Run();
  EXPECT_EQ(status.verdict(), "good");
  for (const int left : {1, 2}) {
    EXPECT_NE(status.nodes(left).evidence().find("not finished"), std::string::npos) << left;
  }
  EXPECT_EQ(status.nodes(0).evidence(), "");
}

TEST_F(Checks, OneRunsAtATimeAndTheNewestIsKept) {
  EXPECT_EQ(service_->Status(1).status().code(), Code::kNotFound);
  mute_ = {"node-0", "node-1"};
  const auto first = service_->Start({}, "somebody", 1);
  ASSERT_TRUE(first.ok());
  const auto second = service_->Start({}, "test", 1);
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(second.status().message().find("check 1 of somebody is running"), std::string::npos);
  // The end of the service ends the check, however long its limits are.
  Restart({});
  mute_.clear();
  EXPECT_EQ(Run().check(), 1u);
  EXPECT_EQ(Run().check(), 2u);
  EXPECT_EQ(service_->Status(1).status().code(), Code::kNotFound);
}

TEST_F(Checks, OfAJobUsesTheNodesThatOnlyThisJobHas) {
  for (const int i : {0, 1, 2, 3}) targets_[static_cast<size_t>(i)].idle = false;
  for (const int i : {0, 1, 2}) targets_[static_cast<size_t>(i)].job = "gpt-1";
  targets_[3].job = "other";
  changes_["node-0"] = [](const auto& order, auto&) { EXPECT_EQ(order.job_id(), "gpt-1"); };
  changes_["node-1"] = [](const auto& order, auto& answer) {
    if (!order.has_self_test()) return;
    answer.mutable_self_test()->mutable_measurements(0)->set_verdict("bad");
    answer.mutable_self_test()->mutable_measurements(0)->set_detail("2 * 2 is 5");
  };
  runtime::NodeCheckOrder order;
  order.job = "gpt-1";
  order.fault = 7;
  for (const int i : {0, 1, 2, 3}) order.nodes.emplace_back("node-" + std::to_string(i));
  std::promise<proto::CheckStatus> done;
  service_->CheckJob(order, [&](const proto::CheckStatus& status) { done.set_value(status); });
  const proto::CheckStatus status = done.get_future().get();
  EXPECT_EQ(status.started_by(), "job gpt-1");
  const std::map<std::string, std::string> expected = {
      {"node-0", "good"}, {"node-1", "bad"}, {"node-2", "good"}};
  EXPECT_EQ(VerdictsOf(status), expected);
  const proto::NodesChecked event = NodesCheckedEvent(order, status).nodes_checked();
  EXPECT_EQ(event.job_id(), "gpt-1");
  EXPECT_EQ(event.fault(), 7u);
  ASSERT_EQ(event.faulty_size(), 1);
  EXPECT_EQ(event.faulty(0).name(), "node-1");
  EXPECT_EQ(event.faulty(0).evidence(), "2 * 2 is 5");
  EXPECT_EQ(event.error(), "");
}

TEST_F(Checks, OfAJobWaitsForTheOneThatRuns) {
  const auto first = service_->Start({}, "somebody", 1);
  ASSERT_TRUE(first.ok());
  runtime::NodeCheckOrder order;
  order.job = "gpt-1";
  order.nodes = {NodeId("node-0"), NodeId("node-1")};
  std::promise<proto::CheckStatus> done;
  service_->CheckJob(order, [&](const proto::CheckStatus& status) { done.set_value(status); });
  const proto::CheckStatus status = done.get_future().get();
  EXPECT_EQ(status.check(), 2u);
  EXPECT_EQ(status.nodes_size(), 2);
  EXPECT_EQ(Run().check(), 3u);
}

TEST(NodesChecked, NamesConnectionsAndReportsWhatIsUndecidedToPeople) {
  proto::CheckStatus status;
  proto::CheckedLink& link = *status.add_links();
  link.set_first("a");
  link.set_second("b");
  link.set_verdict("slow");
  link.set_evidence("3 of 4 pair tests were slow");
  proto::CheckedNode& node = *status.add_nodes();
  node.set_name("c");
  node.set_verdict("undecided");
  node.set_evidence("did not answer");
  proto::CheckedSwitch& leaf = *status.add_switches();
  leaf.set_name("leaf-1");
  leaf.set_verdict("bad");
  leaf.set_evidence("12 of 12");
  status.add_nodes()->set_verdict("good");
  status.set_error("stopped");
  const proto::NodesChecked event = NodesCheckedEvent({}, status).nodes_checked();
  EXPECT_EQ(event.faulty_size(), 0);
  ASSERT_EQ(event.links_size(), 1);
  EXPECT_EQ(event.links(0).first() + event.links(0).second(), "ab");
  EXPECT_EQ(event.links(0).evidence(), "3 of 4 pair tests were slow");
  ASSERT_EQ(event.others_size(), 2);
  EXPECT_EQ(event.others(0), "c is undecided: did not answer");
  EXPECT_EQ(event.others(1), "the switch leaf-1 is bad: 12 of 12");
  EXPECT_EQ(event.error(), "stopped");
}

TEST_F(Checks, AnswersOfOtherRoundsMeanNothing) {
  changes_["node-1"] = [](const auto&, auto& answer) { answer.set_round(answer.round() - 1); };
  Restart(kShortLimits);
  const proto::CheckStatus status = Run();
  // The others reached it, so that it is not certain to be bad.
  EXPECT_EQ(status.nodes(1).verdict(), "undecided");
  EXPECT_EQ(status.nodes(1).evidence(), "did not answer the self test");
}

}  // namespace
}  // namespace longhaul::service
