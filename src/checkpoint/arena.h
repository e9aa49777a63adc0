// The arena: the snapshots of one rank, in shared memory that outlives the rank's process.
//
// Three slots: one for the newest snapshot, one that may still be copied to a peer or to disk, and
// one to write. A slot is EMPTY, WRITING or SEALED. A seal is atomic for every reader, whenever the
// writer dies, and a slot is valid only if a header copy, the plan, the table and the hash of every
// chunk agree. The writer never touches the slot that a restore would use, nor a pinned one.
// docs/arena.md gives the layout to the byte and the order of the stores. Leaves out copies at
// peers.
//
// Threads: one writer for each arena. Any process may read at any time; a reader doesn't trust any
// byte that it has not checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "checkpoint/state.h"
#include "io/memory/write_guard.h"

namespace longhaul::checkpoint {

constexpr size_t kArenaSlots = 3;

// Returns the size of an arena for snapshots of such a state.
uint64_t ArenaBytesFor(const StatePlan& plan);

// Why a slot is pinned, for messages of a writer that waits.
enum class PinUse : uint8_t { kOther = 0, kCheck = 1, kDisk = 2, kPeer = 3 };

struct SealedSnapshot {
  uint64_t step = 0;
  uint64_t attempt = 0;  // that sealed it
  uint64_t bytes = 0;    // of the tensors
  size_t slot = 0;
  bool non_finite = false;  // it has NaN or infinity (non_finite.h)
  // If both hashes of two snapshots agree, they hold the same boxes with the same bits.
  uint64_t plan_hash = 0;
  uint64_t root = 0;  // XXH3-64 of the table with the hash of every chunk

  friend bool operator==(const SealedSnapshot&, const SealedSnapshot&) = default;
};

class ArenaWriter {
 public:
  // Requires memory aligned to 64 bytes (mappings are) that outlives the writer. Keeps its sealed
  // slots.
  explicit ArenaWriter(std::span<std::byte> arena);
  ~ArenaWriter();  // an unsealed slot stays unsealed
  ArenaWriter(const ArenaWriter&) = delete;
  ArenaWriter& operator=(const ArenaWriter&) = delete;

  // Opens a slot for the state after `step`: an unsealed one, else one that is non-finite or whose
  // step is `step` or above (left by a rolled-back attempt), else the oldest. Never a pinned slot,
  // nor the only finite one sealed below `step`. Returns kUnavailable when all candidates are
  // pinned (try again), and kResourceExhausted when the plan doesn't fit; no slot is touched then.
  Status Begin(uint64_t step, uint64_t attempt, const StatePlan& plan);

  // Returns which processes held the pins for which the last Begin returned kUnavailable: "step 5:
  // process 7 writes it to disk; ...".
  const std::string& holders() const { return holders_; }

  // Returns where the open slot ends in the arena. Requires a Begin.
  size_t open_end() const;

  // Copies and hashes a whole tensor. Requires a Begin, and data of the plan's size.
  void Write(size_t tensor, std::span<const std::byte> data);

  // Copies one chunk of a tensor and returns its hash; Seal requires all chunks. Requires a Begin,
  // and data of the chunk's size.
  uint64_t WriteChunk(size_t tensor, size_t chunk, std::span<const std::byte> data);

  // Copies all tensors with this many threads, including this one. Requires a Begin and spans of
  // the plan's sizes.
  void WriteAll(std::span<const std::span<const std::byte>> tensors, size_t threads);

  // Copies all tensors as they are now, and seals, in a forked child. The caller may continue at
  // once and write its state, at the cost of a page fault for each page that the child hasn't read
  // yet. Finish waits for the child. Requires a Begin, spans of the plan's sizes in private memory
  // (a fork does not copy a shared mapping), and that this thread lives until Finish.
  Status StartCopy(std::span<const std::span<const std::byte>> tensors);
  // The same without a fork, on a thread of this process: a write to data that isn't copied yet
  // waits until its 2 MiB are (internal/live_copy.h). Returns kFailedPrecondition when the memory
  // can't be write-protected; StartCopy may still work. Requires that the tensors stay mapped until
  // Finish.
  Status StartLiveCopy(std::span<const std::span<const std::byte>> tensors, io::WriteGuard& guard);
  bool copying() const;
  // The cost of a copy in addition to the wait in Finish.
  struct Cost {
    std::optional<Duration> copying;  // the work of its thread; unknown for a child
    Duration held_up{};               // upper bound of the time of all blocked writes
  };
  const Cost& cost() const { return cost_; }
  // Waits for the child or thread. Returns kAborted when it ended before its seal; only that
  // snapshot is lost.
  Status Finish();

