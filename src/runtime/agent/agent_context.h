// The state that the classes of the agent's state machine share: the time, the link, the jobs of
// this node, events that the controller has not acknowledged, and the effects of the present step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "runtime/agent/agent_core.h"
#include "runtime/agent/agent_job.h"
#include "runtime/agent/agent_messages.h"
#include "runtime/agent/outbox.h"
#include "runtime/agent/peer_copies.h"

namespace longhaul::runtime::agent {

class AgentContext {
 public:
  AgentContext(NodeId own_node, uint64_t life, AgentFacts own_facts);

  // Sends an event, or keeps it until the agent is connected.
  void Report(proto::Event event) { ReportAt(std::move(event), now); }
  void ReportAt(proto::Event event, Instant at);

  // Opens the store of an attempt, once the version of PyTorch of the job's command is known. That
  // is looked for once a job.
  void OpenStore(AgentJob& job, const proto::OpenStore& command);

  AgentJob* FindJob(const JobId& id) {
    const auto found = jobs.find(id);
    return found == jobs.end() ? nullptr : &found->second;
  }
  // Returns null when there is no such worker.
  Attempt* FindAttempt(const WorkerId& worker);
  // Returns the attempt of a worker whose reports still count; null when a higher attempt has
  // replaced it.
  Attempt* FindSpeaking(const WorkerId& worker);
  // Returns whether the job has been forgotten, so that commands for this attempt come too late.
  bool IsForgotten(const JobId& id, uint64_t attempt) const {
    return std::any_of(forgotten.begin(), forgotten.end(), [&](const auto& each) {
      return each.first == id && attempt <= each.second;
    });
  }

  const NodeId node;
  const uint64_t incarnation;
  AgentFacts facts;
  Instant now{};
  bool connected = false;
  bool shutting_down = false;
  bool cluster_ended = false;  // see ShutDownAsked
  std::map<JobId, AgentJob> jobs;
  std::deque<std::pair<JobId, uint64_t>> forgotten;  // each job up to an attempt
  // The jobs that this node may be the next to run, whose fork servers exist, each with its version
  // of PyTorch once that is found.
  std::map<JobId, std::optional<std::string>> prepared;
  PeerCopies copies;
  Outbox outbox;
  std::vector<AgentEffect> effects;
};

}  // namespace longhaul::runtime::agent
