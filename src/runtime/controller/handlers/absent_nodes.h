// Decides, after a start of the controller, when a node whose agent has not returned counts as
// lost.
//
// All agents connect again then, and may need a while, so each has ControllerOptions::rejoin_grace.
// A job need not wait for so long where the agents of its cluster are back and its workers cannot
// work without the node: the gang has failed, or it has done no step for a while although the other
// agents are there. The gang of a node that is only cut off from the controller makes steps, and
// then the whole time is granted. To be wrong is safe: a node that was given up ends its workers
// when it returns, and until then they have neither a lease nor peers that train with them.
#pragma once

#include "base/ids.h"
#include "base/time.h"
#include "runtime/controller/controller_context.h"
#include "runtime/controller/handlers/spare_nodes.h"

namespace longhaul::runtime::controller {

class AbsentNodes {
 public:
  AbsentNodes(ControllerContext& context, const SpareNodes& spares)
      : context_(context), spares_(spares) {}

  // All nodes that were not lost before are expected from now on.
  void OnControllerStarted();
  void OnAgentJoined() { newest_return_ = context_.now; }
  // The deadline of a node has passed that has no connection and is not lost. Returns whether to
  // wait for it longer; then it has a new deadline.
  bool AwaitLonger(const Node& node);

 private:
  bool MostAreBack() const;
  // Whether an idle node could take the place, and the gang cannot work without it.
  bool IsMissed(const Node& node) const;
  bool StandsStill(const JobRecord& job, const Node& absent) const;

  ControllerContext& context_;
  const SpareNodes& spares_;
  Instant expected_until_{};
  Instant newest_return_{};
};

}  // namespace longhaul::runtime::controller
