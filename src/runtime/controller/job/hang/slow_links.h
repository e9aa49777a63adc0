// Finds the connections between nodes that carry much less than usual while they send, from what
// the kernels of the nodes count for the TCP connections of workers.
//
// The rate of a link is the number of its acknowledged bytes, divided by the time in which it had
// something to send and the receiver had room for it (tcp_info: busy without rwnd_limited). So a
// worker that is late to send or to receive does not make its links look slow. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/events.pb.h"

namespace longhaul::runtime::controller {

// A direction between two nodes.
struct Link {
  std::string from;
  std::string to;
  auto operator<=>(const Link&) const = default;
};

// The direction of a pair of nodes that has become slower by more. The other one often looks slow
// too, because its acknowledgements take the slow way.
struct SlowLink {
  Link link;
  double rate = 0;   // bytes per second
  double usual = 0;  // the same in earlier looks
};

class LinkRates {
 public:
  // A look begins.
  void Begin() { rates_.clear(); }
  // Takes what `node` counted in a look. `node_of` are the names of the nodes by address; other
  // addresses are not those of workers.
  void Take(const std::string& node, const proto::WorkersSampled& answer,
            const std::map<std::string, std::string>& node_of);
  // The pairs with a link whose rate is less than half of what is usual for it.
  std::vector<SlowLink> Slow() const;
  // The rates of this look are usual ones.
  void Learn();

 private:
  struct Rate {
    double bytes_per_second = 0;
    double busy = 0;  // of the period, the sum over the connections
  };
  std::map<Link, Rate> rates_;  // of this look
  std::map<Link, double> usual_;
};

// "the connection between node-1 and node-2 is slow: from node-1 it carries 1.14 MiB/s while it
// sends, and usually 316.18 MiB/s". Requires a link.
std::string Describe(const std::vector<SlowLink>& links);

}  // namespace longhaul::runtime::controller
