// A Lease (coordination.k8s.io/v1): who holds a role, and for how long after each renewal.
//
// Its times are text here: they are wall-clock times of other machines, so that nothing is decided
// by them. Coordinated leader election (strategy, preferredHolder) is left out.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "engines/kubernetes/protocol/objects/object_meta.h"

namespace longhaul::engines::kubernetes {

struct Lease {
  ObjectMeta meta;
  std::string holder;                // holderIdentity; empty: nobody
  std::optional<Duration> duration;  // leaseDurationSeconds: at least a second
  std::string acquire_time;
  std::string renew_time;
  std::optional<int32_t> transitions;  // how often the holder has changed: not negative

  // Whether the record is the same one: everything but the metadata that anybody may change.
  bool SameRecord(const Lease& other) const;
};

// Reads a lease. kInvalidArgument, with the field's name, when a field has the wrong type or a
// number that the API server does not store, or when name or resourceVersion is missing.
Result<Lease> ReadLease(JsonParser& parser, PaddedText json);

}  // namespace longhaul::engines::kubernetes
