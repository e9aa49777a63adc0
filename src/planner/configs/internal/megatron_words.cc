#include "planner/configs/internal/megatron_words.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.h"
#include "planner/configs/internal/readers.h"
#include "planner/configs/internal/shell_words.h"
#include "spec/yaml_pairs/yaml_pairs.h"

namespace longhaul::planner::configs::internal {
namespace {

// Options without an effect on time or memory of a step: data, learning rate, logging, checkpoints,
// initial values, and the names by which parts are switched to equal ones.
constexpr auto kPassedOverArguments = std::to_array<std::string_view>({
    "adam-*",
    "adlr-*",
    "apply-*",
    "async-*",
    "auto-detect-ckpt-format",
    "barrier-*",
    "bert-*",
    "biencoder-*",
    "cache-*",
    "check-for-*",
    "ckpt-*",
    "clip-grad",
    "config*",
    "cuda-device-*",
    "data-args-path",
    "data-cache-path",
    "data-path",
    "data-seed",
    "dataloader-type",
    "dataset-*",
    "dist-*",
    "distributed-*",
    "disable-straggler-on-startup",
    "empty-unused-memory-level",
    "enable-ft-package",
    "enable-one-logger",
    "end-weight-decay",
    "error-injection-*",
    "eod-mask-*",
    "eval-*",
    "exit-*",
    "finetune",
    "full-validation",
    "group",
    "heterogeneous-*",
    "high-priority-*",
    "inference-*",
    "init-*",
    "initial-*",
    "inprocess-*",
    "iteration",
    "kitchen-*",
    "lazy-*",
    "load",
    "load-*",
    "local-rank",
    "log-*",
    "logging-*",
    "loss-scale",
    "loss-scale-*",
    "lr",
    "lr-*",
    "make-vocab-size-divisible-by",
    "manual-gc*",
    "mask-*",
    "max-tokens-*",
    "memory-*",
    "merge-file",
    "merge-files",
    "min-lr",
    "min-loss-scale",
    "mmap-*",
    "mock-data",
    "moe-aux-*",
    "moe-input-*",
    "moe-per-layer-logging",
    "moe-permute-fusion",
    "moe-router-bias-update-rate",
    "moe-router-dtype",
    "moe-router-fusion",
    "moe-router-load-balancing-type",
    "moe-router-pre-softmax",
    "moe-router-score-function",
    "moe-router-topk-scaling-factor",
    "moe-token-dispatcher-type",
    "moe-use-legacy-grouped-gemm",
    "moe-z-loss-coeff",
    "mtp-loss-scaling-factor",
    "nccl-*",
    "no-barrier-*",
    "no-bias-*",
    "no-check-*",
    "no-create-*",
    "no-ckpt-*",
    "no-initialization",
    "no-load-*",
    "no-log-*",
    "no-masked-*",
    "no-mmap-*",
    "no-one-*",
    "no-persist-*",
    "no-position-embedding",
    "no-query-key-layer-scaling",
    "no-rope-fusion",
    "no-save-*",
    "no-use-*",
    "no-weight-decay-*",
    "non-persistent-*",
    "norm-epsilon",
    "num-dataset-*",
    "num-experts-per-token",
    "num-workers",
    "object-storage-*",
    "one-logger-*",
    "optimizer",
    "outer-*",
    "override-*",
    "per-dataset-*",
    "per-split-*",
    "pretrained-checkpoint",
    "profile",
    "profile-*",
    "ramp-*",
    "record-*",
    "rampup-batch-size",
    "repeated-dataloader",
    "replication*",
    "rerun-*",
    "reset-*",
    "result-*",
    "retro-*",
    "rl-*",
    "rotary-*",
    "rope-*",
    "run-*",
    "sample-rate",
    "save",
    "save-*",
    "seed",
    "sft*",
    "sgd-*",
    "short-seq-prob",
    "skip-*",
    "special-tokens-*",
    "split",
    "spec",
    "start-weight-decay",
    "straggler-*",
    "suggested-*",
    "te-rng-tracker",
    "tensorboard-*",
    "test-*",
    "tiktoken-*",
    "timing-*",
    "tokenizer-*",
    "trace-*",
    "train-*",
    "transformer-impl",
    "use-checkpoint-*",
    "use-cpu-*",
    "use-dist-ckpt*",
    "use-legacy-*",
    "use-mcore-models",
    "use-mp-args-*",
    "use-one-sent-docs",
    "use-persistent-*",
    "use-pytorch-profiler",
    "use-ring-exchange-p2p",
    "use-rope-*",
    "use-rotary-position-embeddings",
    "valid-*",
    "validation-*",
    "verify-*",
    "vision-*",
    "vocab-extra-ids",
    "vocab-file",
    "wandb-*",
    "weight-decay",
    "weight-decay-*",
    "accumulate-*",
    "attention-softmax-in-fp32",
    "ddp-*",
    "enable-experimental",
    "gradient-accumulation-*",
    "yaml-cfg",
    "pin-cpu-*",
    "no-async-*",
    "tp-comm-*",
    "tp-comm-bootstrap-backend",
    "no-contiguous-*",
    "mscale*",
    "calculate-per-token-loss",
    "decoupled-*",
    "align-*",
    "batch-p2p-*",
    "overlap-p2p-*",
    "defer-*",
    "delay-*",
});

std::string WithoutDashes(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '_', '-');
  return plain;
}

// "--name value", "--name=value" and switches; words before the first option are left out.
void AddOptions(const std::vector<std::string>& words, size_t begin, Settings& settings) {
  for (size_t i = begin; i < words.size();) {
    const std::string& word = words[i++];
    if (!word.starts_with("--") || word.size() < 3) continue;
    std::vector<std::string> values;
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      values.push_back(word.substr(equals + 1));
    } else {
      while (i < words.size() && !words[i].starts_with("--")) {
        if (words[i] != "$@") values.push_back(words[i]);
        ++i;
      }
    }
    settings.Add(WithoutDashes(std::string_view(word).substr(0, equals)), std::move(values));
  }
}

