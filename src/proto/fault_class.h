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
  kDevice,   // a driver has reported that a device must be reset
};

// Returns "process", "node" and so on.
std::string_view NameOf(FaultClass fault);
// Returns nothing for a name that NameOf does not return: a newer controller may have more classes.
std::optional<FaultClass> FaultClassOf(std::string_view name);

// Begins the action of a fault that happened together with another one, whose number follows. The
// restart for that one was for both, and has its cost.
inline constexpr std::string_view kSameRestart = "the same restart as for fault ";

}  // namespace longhaul::proto
