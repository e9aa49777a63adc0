// The stacks of a job's workers, which are gathered from all nodes before a hang ends the workers.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "proto/events.pb.h"
#include "runtime/controller/job/hang/stack_groups.h"
#include "runtime/controller/job/job_faults.h"

namespace longhaul::runtime::controller {

class StackInquiry {
 public:
  // `hang` is what will be reported as a fault; `nodes` are to answer.
  void Begin(Evidence hang, std::set<std::string> nodes);
  void Cancel();
  bool pending() const { return pending_; }
  // Takes the answer of a node. Returns whether all have answered now.
  bool Take(const std::string& node, const proto::WorkersProbed& answer);
  // Ends the inquiry, with whatever answers there are. Returns the fault: its text names the
  // workers that differ from the others, and the files with the stacks. Requires pending().
  Evidence Conclude();

 private:
  bool pending_ = false;
  Evidence hang_;
  std::set<std::string> awaited_;  // nodes
  std::vector<WorkerStack> stacks_;
  std::vector<std::string> files_;
};

}  // namespace longhaul::runtime::controller
