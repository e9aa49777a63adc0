#include "spec/model/model_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/text.h"
#include "spec/internal/job_schema.h"
#include "spec/model/model_schema.h"
#include "spec/model/parameters.h"

namespace longhaul::spec {
namespace {

using testing::HasSubstr;

// A seed of the fuzzer; tests run in the project's root.
std::string Seed(const std::string& name) {
  std::ifstream file("src/spec/model/testdata/model_fuzz/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Model Read(const std::string& text) {
  const auto model = ParseModel(text, "test");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : Model();
}

std::string Refusal(const std::string& text) {
  const auto model = ParseModel(text, "test");
  EXPECT_FALSE(model.ok()) << text;
  return model.status().message();
}

// As published with the weights: the sum of the tensors' sizes.
TEST(FindModel, HasThePublishedParameters) {
  const std::map<std::string, int64_t> kPublished = {
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"llama-2-7b", 6'738'415'616},
      {"llama-2-13b", 13'015'864'320},
      {"llama-2-70b", 68'976'648'192},
      {"llama-3-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},
      {"llama-3.1-405b", 405'853'388'800},
      {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},
      {"mistral-7b", 7'241'732'096},
      {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112},
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"deepseek-v2", 235'741'434'880},
      {"deepseek-v2-lite", 15'706'484'224},
  };
  for (const auto& [name, parameters] : kPublished) {
    const auto model = FindModel(name);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(Parameters(*model), parameters) << name;
  }
  // Published without the prediction layer; BLOOM has a norm after its embedding.
  Model deepseek = *FindModel("deepseek-v3");
  deepseek.multi_token_prediction_layers = 0;
  EXPECT_EQ(Parameters(deepseek), 671'026'419'200);
  EXPECT_EQ(Parameters(*FindModel("bloom-176b")), 176'247'271'424 - 2 * 14'336);
}

TEST(FindModel, IsSoundForEveryName) {
  for (const std::string& name : ModelNames()) {
    const auto model = FindModel(name);
    ASSERT_TRUE(model.ok()) << name;
    EXPECT_TRUE(CheckModel(*model).ok()) << name << ": " << CheckModel(*model);
    EXPECT_EQ(Read(ToYaml(*model)), *model);
  }
  EXPECT_THAT(FindModel("llama-3.1-7b").status().message(), HasSubstr("did you mean 'llama-"));
}

TEST(FindSpelled, ReadsNamesAsPeopleWriteThem) {
  const std::pair<const char*, const char*> kNames[] = {
      {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
      {"LLAMA3.1_405B", "llama-3.1-405b"},
      {"DeepSeekV3", "deepseek-v3"},
      {"Qwen3_30B_a3B", "qwen3-30b-a3b"},
      {"mixtral 8x7B", "mixtral-8x7b"},
      {"gpt2", "gpt2"}};
  for (const auto& [written, name] : kNames) {
    const auto model = FindSpelled(written);
    ASSERT_TRUE(model.ok()) << written << ": " << model.status();
    EXPECT_EQ(model->name, name);
  }
  EXPECT_THAT(FindSpelled("llama-3.1-7b").status().message(), HasSubstr("did you mean 'llama-"));
  EXPECT_FALSE(FindSpelled("--").ok());
}

TEST(ParseModel, ReadsHuggingFaceAsTheCatalogueHasIt) {
  const struct {
    const char* seed;
    const char* name;
    uint32_t sequence;
  } kRows[] = {{"llama.json", "llama-3.1-8b", 131'072},
               {"deepseek.json", "deepseek-v3", 163'840},
               {"qwen.json", "qwen3-235b-a22b", 40'960}};
  for (const auto& row : kRows) {
    Model want = *FindModel(row.name);
    Model got = Read(Seed(row.seed));
    want.sequence_length = row.sequence;
    got.name = want.name;
    EXPECT_EQ(got, want) << row.seed << "\n" << ToYaml(got) << "---\n" << ToYaml(want);
  }
  Model gpt2 = Read(Seed("gpt2.json"));
  EXPECT_EQ(Parameters(gpt2), 124'439'808);
  EXPECT_TRUE(gpt2.dropout && gpt2.tied_embeddings && !gpt2.gated_ffn);
}

TEST(ParseModel, ReadsWhatFamiliesDifferIn) {
  const std::string base =
      R"("hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 4,
         "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 512)";
  EXPECT_EQ(Read("{\"model_type\": \"mistral\", \"sliding_window\": 128, " + base + "}")
                .sliding_window->size,
            128u);
  EXPECT_FALSE(Read("{\"model_type\": \"mistral\", \"sliding_window\": null, " + base + "}")
                   .sliding_window.has_value());
  const Model mixtral =
      Read("{\"model_type\": \"mixtral\", \"num_local_experts\": 8, \"num_experts_per_tok\": 2, " +
           base + "}");
  EXPECT_EQ(mixtral.experts->ffn_hidden, 256u);
  EXPECT_EQ(mixtral.ffn_hidden, 0u);
  EXPECT_TRUE(Read("{\"model_type\": \"qwen2\", " + base + "}").qkv_bias);
  const Model moe = Read(
      "{\"model_type\": \"qwen2_moe\", \"num_experts\": 60, \"num_experts_per_tok\": 4, "
      "\"moe_intermediate_size\": 32, \"shared_expert_intermediate_size\": 128, "
      "\"mlp_only_layers\": [0], \"decoder_sparse_step\": 1, " +
      base + "}");
  EXPECT_EQ(moe.experts->shared_ffn_hidden, 128u);
  EXPECT_EQ(moe.experts->dense_first_layers, 1u);
  EXPECT_EQ(Read("{\"model_type\": \"llama\", " + base + "}").kv_heads, 4u);
}

TEST(ParseModel, NamesWhatIsWrong) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"{\"model_type\": \"lama\"}", "the family 'lama' is not known, did you mean 'llama'"},
      {"{\"architectures\": [\"X\"]}", "model_type: is missing; known: deepseek_v2"},
      {"{\"model_type\": \"llama\"}", "num_hidden_layers: is missing"},
      {"{\"model_type\": \"gpt2\", \"n_layer\": -3}", "n_layer: must be a whole number, 0 to"},
      {"layers: 12", "hidden: is missing"},
      {"layers: 0\nhidden: 64\nheads: 4\nvocabulary: 9\nsequence_length: 8",
       "test:1: layers: must be a whole number, 1 to 10,000, not '0'"},
      {"layrs: 12", "test:1: layrs: unknown key, did you mean 'layers'"},
      {"activation: sillu", "did you mean 'silu'"},
      {"gated_ffn: yes", "must be true or false, not 'yes'"},
      {"experts: 8", "experts: must be a map of keys or null"},
      {"experts: {cont: 8}", "experts.cont: unknown key, did you mean 'count'"},
      {"[1, 2]", "a model is a map of keys"},
      {"layers: 2\nhidden: 64\nheads: 4\nkv_heads: 3\nvocabulary: 9\nsequence_length: 8",
       "kv_heads: 3 does not divide the 4 heads"},
  };
  for (const auto& row : kRows) EXPECT_THAT(Refusal(row.text), HasSubstr(row.want));
}

TEST(ParseModel, FillsWhatFollowsFromTheRest) {
  const Model model = Read("{layers: 2, hidden: 64, heads: 4, vocabulary: 9, sequence_length: 8}");
  EXPECT_EQ(model.kv_heads, 4u);
  EXPECT_EQ(model.head_dim, 16u);
  EXPECT_EQ(model.ffn_hidden, 256u);
}

// Collects every key with its limits.
class Lister {
 public:
  void Text(const char* key, std::string&, size_t most) {
    Add(key, "at most " + std::to_string(most) + " bytes");
  }
  void Whole(const char* key, uint32_t&, uint64_t min, uint64_t max) {
    Add(key, internal::LimitsText(min, max));
  }
  void Flag(const char* key, bool&) { Add(key, "true, false"); }
  void Real(const char* key, std::optional<double>&, double above, double most) {
    Add(key, internal::LimitsText({above, most, true, false}));
  }
  template <typename T, typename WordList>
  void Word(const char* key, T&, const WordList& words) {
    std::vector<std::string> known;
    for (const auto& [word, meaning] : words) known.emplace_back(word);
    Add(key, Join(known, ", "));
  }
  template <typename T, typename Body>
  void Section(const char* key, std::optional<T>& value, const Body& body) {
    prefix_ = std::string(key) + ".";
    value.emplace();
    body(*value);
    prefix_.clear();
  }

  std::map<std::string, std::string> limits;

 private:
  void Add(const char* key, const std::string& text) { limits[prefix_ + key] = text; }

  std::string prefix_;
};

// The tables' rows: | `key` | limits | meaning |.
TEST(ModelReference, DocumentsEveryKeyWithItsLimitsAndNoOther) {
  Lister lister;
  Model model;
  VisitModel(lister, model);
  std::ifstream file("docs/model-file.md");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("| `")) continue;
    const auto cells = Split(line, '|');
    ASSERT_EQ(cells.size(), 5u) << line;
    const std::string_view key = Trim(cells[1]);
    const std::string path(key.substr(1, key.size() - 2));
    ASSERT_TRUE(lister.limits.contains(path)) << path;
    EXPECT_EQ(Trim(cells[2]), lister.limits[path]) << path;
    lister.limits.erase(path);
  }
  for (const auto& [path, text] : lister.limits) ADD_FAILURE() << path << ": " << text;
}

// Transformers 5 writes num_local_experts in place of num_experts.
TEST(HuggingFace, TheNumberOfQwensExpertsHasTwoNames) {
  const std::string start = R"({"model_type": "qwen3_moe", "num_hidden_layers": 2, "hidden_size": 8,
    "intermediate_size": 12, "num_attention_heads": 4, "vocab_size": 15, "num_experts_per_tok": 2,
    "moe_intermediate_size": 6, "max_position_embeddings": 16)";
  EXPECT_EQ(Read(start + R"(, "num_local_experts": 4})").experts->count, 4u);
  EXPECT_EQ(Read(start + R"(, "num_experts": 4})").experts->count, 4u);
  EXPECT_THAT(Refusal(start + R"(, "num_local_experts": 4, "num_experts": 8})"),
              HasSubstr("test: num_experts: is 8, but num_local_experts is 4: give one of them"));
  EXPECT_THAT(Refusal(start + "}"), HasSubstr("num_experts: is missing"));
}

}  // namespace
}  // namespace longhaul::spec
