#include "profiler/across/schedule.h"

#include <algorithm>
#include <array>
#include <deque>

#include "base/check.h"

namespace longhaul::profiler {
namespace {

using PassKind = Pass::Kind;

// Writes a stage's passes down, none more often than there are micro-batches and no gradients of
// weights before their inputs'.
class Writer {
 public:
  explicit Writer(const PipelineShape& shape)
      : micro_batches_(shape.schedule == Schedule::kDualPipe ? shape.micro_batches / 2
                                                             : shape.micro_batches) {}

  int Count(PassKind kind, int chunk) const {
    return count_[static_cast<size_t>(kind)][static_cast<size_t>(chunk)];
  }
  bool Full(PassKind kind, int chunk) const { return Count(kind, chunk) == micro_batches_; }

  void Add(PassKind kind, int chunk, bool joined = false) {
    if (Full(kind, chunk)) return;
    if (kind == PassKind::kWeights && Count(kind, chunk) == Count(PassKind::kInputs, chunk)) return;
    ++count_[static_cast<size_t>(kind)][static_cast<size_t>(chunk)];
    passes_.push_back({kind, chunk, false, joined});
  }

  // The last pass with gradients of a chunk's weights is the one after which these can be reduced.
  std::vector<Pass> Passes(int chunks) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const auto last = std::find_if(passes_.rbegin(), passes_.rend(), [&](const Pass& pass) {
        return pass.chunk == chunk &&
               (pass.kind == PassKind::kBackward || pass.kind == PassKind::kWeights);
      });
      if (last != passes_.rend()) last->last = true;
    }
    return std::move(passes_);
  }

 private:
  const int micro_batches_;
  std::array<std::array<int, 2>, 4> count_ = {};
  std::vector<Pass> passes_;
};

std::vector<Pass> Interleaved(const PipelineShape& shape, int stage) {
  const int stages = shape.stages, chunks = shape.chunks;
  const int all = shape.micro_batches * chunks;
  // The warm-up of Megatron-LM: two forwards for each later stage, and a group of forwards for each
  // further chunk.
  const int warm = std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, all);
  std::vector<Pass> passes;
  const auto chunk_of = [&](int i) { return i % (stages * chunks) / stages; };
  // A chunk's last pass is that of the last group's last micro-batch.
  const auto last = [&](int i) { return i >= all - stages * chunks && i % stages == stages - 1; };
  const auto forward = [&](int i) { passes.push_back({PassKind::kForward, chunk_of(i)}); };
  const auto backward = [&](int i) {
    passes.push_back({PassKind::kBackward, chunks - 1 - chunk_of(i), last(i)});
  };
  for (int i = 0; i < warm; ++i) forward(i);
  for (int i = warm; i < all; ++i) {
    forward(i);
    backward(i - warm);
  }
  for (int i = all - warm; i < all; ++i) backward(i);
  return passes;
}

// `ahead`: forwards before the first that a backward follows; `behind`: the number of backwards by
// which the gradients of the weights follow.
void OneByOne(const PipelineShape& shape, int ahead, int behind, Writer* out) {
  const bool split = shape.schedule != Schedule::kOneForwardOneBackward;
  const PassKind backward = split ? PassKind::kInputs : PassKind::kBackward;
  for (int i = 0; i < ahead; ++i) out->Add(PassKind::kForward, 0);
  while (!out->Full(backward, 0)) {
    out->Add(PassKind::kForward, 0);
    out->Add(backward, 0);
    if (split && out->Count(backward, 0) > behind) out->Add(PassKind::kWeights, 0);
  }
  while (split && !out->Full(PassKind::kWeights, 0)) out->Add(PassKind::kWeights, 0);
}

// Forwards until the first backward can begin, then pairs in the steady state, then the rest. Add
// ignores a pass beyond the number of micro-batches, so the phases need no bounds of their own for
// few micro-batches.
void Vee(const PipelineShape& shape, int stage, Writer* out) {
  const int to_end = shape.stages - stage;
  const auto backward = [out](int chunk) {
    out->Add(PassKind::kInputs, chunk);
    out->Add(PassKind::kWeights, chunk);
  };
  for (int i = 0; i < 2 * to_end - 1; ++i) out->Add(PassKind::kForward, 0);
  for (int i = 0; i < stage; ++i) {
    out->Add(PassKind::kForward, 1);
    out->Add(PassKind::kForward, 0);
  }
  for (int i = 0; i < to_end; ++i) {
    out->Add(PassKind::kForward, 1);
    backward(1);
  }
  while (!out->Full(PassKind::kForward, 1)) {
    out->Add(PassKind::kForward, 0);
    backward(0);
    out->Add(PassKind::kForward, 1);
    backward(1);
  }
  while (!out->Full(PassKind::kInputs, 1)) {
    out->Add(PassKind::kInputs, 0);
    out->Add(PassKind::kInputs, 1);
  }
  while (!out->Full(PassKind::kInputs, 0)) backward(0);
  while (!out->Full(PassKind::kWeights, 1)) out->Add(PassKind::kWeights, 1);
  while (!out->Full(PassKind::kWeights, 0)) out->Add(PassKind::kWeights, 0);
}

