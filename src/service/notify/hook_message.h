// What hooks are sent: a JSON object for each event of a run. Pure.
//
// The controller sends a fault again at each stage; a hook is sent it once when it is new and once
// when it is over.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/status.pb.h"
#include "spec/notify/notify_file.h"

namespace longhaul::service {

struct HookMessage {
  spec::HookEvent event = spec::HookEvent::kState;
  std::string job;   // its id; empty: of a node
  std::string text;  // one line for a person
  std::string json;  // at most 64 KiB
};

class HookMessages {
 public:
  // `run_directory` is part of each message; may be empty. Only the `wanted` events are made.
  HookMessages(std::string run_directory, std::set<spec::HookEvent> wanted)
      : run_directory_(std::move(run_directory)), wanted_(std::move(wanted)) {}

  // Returns the messages of a notification; most have none.
  std::vector<HookMessage> Take(const proto::Notification& notification);

 private:
  using FaultId = std::pair<std::string, uint32_t>;  // job, number

  void Add(spec::HookEvent event, const proto::Notification& notification, std::string text,
           std::vector<HookMessage>& messages) const;
  static void ForgetJob(std::set<FaultId>& faults, const std::string& job);
  void TakeFault(const proto::Notification& notification, std::vector<HookMessage>& messages);

  const std::string run_directory_;
  const std::set<spec::HookEvent> wanted_;
  std::set<FaultId> begun_;  // of live jobs, as the next one
  std::set<FaultId> over_;
};

}  // namespace longhaul::service
