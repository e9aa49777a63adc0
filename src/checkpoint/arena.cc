#include "checkpoint/arena.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/copy.h"
#include "checkpoint/internal/live_copy.h"
#include "checkpoint/internal/slot.h"
#include "io/process/forked_child.h"

namespace longhaul::checkpoint {
namespace {

using internal::ChunkEntry;
using internal::Inspect;
using internal::SealedSlot;
using internal::SlotHeader;
using internal::SlotLayout;
using internal::SlotState;

constexpr uint64_t kPage = 4096;

// Requires that Inspect accepted the slot, since every field comes from the header.
SealedSnapshot Describe(const SealedSlot& sealed, size_t slot, bool non_finite) {
  return {sealed.header.step, sealed.header.attempt,   sealed.plan.total_bytes(), slot,
          non_finite,         sealed.header.plan_hash, sealed.header.root};
}

// What the choice of a slot depends on.
struct Candidate {
  std::optional<uint64_t> step;  // that it is sealed for
  std::string pins;              // in words; none: empty
  bool non_finite = false;
};

// Where a snapshot of `step` is to be written; nothing when it has to wait for a pin. With three
// slots and one kept, at least one slot is free unless it is pinned. A pinned slot is never chosen,
// even when it is void: its reader would find other data.
std::optional<size_t> ChooseSlot(const std::vector<Candidate>& slots, uint64_t step) {
  // The newest below `step` is what a restore would take: it stays.
  std::optional<size_t> kept, chosen;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].step) return i;
    if (slots[i].non_finite) continue;
    if (*slots[i].step < step && (!kept || *slots[i].step > *slots[*kept].step)) kept = i;
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i == kept || !slots[i].pins.empty()) continue;
    // No restore takes such a slot, so it goes before any good one.
    if (*slots[i].step >= step || slots[i].non_finite) return i;
    if (!chosen || *slots[i].step < *slots[*chosen].step) chosen = i;
  }
  return chosen;
}

std::string HoldersInWords(const std::vector<Candidate>& slots) {
  std::string text;
  for (const Candidate& slot : slots) {
    if (slot.pins.empty() || !slot.step) continue;
    text += (text.empty() ? "step " : "; step ") + std::to_string(*slot.step) + ": " + slot.pins;
  }
  return text;
}

// Empties a slot that is sealed for `step` or above.
void EmptyFrom(std::span<std::byte> slot, uint64_t step) {
  const Result<SealedSlot> sealed = Inspect(slot);
  if (sealed.ok() && sealed->header.step >= step) internal::StoreHeader(slot, SlotHeader{});
}

std::string ChunkName(const SealedSlot& sealed, const ChunkEntry& entry) {
  return "step " + std::to_string(sealed.header.step) + ", tensor " +
         Printable(sealed.plan.tensors()[entry.tensor].name) + ", chunk " +
         std::to_string(entry.chunk) + ": the hash differs";
}

// Calls `use(slot index, slot bytes, sealed)` for each slot sealed for `step`, the highest attempt
// first, until one succeeds; then the last failure counts.
template <typename Use>
// Two slots can be sealed for the same step, when an attempt was rolled back and has done the step
// again. The higher attempt is the one that counts; a damaged slot must not hide a good one behind
// it.
auto WithSealed(std::span<const std::byte> arena, uint64_t step, Use use)
    -> decltype(use(size_t{}, arena, std::declval<SealedSlot&>())) {
  const auto slots = internal::SlotsOf(arena);
  std::vector<std::pair<size_t, SealedSlot>> found;
  Status status = NotFound("no sealed snapshot of step " + std::to_string(step));
  for (size_t i = 0; i < slots.size(); ++i) {
    Result<SealedSlot> sealed = Inspect(slots[i]);
    if (sealed.ok() && sealed->header.step == step) {
      found.emplace_back(i, std::move(sealed).value());
      // An empty slot is no error. A damaged one is named in the message, because it may be the one
      // that the caller wants.
    } else if (!sealed.ok() && sealed.status().code() == Code::kDataLoss) {
      status = NotFound(status.message() + "; slot " + std::to_string(i) + ": " +
                        sealed.status().message());
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.second.header.attempt > b.second.header.attempt;
  });
  for (auto& [index, sealed] : found) {
    auto result = use(index, slots[index], sealed);
    if (result.ok()) return result;
    if constexpr (std::is_same_v<decltype(result), Status>) {
      status = result;
    } else {
      status = result.status();
    }
  }
  return status;
}

