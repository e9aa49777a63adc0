#include "runtime/controller/job/hang/slow_links.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace longhaul::runtime::controller {
namespace {

constexpr uint64_t kLeastBytes = 256 << 10;  // for a rate: the latency of single messages is none
constexpr double kLeastBusy = 0.1;  // of the period: a link that is seldom busy delays nobody
constexpr double kSlowShare = 0.5;  // of what is usual
constexpr double kNewWeight = 0.3;  // of a look, in what is usual
constexpr size_t kMostLinks = 4'096;
constexpr size_t kShownLinks = 4;

}  // namespace

void LinkRates::Take(const std::string& node, const proto::WorkersSampled& answer,
                     const std::map<std::string, std::string>& node_of) {
  for (const proto::WorkersSampled::Connection& connection : answer.connections()) {
    const auto peer = node_of.find(connection.address());
    if (peer == node_of.end() || peer->second == node || rates_.size() >= kMostLinks) continue;
    const int64_t busy_ns = connection.busy_ns() - connection.receiver_limited_ns();
    if (connection.bytes() < kLeastBytes || busy_ns <= 0 || answer.period_ns() <= 0) continue;
    const auto busy = static_cast<double>(busy_ns);
    rates_[{node, peer->second}] = {static_cast<double>(connection.bytes()) / (busy * 1e-9),
                                    busy / static_cast<double>(answer.period_ns())};
  }
}

std::vector<SlowLink> LinkRates::Slow() const {
  std::map<std::pair<std::string, std::string>, SlowLink> by_pair;
  for (const auto& [link, rate] : rates_) {
    const auto usual = usual_.find(link);
    if (usual == usual_.end() || rate.busy < kLeastBusy) continue;
    if (rate.bytes_per_second >= kSlowShare * usual->second) continue;
    const SlowLink slow{link, rate.bytes_per_second, usual->second};
    const auto [found, is_new] = by_pair.emplace(std::minmax(link.from, link.to), slow);
    if (!is_new && slow.rate * found->second.usual < found->second.rate * slow.usual) {
      found->second = slow;
    }
  }
  std::vector<SlowLink> slow;
  for (const auto& [pair, link] : by_pair) slow.push_back(link);
  return slow;
}

void LinkRates::Learn() {
  for (const auto& [link, rate] : rates_) {
    const auto [usual, is_new] = usual_.emplace(link, rate.bytes_per_second);
    if (!is_new) usual->second += kNewWeight * (rate.bytes_per_second - usual->second);
  }
}

std::string Describe(const std::vector<SlowLink>& links) {
  const SlowLink& first = links.front();
  const std::string rates = "from " + first.link.from + " it carries " +
                            ToString(Bytes(static_cast<int64_t>(first.rate))) +
                            "/s while it sends, and usually " +
                            ToString(Bytes(static_cast<int64_t>(first.usual))) + "/s";
  const std::string name = first.link.from + " and " + first.link.to;
  if (links.size() == 1) return "the connection between " + name + " is slow: " + rates;
  for (const std::string& node : {first.link.from, first.link.to}) {
    const auto has = [&node](const SlowLink& slow) {
      return slow.link.from == node || slow.link.to == node;
    };
    if (!std::all_of(links.begin(), links.end(), has)) continue;
    return std::to_string(links.size()) + " connections of " + node +
           " are slow, such as the one between " + name + ": " + rates;
  }
  std::string text = std::to_string(links.size()) + " connections are slow: between ";
  for (size_t i = 0; i < links.size() && i < kShownLinks; ++i) {
    text += (i == 0 ? "" : ", ") + links[i].link.from + " and " + links[i].link.to;
  }
  if (links.size() > kShownLinks) text += ", ...";
  return text + "; of the first one, " + rates;
}

}  // namespace longhaul::runtime::controller
