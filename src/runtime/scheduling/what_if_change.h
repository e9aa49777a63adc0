// The changes that a what-if question names, and their grammar.
//
//   change = "drain" [ LEVEL ] NAME                       a node, or all nodes of a domain
//          | "add" N MODEL [ "per-node" K ] [ "in" LEAF ] N devices, on new nodes
//          | "queue" NAME ( "guarantee" | "limit" ) N     accelerators; limit "none": no limit
//          | "stop" JOB
//          | "submit" FILE
//
// Words are separated by spaces. The names are resolved in what_if.cc, against a copy of the
// controller's scheduler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "proto/job.pb.h"

namespace longhaul::runtime::scheduling {

struct WhatIfChange {
  enum class Kind : uint8_t { kDrain, kAdd, kGuarantee, kLimit, kStop, kSubmit };
  Kind kind = Kind::kStop;
  std::string subject;     // the node or domain, model, queue, job or file
  std::string level;       // kDrain: of the domain; empty: any
  uint32_t count = 0;      // kAdd: devices; kGuarantee, kLimit: accelerators
  bool unlimited = false;  // kLimit: none
  uint32_t per_node = 0;   // kAdd; 0: as the nodes of the model have
  std::string leaf;        // kAdd; empty: a leaf of its own
  proto::Job job;          // kSubmit: what the file describes; the caller reads it
};

// Returns kInvalidArgument with the grammar of the change that the first word begins.
Result<WhatIfChange> ParseWhatIfChange(std::string_view text);

// The change in the words of the grammar; ParseWhatIfChange reads them back.
std::string ToString(const WhatIfChange& change);

}  // namespace longhaul::runtime::scheduling