// Holds all chunks of a slot against their hashes where they lie.
Status VerifyChunks(std::span<const std::byte> slot, const SealedSlot& sealed) {
  const auto data = slot.subspan(sealed.layout.data_at);
  for (const ChunkEntry& entry : sealed.chunks) {
    if (HashChunk(data.subspan(entry.offset, entry.bytes)) != entry.hash) {
      return DataLoss(ChunkName(sealed, entry));
    }
  }
  return {};
}

// The ends of so many runs of chunks with about equal bytes, as many runs as there are chunks for.
std::vector<size_t> EqualParts(std::span<const ChunkEntry> chunks, uint64_t total_bytes,
                               size_t parts) {
  std::vector<size_t> ends;
  uint64_t bytes = 0;
  for (size_t i = 0; i < chunks.size() && ends.size() + 1 < parts; ++i) {
    bytes += chunks[i].bytes;
    if (bytes >= total_bytes / parts * (ends.size() + 1)) ends.push_back(i + 1);
  }
  ends.push_back(chunks.size());
  return ends;
}

// Copies the chunks [first, last) out of a slot, hashing the copies, until `stop`. kAborted when
// the slot was taken meanwhile.
Status CopyPart(std::span<const std::byte> slot, const SealedSlot& sealed,
                std::span<const std::span<std::byte>> tensors, size_t first, size_t last,
                const std::atomic<bool>& stop) {
  const auto data = slot.subspan(sealed.layout.data_at);
  for (size_t i = first; i < last && !stop; ++i) {
    const ChunkEntry& entry = sealed.chunks[i];
    std::byte* to = tensors[entry.tensor].data() + uint64_t{entry.chunk} * kChunkBytes;
    if (CopyChunkIn(to, data.subspan(entry.offset, entry.bytes)) == entry.hash) continue;
    // A reader without a pin can lose the slot at any moment. The header shows whether the
    // difference is damage or only the next snapshot.
    const Result<SealedSlot> now = Inspect(slot);
    if (!now.ok() || now->header.hash != sealed.header.hash) {
      return Aborted("the snapshot of step " + std::to_string(sealed.header.step) +
                     " was overwritten while it was read");
    }
    return DataLoss(ChunkName(sealed, entry));
  }
  return {};
}

// The same of all chunks by so many threads, this one among them. Returns the first failure in the
// order of the chunks.
Status CopyChunks(std::span<const std::byte> slot, const SealedSlot& sealed,
                  std::span<const std::span<std::byte>> tensors, size_t threads) {
  const std::vector<size_t> ends = EqualParts(sealed.chunks, sealed.layout.data_bytes, threads);
  // Each thread has its own entry, so no lock is needed. The first failure in the order of the
  // chunks is returned, so that the result does not depend on the order of the threads as far as
  // possible: `stop` may keep later chunks from being read.
  std::vector<Status> statuses(ends.size());
  std::atomic<bool> stop = false;
  const auto copy = [&](size_t part) {
    const size_t first = part == 0 ? 0 : ends[part - 1];
    statuses[part] = CopyPart(slot, sealed, tensors, first, ends[part], stop);
    if (!statuses[part].ok()) stop = true;
  };
  std::vector<std::thread> others;
  for (size_t part = 1; part < ends.size(); ++part) others.emplace_back(copy, part);
  copy(0);
  for (std::thread& other : others) other.join();
  for (const Status& status : statuses) RETURN_IF_ERROR(status);
  return {};
}

}  // namespace

uint64_t ArenaBytesFor(const StatePlan& plan) {
  // Slots begin at pages, because headers and data are aligned to pages within a slot. The minimum
  // leaves room for headers, pins and a plan of an empty state.
  const uint64_t slot = (internal::LayoutOf(plan).total_bytes() + kPage - 1) / kPage * kPage;
  return kArenaSlots * std::max<uint64_t>(slot, internal::kPlanAt + kPage);
}

struct ArenaWriter::Open {
  std::span<std::byte> slot;
  uint64_t step = 0;
  uint64_t attempt = 0;
  StatePlan plan;
  std::string encoded;  // the plan
  SlotLayout layout;
  std::vector<ChunkEntry> chunks;
  std::vector<bool> written;              // by tensor
  std::vector<const std::byte*> sources;  // of the tensors, while they are copied whole
  io::ForkedChild child;
  std::unique_ptr<internal::LiveCopy> live;  // last: it waits for its thread, which uses the rest

