// The simulator's constants: how long things take and how often what fails.
//
// Every constant has a source or is marked as an assumption, and results that rest on them are
// called simulated. Faults follow the causes that Llama 3's training reported for 16,384 GPUs on
// 2,048 hosts in 54 days (Llama Team, "The Llama 3 Herd of Models", 2024, table 5 and text: 419
// unexpected and 47 planned interruptions), grouped by their behaviour.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace longhaul::runtime::simulation {

struct Physics {
  Duration step = std::chrono::seconds(6);  // reference job; assumption
  Duration snapshot_block =
      std::chrono::milliseconds(50);               // 1.3 GB a rank at 0.05 s a GiB, or less
  Duration fork = std::chrono::milliseconds(30);   // measured: fork server, libraries loaded
  Duration start_up = std::chrono::seconds(2);     // device context; assumption
  Duration group_init = std::chrono::seconds(15);  // communicators at 16,384 ranks; assumption
  Duration restore_memory = std::chrono::seconds(1);
  Duration copy = std::chrono::seconds(1);  // of a node's snapshot to a peer; assumption
  Duration restore_disk = std::chrono::seconds(20);
  Duration persist = std::chrono::seconds(8);
  Duration manifest = std::chrono::milliseconds(50);
  Duration message = std::chrono::microseconds(300);  // mean one-way delay of the control plane
  Duration silence = std::chrono::seconds(1);         // until a dead link is detected
  Duration repair = std::chrono::minutes(90);         // of a crashed node; assumption
  Duration rival = std::chrono::minutes(10);          // how long a job of higher priority runs
  Duration rival_pause = std::chrono::minutes(20);    // mean, between two of them
  // Of a node check, docs/node-check.md: the self test with one of the accelerators, assumed; a
  // round of pairs, measured; the limit of a pair that fails.
  Duration self_test = std::chrono::seconds(15);
  Duration pair_test = std::chrono::milliseconds(200);
  Duration failed_pair_test = std::chrono::seconds(5);
  Duration controller_restart = std::chrono::milliseconds(500);
};

enum class FaultKind {
  kWorkerCrash,    // a process dies by a signal
  kWorkerError,    // a process exits with a code
  kWorkerStopped,  // SIGSTOP: state T until SIGCONT
  kWorkerHang,     // runs without progress; only killing it helps
  kNodeCrash,      // agent and workers die; the machine returns after repair
  kAgentRestart,   // the agent's machine reboots: a new incarnation within a second
  kLinkBreak,      // the stream between agent and controller breaks for a while
  kDiskFull,       // the next save on that node fails
  kMemoryFlip,     // a bit of a snapshot in memory flips
  kDiskFlip,       // a bit of the newest checkpoint on disk flips
  kControllerCrash,
};
constexpr size_t kFaultKinds = 11;

struct FaultRate {
  FaultKind kind;
  std::string_view name;
  double per_54_days;  // on 2,048 nodes
};

// GPU, HBM, SRAM, host parts: the node crashes (148 x 0.8 + 72 + 19 + 6 + 3 + 3 + 2 + 2 + 2 + 2 +
// 2); GPU x 0.2, system processor, NIC, switch, watchdog: a hang; software bugs and dependencies: a
// failure of the process; maintenance: an agent restart. The last five rows are assumptions: the
// paper reports no faults of the control plane, and a simulator should have them.
constexpr std::array<FaultRate, kFaultKinds> kFaultRates = {{
    {FaultKind::kWorkerCrash, "worker crash", 40},
    {FaultKind::kWorkerError, "worker error", 16},
    {FaultKind::kWorkerStopped, "worker stopped", 12},
    {FaultKind::kWorkerHang, "worker hang", 84},
    {FaultKind::kNodeCrash, "node crash", 231},
    {FaultKind::kAgentRestart, "agent restart", 47},
    {FaultKind::kLinkBreak, "link break", 54},
    {FaultKind::kDiskFull, "disk full", 27},
    {FaultKind::kMemoryFlip, "bit flip in memory", 20},
    {FaultKind::kDiskFlip, "bit flip on disk", 10},
    {FaultKind::kControllerCrash, "controller crash", 27},
}};

}  // namespace longhaul::runtime::simulation
