// Any bytes as an arena: nothing crashes, and what opens is consistent. The writer must be able to
// continue with whatever it finds.

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "checkpoint/arena.h"
#include "checkpoint/internal/slot.h"

namespace longhaul::checkpoint {
namespace {

// Gives headers their right hashes, so that mutations get past the first check.
void MendHeaders(std::span<std::byte> arena) {
  for (const auto slot : internal::SlotsOf(arena)) {
    for (const size_t at : internal::kHeaderCopies) {
      internal::SlotHeader header;
      std::memcpy(&header, slot.data() + at, sizeof(header));
      if (header.plan_bytes <= slot.size() - internal::kPlanAt) {
        header.plan_hash = Hash64(slot.data() + internal::kPlanAt, header.plan_bytes);
      }
      if (header.chunks < 1024 && header.table_at <= slot.size() &&
          header.chunks * sizeof(internal::ChunkEntry) <= slot.size() - header.table_at) {
        header.root =
            Hash64(slot.data() + header.table_at, header.chunks * sizeof(internal::ChunkEntry));
      }
      header.hash = Hash64(&header, offsetof(internal::SlotHeader, hash));
      std::memcpy(slot.data() + at, &header, sizeof(header));
    }
  }
}

void TryAll(std::span<std::byte> arena) {
  const ArenaReader reader(arena);
  for (const SealedSnapshot& sealed : reader.ListSealed()) {
    const Result<ArenaReader::View> view = reader.Open(sealed.step);
    const Result<LoadedState> copy = reader.Copy(sealed.step);
    CHECK(view.ok() == copy.ok());
    if (view.ok()) CHECK(view->plan == copy->plan());
  }
}

}  // namespace
}  // namespace longhaul::checkpoint

using namespace longhaul;
using namespace longhaul::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The input's pieces are laid over a zeroed arena: 160 bytes for each header, the rest for plans.
  if (size > 8192) return 0;
  alignas(64) static std::byte memory[96 * 1024];
  std::memset(memory, 0, sizeof(memory));
  const std::span<std::byte> arena(memory);
  const auto slots = longhaul::checkpoint::internal::SlotsOf(arena);
  const size_t part = size / kArenaSlots;
  for (size_t i = 0; i < slots.size() && size > 0; ++i) {
    const uint8_t* from = data + i * part;
    const size_t header =
        std::min<size_t>(part, sizeof(longhaul::checkpoint::internal::SlotHeader));
    std::memcpy(slots[i].data(), from, header);
    std::memcpy(slots[i].data() + longhaul::checkpoint::internal::kPlanAt, from + header,
                part - header);
  }
  TryAll(arena);
  MendHeaders(arena);
  TryAll(arena);

  static const StatePlan plan = *StatePlan::Create({{"a", "U8", {100}}});
  static const std::vector<std::byte> bytes(100, std::byte{7});
  ArenaWriter writer(arena);
  CHECK(writer.Begin(9, 9, plan).ok());
  writer.Write(0, bytes);
  writer.Seal();
  bool found = false;
  for (const SealedSnapshot& sealed : ArenaReader(arena).ListSealed()) {
    found = found || (sealed.step == 9 && sealed.attempt == 9);
  }
  CHECK(found) << "what was just sealed is not listed";
  return 0;
}
