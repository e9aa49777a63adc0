#include "service/agent/check/node_checker.h"

#include <utility>

#include "io/clock.h"
#include "service/agent/check/pair_test.h"
#include "service/agent/check/self_test.h"

namespace longhaul::service {

NodeChecker::NodeChecker(io::EventLoop& loop, std::string directory, std::string peer_secret,
                         CheckCommand command, std::function<void(proto::CheckAnswer)> answer)
    : directory_(std::move(directory)),
      peer_secret_(std::move(peer_secret)),
      command_(std::move(command)),
      answer_(std::move(answer)),
      queue_(loop) {}

NodeChecker::~NodeChecker() { EndCommand(); }

void NodeChecker::EndCommand() { deadline_.MoveTo(io::MonotonicNow()); }

void NodeChecker::Run(const proto::CheckOrder& order, bool busy) {
  proto::CheckAnswer answer;
  answer.set_check(order.check());
  answer.set_round(order.round());
  answer.set_busy(busy);
  if (busy) return answer_(std::move(answer));
  if (order.has_device_test()) deadline_.MoveTo(Instant::max());
  const int64_t received_at_ns = ToNanoseconds(io::Now());
  queue_.Enqueue([this, order, received_at_ns, answer = std::move(answer)]() mutable {
    RunTest(order, answer);
    if (order.has_self_test()) answer.mutable_self_test()->set_received_at_ns(received_at_ns);
    return [this, answer = std::move(answer)] { answer_(answer); };
  });
}

void NodeChecker::RunTest(const proto::CheckOrder& order, proto::CheckAnswer& answer) {
  if (order.has_pair_test()) {
    *answer.mutable_pair_test() = RunPairTest(order.pair_test(), peer_secret_);
  } else if (order.has_self_test()) {
    *answer.mutable_self_test() = RunSelfTest(directory_);
    if (command_.command.empty()) return;
    answer.mutable_self_test()->set_command_limit_ns(command_.limit.count());
  } else if (order.has_device_test() && !command_.command.empty()) {
    std::optional<proto::DeviceTestResult> result = RunCheckCommand(command_, deadline_);
    answer.set_busy(!result.has_value());
    if (result.has_value()) *answer.mutable_device_test() = *std::move(result);
  }
}

}  // namespace longhaul::service