  // Copies the chunks [first, last). Async-signal-safe: a forked child runs it.
  void CopyChunks(size_t first, size_t last) {
    std::byte* data = slot.data() + layout.data_at;
    for (size_t i = first; i < last; ++i) {
      ChunkEntry& entry = chunks[i];
      const std::byte* from = sources[entry.tensor] + uint64_t{entry.chunk} * kChunkBytes;
      entry.hash = CopyChunkOut(data + entry.offset, {from, entry.bytes});
    }
    FenceStores();  // streamed stores are ordered by the thread that made them
  }

  // Stores plan, table and header. Async-signal-safe.
  void StoreSeal() {
    std::memcpy(slot.data() + internal::kPlanAt, encoded.data(), encoded.size());
    const size_t table_bytes = chunks.size() * sizeof(ChunkEntry);
    if (table_bytes != 0) {
      std::memcpy(slot.data() + layout.table_at, chunks.data(), table_bytes);
    }
    SlotHeader header;
    header.state = SlotState::kSealed;
    header.step = step;
    header.attempt = attempt;
    header.plan_at = internal::kPlanAt;
    header.plan_bytes = encoded.size();
    header.plan_hash = Hash64(encoded);
    header.table_at = layout.table_at;
    header.chunks = layout.chunks;
    // The root covers all chunk hashes and thus all data. Two snapshots with the same plan and root
    // have the same bits.
    header.root = Hash64(chunks.data(), table_bytes);
    header.data_at = layout.data_at;
    header.data_bytes = layout.data_bytes;
    internal::StoreHeader(slot, header);
  }

  void TakeSources(std::span<const std::span<const std::byte>> tensors) {
    CHECK(tensors.size() == plan.size());
    sources.clear();
    for (size_t i = 0; i < tensors.size(); ++i) {
      CHECK(tensors[i].size() == plan.bytes(i)) << "tensor " << i;
      sources.push_back(tensors[i].data());
    }
  }
};

ArenaWriter::ArenaWriter(std::span<std::byte> arena) : arena_(arena) {
  CHECK(reinterpret_cast<uintptr_t>(arena.data()) % 64 == 0);
}

ArenaWriter::~ArenaWriter() = default;

Status ArenaWriter::Begin(uint64_t step, uint64_t attempt, const StatePlan& plan) {
  CHECK(!copying()) << "Begin before Finish";
  const auto slots = internal::SlotsOf(arena_);
  SlotLayout layout = internal::LayoutOf(plan);
  if (slots.empty() || layout.total_bytes() > slots[0].size()) {
    return ResourceExhausted("a snapshot of " + std::to_string(plan.total_bytes()) +
                             " bytes doesn't fit the arena of " + std::to_string(arena_.size()));
  }
  std::vector<Candidate> candidates;
  for (const auto slot : slots) {
    const Result<SealedSlot> sealed = Inspect(slot);
    candidates.push_back({sealed.ok() ? std::optional(sealed->header.step) : std::nullopt,
                          internal::PinsInWords(slot),
                          sealed.ok() && internal::IsMarked(slot, sealed->header)});
  }
  const std::optional<size_t> chosen = ChooseSlot(candidates, step);
  if (!chosen) {
    holders_ = HoldersInWords(candidates);
    return Unavailable("every older snapshot is still being sent or persisted");
  }
  const auto slot = slots[*chosen];

  SlotHeader header;
  // From this store on the earlier snapshot of the slot is gone, whatever happens to this process.
  // The slots that remain hold the newest good one.
  header.state = SlotState::kWriting;
  header.step = step;
  header.attempt = attempt;
  internal::StoreHeader(slot, header);
  open_.reset(
      new Open{slot, step, attempt, plan, plan.Encode(), std::move(layout), {}, {}, {}, {}, {}});
  // Allocated before the copy starts: a forked child must not allocate.
  open_->chunks = internal::ChunksOf(plan, open_->layout);
  open_->written.resize(open_->chunks.size());
  return {};
}

size_t ArenaWriter::open_end() const {
  CHECK(open_ != nullptr) << "open_end without Begin";
  return static_cast<size_t>(open_->slot.data() - arena_.data()) + open_->slot.size();
}

