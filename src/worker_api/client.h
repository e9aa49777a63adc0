// The worker behind include/longhaul.h: one connection to the agent, the registered state, and its
// arena. The methods correspond to its functions, with Status for error codes.
//
// Threads: one at a time. Throws only when out of memory; the C API (c_api.cc) turns that into a
// code.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "checkpoint/arena.h"
#include "checkpoint/state.h"
#include "io/fd.h"
#include "io/memory/prefault.h"
#include "io/memory/shared_memory.h"
#include "io/memory/write_guard.h"
#include "worker_api/client_codec.h"
#include "worker_api/protocol.h"
#include "worker_api/snapshot_ways.h"
#include "worker_api/staged_copy.h"

namespace longhaul::worker_api {

class Client {
 public:
  // Sends Hello on a connected socket and waits for the Welcome.
  static Result<std::unique_ptr<Client>> Join(io::Fd socket, uint32_t rank, uint64_t attempt);
  ~Client();  // waits for a snapshot under way
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const WelcomeContent& welcome() const { return welcome_; }
  uint64_t attempt() const { return attempt_; }

  Status EnterPhase(uint32_t phase);
  // Adds the time of the snapshots since the last report to snapshot_ns. If a planned fault is to
  // kill this worker at the step, it waits for its end here, so that the fault is injected at this
  // step however fast the steps are.
  Status ReportStep(StepMessage step);
  Status SendResult(std::string_view json);

  // Requires memory that is valid until the next call or the end, and spans of the plan's sizes.
  void Register(checkpoint::StatePlan plan, std::vector<std::span<std::byte>> memory);

  // Returns the plan of the state that Restore would load; empty when there is none. kDataLoss:
  // this has been reported to the agent.
  Result<checkpoint::StatePlan> Saved();

  bool SnapshotDue(uint64_t step);
  // Waits while every usable slot is being sent or persisted, and reports this to the agent at
  // intervals.
  Status Snapshot(uint64_t step);
  void ReportWaitsEvery(Duration time) { report_waits_every_ = time; }
  // The same asynchronously: a thread copies write-protected memory, or a forked child does where
  // memory can't be protected. Copies at once where measurements show that this stops training for
  // less time. Returns kFailedPrecondition when registered memory is shared.
  Status BeginSnapshot(uint64_t step);
  // The same for registered memory that the caller does not write before WaitSnapshot, of any kind.
  // `ready` is called on the thread that copies, before it reads the memory (staged_copy.h).
  // `stopped` is the time for which the caller has stopped training for this snapshot already.
  Status BeginStagedSnapshot(uint64_t step, Duration stopped, std::function<Status()> ready);
  // Waits for the snapshot that one of the two began; OK when there is none. Returns the error of
  // an earlier one that SnapshotDue or ReportStep has found.
  Status WaitSnapshot();
  std::string SnapshotWay() const { return ways_.InWords(); }
  // Returns the restored step; 0 when there is none. kDataLoss: this has been reported to the
  // agent.
  Result<uint64_t> Restore();

 private:
  Client(io::Fd socket, uint64_t attempt) : socket_(std::move(socket)), attempt_(attempt) {}

  Status Send(std::span<const std::byte> packet);
  template <typename Message>
  Status Send(Message message, std::string_view payload = "");
  // Returns the next packet; nothing when none arrives within `wait_ms` (-1: no limit).
  Result<std::optional<FromAgent>> Receive(int wait_ms, io::Fd* descriptor);
  Status AwaitWelcome();
  void AwaitFault();
  // Requests the arena with at least `bytes` (0: the existing one) from the agent.
  Status TakeArena(uint64_t bytes);
  Status PrepareArena();
  // Returns a writer with a slot open for `step`.
  Result<std::unique_ptr<checkpoint::ArenaWriter>> OpenSlot(uint64_t step);
  Status WriteSnapshot(uint64_t step);
  Status StartSnapshot(uint64_t step);
  Status CopyNow(uint64_t step);
  Status WaitStaged();
  // Reports a staged snapshot to the agent if its copy is done.
  void NoteStaged();
  Status ReportSealed(uint64_t step, int64_t blocked_ns, uint32_t way);
  std::vector<std::span<const std::byte>> Tensors() const {
    return {memory_.begin(), memory_.end()};
  }
  Status RestoreFromMemory();
  Status RestoreFromDisk();
  Status RestoreFromPieces();
  // Requests a state of this plan, which the agent assembles, or without a plan that of the saved
  // state.
  Result<io::SharedMapping> AskForPieces(const checkpoint::StatePlan* plan, uint64_t* bytes);
  Result<checkpoint::StatePlan> PlanOfSaved();
  // Reports to the agent that the restore source is damaged; returns kDataLoss.
  Status CopyIsBad(const Status& why);

  io::Fd socket_;
  uint64_t attempt_ = 0;
  uint64_t fault_step_ = 0;  // of a planned fault that kills this worker; 0: none
  WelcomeContent welcome_;
  uint64_t interval_steps_ = 0;
  uint64_t last_snapshot_step_ = 0;  // attempted or restored
  int64_t unreported_snapshot_ns_ = 0;
  bool gone_ = false;  // the agent has ended

  bool registered_ = false;
  bool restored_ = false;  // or nothing to restore: a new arena may replace the existing one
  checkpoint::StatePlan plan_;
  std::vector<std::span<std::byte>> memory_;
  Duration report_waits_every_ = std::chrono::seconds(3);
  bool known_private_ = false;  // whether memory_ is known to be private
  io::SharedMapping arena_;
  std::unique_ptr<io::PageMapper> mapper_;  // of its pages
  // For BeginSnapshot; kUnavailable since the first time that it could not be created or used.
  std::optional<Result<io::WriteGuard>> guard_;
  // Moves the state into huge pages asynchronously, once for each registered state, if
  // write-protecting single pages has cost more than allowed.
  void MakeStateHuge();
  void StopMakingHuge();
  bool costly_pages_ = false;  // found by BeginSnapshot
  bool made_huge_ = false;     // started, or not needed
  std::atomic<bool> stop_making_huge_ = false;
  std::thread making_huge_;
  SnapshotWays ways_;  // of the registered state
  // One of these is set between the beginning of a snapshot and WaitSnapshot.
  std::unique_ptr<checkpoint::ArenaWriter> copying_;
  std::unique_ptr<StagedCopy> staged_;
  Status staged_failure_;  // not returned by WaitSnapshot yet
  uint64_t copying_step_ = 0;
  int64_t copying_blocked_ns_ = 0;
  uint32_t copying_way_ = 0;
  int64_t waited_for_slot_ns_ = 0;  // before the newest snapshot
};

// Returns when this process began, CLOCK_REALTIME in nanoseconds.
Result<int64_t> ProcessStartedAt();

}  // namespace longhaul::worker_api
