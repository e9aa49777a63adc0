#include "spec/job/step_pattern.h"

#include <re2/re2.h>

#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/text.h"

namespace longhaul::spec {
namespace {

constexpr int64_t kMatcherBytes = 1 << 20;
constexpr int kMaxGroups = 32;
constexpr uint64_t kMaxPatternStep = 1'000'000'000'000;
constexpr uint64_t kMaxEpoch = 1'000'000;
constexpr size_t kMaxNumberBytes = 64;

// A number as Python prints it.
#define NUMBER R"([-+0-9.eE]+)"

constexpr auto kPresets = std::to_array<StepPreset>({
    {"nanogpt", R"(^iter (?P<step>\d+): loss (?P<loss>)" NUMBER ")",
     "iter 10: loss 3.1234, time 123.45ms, mfu 3.21%"},
    {"lightning",
     R"(^Epoch (?P<epoch>\d+):\s+\d+%\|[^|]*\|\s*(?P<step>\d+)/(?P<total>\d+) \[)"
     R"((?:.*[ ,](?:train_)?loss(?:_step)?=(?P<loss>)" NUMBER "))?",
     "Epoch 0:  10%|#         | 10/100 [00:01<00:09, 9.80it/s, v_num=0, train_loss=0.123]"},
    {"huggingface",
     R"(^\s*\d+%\|[^|]*\|\s*(?P<step>\d+)/(?P<total>\d+) \[|^\s*\{'loss': '?(?P<loss>)" NUMBER ")",
     " 10%|#         | 10/100 [00:10<01:30,  1.00s/it]"},
    {"torchtitan", R"(\bstep:\s*(?P<step>\d+)\s+loss:\s*(?P<loss>)" NUMBER ")",
     "[rank0]:[titan] 2025-01-01 00:00:00,000 - root - INFO - step: 10  loss:  7.2713  memory: "
     "..."},
    {"megatron",
     R"(\biteration\s+(?P<step>\d+)/\s*(?P<total>\d+) \|(?:.*\blm loss: (?P<loss>)" NUMBER "))?",
     " iteration       10/     100 | consumed samples: 160 | ... | lm loss: 1.012E+01 | ..."},
    {"deepspeed", R"(\bstep=(?P<step>\d+), skipped=\d+)",
     "[2025-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, ..."},
});

#undef NUMBER

std::string PresetNames() {
  std::string names;
  for (const StepPreset& preset : kPresets)
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

bool IsWord(std::string_view text) {
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_') return false;
  }
  return true;
}

std::optional<uint64_t> Whole(const re2::StringPiece& piece, uint64_t most) {
  const Result<uint64_t> number = ParseUint64({piece.data(), piece.size()});
  if (!number.ok() || *number > most) return std::nullopt;
  return *number;
}

std::optional<double> Real(re2::StringPiece piece) {
  if (piece.empty() || piece.size() > kMaxNumberBytes) return std::nullopt;
  // A sentence's end or a list's comma may stick to it.
  while (!piece.empty() && (piece[piece.size() - 1] == '.' || piece[piece.size() - 1] == ',')) {
    piece.remove_suffix(1);
  }
  const Result<double> number = ParseDouble({piece.data(), piece.size()});
  if (!number.ok() || !std::isfinite(*number)) return std::nullopt;
  return *number;
}

}  // namespace

std::span<const StepPreset> StepPresets() { return kPresets; }

StepPattern::StepPattern(std::shared_ptr<const re2::RE2> matcher) : matcher_(std::move(matcher)) {
  groups_ = matcher_->NumberOfCapturingGroups();
  const auto& names = matcher_->NamedCapturingGroups();
  const auto group = [&names](const char* name) {
    const auto found = names.find(name);
    return found == names.end() ? 0 : found->second;
  };
  step_ = group("step");
  total_ = group("total");
  loss_ = group("loss");
  epoch_ = group("epoch");
}

const std::string& StepPattern::expression() const { return matcher_->pattern(); }

Result<StepPattern> StepPattern::Parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return InvalidArgument("a step pattern has at most 1,000 bytes, not " +
                           std::to_string(text.size()));
  }
  std::string expression(text);
  for (const StepPreset& preset : kPresets) {
    if (text == preset.name) expression = preset.expression;
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kMatcherBytes);
  auto matcher = std::make_shared<const re2::RE2>(expression, options);
  const std::string shown = "'" + Printable(text, 80) + "'";
  if (!matcher->ok()) {
    return InvalidArgument(shown + " is not a regular expression: " + Printable(matcher->error()));
  }
  if (matcher->NumberOfCapturingGroups() > kMaxGroups) {
    return InvalidArgument(shown + " has more than 32 groups");
  }
  for (const auto& [name, number] : matcher->NamedCapturingGroups()) {
    if (name == "step" || name == "total" || name == "loss" || name == "epoch") continue;
    return InvalidArgument(shown + " has a group named '" + Printable(name, 40) +
                           "'; the names are step, total, loss and epoch");
  }
  StepPattern pattern(std::move(matcher));
  if (pattern.step_ == 0) {
    return InvalidArgument(
        shown + (IsWord(text) ? " is not a preset (" + PresetNames() + ")"
                              : " has no group named step: write (?P<step>\\d+) for the number"));
  }
  if (pattern.epoch_ != 0 && pattern.total_ == 0) {
    return InvalidArgument(shown +
                           " has a group named epoch, so it needs one named total beside it: the "
                           "steps of an epoch");
  }
  return pattern;
}

std::optional<StepInLine> StepPattern::Find(std::string_view line) const {
  std::array<re2::StringPiece, kMaxGroups + 1> groups;
  const re2::StringPiece text(line.data(), line.size());
  if (!matcher_->Match(text, 0, text.size(), re2::RE2::UNANCHORED, groups.data(), groups_ + 1)) {
    return std::nullopt;
  }
  const auto group = [&groups](int number) { return groups[static_cast<size_t>(number)]; };
  StepInLine found;
  if (loss_ != 0) found.loss = Real(group(loss_));
  if (group(step_).empty()) {
    if (!found.loss.has_value()) return std::nullopt;
    return found;
  }
  found.step = Whole(group(step_), kMaxPatternStep);
  if (!found.step.has_value()) return std::nullopt;
  if (total_ != 0 && !group(total_).empty()) {
    found.bar = Whole(group(total_), kMaxPatternStep).value_or(0);
    if (found.bar == 0 || *found.step > found.bar) return std::nullopt;
    found.total = found.bar;
  }
  if (epoch_ != 0) {
    const std::optional<uint64_t> epoch = Whole(group(epoch_), kMaxEpoch);
    if (!epoch.has_value() || found.bar == 0) return std::nullopt;
    *found.step += *epoch * found.bar;
    found.total = 0;  // how many epochs there are is not known
    if (*found.step > kMaxPatternStep) return std::nullopt;
  }
  return found;
}

}  // namespace longhaul::spec