bool Names(const std::vector<std::string>& words, std::string_view option) {
  return std::any_of(words.begin(), words.end(), [option](const std::string& word) {
    return WithoutDashes(word) == option ||
           WithoutDashes(word).starts_with(std::string(option) + "=");
  });
}

// Options of the launcher, in front of the program: torchrun's and srun's.
void ReadLauncher(const std::vector<std::string>& words, size_t end, RunConfig& config) {
  Settings launcher("", "--");
  AddOptions({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(end)}, 0, launcher);
  uint32_t nodes = 0;
  launcher.Whole("nnodes", 1, kMostRanks, nodes);
  launcher.Whole("nproc-per-node", 1, 65'536, config.devices_per_node);
  if (nodes == 0 || config.devices_per_node == 0) return;
  const uint64_t devices = uint64_t{nodes} * config.devices_per_node;
  if (devices <= kMostRanks) config.devices = static_cast<uint32_t>(devices);
}

Status ReadScript(std::string_view text, std::string_view source, Settings& settings,
                  RunConfig& config) {
  ASSIGN_OR_RETURN(const ShellScript script, ReadShell(text, source));
  for (const std::vector<std::string>& words : script.commands) {
    if (!Names(words, "num-layers") && !Names(words, "micro-batch-size")) continue;
    size_t program = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i].ends_with(".py")) program = i + 1;
    }
    ReadLauncher(words, program, config);
    AddOptions(words, program, settings);
    return {};
  }
  // A file that others source: arrays alone.
  for (const auto& words : script.arrays) AddOptions(words, 0, settings);
  return {};
}

// A map of options, in sections or not.
Status ReadYaml(std::string_view text, std::string_view source, Settings& settings) {
  ASSIGN_OR_RETURN(const auto pairs, spec::ParseYamlPairs(text, source));
  for (const spec::YamlPair& pair : pairs) {
    if (pair.path.find("ENV_VARS.") != std::string::npos) continue;
    const size_t dot = pair.path.rfind('.');
    const std::string name = dot == std::string::npos ? pair.path : pair.path.substr(dot + 1);
    // Keys of a test around the options: TEST_TYPE, METRICS.
    const bool option =
        std::any_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    if (option) settings.Add(WithoutDashes(name), pair.values);
  }
  return {};
}

// Whether the first line with content is a key of a map.
bool IsYaml(std::string_view text) {
  for (std::string_view line : Split(text, '\n')) {
    line = Trim(line);
    if (line.empty() || line.starts_with('#') || line == "---") continue;
    const size_t colon = line.find(':');
    return colon != std::string_view::npos && line.find(' ') >= colon;
  }
  return false;
}

}  // namespace

Status ReadMegatronWords(std::string_view text, std::string_view source, Settings& settings,
                         RunConfig& config) {
  return IsYaml(text) ? ReadYaml(text, source, settings)
                      : ReadScript(text, source, settings, config);
}

void PassOverMegatronWords(Settings& settings, RunConfig& config) {
  config.passed_over = settings.PassOver(kPassedOverArguments, config.unknown);
}

}  // namespace longhaul::planner::configs::internal
