// The classes of faults, and their names in proto::Fault::class_name.
#pragma once

#include <optional>
#include <string_view>

namespace longhaul::proto {

enum class FaultClass {
  kProcess,  // a signal from outside ended a worker
  kNode,     // a node, or its agent, is lost
  kHang,     // no step within the time limit
  kError,    // a worker failed by itself
  kStart,    // workers could not be started
  kStorage,  // a copy of the state did not verify
  kNumeric,  // a loss is NaN or infinite, or far above the ones before
};

// Returns "process", "node" and so on.
std::string_view NameOf(FaultClass fault);
// Returns nothing for a name that NameOf does not return: a newer controller may have more classes.
std::optional<FaultClass> FaultClassOf(std::string_view name);

}  // namespace longhaul::proto
