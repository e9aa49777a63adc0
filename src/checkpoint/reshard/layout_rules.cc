#include "checkpoint/reshard/layout_rules.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.h"

namespace longhaul::checkpoint {
namespace {

constexpr int64_t kMaxIndex = 100'000;  // of a layer or expert
constexpr size_t kMaxRules = 10'000;

// -1: the pattern has no such part.
struct Match {
  int64_t layer = -1;
  int64_t expert = -1;
};

// Both separators occur: older checkpoints join the names of a tree with slashes.
std::vector<std::string_view> Parts(std::string_view name) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    if (i == name.size() || name[i] == '.' || name[i] == '/') {
      parts.push_back(name.substr(from, i - from));
      from = i + 1;
    }
  }
  return parts;
}

// Whether `text` is the pattern, in which * stands for any text.
bool Glob(std::string_view pattern, std::string_view text) {
  size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  // What stands between two stars is taken where it occurs first: a later place leaves less text to
  // what follows. So the time is at most the product of the lengths, whatever a file contains.
  for (star = pattern.find('*'); star != std::string_view::npos; star = pattern.find('*')) {
    const size_t at = text.find(pattern.substr(0, star));
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + star);
    pattern.remove_prefix(star + 1);
  }
  return text.ends_with(pattern);
}

bool MatchPart(std::string_view pattern, std::string_view part, Match& match) {
  const bool layer = pattern == "{layer}";
  if (!layer && pattern != "{expert}") return Glob(pattern, part);
  const Result<int64_t> number = ParseInt64(part);
  if (!number.ok() || *number < 0 || *number > kMaxIndex) return false;
  (layer ? match.layer : match.expert) = *number;
  return true;
}

// The pattern may begin at any part of the name, so that a prefix such as "model." or an
// optimizer's "state." does not matter, and so that an optimizer's tensor follows the rule of its
// weight.
std::optional<Match> MatchName(const std::vector<std::string_view>& pattern,
                               const std::vector<std::string_view>& name) {
  for (size_t from = 0; from + pattern.size() <= name.size(); ++from) {
    Match match;
    size_t i = 0;
    while (i < pattern.size() && MatchPart(pattern[i], name[from + i], match)) ++i;
    if (i == pattern.size()) return match;
  }
  return std::nullopt;
}

// torch.optim's names for state, the built-in trainer's, DeepSpeed's and Apex's.
bool IsOptimizerState(const std::vector<std::string_view>& name) {
  constexpr std::string_view kWords[] = {"exp_avg",         "exp_avg_sq", "max_exp_avg_sq",
                                         "momentum_buffer", "square_avg", "first_moment",
                                         "second_moment",   "fp32_param", "master_param"};
  return std::any_of(name.begin(), name.end(), [&](std::string_view part) {
    return std::find(std::begin(kWords), std::end(kWords), part) != std::end(kWords);
  });
}

std::optional<TensorPlace> ParsePlace(const std::string& text) {
  if (text == "first") return TensorPlace::kFirstStage;
  if (text == "last") return TensorPlace::kLastStage;
  if (text == "every") return TensorPlace::kEveryStage;
  return std::nullopt;
}

Result<NameRule> ParseRule(const nlohmann::json& entry, const std::string& what) {
  if (!entry.is_object()) return InvalidArgument(what + " is no object");
  NameRule rule;
  // An unknown key is an error: a misspelled rule would divide tensors in another way than its
  // author expects.
  for (const auto& [key, value] : entry.items()) {
    const bool number = value.is_number_integer() && value >= -1 && value <= 4096;
    if (key == "match" && value.is_string() && !value.get<std::string>().empty()) {
      rule.match = value.get<std::string>();
    } else if (key == "dim" && number && value < static_cast<int>(kMaxDims)) {
      rule.dim = value.get<int>();
    } else if (key == "fused" && number && value >= 1) {
      rule.fused = value.get<uint32_t>();
    } else if (key == "uneven" && value.is_boolean()) {
      rule.uneven = value.get<bool>();
    } else if (key == "place" && value.is_string() && ParsePlace(value.get<std::string>())) {
      rule.place = *ParsePlace(value.get<std::string>());
    } else {
      return InvalidArgument(what + ": " + Printable(key) +
                             " is unknown or has a value that can't be; there are match, dim (-1 "
                             "to 7), fused (1 to 4096), place (first, last, every) and uneven "
                             "(true, false)");
    }
  }
  if (rule.match.empty()) return InvalidArgument(what + " has no match");
  return rule;
}

}  // namespace

