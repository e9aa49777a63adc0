// How long an agent pauses between two tries to reach a controller.
//
// A controller that is started again shall be found at once, but thousands of agents must not keep
// it from starting. Agents therefore try at first about as often as they send heartbeats, whose
// period grows with their number: the machine of the controller gets no more tries than it can take
// heartbeats. Pauses are random, so that agents which lost it at the same moment return one after
// the other. After a minute, or when a controller has answered and refused, tries are rarer.
//
// With several addresses, the others of a round are tried without pauses.
#pragma once

#include <cstddef>

#include "base/random.h"
#include "base/time.h"

namespace longhaul::service {

// The end of a stream, or of a try to open one.
struct ConnectionEnd {
  bool welcomed = false;        // the stream was open
  bool answered = false;        // a controller answered and refused
  Duration heartbeat_period{};  // of the stream, if it was open
};

class ReconnectPauses {
 public:
  // Requires at least one address. `start`: when the first try begins.
  ReconnectPauses(size_t addresses, Duration first, Duration longest, Instant start)
      : addresses_(addresses), first_(first), longest_(longest), pause_(first), lost_at_(start) {}

  // Returns the pause before the next try.
  Duration Next(const ConnectionEnd& end, Instant now, Random& random);
  // The number of rounds over all addresses since the last open stream.
  size_t rounds() const { return failed_ / addresses_; }

 private:
  Duration LongestNow(bool answered, Instant now) const;

  const size_t addresses_;
  const Duration first_;
  const Duration longest_;
  size_t failed_ = 0;  // tries in succession
  Duration pause_;
  Duration heartbeat_period_ = std::chrono::milliseconds(250);  // of the last open stream
  Instant lost_at_;                                             // the end of the last open stream
};

}  // namespace longhaul::service
