// The classes of faults, and their names in events, status and reports.
#pragma once

#include <string_view>

namespace longhaul::runtime::controller {

enum class FaultClass {
  kProcess,  // a signal from outside ended a worker
  kNode,     // a node, or its agent, is lost
  kHang,     // no step within the time limit
  kError,    // a worker failed by itself
  kStart,    // workers could not be started
  kStorage,  // a copy of the state did not verify
};

// "process", "node" and so on: proto::Fault::class_name.
std::string_view NameOf(FaultClass fault);
// Requires a name that NameOf returns.
FaultClass FaultClassOf(std::string_view name);

}  // namespace longhaul::runtime::controller