const std::vector<NameRule>& BuiltInRules() {
  using enum TensorPlace;
  // The first rule that matches counts, so specific rules stand before the general ones for what
  // else a layer has.
  static const std::vector<NameRule> kRules = {
      // The built-in trainer (trainer/model/parameters.cc).
      {"layers.{layer}.attention.qkv.*", 0, 3, kEveryStage},
      {"layers.{layer}.attention.output.weight", 1, 1, kEveryStage},
      {"layers.{layer}.mlp.up.*", 0, 1, kEveryStage},
      {"layers.{layer}.mlp.down.weight", 1, 1, kEveryStage},
      {"embedding.token.weight", 0, 1, kFirstStage, true},
      {"embedding.previous.*.weight", 0, 1, kFirstStage, true},
      {"embedding.position.weight", -1, 1, kFirstStage},
      {"model.output.weight", 0, 1, kLastStage, true},
      // Hugging Face: Llama, Qwen, Mistral, and Mixtral's experts.
      {"layers.{layer}.self_attn.q_proj.*", 0, 1, kEveryStage},
      {"layers.{layer}.self_attn.k_proj.*", 0, 1, kEveryStage},
      {"layers.{layer}.self_attn.v_proj.*", 0, 1, kEveryStage},
      {"layers.{layer}.self_attn.o_proj.weight", 1, 1, kEveryStage},
      {"layers.{layer}.mlp.gate_proj.*", 0, 1, kEveryStage},
      {"layers.{layer}.mlp.up_proj.*", 0, 1, kEveryStage},
      {"layers.{layer}.mlp.down_proj.weight", 1, 1, kEveryStage},
      {"layers.{layer}.mlp.experts.{expert}.gate_proj.weight", 0, 1, kEveryStage},
      {"layers.{layer}.mlp.experts.{expert}.up_proj.weight", 0, 1, kEveryStage},
      {"layers.{layer}.mlp.experts.{expert}.down_proj.weight", 1, 1, kEveryStage},
      {"layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight", 0, 1, kEveryStage},
      {"layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight", 0, 1, kEveryStage},
      {"layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight", 1, 1, kEveryStage},
      {"embed_tokens.weight", 0, 1, kFirstStage},
      {"lm_head.weight", 0, 1, kLastStage},
      // Megatron Core's GPT.
      {"layers.{layer}.self_attention.linear_qkv.*", 0, 1, kEveryStage},
      {"layers.{layer}.self_attention.linear_proj.weight", 1, 1, kEveryStage},
      {"layers.{layer}.mlp.linear_fc1.*", 0, 2, kEveryStage},
      {"layers.{layer}.mlp.linear_fc2.weight", 1, 1, kEveryStage},
      {"layers.{layer}.mlp.experts.local_experts.{expert}.linear_fc1.weight", 0, 2, kEveryStage},
      {"layers.{layer}.mlp.experts.local_experts.{expert}.linear_fc2.weight", 1, 1, kEveryStage},
      {"embedding.word_embeddings.weight", 0, 1, kFirstStage},
      {"embedding.position_embeddings.weight", -1, 1, kFirstStage},
      {"output_layer.weight", 0, 1, kLastStage},
      {"decoder.final_layernorm.*", -1, 1, kLastStage},
      // GPT-2: its linear layers are transposed (in, out).
      {"h.{layer}.attn.c_attn.weight", 1, 3, kEveryStage},
      {"h.{layer}.attn.c_attn.bias", 0, 3, kEveryStage},
      {"h.{layer}.attn.c_proj.weight", 0, 1, kEveryStage},
      {"h.{layer}.mlp.c_fc.weight", 1, 1, kEveryStage},
      {"h.{layer}.mlp.c_fc.bias", 0, 1, kEveryStage},
      {"h.{layer}.mlp.c_proj.weight", 0, 1, kEveryStage},
      {"wte.weight", 0, 1, kFirstStage},
      {"wpe.weight", -1, 1, kFirstStage},
      {"ln_f.*", -1, 1, kLastStage},
      // What else a layer has is whole on every tensor rank.
      {"layers.{layer}", -1, 1, kEveryStage},
      {"h.{layer}", -1, 1, kEveryStage},
      {"model.norm.*", -1, 1, kLastStage},
  };
  return kRules;
}

