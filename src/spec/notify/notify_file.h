// The file of hooks: programs and web addresses that are notified of a run's events.
//
//   notify:
//     - webhook: https://hooks.example.com/services/SECRET
//       events: [fault, end]
//     - command: [./page.sh, --urgent]
//       events: [end]
//       timeout: 10s
//
// docs/notify.md is the user's page. The file belongs to the user who owns the run or the
// controller: a job cannot contain hooks, so a submitted job cannot make anybody start a program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace longhaul::spec {

enum class HookEvent { kState, kAttempt, kFault, kRecovered, kWarning, kNode, kEnd };

// "fault", "recovered" and so on.
std::string_view NameOf(HookEvent event);

// Either `webhook` or `command` is set.
struct HookSpec {
  std::string webhook;               // http:// or https://; may contain credentials
  std::vector<std::string> command;  // argv
  std::vector<HookEvent> events = {HookEvent::kFault, HookEvent::kRecovered, HookEvent::kEnd};
  Duration timeout = std::chrono::seconds(10);  // of one delivery

  friend bool operator==(const HookSpec&, const HookSpec&) = default;
};

// The name of a hook in logs and reports: the program of a command, the scheme and the host of a
// web address. Credentials, path and arguments are left out, because they may be secrets.
std::string NameOf(const HookSpec& hook);

// Reads at most 16 hooks. A message names the line and the key, and no value of `webhook`.
Result<std::vector<HookSpec>> ParseNotifyFile(std::string_view text, std::string_view source);

}  // namespace longhaul::spec
