// A schedule of a pipeline: which rank computes what in which order, and what it sends meanwhile.
//
// A model is divided into stages in a row. Each rank holds `chunks` of them. A step has several
// micro-batches; each of them passes all stages forward (F), then backward. The backward of a stage
// has two parts: B computes the gradient of the stage's input, on which the stage before waits, and
// W computes the gradients of its weights, which may be done later (Qi et al., Zero Bubble Pipeline
// Parallelism, ICLR 2024).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::schedule {

enum class Kind {
  kForward,
  kBackward,  // the gradient of the stage's input
  kWeights,   // the gradients of its weights
  kSendForward,
  kReceiveForward,
  kSendBackward,
  kReceiveBackward,
};

struct Action {
  Kind kind = Kind::kForward;
  uint32_t micro_batch = 0;
  uint32_t chunk = 0;  // of the rank that does it

  bool Computes() const { return kind <= Kind::kWeights; }
  bool Sends() const { return kind == Kind::kSendForward || kind == Kind::kSendBackward; }
  friend auto operator<=>(const Action&, const Action&) = default;
};

// A computation, or transfers that are posted together.
using Group = std::vector<Action>;

// Which rank holds a stage.
enum class Placement {
  kLoop,  // stage = chunk * ranks + rank
  kV,     // two chunks: stage = rank, and 2 * ranks - 1 - rank
};

// Limits that keep all numbers of a schedule from outside small.
constexpr uint32_t kMostRanks = 1'024;
constexpr uint32_t kMostChunks = 64;
constexpr uint32_t kMostMicroBatches = 65'536;
constexpr uint64_t kMostActions = 1 << 22;

struct Shape {
  uint32_t ranks = 1;
  uint32_t micro_batches = 1;
  uint32_t chunks = 1;  // of each rank
  Placement placement = Placement::kLoop;

  uint32_t stages() const { return ranks * chunks; }
  uint32_t StageOf(uint32_t rank, uint32_t chunk) const;
  uint32_t RankOf(uint32_t stage) const;
  uint32_t ChunkOf(uint32_t stage) const;
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Schedule {
  Shape shape;
  std::vector<std::vector<Group>> ranks;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// An action of a rank as a transfer: the link it uses and what it carries.
struct Transfer {
  uint32_t from = 0;
  uint32_t to = 0;
  bool forward = true;
  uint32_t micro_batch = 0;
  uint32_t stage = 0;  // that sends

  friend auto operator<=>(const Transfer&, const Transfer&) = default;
};
// Requires a transfer of this rank that has a neighbour: no forward into the first stage, and so
// on.
Transfer TransferOf(const Shape& shape, uint32_t rank, const Action& action);

// Whether the stage has a neighbour on another rank: before it (forward false) or after it.
bool HasRemoteNeighbour(const Shape& shape, uint32_t stage, bool after);

// "F3.0", "SendB2.1": the text form of an action (text.h).
std::string ToString(const Action& action);

}  // namespace longhaul::schedule