void ArenaWriter::Write(size_t tensor, std::span<const std::byte> data) {
  CHECK(open_ != nullptr) << "Write without Begin";
  CHECK(tensor < open_->plan.size() && data.size() == open_->plan.bytes(tensor));
  for (size_t at = 0; at < data.size(); at += kChunkBytes) {
    WriteChunk(tensor, at / kChunkBytes, data.subspan(at, std::min(kChunkBytes, data.size() - at)));
  }
}

// The hash is computed from the bytes while they are copied, so a later change of the source cannot
// make hash and copy disagree.
uint64_t ArenaWriter::WriteChunk(size_t tensor, size_t chunk, std::span<const std::byte> data) {
  CHECK(open_ != nullptr) << "WriteChunk without Begin";
  CHECK(tensor < open_->plan.size() && chunk * kChunkBytes < open_->plan.bytes(tensor));
  const size_t index = open_->layout.first_chunks[tensor] + chunk;
  ChunkEntry& entry = open_->chunks[index];
  CHECK(data.size() == entry.bytes);
  entry.hash = CopyChunkOut(open_->slot.data() + open_->layout.data_at + entry.offset, data);
  open_->written[index] = true;
  return entry.hash;
}

void ArenaWriter::WriteAll(std::span<const std::span<const std::byte>> tensors, size_t threads) {
  CHECK(open_ != nullptr) << "WriteAll without Begin";
  CHECK(threads >= 1);
  open_->TakeSources(tensors);
  Open& open = *open_;
  // Equal bytes for each thread, cut between chunks.
  const std::vector<size_t> ends = EqualParts(open.chunks, open.plan.total_bytes(), threads);
  std::vector<std::thread> others;
  for (size_t i = 1; i < ends.size(); ++i) {
    others.emplace_back(
        [&open, first = ends[i - 1], last = ends[i]] { open.CopyChunks(first, last); });
  }
  open.CopyChunks(0, ends[0]);
  for (std::thread& other : others) other.join();
  open.written.assign(open.chunks.size(), true);
}

Status ArenaWriter::StartCopy(std::span<const std::span<const std::byte>> tensors) {
  CHECK(open_ != nullptr && !copying()) << "StartCopy without Begin";
  open_->TakeSources(tensors);
  (void)HashChunk({});  // chooses the build of the loop here: the child may run no initializers
  // The child seals by itself, so that the snapshot is complete even if this process dies while the
  // copy runs.
  const auto copy_all = [](void* argument) {
    auto& open = *static_cast<Open*>(argument);
    open.CopyChunks(0, open.chunks.size());
    open.StoreSeal();
    return 0;
  };
  ASSIGN_OR_RETURN(open_->child, io::ForkedChild::Start(copy_all, open_.get()));
  return {};
}

Status ArenaWriter::StartLiveCopy(std::span<const std::span<const std::byte>> tensors,
                                  io::WriteGuard& guard) {
  CHECK(open_ != nullptr && !copying()) << "StartLiveCopy without Begin";
  open_->TakeSources(tensors);
  std::byte* data = open_->slot.data() + open_->layout.data_at;
  // Chunks, and not tensors, are the pieces: a write to one page then waits for the copy of at most
  // the chunks that touch its window.
  std::vector<internal::LivePiece> pieces;
  pieces.reserve(open_->chunks.size());
  for (const ChunkEntry& entry : open_->chunks) {
    pieces.push_back({open_->sources[entry.tensor] + uint64_t{entry.chunk} * kChunkBytes,
                      data + entry.offset, entry.bytes});
  }
  const auto seal = [](void* argument, const uint64_t* hashes) {
    auto& open = *static_cast<Open*>(argument);
    for (size_t i = 0; i < open.chunks.size(); ++i) open.chunks[i].hash = hashes[i];
    open.StoreSeal();
  };
  ASSIGN_OR_RETURN(open_->live,
                   internal::LiveCopy::Start(guard, std::move(pieces), seal, open_.get()));
  return {};
}

bool ArenaWriter::copying() const {
  return open_ != nullptr && (open_->child.running() || open_->live != nullptr);
}