Result<std::vector<NameRule>> ParseNameRules(std::string_view json) {
  // The parser recurses with the depth of the text, which comes from a file of the user.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= 8;
  };
  const nlohmann::json parsed = nlohmann::json::parse(json, shallow, /*allow_exceptions=*/false);
  if (!parsed.is_object() || parsed.size() != 1 || !parsed.contains("rules") ||
      !parsed["rules"].is_array() || parsed["rules"].size() > kMaxRules) {
    return InvalidArgument("rules are a JSON object {\"rules\": [...]} of at most 10,000");
  }
  std::vector<NameRule> rules;
  for (const nlohmann::json& entry : parsed["rules"]) {
    ASSIGN_OR_RETURN(NameRule rule, ParseRule(entry, "rule " + std::to_string(rules.size())));
    rules.push_back(std::move(rule));
  }
  return rules;
}

// Tensors that no rule matches are whole on every rank and are named in the result, so that the
// caller can warn of them.
NamedSharding ShardingOf(const std::vector<TensorInfo>& tensors,
                         const std::vector<NameRule>& rules) {
  std::vector<std::vector<std::string_view>> patterns;
  for (const NameRule& rule : rules) patterns.push_back(Parts(rule.match));
  NamedSharding sharding;
  for (const TensorInfo& tensor : tensors) {
    TensorRule& to = sharding.rules.emplace_back();
    to.shape = tensor.shape;
    const std::vector<std::string_view> name = Parts(tensor.name);
    to.zero_stage = IsOptimizerState(name) ? 1 : 3;
    std::optional<Match> match;
    for (size_t i = 0; i < rules.size() && !match.has_value(); ++i) {
      match = MatchName(patterns[i], name);
      if (!match.has_value()) continue;
      to.place = rules[i].place;
      // A scalar beside a matrix (a step count, say) follows its place, not its cut.
      if (rules[i].dim >= 0 && static_cast<size_t>(rules[i].dim) < tensor.shape.size()) {
        to.tensor_dim = rules[i].dim;
        to.fused = rules[i].fused;
        to.uneven = rules[i].uneven;
      }
      // The number of layers and experts is not known from elsewhere, so the highest index decides.
      if (match->layer >= 0) {
        to.place = TensorPlace::kLayer;
        to.layer = static_cast<uint32_t>(match->layer);
        sharding.layers = std::max(sharding.layers, to.layer + 1);
      }
      if (match->expert >= 0) {
        to.expert = match->expert;
        sharding.experts = std::max(sharding.experts, static_cast<uint32_t>(match->expert) + 1);
      }
    }
    if (!match.has_value()) sharding.unmatched.push_back(tensor.name);
  }
  return sharding;
}

Result<spec::Layout> ParseLayout(std::string_view text) {
  spec::Layout layout;
  const std::pair<std::string_view, uint32_t*> known[] = {
      {"tp", &layout.tensor},  {"pp", &layout.pipeline},    {"vpp", &layout.virtual_pipeline},
      {"cp", &layout.context}, {"ep", &layout.expert},      {"etp", &layout.expert_tensor},
      {"dp", &layout.data},    {"zero", &layout.zero_stage}};
  std::array<bool, std::size(known)> seen{};
  for (const std::string_view part : Split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string_view name = Trim(part.substr(0, equals));
    size_t which = 0;
    while (which < std::size(known) && known[which].first != name) ++which;
    if (equals == std::string_view::npos || which == std::size(known)) {
      return InvalidArgument("layout part '" + Printable(part) +
                             "': expected NAME=NUMBER with one of tp, pp, vpp, cp, ep, etp, dp, "
                             "zero, as in tp=2,pp=4,dp=8,zero=1");
    }
    const Result<uint64_t> number = ParseUint64(Trim(part.substr(equals + 1)));
    const bool zero = name == "zero";
    if (!number.ok() || *number > (zero ? 3u : 65'536u) || (!zero && *number == 0)) {
      return InvalidArgument("layout part '" + Printable(part) + "': " +
                             (zero ? "ZeRO's stage is 0 to 3" : "a number from 1 to 65536"));
    }
    if (seen[which]) return InvalidArgument("layout part " + Printable(name) + " comes twice");
    seen[which] = true;
    *known[which].second = static_cast<uint32_t>(*number);
  }
  if (layout.devices() > 1'000'000) {
    return InvalidArgument("a layout of " + std::to_string(layout.devices()) +
                           " ranks is larger than 1,000,000");
  }
  return layout;
}

}  // namespace longhaul::checkpoint
