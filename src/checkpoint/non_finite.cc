#include "checkpoint/non_finite.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

// So many bytes are looked at before anything is concluded: the loop within has no branches.
constexpr size_t kBlock = 4096;

template <typename Word>
bool AnyAllOnes(std::span<const std::byte> bytes, Word exponent) {
  CHECK(bytes.size() % sizeof(Word) == 0);
  for (size_t at = 0; at < bytes.size(); at += kBlock) {
    const size_t words = std::min(kBlock, bytes.size() - at) / sizeof(Word);
    Word found = 0;
    for (size_t i = 0; i < words; ++i) {
      Word word;
      std::memcpy(&word, bytes.data() + at + i * sizeof(Word), sizeof(Word));
      found = static_cast<Word>(found | ((word & exponent) == exponent ? 1 : 0));
    }
    if (found != 0) return true;
  }
  return false;
}

}  // namespace

// NaN and infinity are exactly the numbers whose exponent bits are all ones, so one mask finds
// both. Other dtypes, such as integers, cannot be non-finite.
bool HasNonFinite(std::string_view dtype, std::span<const std::byte> bytes) {
  if (dtype == "F32") return AnyAllOnes<uint32_t>(bytes, 0x7f800000u);
  if (dtype == "BF16") return AnyAllOnes<uint16_t>(bytes, 0x7f80u);
  if (dtype == "F16") return AnyAllOnes<uint16_t>(bytes, 0x7c00u);
  if (dtype == "F64") return AnyAllOnes<uint64_t>(bytes, 0x7ff0000000000000u);
  return false;
}

std::optional<std::string> FirstNonFinite(const StatePlan& plan,
                                          std::span<const std::span<const std::byte>> tensors) {
  CHECK(tensors.size() == plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    if (HasNonFinite(plan.tensors()[i].dtype, tensors[i])) return plan.tensors()[i].name;
  }
  return std::nullopt;
}

// Requires the pin: without it the writer could overwrite the slot during the scan, and the mark
// would be based on two snapshots.
Result<std::optional<std::string>> CheckAndMark(std::span<std::byte> arena,
                                                const SnapshotPin& pin) {
  ASSIGN_OR_RETURN(const ArenaReader::Hashed snapshot, ArenaReader(arena).InSlot(pin.slot()));
  if (snapshot.snapshot.non_finite) return std::optional<std::string>("");
  std::optional<std::string> found = FirstNonFinite(snapshot.plan, snapshot.tensors);
  if (found) RETURN_IF_ERROR(MarkNonFinite(arena, pin.slot()));
  return found;
}

}  // namespace longhaul::checkpoint
