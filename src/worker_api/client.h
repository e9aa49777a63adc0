// The worker behind include/longhaul.h: one connection to the agent, the registered state, and the
// arena it is copied to. Functions as there, with Status for error codes.
//
// Threads: one at a time. Nothing here throws but for lack of memory; the C edge (c_api.cc) turns
// that into a code.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
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

namespace longhaul::worker_api {

class Client {
 public:
  // Says Hello on a connected socket and waits for the Welcome.
  static Result<std::unique_ptr<Client>> Join(io::Fd socket, uint32_t rank, uint64_t attempt);
  ~Client();  // a snapshot under way is waited for
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const WelcomeContent& welcome() const { return welcome_; }
  uint64_t attempt() const { return attempt_; }

  Status EnterPhase(uint32_t phase);
  // The snapshots' own time since the last report is added to snapshot_ns.
  Status ReportStep(StepMessage step);
  Status SendResult(std::string_view json);

  // Requires memory that stays until the next call or the end. Spans are of the plan's sizes.
  void Register(checkpoint::StatePlan plan, std::vector<std::span<std::byte>> memory);

  // The plan of what Restore would bring; empty when there is nothing. kDataLoss: the agent has
  // been told.
  Result<checkpoint::StatePlan> Saved();

  bool SnapshotDue(uint64_t step);
  // Waits while every slot that could be taken is being sent or persisted, and tells the agent so
  // from time to time.
  Status Snapshot(uint64_t step);
  void TellWaitsEvery(Duration time) { tell_waits_every_ = time; }
  // The same behind the caller's back: guarded and copied by a thread, or where memory can't be
  // guarded in a forked child; or at once, where that was measured to stop training for less.
  // kFailedPrecondition when registered memory is shared.
  Status BeginSnapshot(uint64_t step);
  // Waits for what BeginSnapshot began; fine when there is nothing.
  Status WaitSnapshot();
  std::string SnapshotWay() const { return ways_.InWords(); }
  // The step; 0 when there is nothing to restore. kDataLoss: the agent has been told.
  Result<uint64_t> Restore();

 private:
  Client(io::Fd socket, uint64_t attempt) : socket_(std::move(socket)), attempt_(attempt) {}

  Status Send(std::span<const std::byte> packet);
  template <typename Message>
  Status Send(Message message, std::string_view payload = "");
  // The next packet; nothing when there is none within `wait_ms` (-1: as long as it takes).
  Result<std::optional<FromAgent>> Receive(int wait_ms, io::Fd* descriptor);
  Status AwaitWelcome();
  // Takes the arena with at least `bytes` (0: the one that is there) from the agent.
  Status TakeArena(uint64_t bytes);
  Status PrepareArena();
  // A writer with a slot open for `step`.
  Result<std::unique_ptr<checkpoint::ArenaWriter>> OpenSlot(uint64_t step);
  Status WriteSnapshot(uint64_t step);
  Status StartSnapshot(uint64_t step);
  Status CopyNow(uint64_t step);
  Status TellSealed(uint64_t step, int64_t blocked_ns, uint32_t way);
  std::vector<std::span<const std::byte>> Tensors() const {
    return {memory_.begin(), memory_.end()};
  }
  Status RestoreFromMemory();
  Status RestoreFromDisk();
  Status RestoreFromPieces();
  // What the agent has put together: a state of this plan, or with none the plan of what was saved.
  Result<io::SharedMapping> AskForPieces(const checkpoint::StatePlan* plan, uint64_t* bytes);
  Result<checkpoint::StatePlan> PlanOfSaved();
  // Tells the agent that the copy it named is of no use; returns kDataLoss.
  Status CopyIsBad(const Status& why);

  io::Fd socket_;
  uint64_t attempt_ = 0;
  WelcomeContent welcome_;
  uint64_t interval_steps_ = 0;
  uint64_t last_snapshot_step_ = 0;  // tried or restored
  int64_t unreported_snapshot_ns_ = 0;
  bool gone_ = false;  // the agent

  bool registered_ = false;
  bool restored_ = false;  // or there is nothing: a new arena may take the place of the one there
  checkpoint::StatePlan plan_;
  std::vector<std::span<std::byte>> memory_;
  Duration tell_waits_every_ = std::chrono::seconds(3);
  bool known_private_ = false;  // memory_
  io::SharedMapping arena_;
  std::unique_ptr<io::PageMapper> mapper_;  // of its pages
  // For BeginSnapshot; kUnavailable from the first time on that it couldn't be had or used.
  std::optional<Result<io::WriteGuard>> guard_;
  // Puts the state into huge pages asynchronously, once a registered state, when guarding it page
  // by page has cost more than it may.
  void MakeStateHuge();
  void StopMakingHuge();
  bool costly_pages_ = false;  // seen by BeginSnapshot
  bool made_huge_ = false;     // begun, or not needed
  std::atomic<bool> stop_making_huge_ = false;
  std::thread making_huge_;
  SnapshotWays ways_;  // of the registered state
  // Between BeginSnapshot and WaitSnapshot.
  std::unique_ptr<checkpoint::ArenaWriter> copying_;
  uint64_t copying_step_ = 0;
  int64_t copying_blocked_ns_ = 0;
  uint32_t copying_way_ = 0;
  int64_t waited_for_slot_ns_ = 0;  // before the newest snapshot
};

// When this process began, CLOCK_REALTIME in nanoseconds.
Result<int64_t> ProcessStartedAt();

}  // namespace longhaul::worker_api
