#include "training/layout.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace longhaul::training {
namespace {

std::string Both(std::string_view what, uint64_t whole, std::string_view over, uint64_t parts) {
  return std::string(what) + " (" + std::to_string(whole) + ") cannot be divided over " +
         std::string(over) + " (" + std::to_string(parts) + ")";
}

constexpr auto kSchedules = std::to_array<std::pair<std::string_view, ScheduleKind>>({
    {"1f1b", ScheduleKind::kOneForwardOneBackward},
    {"interleaved", ScheduleKind::kInterleaved},
    {"zero-bubble", ScheduleKind::kZeroBubble},
});

Status TakeNumber(std::string_view word, std::string_view prefix, uint32_t& to) {
  constexpr uint64_t kMost = 1 << 16;
  const Result<uint64_t> number = ParseUint64(word.substr(prefix.size()));
  if (!number.ok() || *number == 0 || *number > kMost) {
    return InvalidArgument("layout: '" + Printable(word, 40) + "' must be " + std::string(prefix) +
                           " and a number from 1 to " + std::to_string(kMost));
  }
  to = static_cast<uint32_t>(*number);
  return {};
}

Status TakePipeline(std::string_view word, Layout& layout) {
  const size_t cross = word.find('x');
  RETURN_IF_ERROR(TakeNumber(word.substr(0, cross), "pp", layout.pipeline));
  if (cross == std::string_view::npos) return {};
  return TakeNumber(word.substr(cross), "x", layout.chunks);
}

Status TakeWord(std::string_view word, Layout& layout) {
  if (word == "sp") {
    layout.sequence = true;
    return {};
  }
  if (word == "recompute") {
    layout.recompute = true;
    return {};
  }
  for (const auto& [name, kind] : kSchedules) {
    if (word != name) continue;
    layout.schedule = kind;
    return {};
  }
  if (word.starts_with("zero") && word.size() == 5 && word[4] >= '1' && word[4] <= '3') {
    layout.slicing = static_cast<Slicing>(word[4] - '0');
    return {};
  }
  if (word.starts_with("pp")) return TakePipeline(word, layout);
  const auto numbers = std::to_array<std::pair<std::string_view, uint32_t*>>({
      {"dp", &layout.data},
      {"tp", &layout.tensor},
      {"cp", &layout.context},
      {"ep", &layout.expert},
      {"mb", &layout.micro_batches},
  });
  for (const auto& [prefix, to] : numbers) {
    if (word.starts_with(prefix)) return TakeNumber(word, prefix, *to);
  }
  return InvalidArgument(
      "layout: '" + Printable(word, 40) +
      "' is not known: dp, tp, cp, ep, pp, mb with a number, sp, zero1 to zero3, "
      "1f1b, interleaved, zero-bubble, recompute");
}

}  // namespace

std::string ToString(const Layout& layout) {
  std::vector<std::string> words;
  const auto number = [&](const char* name, uint32_t value) {
    if (value > 1) words.push_back(name + std::to_string(value));
  };
  number("dp", layout.data);
  number("tp", layout.tensor);
  if (layout.sequence) words.emplace_back("sp");
  number("cp", layout.context);
  number("ep", layout.expert);
  if (layout.slicing != Slicing::kNone) {
    words.push_back("zero" + std::to_string(static_cast<int>(layout.slicing)));
  }
  if (layout.chunks > 1) {
    words.push_back("pp" + std::to_string(layout.pipeline) + "x" + std::to_string(layout.chunks));
  } else {
    number("pp", layout.pipeline);
  }
  for (const auto& [name, kind] : kSchedules) {
    if (kind == layout.schedule && kind != ScheduleKind::kOneForwardOneBackward) {
      words.emplace_back(name);
    }
  }
  number("mb", layout.micro_batches);
  if (layout.recompute) words.emplace_back("recompute");
  return words.empty() ? "dp1" : Join(words, " ");
}

Result<Layout> ParseLayout(const std::string& text) {
  Layout layout;
  for (const std::string_view word : Split(text, ' ')) {
    if (!word.empty()) RETURN_IF_ERROR(TakeWord(word, layout));
  }
  return layout;
}

