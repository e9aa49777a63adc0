#include "checkpoint/internal/slot.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "checkpoint/copy.h"
#include "io/process/forked_child.h"

namespace longhaul::checkpoint::internal {
namespace {

constexpr uint64_t kSlotPage = 4096;
constexpr uint64_t kTensorAlignment = 64;  // a cache line: streaming stores want whole ones

constexpr uint64_t Align(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

uint64_t HeaderHash(const SlotHeader& header) {
  return Hash64(&header, offsetof(SlotHeader, hash));
}

// One copy of the header if it is whole; whatever it says has been checked by nothing but its hash.
std::optional<SlotHeader> LoadHeader(std::span<const std::byte> slot, size_t at) {
  SlotHeader header;
  std::memcpy(&header, slot.data() + at, sizeof(header));
  const bool whole = std::memcmp(header.magic, kSlotMagic, sizeof(kSlotMagic)) == 0 &&
                     header.version == kSlotVersion && header.hash == HeaderHash(header);
  return whole ? std::optional(header) : std::nullopt;
}

// Everything is copied out of the slot before it is checked, because the writer may overwrite it at
// any time. The offsets are computed from the plan and only compared with the header, so that no
// number in shared memory is ever used as an address.
Result<SealedSlot> InspectContents(std::span<const std::byte> slot, const SlotHeader& header) {
  if (header.plan_at != kPlanAt || header.plan_bytes > slot.size() - kPlanAt) {
    return DataLoss("the plan lies outside of the slot");
  }
  std::string encoded(header.plan_bytes, '\0');
  std::memcpy(encoded.data(), slot.data() + kPlanAt, encoded.size());
  if (Hash64(encoded) != header.plan_hash) return DataLoss("the plan's hash differs");
  Result<StatePlan> plan = StatePlan::Decode(encoded);
  if (!plan.ok()) return DataLoss("bad plan: " + plan.status().message());

  SealedSlot sealed{header, std::move(plan).value(), {}, {}};
  sealed.layout = LayoutOf(sealed.plan);
  const SlotLayout& layout = sealed.layout;
  if (layout.plan_bytes != header.plan_bytes || layout.table_at != header.table_at ||
      layout.chunks != header.chunks || layout.data_at != header.data_at ||
      layout.data_bytes != header.data_bytes || layout.total_bytes() > slot.size()) {
    return DataLoss("the header's offsets don't follow from its plan");
  }

  // The table could be derived from the plan except for its hashes. The rest is compared entry by
  // entry.
  const std::vector<ChunkEntry> expected = ChunksOf(sealed.plan, layout);
  sealed.chunks.resize(expected.size());
  const size_t table_bytes = expected.size() * sizeof(ChunkEntry);
  if (table_bytes != 0) {
    std::memcpy(sealed.chunks.data(), slot.data() + layout.table_at, table_bytes);
  }
  if (Hash64(sealed.chunks.data(), table_bytes) != header.root) {
    return DataLoss("the chunk table's hash differs");
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ChunkEntry entry = sealed.chunks[i];
    entry.hash = 0;
    if (entry != expected[i]) return DataLoss("the chunk table doesn't follow from the plan");
  }
  return sealed;
}

template <typename Byte>
// An arena that is too small has no slots, which callers treat as empty and not as damaged.
std::vector<std::span<Byte>> CutSlots(std::span<Byte> arena) {
  const size_t slot_bytes = arena.size() / kArenaSlots / kSlotPage * kSlotPage;
  std::vector<std::span<Byte>> slots;
  if (slot_bytes < kPlanAt + kSlotPage) return slots;
  for (size_t i = 0; i < kArenaSlots; ++i) {
    slots.push_back(arena.subspan(i * slot_bytes, slot_bytes));
  }
  return slots;
}

}  // namespace

// The table of docs/arena.md. Reader and writer both compute it from the plan alone.
SlotLayout LayoutOf(const StatePlan& plan) {
  SlotLayout layout;
  layout.plan_bytes = plan.Encode().size();
  for (size_t i = 0; i < plan.size(); ++i) {
    const uint64_t at = Align(layout.data_bytes, kTensorAlignment);
    layout.tensors.push_back(at);
    layout.first_chunks.push_back(layout.chunks);
    layout.chunks += (plan.bytes(i) + kChunkBytes - 1) / kChunkBytes;
    layout.data_bytes = at + plan.bytes(i);
  }
  layout.table_at = Align(kPlanAt + layout.plan_bytes, kTensorAlignment);
  layout.data_at = Align(layout.table_at + layout.chunks * sizeof(ChunkEntry), kSlotPage);
  return layout;
}

std::vector<ChunkEntry> ChunksOf(const StatePlan& plan, const SlotLayout& layout) {
  std::vector<ChunkEntry> chunks;
  chunks.reserve(layout.chunks);
  for (size_t tensor = 0; tensor < plan.size(); ++tensor) {
    uint32_t chunk = 0;
    for (uint64_t at = 0; at < plan.bytes(tensor); at += kChunkBytes, ++chunk) {
      const uint64_t bytes = std::min<uint64_t>(kChunkBytes, plan.bytes(tensor) - at);
      chunks.push_back(
          {static_cast<uint32_t>(tensor), chunk, layout.tensors[tensor] + at, bytes, 0});
    }
  }
  return chunks;
}

std::vector<std::span<std::byte>> SlotsOf(std::span<std::byte> arena) { return CutSlots(arena); }
std::vector<std::span<const std::byte>> SlotsOf(std::span<const std::byte> arena) {
  return CutSlots(arena);
}

// Either header copy is enough. While one of them is being written, the other one is whole.
Result<SealedSlot> Inspect(std::span<const std::byte> slot) {
  Status status = NotFound("no sealed snapshot");
  for (const size_t at : kHeaderCopies) {
    const std::optional<SlotHeader> header = LoadHeader(slot, at);
    if (!header || header->state != SlotState::kSealed) continue;
    Result<SealedSlot> sealed = InspectContents(slot, *header);
    if (sealed.ok()) return sealed;
    status = sealed.status();
  }
  return status;
}

namespace {

// Pins are shared between processes, so each access is atomic. The writer never stores them: a new
// header leaves the pins as they are.
std::atomic_ref<uint32_t> PinAt(std::span<std::byte> slot, size_t index) {
  return std::atomic_ref<uint32_t>(reinterpret_cast<uint32_t*>(slot.data() + kPinsAt)[index]);
}

std::atomic_ref<uint8_t> PinUseAt(std::span<std::byte> slot, size_t index) {
  return std::atomic_ref<uint8_t>(reinterpret_cast<uint8_t*>(slot.data() + kPinUsesAt)[index]);
}

const char* InWords(PinUse use) {
  switch (use) {
    case PinUse::kCheck:
      return "keeps it as the newest good one";
    case PinUse::kDisk:
      return "writes it to disk";
    case PinUse::kPeer:
      return "sends it to another node";
    case PinUse::kOther:
      break;
  }
  return "reads it";
}

}  // namespace

bool AddPin(std::span<std::byte> slot, uint32_t process, PinUse use) {
  for (size_t i = 0; i < kPins; ++i) {
    uint32_t holder = PinAt(slot, i).load();
    // A pin whose process is gone is free.
    if (holder != 0 && io::ProcessExists(static_cast<pid_t>(holder))) continue;
    // Another process may claim the same free entry between the load and this exchange.
    if (!PinAt(slot, i).compare_exchange_strong(holder, process)) continue;
    PinUseAt(slot, i).store(static_cast<uint8_t>(use));
    return true;
  }
  return false;
}

// A process may hold several pins on a slot for different purposes. The first pass frees one with
// this purpose. The second one frees any, since a purpose is stored after its pin and may be
// missing.
void RemovePin(std::span<std::byte> slot, uint32_t process, PinUse use) {
  for (const bool any : {false, true}) {
    for (size_t i = 0; i < kPins; ++i) {
      if (!any && PinUseAt(slot, i).load() != static_cast<uint8_t>(use)) continue;
      uint32_t holder = process;
      if (PinAt(slot, i).compare_exchange_strong(holder, 0)) return;
    }
  }
}

std::string PinsInWords(std::span<std::byte> slot) {
  std::string text;
  for (size_t i = 0; i < kPins; ++i) {
    const uint32_t holder = PinAt(slot, i).load();
    if (holder == 0 || !io::ProcessExists(static_cast<pid_t>(holder))) continue;
    text += (text.empty() ? "process " : ", process ") + std::to_string(holder) + " " +
            InWords(static_cast<PinUse>(PinUseAt(slot, i).load()));
  }
  return text;
}

namespace {

uint64_t MarkOf(const SlotHeader& header) {
  constexpr uint64_t kNonFiniteMark = 0x44454e4f53494f50;  // "POISONED"
  const uint64_t words[] = {kNonFiniteMark, header.hash};
  return Hash64(words, sizeof(words));
}

}  // namespace

bool IsMarked(std::span<const std::byte> slot, const SlotHeader& header) {
  for (const size_t at : kMarks) {
    uint64_t mark = 0;
    std::memcpy(&mark, slot.data() + at, sizeof(mark));
    if (mark == MarkOf(header)) return true;
  }
  return false;
}

// Two places, as for the header. One of them is enough.
void StoreMark(std::span<std::byte> slot, const SlotHeader& header) {
  const uint64_t mark = MarkOf(header);
  for (const size_t at : kMarks) {
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(slot.data() + at)).store(mark);
  }
}

// The fences give the order that docs/arena.md requires: all data before the first copy, and the
// first copy before the second. The hash makes a partly stored copy invalid.
void StoreHeader(std::span<std::byte> slot, SlotHeader header) {
  std::memcpy(header.magic, kSlotMagic, sizeof(kSlotMagic));
  header.version = kSlotVersion;
  header.hash = HeaderHash(header);
  for (const size_t at : kHeaderCopies) {
    FenceStores();
    std::memcpy(slot.data() + at, &header, sizeof(header));
  }
  FenceStores();
}

}  // namespace longhaul::checkpoint::internal
