#include "service/agent/check/node_checker.h"

#include <utility>

#include "io/clock.h"
#include "service/agent/check/pair_test.h"
#include "service/agent/check/self_test.h"

namespace longhaul::service {

NodeChecker::NodeChecker(io::EventLoop& loop, std::string directory, std::string peer_secret,
                         std::function<void(proto::CheckAnswer)> answer)
    : directory_(std::move(directory)),
      peer_secret_(std::move(peer_secret)),
      answer_(std::move(answer)),
      queue_(loop) {}

void NodeChecker::Run(const proto::CheckOrder& order, bool busy) {
  proto::CheckAnswer answer;
  answer.set_check(order.check());
  answer.set_round(order.round());
  answer.set_busy(busy);
  if (busy) return answer_(std::move(answer));
  const int64_t received_at_ns = ToNanoseconds(io::Now());
  queue_.Enqueue([this, order, received_at_ns, answer = std::move(answer)]() mutable {
    if (order.has_pair_test()) {
      *answer.mutable_pair_test() = RunPairTest(order.pair_test(), peer_secret_);
    } else if (order.has_self_test()) {
      *answer.mutable_self_test() = RunSelfTest(directory_);
      answer.mutable_self_test()->set_received_at_ns(received_at_ns);
    }
    return [this, answer = std::move(answer)] { answer_(answer); };
  });
}

}  // namespace longhaul::service