Status CheckLayout(const ModelConfig& config, const Layout& layout, uint32_t global_batch) {
  const spec::Model& shape = config.shape;
  const auto refuse = [](const std::string& why) { return InvalidArgument("layout: " + why); };
  const uint64_t replicas = uint64_t{layout.data} * layout.micro_batches;
  if (global_batch % replicas != 0) {
    return refuse(Both("the batch", global_batch, "data * micro batches", replicas));
  }
  if (shape.heads % layout.tensor != 0) {
    return refuse(Both("heads", shape.heads, "tensor", layout.tensor));
  }
  if (shape.kv_heads % layout.tensor != 0 && layout.tensor % shape.kv_heads != 0) {
    return refuse(Both("kv_heads", shape.kv_heads, "tensor", layout.tensor));
  }
  if (layout.data % layout.expert != 0) {
    return refuse(Both("data", layout.data, "expert", layout.expert));
  }
  if (layout.expert > 1 && !shape.experts.has_value()) {
    return refuse("expert is " + std::to_string(layout.expert) + ", but the model has no experts");
  }
  if (shape.experts.has_value() && shape.experts->count % layout.expert != 0) {
    return refuse(Both("experts", shape.experts->count, "expert", layout.expert));
  }
  const uint32_t pieces = layout.context > 1 ? 2 * layout.context : 1;
  if (shape.sequence_length % pieces != 0) {
    return refuse(Both("the sequence", shape.sequence_length, "2 * context", pieces));
  }
  const uint32_t tokens = shape.sequence_length / layout.context;
  if (layout.sequence && tokens % layout.tensor != 0) {
    return refuse(Both("a rank's tokens", tokens, "tensor", layout.tensor));
  }
  if (layout.stages() > shape.layers) {
    return refuse(Both("layers", shape.layers, "stages", layout.stages()));
  }
  if (layout.schedule == ScheduleKind::kInterleaved &&
      layout.micro_batches % layout.pipeline != 0) {
    return refuse(Both("the micro batches of an interleaved schedule", layout.micro_batches,
                       "pipeline", layout.pipeline));
  }
  if (layout.chunks > 1 && layout.schedule != ScheduleKind::kInterleaved) {
    return refuse("chunks are of interleaved schedules only");
  }
  return {};
}

Place PlaceOf(const Layout& layout, uint32_t rank) {
  CHECK(rank < layout.world());
  Place place;
  place.part = rank % layout.tensor;
  rank /= layout.tensor;
  place.ring = rank % layout.context;
  rank /= layout.context;
  place.replica = rank % layout.data;
  place.stage = rank / layout.data;
  place.expert_part = place.replica % layout.expert;
  place.expert_replica = place.replica / layout.expert;
  return place;
}

uint32_t RankOf(const Layout& layout, const Place& place) {
  return ((place.stage * layout.data + place.replica) * layout.context + place.ring) *
             layout.tensor +
         place.part;
}

namespace {

template <typename Belongs>
std::vector<uint32_t> RanksWhere(const Layout& layout, uint32_t rank, Belongs belongs) {
  const Place own = PlaceOf(layout, rank);
  std::vector<uint32_t> ranks;
  for (uint32_t other = 0; other < layout.world(); ++other) {
    if (belongs(own, PlaceOf(layout, other))) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace

std::vector<uint32_t> RanksOf(const Layout& layout, uint32_t rank, const Span& span) {
  return RanksWhere(layout, rank, [&](const Place& a, const Place& b) {
    return (span.part || a.part == b.part) && (span.ring || a.ring == b.ring) &&
           (span.replica || a.replica == b.replica) && (span.stage || a.stage == b.stage);
  });
}

std::vector<uint32_t> ExpertRanks(const Layout& layout, uint32_t rank) {
  return RanksWhere(layout, rank, [](const Place& a, const Place& b) {
    return a.part == b.part && a.ring == b.ring && a.stage == b.stage &&
           a.expert_replica == b.expert_replica;
  });
}

std::vector<uint32_t> ExpertReplicas(const Layout& layout, uint32_t rank) {
  return RanksWhere(layout, rank, [](const Place& a, const Place& b) {
    return a.part == b.part && a.stage == b.stage && a.expert_part == b.expert_part;
  });
}

Cut CutOf(int64_t whole, uint32_t parts, uint32_t part) {
  return {whole * part / parts, whole * (part + 1) / parts};
}

std::vector<int64_t> PositionsOf(int64_t sequence, uint32_t context, uint32_t ring) {
  std::vector<int64_t> positions(static_cast<size_t>(sequence / context));
  if (context == 1) {
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }
  const int64_t piece = sequence / (2 * context);
  const auto middle = positions.begin() + piece;
  std::iota(positions.begin(), middle, ring * piece);
  std::iota(middle, positions.end(), (2 * context - 1 - ring) * piece);
  return positions;
}

}  // namespace longhaul::training
