// The arena: snapshots of one rank in shared memory that outlives the rank.
//
// Three slots: the newest snapshot, one that may still be on its way to a peer or to disk, and one
// to write. A slot is EMPTY, WRITING or SEALED; a seal is atomic for every reader, whatever moment
// the writer dies at, and a slot is believed only if a header copy, the plan, the table and the
// hash of every chunk agree. The writer never touches the slot it would be restored from, nor one
// that is pinned. docs/arena.md gives the layout to the byte and the order of the stores. Leaves
// out: peers' copies.
//
// Threads: one writer an arena. A reader may look at any time, from any process; it treats the
// bytes as hostile and never trusts what it has not checked.
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

// How large an arena must be to hold snapshots of such a state.
uint64_t ArenaBytesFor(const StatePlan& plan);

// Why a slot is pinned, for who has to wait.
enum class PinUse : uint8_t { kOther = 0, kCheck = 1, kDisk = 2, kPeer = 3 };

struct SealedSnapshot {
  uint64_t step = 0;
  uint64_t attempt = 0;  // that sealed it
  uint64_t bytes = 0;    // of the tensors
  size_t slot = 0;
  bool non_finite = false;  // it has NaN or infinity (non_finite.h)
  // Snapshots of which both agree hold the same boxes, bit by bit.
  uint64_t plan_hash = 0;
  uint64_t root = 0;  // XXH3-64 of the table with the hash of every chunk

  friend bool operator==(const SealedSnapshot&, const SealedSnapshot&) = default;
};

class ArenaWriter {
 public:
  // Requires memory aligned to 64 bytes (a mapping is) that outlives the writer. Whatever sealed
  // slots it holds stay.
  explicit ArenaWriter(std::span<std::byte> arena);
  ~ArenaWriter();  // what is not sealed stays unsealed
  ArenaWriter(const ArenaWriter&) = delete;
  ArenaWriter& operator=(const ArenaWriter&) = delete;

  // Opens a slot for the state after `step`: an unsealed one, else one whose step is `step` or
  // above (left by an attempt that was rolled back) or that is non-finite, else the oldest; never a
  // pinned one, nor the only one that is sealed below `step` and not non-finite. kUnavailable when
  // all that could be taken are pinned: try again. kResourceExhausted when the plan doesn't fit. No
  // slot has been touched then.
  Status Begin(uint64_t step, uint64_t attempt, const StatePlan& plan);

  // Who pins what, for a Begin that is to be tried again: "step 5: process 7 writes it to disk;
  // ...".
  std::string Holders() const;

  // Where the open slot ends in the arena. Requires a Begin.
  size_t open_end() const;

  // Copies a whole tensor, hashed on the way. Requires a Begin, and data of the plan's size.
  void Write(size_t tensor, std::span<const std::byte> data);

  // One chunk of a tensor; all must come. Returns its hash. Requires a Begin, and data of the
  // chunk's size.
  uint64_t WriteChunk(size_t tensor, size_t chunk, std::span<const std::byte> data);

  // Copies all tensors with so many threads, this one among them. Requires a Begin and spans of the
  // plan's sizes.
  void WriteAll(std::span<const std::span<const std::byte>> tensors, size_t threads);

  // Copies all tensors as they are now and seals, in a forked child: the caller may continue at
  // once and write its state, which costs it a page fault for each page that the child hasn't read
  // yet. Finish waits for the child. Requires a Begin, spans of the plan's sizes in private memory
  // (a shared mapping is not copied by a fork), and that this thread lives until Finish.
  Status StartCopy(std::span<const std::span<const std::byte>> tensors);
  // The same without a fork, on a thread of this process: a write to what hasn't been copied waits
  // until its 2 MiB are (internal/live_copy.h). kFailedPrecondition when the memory can't be
  // guarded: StartCopy may still do. Requires that the tensors stay mapped until Finish.
  Status StartLiveCopy(std::span<const std::span<const std::byte>> tensors, io::WriteGuard& guard);
  bool copying() const;
  // What a copy that Finish has waited for cost beside that wait.
  struct Cost {
    std::optional<Duration> copying;  // the work of its thread; a child's isn't known
    Duration held_up{};               // writes that waited, all together, at most
  };
  const Cost& cost() const { return cost_; }
  // Waits for the child or thread. kAborted when it ended before its seal; nothing is lost but that
  // snapshot.
  Status Finish();