Status ArenaWriter::Finish() {
  CHECK(copying()) << "Finish without StartCopy";
  Result<int> ended = 0;
  // `waited_writes` counts the faults that the copy served. Each costs about the time of one
  // window, which is estimated from the mean.
  if (open_->live != nullptr) {
    open_->live->Wait();
    const Duration worked = open_->live->worked();
    const auto windows = static_cast<int64_t>(std::max<size_t>(1, open_->live->windows()));
    cost_ = {worked, worked / windows * static_cast<int64_t>(open_->live->waited_writes())};
  } else {
    cost_ = {};
    ended = open_->child.Wait();
  }
  const uint64_t step = open_->step;
  const auto slot = open_->slot;
  open_.reset();
  // What counts is the seal: it was the child's last act.
  const Result<SealedSlot> sealed = Inspect(slot);
  const bool there = sealed.ok() && sealed->header.step == step;
  if (!there) {
    return Aborted("the copy of step " + std::to_string(step) + " ended before its seal" +
                   (ended.ok() ? "" : ": " + ended.status().message()));
  }
  EmptyOthers(slot, step);
  return {};
}

void ArenaWriter::Seal() {
  CHECK(open_ != nullptr && !copying()) << "Seal without Begin";
  for (size_t i = 0; i < open_->written.size(); ++i) CHECK(open_->written[i]) << "chunk " << i;
  open_->StoreSeal();
  EmptyOthers(open_->slot, open_->step);
  open_.reset();
}

// What else is sealed for this step or above is of a gang that was rolled back.
void ArenaWriter::EmptyOthers(std::span<std::byte> kept, uint64_t step) {
  for (const auto slot : internal::SlotsOf(arena_)) {
    if (slot.data() != kept.data()) EmptyFrom(slot, step);
  }
}

void ArenaWriter::DropAbove(uint64_t step) {
  if (step == ~uint64_t{0}) return;
  for (const auto slot : internal::SlotsOf(arena_)) EmptyFrom(slot, step + 1);
}

void ArenaWriter::DropSlot(size_t slot) {
  const auto slots = internal::SlotsOf(arena_);
  CHECK(slot < kArenaSlots);
  if (slot < slots.size()) internal::StoreHeader(slots[slot], SlotHeader{});
}

// The mark is bound to the header's hash, so it does not apply to the next snapshot in the same
// slot.
Status MarkNonFinite(std::span<std::byte> arena, size_t slot) {
  const auto slots = internal::SlotsOf(arena);
  CHECK(slot < kArenaSlots);
  if (slot >= slots.size()) return NotFound("the arena has no slots");
  ASSIGN_OR_RETURN(const SealedSlot sealed, Inspect(slots[slot]));
  internal::StoreMark(slots[slot], sealed.header);
  return {};
}

Result<SnapshotPin> SnapshotPin::Take(std::span<std::byte> arena, uint64_t step, uint64_t attempt,
                                      PinUse use) {
  const auto slots = internal::SlotsOf(arena);
  const auto process = static_cast<uint32_t>(getpid());
  const auto sealed_there = [&](size_t index) {
    const Result<SealedSlot> sealed = Inspect(slots[index]);
    return sealed.ok() && sealed->header.step == step && sealed->header.attempt == attempt;
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!sealed_there(i)) continue;
    if (!internal::AddPin(slots[i], process, use)) {
      return ResourceExhausted("too many processes read step " + std::to_string(step));
    }
    SnapshotPin pin(slots[i], i, use);
    if (sealed_there(i)) return pin;  // the writer didn't take it before the pin was seen
  }
  return NotFound("no sealed snapshot of step " + std::to_string(step) + " of attempt " +
                  std::to_string(attempt));
}

// A moved-from pin has an empty slot and releases nothing.
SnapshotPin::SnapshotPin(SnapshotPin&& other) noexcept
    : slot_(std::exchange(other.slot_, {})), index_(other.index_), use_(other.use_) {}

SnapshotPin& SnapshotPin::operator=(SnapshotPin&& other) noexcept {
  std::swap(slot_, other.slot_);
  std::swap(index_, other.index_);
  std::swap(use_, other.use_);
  return *this;
}

SnapshotPin::~SnapshotPin() {
  if (!slot_.empty()) internal::RemovePin(slot_, static_cast<uint32_t>(getpid()), use_);
}

