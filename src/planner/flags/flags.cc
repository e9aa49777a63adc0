#include "planner/flags/flags.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "planner/flags/internal/writers.h"

namespace longhaul::planner::flags {
namespace internal {
namespace {

// What needs no quotes in a POSIX shell.
bool IsPlain(std::string_view word) {
  return !word.empty() && word.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                              "XYZ0123456789-_./:,=+") == std::string_view::npos;
}

// The lines are pasted into a shell, and names come from users' files. Within single quotes only
// the quote itself is special: it ends the word, follows escaped, and opens the word again.
std::string Quoted(std::string_view word) {
  if (IsPlain(word)) return std::string(word);
  std::string text = "'";
  for (const char c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

}  // namespace

void Options::Flag(std::string_view name) {
  words_.emplace_back(name);
  lines_.emplace_back(name);
}

void Options::Value(std::string_view name, std::string_view value) {
  words_.emplace_back(name);
  words_.emplace_back(value);
  lines_.push_back(std::string(name) + " " + Quoted(value));
}

void Options::Value(std::string_view name, uint64_t value) { Value(name, std::to_string(value)); }

void Options::List(std::string_view name, const std::vector<std::string>& values) {
  words_.emplace_back(name);
  lines_.emplace_back(name);
  for (const std::string& value : values) {
    words_.push_back(value);
    lines_.back() += " " + Quoted(value);
  }
}

std::string Options::Lines() const {
  std::string text;
  for (size_t i = 0; i < lines_.size(); ++i) {
    text += "  " + lines_[i] + (i + 1 < lines_.size() ? " \\\n" : "\n");
  }
  return text;
}

std::string CommentName(const spec::Model& model) {
  return model.name.empty() ? "unnamed model" : Printable(model.name, 60);
}

uint64_t Nodes(const spec::DeviceCluster& cluster) {
  const uint32_t a_node = std::max(1u, cluster.devices_per_node);
  return (cluster.devices + a_node - 1) / a_node;
}

uint32_t ShardGroup(const spec::Layout& layout) {
  return layout.shard_group == 0 ? layout.data : layout.shard_group;
}

// Orders that differ only in dimensions of size 1 place all ranks alike, so a framework with one
// fixed order can still express the layout.
bool SamePlaces(const spec::Layout& layout, const spec::PlacementOrder& order) {
  if (layout.order == order) return true;
  spec::Layout other = layout;
  other.order = order;
  return std::all_of(order.begin(), order.end(), [&](spec::Dimension dimension) {
    return layout.size(dimension) == 1 || layout.stride(dimension) == other.stride(dimension);
  });
}

uint32_t MicroBatches(const spec::Training& training) {
  const uint64_t a_pass = uint64_t{training.layout.data} * training.batch.micro;
  CHECK(a_pass > 0);
  return static_cast<uint32_t>((training.batch.global + a_pass - 1) / a_pass);
}

}  // namespace internal

namespace {

using Check = Status (*)(const Question&);
using Write = Launch (*)(const Question&);

struct Writer {
  Framework framework;
  std::string_view name;
  std::string_view releases;
  Check check;
  Write write;
};

constexpr std::array<Writer, 4> kWriters{{
    {Framework::kMegatron, "megatron", "Megatron-LM core_v0.14.0 to core_v0.19.0",
     internal::CheckMegatron, internal::WriteMegatron},
    {Framework::kDeepSpeed, "deepspeed", "DeepSpeed 0.14 to 0.19.8", internal::CheckDeepSpeed,
     internal::WriteDeepSpeed},
    {Framework::kTorchtitan, "torchtitan", "torchtitan v0.2.0 to v0.2.2", internal::CheckTorchtitan,
     internal::WriteTorchtitan},
    {Framework::kLonghaul, "longhaul", "Longhaul job file", internal::CheckLonghaul,
     internal::WriteLonghaul},
}};

const Writer& WriterOf(Framework framework) {
  for (const Writer& writer : kWriters) {
    if (writer.framework == framework) return writer;
  }
  CHECK(false) << "a framework without a writer";
  return kWriters[0];
}

}  // namespace

Result<Framework> ParseFramework(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Writer& writer : kWriters) {
    if (writer.name == name) return writer.framework;
    names.push_back(writer.name);
  }
  const auto meant = Nearest(name, names);
  return NotFound("no framework named " + Printable(name) +
                  (meant ? ", did you mean " + std::string(*meant) + "?" : "") +
                  "; known are megatron, deepspeed, torchtitan, longhaul");
}

std::string_view ToString(Framework framework) { return WriterOf(framework).name; }
std::string_view Releases(Framework framework) { return WriterOf(framework).releases; }

Status CheckExpressible(Framework framework, const Question& question) {
  if (question.training.recompute.kind == spec::RecomputeKind::kByStage) {
    return Unimplemented(std::string(ToString(framework)) +
                         " has one recompute for all pipeline stages, none for each by itself");
  }
  return WriterOf(framework).check(question);
}

Result<Launch> WriteLaunch(Framework framework, const Question& question) {
  RETURN_IF_ERROR(CheckExpressible(framework, question));
  return WriterOf(framework).write(question);
}

}  // namespace longhaul::planner::flags
