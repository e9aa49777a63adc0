// Changes by operators so that a job can start, as JSON and as commands.
//
// POST /v1/changes: {"changes": [CHANGE, ...], "reason"?}; all or none is done, then the scheduler
// has one round. A CHANGE is one of
//   {"expedite": JOB}                    it goes before all others
//   {"evict": JOB}                       it takes a snapshot, stops and waits again
//   {"scale": JOB, "nodes": N}           an elastic job has N nodes at most
//   {"job": JOB, "nodes"?, "topology"?, "devices"?, "mixed_devices"?}
//                                        of one that waits; a size only of one that has not begun;
//                                        an empty list of devices: any model; the topology is the
//                                        required level, or an object as in a job file
//   {"queue": NAME, "limit": {"accelerators"?, "cpu"?, "memory_gib"?, "devices"?: {MODEL: N}}}
//       -1: none; absent: as it is
//   {"node": NAME}                       cordoned, drained, suspect or spare no longer
//   {"link": NAME, "level": LEVEL}       gangs may cross the links of this domain again
//   {"release": JOB}                     it no longer waits for other jobs to end (job or array)
// JOB is an id or a name.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "proto/events.pb.h"
#include "proto/job.pb.h"
#include "service/security/role.h"
#include "spec/job/job.h"
#include "spec/queue/queue.h"

namespace longhaul::service {

struct ChangeRequest {
  enum class Kind {
    kExpedite,
    kEvict,
    kScale,
    kJob,
    kLimit,
    kNode,
    kLink,
    kRelease
  } kind = Kind::kExpedite;
  std::string subject;  // the job, queue, node or domain
  std::optional<uint32_t> nodes;
  std::optional<std::string> topology;              // the required level; "cluster": none
  std::optional<spec::TopologySpec> rules;          // in place of all rules of the topology
  std::optional<std::vector<std::string>> devices;  // empty: any model
  std::optional<bool> mixed_devices;
  std::optional<double> accelerators, cpu, memory_gib;
  std::map<std::string, double> device_limits;  // by model
  std::string level;
};

struct ChangesRequest {
  std::vector<ChangeRequest> changes;
  std::string reason;
};

// Returns the role that a change needs: operate for those of jobs, administer for the others.
Role RoleFor(ChangeRequest::Kind kind);

// Returns kInvalidArgument with the key, the value and the expected form.
Result<ChangesRequest> ParseChanges(std::string_view body);

// Returns a CHANGE as above; for a job, only what differs from `before`.
nlohmann::ordered_json ToJson(const proto::Change& change, const proto::Job& before);

// Returns the command for the change: "longhaul queues limit lab --accelerators 4".
std::string CommandOf(const nlohmann::ordered_json& change);
// Returns the command for several changes: "longhaul apply '[...]'".
std::string CommandOfAll(const nlohmann::ordered_json& changes);

}  // namespace longhaul::service