// The tensors are spans into the arena. Their bytes are not verified here: the caller compares each
// chunk with its hash as it uses it, and needs a pin while it does.
Result<ArenaReader::Hashed> ArenaReader::InSlot(size_t slot) const {
  const auto slots = internal::SlotsOf(arena_);
  CHECK(slot < kArenaSlots);
  if (slot >= slots.size()) return NotFound("the arena has no slots");
  ASSIGN_OR_RETURN(SealedSlot sealed, Inspect(slots[slot]));
  const auto data = slots[slot].subspan(sealed.layout.data_at);
  Hashed hashed{Describe(sealed, slot, internal::IsMarked(slots[slot], sealed.header)),
                std::move(sealed.plan),
                {},
                {}};
  hashed.chunks.resize(hashed.plan.size());
  for (size_t i = 0; i < hashed.plan.size(); ++i) {
    hashed.tensors.push_back(data.subspan(sealed.layout.tensors[i], hashed.plan.bytes(i)));
  }
  for (const ChunkEntry& entry : sealed.chunks) hashed.chunks[entry.tensor].push_back(entry.hash);
  return hashed;
}

std::vector<SealedSnapshot> ArenaReader::ListSealed() const {
  std::vector<SealedSnapshot> found;
  const auto slots = internal::SlotsOf(arena_);
  for (size_t i = 0; i < slots.size(); ++i) {
    const Result<SealedSlot> sealed = Inspect(slots[i]);
    if (!sealed.ok()) continue;
    found.push_back(Describe(*sealed, i, internal::IsMarked(slots[i], sealed->header)));
  }
  std::sort(found.begin(), found.end(), [](const SealedSnapshot& a, const SealedSnapshot& b) {
    return std::pair(a.step, a.attempt) > std::pair(b.step, b.attempt);
  });
  return found;
}

Status ArenaReader::VerifySlot(size_t slot) const {
  const auto slots = internal::SlotsOf(arena_);
  CHECK(slot < kArenaSlots);
  if (slot >= slots.size()) return NotFound("the arena has no slots");
  ASSIGN_OR_RETURN(const SealedSlot sealed, Inspect(slots[slot]));
  return VerifyChunks(slots[slot], sealed);
}

Result<ArenaReader::View> ArenaReader::Open(uint64_t step) const {
  return WithSealed(
      arena_, step,
      [](size_t index, std::span<const std::byte> slot, SealedSlot& sealed) -> Result<View> {
        const auto data = slot.subspan(sealed.layout.data_at);
        RETURN_IF_ERROR(VerifyChunks(slot, sealed));
        View view{
            Describe(sealed, index, internal::IsMarked(slot, sealed.header)), sealed.plan, {}};
        for (size_t i = 0; i < sealed.plan.size(); ++i) {
          view.tensors.push_back(data.subspan(sealed.layout.tensors[i], sealed.plan.bytes(i)));
        }
        return view;
      });
}

Result<StatePlan> ArenaReader::Plan(uint64_t step) const {
  return WithSealed(arena_, step,
                    [](size_t, std::span<const std::byte>,
                       SealedSlot& sealed) -> Result<StatePlan> { return std::move(sealed.plan); });
}

// Copied first and hashed in the copy, because the slot may be overwritten between a check in place
// and a later read.
Result<LoadedState> ArenaReader::Copy(uint64_t step) const {
  return WithSealed(
      arena_, step,
      [](size_t, std::span<const std::byte> slot, SealedSlot& sealed) -> Result<LoadedState> {
        std::vector<std::byte> storage(sealed.layout.data_bytes);
        std::vector<std::span<std::byte>> tensors;
        for (size_t i = 0; i < sealed.plan.size(); ++i) {
          tensors.push_back(
              std::span(storage).subspan(sealed.layout.tensors[i], sealed.plan.bytes(i)));
        }
        RETURN_IF_ERROR(CopyChunks(slot, sealed, tensors, 1));
        return LoadedState(std::move(sealed.plan), std::move(storage),
                           std::move(sealed.layout.tensors));
      });
}

Status ArenaReader::CopyInto(uint64_t step, const StatePlan& plan,
                             std::span<const std::span<std::byte>> tensors, size_t threads) const {
  CHECK(tensors.size() == plan.size());
  CHECK(threads >= 1);
  return WithSealed(
      arena_, step, [&](size_t, std::span<const std::byte> slot, SealedSlot& sealed) -> Status {
        if (const auto difference = plan.FirstDifference(sealed.plan)) {
          return FailedPrecondition("the snapshot is of another state: " + *difference);
        }
        for (size_t i = 0; i < tensors.size(); ++i) CHECK(tensors[i].size() == plan.bytes(i));
        return CopyChunks(slot, sealed, tensors, threads);
      });
}

}  // namespace longhaul::checkpoint
