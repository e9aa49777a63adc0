// For tests/training/hugging_face_test.py: loads a folder in Hugging Face's format as the engine
// does.
//
//   training_hugging_face_tool logits FOLDER TOKEN...   prints the logits of the plain model in
//                                                       f32, one position a line
//   training_hugging_face_tool save FOLDER TO           saves what it loaded
#include <ATen/ATen.h>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "io/files/file.h"
#include "training/hugging_face/weights.h"
#include "training/model/reference.h"

namespace longhaul::training {
namespace {

struct Loaded {
  HuggingFaceConfig config;
  std::vector<Parameter> parameters;
  std::vector<std::vector<float>> values;
};

Result<Loaded> Load(const std::string& folder) {
  Loaded loaded;
  ASSIGN_OR_RETURN(loaded.config, ReadFolderConfig(folder));
  loaded.parameters = AllParameters(loaded.config.model, {}, {});
  ASSIGN_OR_RETURN(const StoredWeights weights,
                   StoredWeights::Open(io::PosixFileSystem(), folder, loaded.config));
  for (const Parameter& parameter : loaded.parameters) {
    loaded.values.emplace_back(static_cast<size_t>(parameter.count()));
  }
  const std::vector<std::span<float>> spans(loaded.values.begin(), loaded.values.end());
  RETURN_IF_ERROR(weights.Read(loaded.parameters, spans));
  return loaded;
}

Status PrintLogits(const std::string& folder, const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(Loaded loaded, Load(folder));
  std::vector<int64_t> tokens;
  for (const std::string& word : words) {
    ASSIGN_OR_RETURN(const int64_t token, ParseInt64(word));
    tokens.push_back(token);
  }
  WholeWeights weights;
  for (size_t i = 0; i < loaded.parameters.size(); ++i) {
    weights[loaded.parameters[i].name] =
        at::from_blob(loaded.values[i].data(), loaded.parameters[i].whole, at::kFloat);
  }
  const at::Tensor batch =
      at::from_blob(tokens.data(), {1, static_cast<int64_t>(tokens.size())}, at::kLong);
  const at::Tensor logits = ReferenceLogits(loaded.config.model, weights, batch)[0].contiguous();
  for (int64_t position = 0; position < logits.size(0); ++position) {
    const float* row = logits.data_ptr<float>() + position * logits.size(1);
    for (int64_t i = 0; i < logits.size(1); ++i) {
      std::printf("%.9g%c", static_cast<double>(row[i]), i + 1 < logits.size(1) ? ' ' : '\n');
    }
  }
  return {};
}

Status Save(const std::string& folder, const std::string& to) {
  ASSIGN_OR_RETURN(const Loaded loaded, Load(folder));
  const std::vector<std::span<const float>> spans(loaded.values.begin(), loaded.values.end());
  return WriteWeights(io::PosixFileSystem(), to, loaded.config, spans);
}

Status Run(const std::vector<std::string>& words) {
  if (words.size() > 2 && words[0] == "logits") {
    return PrintLogits(words[1], {words.begin() + 2, words.end()});
  }
  if (words.size() == 3 && words[0] == "save") return Save(words[1], words[2]);
  return InvalidArgument("usage: logits FOLDER TOKEN... | save FOLDER TO");
}

}  // namespace
}  // namespace longhaul::training

int main(int argc, char** argv) {
  const longhaul::Status status = longhaul::training::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}