  // Makes the snapshot the newest, and empties slots that were sealed for its step or above.
  // Requires that every tensor was written since Begin.
  void Seal();

  // Empties slots sealed for steps above `step`, so that a gang that was rolled back to it never
  // mixes them with its own. Call it before the first step after a restore.
  void DropAbove(uint64_t step);

  // Empties a slot with any content, such as one whose bytes fail their hashes. Requires that it
  // isn't being written.
  void DropSlot(size_t slot);

 private:
  struct Open;  // the snapshot between Begin and Seal

  void EmptyOthers(std::span<std::byte> kept, uint64_t step);

  std::span<std::byte> arena_;
  std::unique_ptr<Open> open_;
  std::string holders_;
  Cost cost_;
};

// Marks a sealed snapshot as non-finite. Returns kNotFound when the slot isn't sealed.
Status MarkNonFinite(std::span<std::byte> arena, size_t slot);

// Keeps the writer from reusing the slot of a sealed snapshot while it is sent or persisted. Pins
// of a process that has died don't count.
class SnapshotPin {
 public:
  // Returns kNotFound when no slot is sealed for that step and attempt, and kResourceExhausted when
  // the maximum number of processes hold pins. Requires memory that outlives the pin.
  static Result<SnapshotPin> Take(std::span<std::byte> arena, uint64_t step, uint64_t attempt,
                                  PinUse use = PinUse::kOther);
  SnapshotPin(SnapshotPin&& other) noexcept;
  SnapshotPin& operator=(SnapshotPin&& other) noexcept;
  ~SnapshotPin();

  size_t slot() const { return index_; }

 private:
  SnapshotPin(std::span<std::byte> slot, size_t index, PinUse use)
      : slot_(slot), index_(index), use_(use) {}
  std::span<std::byte> slot_;  // empty after a move
  size_t index_ = 0;
  PinUse use_ = PinUse::kOther;
};

class ArenaReader {
 public:
  // Accepts any bytes; they must stay valid while the reader is used.
  explicit ArenaReader(std::span<const std::byte> arena) : arena_(arena) {}

  // Returns the snapshots whose header, plan and table verify, newest step first. Open checks the
  // hashes of the data.
  std::vector<SealedSnapshot> ListSealed() const;

  // A verified snapshot in place. The spans point into the arena: they are valid only until the
  // writer reuses the slot.
  struct View {
    SealedSnapshot snapshot;
    StatePlan plan;
    std::vector<std::span<const std::byte>> tensors;
  };
  // Returns kNotFound when no slot is sealed for `step`, and kDataLoss with the tensor and chunk
  // when its bytes don't match.
  Result<View> Open(uint64_t step) const;

  // The snapshot in a slot, with the hashes of its seal. Only the hashes themselves are verified,
  // the data is not read. For sending and persisting a pinned snapshot. Returns kNotFound when the
  // slot isn't sealed.
  struct Hashed {
    SealedSnapshot snapshot;
    StatePlan plan;
    std::vector<std::span<const std::byte>> tensors;
    std::vector<std::vector<uint64_t>> chunks;  // as ChunkHashes (shard.h)
  };
  Result<Hashed> InSlot(size_t slot) const;

  // Verifies every byte of a sealed slot against its hash. Otherwise as Open.
  Status VerifySlot(size_t slot) const;

  // Returns the plan of a sealed step without reading its data. Otherwise as Open.
  Result<StatePlan> Plan(uint64_t step) const;

  // Copies the snapshot into the caller's memory and verifies the copy. Returns kAborted if a
  // writer reuses the slot meanwhile. For persisting while the worker continues.
  Result<LoadedState> Copy(uint64_t step) const;

  // The same into given memory, with this many threads, including this one. Returns
  // kFailedPrecondition with the first difference when the snapshot isn't of `plan`; nothing has
  // been written then. After kDataLoss or kAborted the memory's contents are undefined. Requires
  // spans of the plan's sizes.
  Status CopyInto(uint64_t step, const StatePlan& plan,
                  std::span<const std::span<std::byte>> tensors, size_t threads = 1) const;

 private:
  std::span<const std::byte> arena_;
};

}  // namespace longhaul::checkpoint
