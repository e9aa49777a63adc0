#include "service/agent/check/pair_test.h"

#include <algorithm>
#include <vector>

#include "io/clock.h"
#include "service/agent/peer/peer_connection.h"

namespace longhaul::service {
namespace {

constexpr int kSmallMessages = 32;
constexpr uint64_t kSmallBytes = 64;
// At 1 GB/s 16 ms both ways: long compared with the start of a TCP connection, short for a check.
constexpr uint64_t kLargeBytes = 8 << 20;
constexpr int kLargeMessages = 3;  // each way; the faster one counts

Status Measure(const proto::PairTest& order, const std::string& secret, Duration limit,
               proto::PairTestResult& result) {
  if (order.port() == 0 || order.port() > UINT16_MAX) {
    return InvalidArgument(order.node() + " has no port for other agents");
  }
  ASSIGN_OR_RETURN(
      PeerConnection peer,
      PeerConnection::ConnectWithin(order.address(), static_cast<uint16_t>(order.port()), limit));
  std::vector<Duration> round_trips;
  for (int i = 0; i < kSmallMessages; ++i) {
    const Instant start = io::MonotonicNow();
    RETURN_IF_ERROR(
        Probe(peer, secret, order.seed() + static_cast<uint64_t>(i), kSmallBytes, kSmallBytes));
    round_trips.push_back(io::MonotonicNow() - start);
  }
  const auto fastest_of = [&](uint64_t bytes, uint64_t answer_bytes) -> Result<Duration> {
    Duration fastest = Duration::max();
    for (int i = 0; i < kLargeMessages; ++i) {
      const Instant start = io::MonotonicNow();
      RETURN_IF_ERROR(Probe(peer, secret, order.seed(), bytes, answer_bytes));
      fastest = std::min(fastest, io::MonotonicNow() - start);
    }
    return fastest;
  };
  ASSIGN_OR_RETURN(const Duration there, fastest_of(kLargeBytes, 0));
  ASSIGN_OR_RETURN(const Duration back, fastest_of(0, kLargeBytes));
  const auto median = round_trips.begin() + kSmallMessages / 2;
  std::nth_element(round_trips.begin(), median, round_trips.end());
  result.set_round_trip_ns(median->count());
  // Not the sum, which one interruption of a process would determine.
  result.set_small_ns(kSmallMessages * median->count());
  result.set_large_ns((there + back).count());
  result.set_large_bytes(2 * kLargeBytes);
  return {};
}

}  // namespace

proto::PairTestResult RunPairTest(const proto::PairTest& order, const std::string& secret,
                                  Duration limit) {
  proto::PairTestResult result;
  result.set_node(order.node());
  const Status status = Measure(order, secret, limit, result);
  if (!status.ok()) result.set_error(ToString(status));
  return result;
}

}  // namespace longhaul::service