// Chunk 0 is of the direction whose first stage is nearer.
void Dual(const PipelineShape& shape, int stage, Writer* out) {
  const int from_end = std::min(stage, shape.stages - 1 - stage);
  const int to_middle = shape.stages / 2 - 1 - from_end;
  const auto together = [out](int forward, int backward) {
    out->Add(PassKind::kForward, forward, true);
    out->Add(PassKind::kBackward, backward);
  };
  for (int i = 0; i < 2 * to_middle; ++i) out->Add(PassKind::kForward, 0);
  for (int i = 0; i < from_end + 1; ++i) {
    out->Add(PassKind::kForward, 0);
    out->Add(PassKind::kForward, 1);
  }
  for (int i = 0; i < to_middle; ++i) {
    out->Add(PassKind::kInputs, 1);
    out->Add(PassKind::kWeights, 1);
    out->Add(PassKind::kForward, 1);
  }
  const int steady = shape.micro_batches / 2 - shape.stages + from_end + 1;
  for (int i = 0; i < steady; ++i) {
    // In the middle the first backward needs what the other one is about to send.
    if (i == 0 && to_middle == 0) {
      out->Add(PassKind::kForward, 0);
      out->Add(PassKind::kBackward, 1);
    } else {
      together(0, 1);
    }
    together(1, 0);
  }
  for (int i = 0; i < to_middle; ++i) {
    out->Add(PassKind::kBackward, 1);
    together(1, 0);
  }
  std::deque<int> weights;  // of these chunks are left
  for (int i = 0; i < 2 * (from_end + 1); ++i) {
    const int chunk = i % 2 == 0 ? 1 : 0;
    out->Add(i <= from_end ? PassKind::kBackward : PassKind::kInputs, chunk);
    if (i > from_end) weights.push_back(chunk);
  }
  const auto next_weights = [&] {
    out->Add(PassKind::kWeights, weights.front());
    weights.pop_front();
  };
  for (int i = 0; i < to_middle; ++i) {
    next_weights();
    out->Add(PassKind::kInputs, 0);
    weights.push_back(0);
  }
  while (!weights.empty()) next_weights();
}

constexpr std::array<std::string_view, kSchedules> kNames = {"1F1B",  "interleaved", "ZB-H1",
                                                             "ZB-H2", "ZB-V",        "DualPipe"};

bool SameFolded(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::string_view ToString(Schedule schedule) { return kNames[static_cast<size_t>(schedule)]; }

std::optional<Schedule> ParseSchedule(std::string_view name) {
  for (size_t i = 0; i < kSchedules; ++i) {
    if (SameFolded(name, kNames[i])) return static_cast<Schedule>(i);
  }
  return std::nullopt;
}

bool IsDefined(const PipelineShape& shape) {
  const int stages = shape.stages, micro_batches = shape.micro_batches;
  if (stages < 1 || micro_batches < 1 || shape.chunks < 1) return false;
  switch (shape.schedule) {
    case Schedule::kInterleaved:
      return micro_batches % stages == 0;
    case Schedule::kZeroBubbleV:
      return shape.chunks == 2;
    case Schedule::kDualPipe:
      return shape.chunks == 2 && stages % 2 == 0 && micro_batches % 2 == 0 &&
             micro_batches >= 2 * stages;
    case Schedule::kOneForwardOneBackward:
    case Schedule::kZeroBubbleH1:
    case Schedule::kZeroBubbleH2:
      break;
  }
  return shape.chunks == 1;
}

std::vector<Pass> PassesOf(const PipelineShape& shape, int stage) {
  CHECK(IsDefined(shape) && stage >= 0 && stage < shape.stages);
  if (shape.schedule == Schedule::kInterleaved) return Interleaved(shape, stage);
  const int to_last = shape.stages - 1 - stage;
  Writer out(shape);
  switch (shape.schedule) {
    case Schedule::kInterleaved:
      break;
    case Schedule::kOneForwardOneBackward:
    case Schedule::kZeroBubbleH1:
      OneByOne(shape, to_last, stage, &out);
      break;
    case Schedule::kZeroBubbleH2:
      OneByOne(shape, 2 * to_last, 2 * stage, &out);
      break;
    case Schedule::kZeroBubbleV:
      Vee(shape, stage, &out);
      break;
    case Schedule::kDualPipe:
      Dual(shape, stage, &out);
      break;
  }
  return out.Passes(shape.chunks);
}

int WeightPasses(const PipelineShape& shape, int stage) {
  switch (shape.schedule) {
    case Schedule::kOneForwardOneBackward:
    case Schedule::kInterleaved:
      return 0;
    case Schedule::kZeroBubbleH1:
    case Schedule::kZeroBubbleH2:
    case Schedule::kZeroBubbleV:
      return shape.micro_batches * shape.chunks;
    case Schedule::kDualPipe:
      break;
  }
  return shape.stages - 1 - std::min(stage, shape.stages - 1 - stage);
}

ModelPlace PlaceOf(const PipelineShape& shape, int stage, int chunk) {
  const int mirrored = shape.stages - 1 - stage;
  if (shape.schedule == Schedule::kDualPipe) {
    const int line = stage < shape.stages / 2 ? chunk : 1 - chunk;
    return {line, line == 0 ? stage : mirrored};
  }
  if (shape.schedule == Schedule::kZeroBubbleV && chunk == 1) return {0, shape.stages + mirrored};
  return {0, chunk * shape.stages + stage};
}

int StageAt(const PipelineShape& shape, ModelPlace place) {
  const int at = place.at % shape.stages;
  const bool upwards = shape.schedule == Schedule::kDualPipe
                           ? place.line == 1
                           : shape.schedule == Schedule::kZeroBubbleV && place.at >= shape.stages;
  return upwards ? shape.stages - 1 - at : at;
}

int ChunkAt(const PipelineShape& shape, ModelPlace place) {
  if (shape.schedule != Schedule::kDualPipe) return place.at / shape.stages;
  return StageAt(shape, place) < shape.stages / 2 ? place.line : 1 - place.line;
}

int LineLength(const PipelineShape& shape) {
  return shape.schedule == Schedule::kDualPipe ? shape.stages : shape.stages * shape.chunks;
}

}  // namespace longhaul::profiler
