// One slot of an arena: the layout of its parts, and the check of its validity. docs/arena.md has
// the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/arena.h"
#include "checkpoint/state.h"

namespace longhaul::checkpoint::internal {

constexpr char kSlotMagic[8] = {'L', 'H', 'A', 'R', 'E', 'N', 'A', '1'};
constexpr uint32_t kSlotVersion = 2;
constexpr size_t kHeaderCopies[] = {0, 4096};
constexpr size_t kPlanAt = 8192;
constexpr size_t kPinsAt = 256;     // in the first header's page; a new header keeps it
constexpr size_t kPinUsesAt = 320;  // a byte for each pin: PinUse, for messages of a waiting writer
constexpr size_t kMarks[] = {512, 4096 + 512};  // behind the headers; a new header keeps them
constexpr size_t kPins = 16;                    // pids of the readers of the slot; 0: free

enum class SlotState : uint32_t { kEmpty = 0, kWriting = 1, kSealed = 2 };

// The format in memory.
struct SlotHeader {
  char magic[8] = {};
  uint32_t version = 0;
  SlotState state = SlotState::kEmpty;
  uint64_t step = 0;
  uint64_t attempt = 0;
  uint64_t plan_at = 0;
  uint64_t plan_bytes = 0;
  uint64_t plan_hash = 0;
  uint64_t table_at = 0;
  uint64_t chunks = 0;
  uint64_t root = 0;  // XXH3-64 of the table
  uint64_t data_at = 0;
  uint64_t data_bytes = 0;  // to the end of the last tensor, gaps included
  uint64_t zero[3] = {};
  uint64_t hash = 0;  // XXH3-64 of the fields before it
};
static_assert(sizeof(SlotHeader) == 128);

// An entry of the chunk table.
struct ChunkEntry {
  uint32_t tensor = 0;
  uint32_t chunk = 0;   // of the tensor
  uint64_t offset = 0;  // from data_at
  uint64_t bytes = 0;
  uint64_t hash = 0;

  friend bool operator==(const ChunkEntry&, const ChunkEntry&) = default;
};
static_assert(sizeof(ChunkEntry) == 32);

// The offsets of all parts of a slot; a function of the plan alone.
struct SlotLayout {
  uint64_t plan_bytes = 0;
  uint64_t table_at = 0;
  uint64_t chunks = 0;
  uint64_t data_at = 0;
  uint64_t data_bytes = 0;
  std::vector<uint64_t> tensors;       // offsets from data_at
  std::vector<uint64_t> first_chunks;  // of each tensor

  uint64_t total_bytes() const { return data_at + data_bytes; }
};
SlotLayout LayoutOf(const StatePlan& plan);

// Returns the table of a plan with all hashes zero.
std::vector<ChunkEntry> ChunksOf(const StatePlan& plan, const SlotLayout& layout);

// Returns the slots of an arena; none when it is too small.
std::vector<std::span<std::byte>> SlotsOf(std::span<std::byte> arena);
std::vector<std::span<const std::byte>> SlotsOf(std::span<const std::byte> arena);

// A sealed slot whose header, plan and table agree. All but the tensors' bytes is copied out of the
// shared memory, so it can't change any more.
struct SealedSlot {
  SlotHeader header;
  StatePlan plan;
  SlotLayout layout;
  std::vector<ChunkEntry> chunks;
};
// Returns kNotFound when no header copy is sealed, and kDataLoss when one is but the rest doesn't
// agree.
Result<SealedSlot> Inspect(std::span<const std::byte> slot);

// Adds a pin of a process; returns false when all are used.
bool AddPin(std::span<std::byte> slot, uint32_t process, PinUse use = PinUse::kOther);
// Removes one pin of that process, if any; one with that use, if there is one.
void RemovePin(std::span<std::byte> slot, uint32_t process, PinUse use = PinUse::kOther);
// Returns the pins of existing processes, "process 7 writes it to disk, ..."; empty: none. Any
// bytes may be there: a wrong pin costs time, never a snapshot.
std::string PinsInWords(std::span<std::byte> slot);

// Returns whether the snapshot of that header is marked as non-finite. A mark applies to that one
// header, so another snapshot in the slot is not marked.
bool IsMarked(std::span<const std::byte> slot, const SlotHeader& header);
void StoreMark(std::span<std::byte> slot, const SlotHeader& header);

// Stores both header copies, one after the other, each after all earlier stores.
void StoreHeader(std::span<std::byte> slot, SlotHeader header);

}  // namespace longhaul::checkpoint::internal
