#include "profiler/across/schedule_play.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace longhaul::profiler {
namespace {

constexpr double kUnknownTime = -1;
constexpr int kMostStages = 1'024;

class Player {
 public:
  Player(const PipelineShape& shape, const PassTimes& times)
      : shape_(shape), times_(times), length_(static_cast<size_t>(LineLength(shape))) {
    for (auto* lines : {&forward_, &backward_}) {
      for (auto& line : *lines) line.resize(length_);
    }
    for (int stage = 0; stage < shape.stages; ++stage) {
      stages_.emplace_back().passes = PassesOf(shape, stage);
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        stages_.back().places.push_back(PlaceOf(shape, stage, chunk));
      }
      stages_.back().seen.resize(static_cast<size_t>(shape.chunks));
    }
  }

  // Stages advance in any order: a pass starts at a time that only its inputs and its stage's
  // earlier passes determine, so the sequence of the loop has no effect on the times. A defined
  // schedule has no cycle, so a sweep in which nothing moved is the end.
  double Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Stage& stage : stages_) {
        while (Advance(&stage)) moved = true;
      }
    }
    double idle = 0;
    for (const Stage& stage : stages_) {
      CHECK(stage.at == stage.passes.size()) << "the schedule is stuck";
    }
    for (const Stage& stage : stages_) idle = std::max(idle, stage.free - stage.begin - stage.busy);
    return idle;
  }

 private:
  struct Stage {
    std::vector<Pass> passes;
    std::vector<ModelPlace> places;           // [chunk]
    std::vector<std::array<size_t, 2>> seen;  // [chunk]: forwards, backwards
    size_t at = 0;
    double free = 0, busy = 0, begin = kUnknownTime;
  };

  double TimeOf(Pass::Kind kind) const {
    switch (kind) {
      case Pass::Kind::kForward:
        return times_.forward;
      case Pass::Kind::kBackward:
        return times_.inputs + times_.weights;
      case Pass::Kind::kInputs:
        return times_.inputs;
      case Pass::Kind::kWeights:
        break;
    }
    return times_.weights;
  }

  // When what the pass works on is there; kUnknownTime: not yet. A stage's forwards precede its
  // backwards by its own order.
  double Ready(const Stage& stage, const Pass& pass) const {
    const auto chunk = static_cast<size_t>(pass.chunk);
    const ModelPlace place = stage.places[chunk];
    const auto at = static_cast<size_t>(place.at);
    if (pass.kind == Pass::Kind::kForward) {
      if (at == 0) return 0;
      const auto& ends = forward_[static_cast<size_t>(place.line)][at - 1];
      return stage.seen[chunk][0] < ends.size() ? ends[stage.seen[chunk][0]] : kUnknownTime;
    }
    if (pass.kind == Pass::Kind::kWeights || at + 1 == length_) return 0;
    const auto& ends = backward_[static_cast<size_t>(place.line)][at + 1];
    return stage.seen[chunk][1] < ends.size() ? ends[stage.seen[chunk][1]] : kUnknownTime;
  }

  // Runs the stage's next pass, with the one that it is joined to; false if it can't.
  bool Advance(Stage* stage) {
    if (stage->at == stage->passes.size()) return false;
    const size_t together = stage->passes[stage->at].joined ? 2 : 1;
    double begin = stage->free, length = 0;
    for (size_t i = 0; i < together; ++i) {
      const Pass& pass = stage->passes[stage->at + i];
      const double ready = Ready(*stage, pass);
      if (ready == kUnknownTime) return false;
      begin = std::max(begin, ready);
      length += TimeOf(pass.kind);
    }
    if (stage->begin == kUnknownTime) stage->begin = begin;
    stage->free = begin + length;
    stage->busy += length;
    for (size_t i = 0; i < together; ++i, ++stage->at) {
      const Pass& pass = stage->passes[stage->at];
      if (pass.kind == Pass::Kind::kWeights) continue;
      const auto chunk = static_cast<size_t>(pass.chunk);
      const ModelPlace place = stage->places[chunk];
      const bool forward = pass.kind == Pass::Kind::kForward;
      ++stage->seen[chunk][forward ? 0 : 1];
      (forward ? forward_
               : backward_)[static_cast<size_t>(place.line)][static_cast<size_t>(place.at)]
          .push_back(stage->free);
    }
    return true;
  }

  const PipelineShape shape_;
  const PassTimes times_;
  const size_t length_;
  std::vector<Stage> stages_;
  // When the passes of each place are done: [line][place][micro-batch].
  std::array<std::vector<std::vector<double>>, 2> forward_, backward_;
};

}  // namespace

double IdleOf(const PipelineShape& shape, const PassTimes& times) {
  PipelineShape played = shape;
  // The steady part has no bubbles: more micro-batches than fill and drain need change nothing.
  played.micro_batches = std::min(shape.micro_batches, 4 * std::min(shape.stages, kMostStages));
  if (shape.stages > kMostStages || !IsDefined(shape)) return 0;
  return Player(played, times).Run();
}

}  // namespace longhaul::profiler
