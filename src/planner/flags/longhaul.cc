// A Longhaul job file (docs/job-file.md). A model that the built-in trainer has becomes its job;
// any other one becomes a job that runs Megatron-LM with the layout's options on every rank.
#include <string>

#include "planner/flags/internal/writers.h"

namespace longhaul::planner::flags::internal {
namespace {

using spec::Training;

// Whether FromBuiltIn could have made this shape.
bool IsBuiltIn(const spec::Model& model) {
  return model.vocabulary == 257 && !model.experts && !model.multi_latent &&
         !model.sliding_window && !model.gated_ffn && !model.tied_embeddings &&
         model.position == spec::Position::kLearned && model.kv_heads == model.heads &&
         model.ffn_hidden == 4 * model.hidden &&
         uint64_t{model.heads} * model.head_dim == model.hidden;
}

std::string Resources(const Question& question, bool micro_batch) {
  std::string text =
      "\nresources:\n  nodes: " + std::to_string(Nodes(question.cluster)) +
      "\n  processes_per_node: " + std::to_string(question.cluster.devices_per_node) + "\n";
  if (micro_batch) {
    text += "  micro_batch: " + std::to_string(question.training.batch.micro) + "\n";
  }
  return text;
}

// In YAML's single quotes a quote is doubled and nothing else is special.
std::string QuotedYaml(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

Launch WriteBuiltIn(const Question& question) {
  const spec::Model& model = question.model;
  Launch launch;
  launch.text =
      "# A layout of `longhaul plan` for the built-in trainer.\nname: planned\n\nmodel:\n"
      "  kind: gpt\n  layers: " +
      std::to_string(model.layers) + "\n  hidden: " + std::to_string(model.hidden) +
      "\n  heads: " + std::to_string(model.heads) +
      "\n  sequence: " + std::to_string(model.sequence_length) +
      "\n\ndata:\n  include: ['data/**/*.txt']\n\ntrain:\n  global_batch: " +
      std::to_string(question.training.batch.global) + "\n" + Resources(question, true);
  launch.notes.push_back("set data.include to your files");
  return launch;
}

Launch WriteCommand(const Question& question) {
  Launch launch;
  launch.text = "# A layout of `longhaul plan`: " + CommentName(question.model) + " with " +
                std::string(Releases(Framework::kMegatron)) +
                ".\n# Data, tokenizer, learning rate and checkpoints are yours to add.\n"
                "name: planned\n\ncommand:\n  - python3\n  - pretrain_gpt.py\n";
  const Options options = MegatronOptions(question);
  for (const std::string& word : options.words()) {
    launch.text += "  - " + QuotedYaml(word) + "\n";
  }
  launch.text += "\nenvironment:\n  CUDA_DEVICE_MAX_CONNECTIONS: '" +
                 MegatronConnections(question) + "'\n" + Resources(question, false);
  launch.notes.push_back("start with: longhaul run FILE, in Megatron-LM's folder");
  return launch;
}

}  // namespace

// The checks follow the two ways in which the file is written: the rules of the built-in trainer,
// or those of Megatron-LM, whose options the command carries.
Status CheckLonghaul(const Question& question) {
  if (!IsBuiltIn(question.model)) return CheckMegatron(question);
  const Training& training = question.training;
  if (training.layout.devices() != training.layout.data || training.layout.zero_stage > 0 ||
      training.recompute.kind != spec::RecomputeKind::kNone ||
      training.offload != spec::Offload::kNone) {
    return Unimplemented(
        "the built-in trainer is data parallel only: use tensor, pipeline and context 1, ZeRO "
        "stage 0, no recompute and no offload");
  }
  const uint64_t a_pass = uint64_t{training.layout.data} * training.batch.micro;
  if (a_pass == 0 || training.batch.global % a_pass != 0) {
    return FailedPrecondition("the built-in trainer needs a global batch that data " +
                              std::to_string(training.layout.data) + " times micro batch " +
                              std::to_string(training.batch.micro) + " divides, not " +
                              std::to_string(training.batch.global));
  }
  return {};
}

Launch WriteLonghaul(const Question& question) {
  return IsBuiltIn(question.model) ? WriteBuiltIn(question) : WriteCommand(question);
}

}  // namespace longhaul::planner::flags::internal