  // Makes the snapshot the newest; what was sealed for its step or above is emptied then. Requires
  // that every tensor was written since Begin.
  void Seal();

  // Empties slots sealed for steps above `step`: a gang that was rolled back there must never mix
  // them with its own. Called before the first step after a restore.
  void DropAbove(uint64_t step);

  // Empties a slot whatever it holds: one whose bytes failed their hashes. Requires that it isn't
  // being written.
  void DropSlot(size_t slot);

 private:
  struct Open;  // the snapshot between Begin and Seal

  void EmptyOthers(std::span<std::byte> kept, uint64_t step);

  std::span<std::byte> arena_;
  std::unique_ptr<Open> open_;
  Cost cost_;
};

// Marks a sealed snapshot as non-finite. kNotFound when the slot isn't sealed.
Status MarkNonFinite(std::span<std::byte> arena, size_t slot);

// Keeps the writer from a sealed snapshot while it is sent or persisted. One whose process dies
// holds nothing any more.
class SnapshotPin {
 public:
  // kNotFound when no slot is sealed for that step and attempt; kResourceExhausted when as many
  // processes hold it as may. Requires memory that outlives the pin.
  static Result<SnapshotPin> Take(std::span<std::byte> arena, uint64_t step, uint64_t attempt,
                                  PinUse use = PinUse::kOther);
  SnapshotPin(SnapshotPin&& other) noexcept;
  SnapshotPin& operator=(SnapshotPin&& other) noexcept;
  ~SnapshotPin();

  size_t slot() const { return index_; }

 private:
  SnapshotPin(std::span<std::byte> slot, size_t index, PinUse use)
      : slot_(slot), index_(index), use_(use) {}
  std::span<std::byte> slot_;  // empty: moved from
  size_t index_ = 0;
  PinUse use_ = PinUse::kOther;
};

class ArenaReader {
 public:
  // Any bytes at all; they stay valid while the reader is used.
  explicit ArenaReader(std::span<const std::byte> arena) : arena_(arena) {}

  // Snapshots whose header, plan and table verify, newest step first. The data's hashes aren't
  // checked yet: that is Open's work.
  std::vector<SealedSnapshot> ListSealed() const;

  // A verified snapshot in place. The spans point into the arena: they mean something only until
  // the writer takes the slot again.
  struct View {
    SealedSnapshot snapshot;
    StatePlan plan;
    std::vector<std::span<const std::byte>> tensors;
  };
  // kNotFound when no slot is sealed for `step`, kDataLoss naming the tensor and chunk when its
  // bytes don't match.
  Result<View> Open(uint64_t step) const;

  // The snapshot in a slot as it lies there with the hashes that it was sealed with; its data is
  // unread, so nothing is verified but the hashes themselves. For sending and persisting a pinned
  // one. kNotFound when the slot isn't sealed.
  struct Hashed {
    SealedSnapshot snapshot;
    StatePlan plan;
    std::vector<std::span<const std::byte>> tensors;
    std::vector<std::vector<uint64_t>> chunks;  // as ChunkHashes (shard.h)
  };
  Result<Hashed> InSlot(size_t slot) const;

  // Holds every byte of a sealed slot against its hash. As Open otherwise.
  Status VerifySlot(size_t slot) const;

  // The plan of a sealed step, its data unread. As Open otherwise.
  Result<StatePlan> Plan(uint64_t step) const;

  // Copies the snapshot into memory that the caller owns: what is verified is the copy, so a writer
  // that takes the slot meanwhile is noticed (kAborted). For persisting behind the worker's back.
  Result<LoadedState> Copy(uint64_t step) const;

  // The same into given memory, by so many threads, this one among them. kFailedPrecondition,
  // naming the first difference, when the snapshot isn't of `plan`; nothing has been written then.
  // After kDataLoss or kAborted the memory holds anything. Requires spans of the plan's sizes.
  Status CopyInto(uint64_t step, const StatePlan& plan,
                  std::span<const std::span<std::byte>> tensors, size_t threads = 1) const;

 private:
  std::span<const std::byte> arena_;
};

}  // namespace longhaul::checkpoint
