#include "training/hugging_face/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder.h"
#include "checkpoint/formats/catalog_reader.h"
#include "checkpoint/formats/open_checkpoint.h"
#include "checkpoint/formats/write_checkpoint.h"
#include "checkpoint/safetensors.h"
#include "training/hugging_face/testing.h"

namespace longhaul::training::weights_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing_support::kAllFamilies;
using testing_support::Parsed;
using testing_support::TinyConfig;

template <typename T>
using Lists = std::vector<std::vector<T>>;

io::FileSystem& Disk() { return io::PosixFileSystem(); }

Lists<float> RandomValues(const std::vector<Parameter>& parameters) {
  Random random(7);
  Lists<float> lists;
  for (const Parameter& parameter : parameters) {
    auto& list = lists.emplace_back(static_cast<size_t>(parameter.count()));
    for (float& value : list) value = static_cast<float>(random.Uniform() - 0.5);
  }
  return lists;
}

Status Save(const std::string& folder, const HuggingFaceConfig& config,
            const Lists<float>& values) {
  const std::vector<std::span<const float>> spans(values.begin(), values.end());
  return WriteWeights(Disk(), folder, config, spans);
}

template <typename T>
Lists<T> Load(const std::string& path, const HuggingFaceConfig& config,
              const std::vector<Parameter>& parameters) {
  const Result<StoredWeights> weights = StoredWeights::Open(Disk(), path, config);
  EXPECT_TRUE(weights.ok()) << weights.status();
  Lists<T> lists;
  for (const Parameter& parameter : parameters) {
    lists.emplace_back(static_cast<size_t>(parameter.count()), std::nan(""));
  }
  const std::vector<std::span<T>> spans(lists.begin(), lists.end());
  if (!weights.ok()) return lists;
  const Status read = weights->Read(parameters, spans);
  EXPECT_TRUE(read.ok()) << read;
  return lists;
}

// The range of the whole parameter's dimension `dimension` that a share has.
int64_t Begin(const Parameter& share, size_t dimension) {
  if (share.expert && dimension == 0) return share.expert_cut.begin;
  return share.tensor_dimension == static_cast<int>(dimension) ? share.tensor_cut.begin : 0;
}

// Copies a share into the whole parameter, where it must not contradict what is there.
void PutTogether(const Parameter& share, const std::vector<float>& values,
                 std::vector<float>& whole) {
  for (size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    int64_t stride = 1;
    for (size_t d = share.shape.size(); d-- > 0;) {
      at += (Begin(share, d) + rest % share.shape[d]) * stride;
      rest /= share.shape[d];
      stride *= share.whole[d];
    }
    float& place = whole[static_cast<size_t>(at)];
    EXPECT_TRUE(std::isnan(place) || place == values[i]) << share.name;
    place = values[i];
  }
}

// A small model of random weights on the disk.
struct Saved {
  explicit Saved(nlohmann::json text)
      : folder("/tmp"),
        config(Parsed(text)),
        parameters(AllParameters(config.model, {}, {})),
        values(RandomValues(parameters)) {
    const Status saved = Save(folder.path(), config, values);
    CHECK(saved.ok()) << saved.message();
  }

  std::string file() const { return folder.path() + "/model.safetensors"; }
  std::string Refusal() const {
    const auto weights = StoredWeights::Open(Disk(), folder.path(), config);
    EXPECT_FALSE(weights.ok());
    return weights.ok() ? "" : weights.status().message();
  }

  TemporaryFolder folder;
  HuggingFaceConfig config;
  std::vector<Parameter> parameters;
  Lists<float> values;
};

struct Stored {
  checkpoint::TensorInfo info;
  std::vector<std::byte> bytes;
};

// Writes the file again with other tensors.
void Change(const Saved& saved, const std::function<void(std::vector<Stored>&)>& change) {
  const auto catalog = checkpoint::OpenSafetensorsFile(Disk(), saved.file());
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  checkpoint::CatalogReader reader(Disk(), *catalog);
  std::vector<Stored> tensors;
  for (uint32_t i = 0; i < catalog->tensors.size(); ++i) {
    tensors.push_back({catalog->tensors[i], std::vector<std::byte>(catalog->TensorBytes(i))});
    ASSERT_TRUE(reader.ReadRange(i, 0, tensors.back().bytes).ok());
  }
  change(tensors);
  std::vector<checkpoint::TensorInfo> infos;
  for (const Stored& tensor : tensors) infos.push_back(tensor.info);
  const auto plan = checkpoint::StatePlan::Create(infos);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::string text = *checkpoint::EncodeSafetensorsHeader(*plan, {});
  for (const Stored& tensor : tensors) {
    text.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  ASSERT_TRUE(io::WriteTextAtomically(Disk(), saved.file(), text).ok());
}

Stored& Named(std::vector<Stored>& tensors, const std::string& name) {
  for (Stored& tensor : tensors) {
    if (tensor.info.name == name) return tensor;
  }
  CHECK(false) << name;
  return tensors.front();
}

TEST(Weights, WholeParametersAreReadAsTheyWereWritten) {
  for (const Family family : kAllFamilies) {
    for (const bool tied : {false, true}) {
      nlohmann::json text = TinyConfig(family);
      text["tie_word_embeddings"] = tied;
      const Saved saved(text);
      EXPECT_EQ(Load<float>(saved.folder.path(), saved.config, saved.parameters), saved.values);
      EXPECT_EQ(Load<float>(saved.file(), saved.config, saved.parameters), saved.values);
      const Lists<double> wide = Load<double>(saved.file(), saved.config, saved.parameters);
      for (size_t i = 0; i < wide.size(); ++i) {
        EXPECT_TRUE(std::equal(wide[i].begin(), wide[i].end(), saved.values[i].begin()));
      }
      const auto config = ReadFolderConfig(saved.folder.path());
      ASSERT_TRUE(config.ok()) << config.status();
      EXPECT_EQ(config->text, text.dump());
    }
  }
}

TEST(Weights, SharesOfAllRanksAreTheWholeModel) {
  for (const Family family : kAllFamilies) {
    const Saved saved(TinyConfig(family));
    for (const std::string name : {"tp2", "tp4", "dp2 ep2", "dp2 tp4 ep2"}) {
      const Layout layout = *ParseLayout(name);
      if (!CheckLayout(saved.config.model, layout, 2).ok()) {
        EXPECT_GT(layout.expert, 1u);  // a model without experts
        continue;
      }
      Lists<float> whole;
      for (const Parameter& parameter : saved.parameters) {
        whole.emplace_back(static_cast<size_t>(parameter.count()), std::nanf(""));
      }
      for (uint32_t rank = 0; rank < layout.world(); ++rank) {
        const std::vector<Parameter> shares =
            AllParameters(saved.config.model, layout, PlaceOf(layout, rank));
        ASSERT_EQ(shares.size(), whole.size());
        const Lists<float> read = Load<float>(saved.folder.path(), saved.config, shares);
        for (size_t i = 0; i < shares.size(); ++i) PutTogether(shares[i], read[i], whole[i]);
      }
      EXPECT_EQ(whole, saved.values) << ToString(family) << " " << name;
    }
  }
}

TEST(Weights, AShareReadsNoMoreThanItNeeds) {
  const Saved saved(TinyConfig(Family::kLlama));
  // A file without its second half has the embedding still.
  const auto weights = StoredWeights::Open(Disk(), saved.folder.path(), saved.config);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const uint64_t end = weights->catalog().shards[0].file_offset + weights->catalog().TensorBytes(0);
  std::filesystem::resize_file(saved.file(), end);
  std::vector<float> values(saved.values[0].size());
  const std::vector<std::span<float>> to = {values};
  const Status read = weights->Read(std::span(saved.parameters).first(1), to);
  ASSERT_TRUE(read.ok()) << read;
  EXPECT_EQ(values, saved.values[0]);
}

TEST(Weights, ShardsWithAnIndexAreRead) {
  const Saved saved(TinyConfig(Family::kGpt2));
  const auto catalog = checkpoint::OpenSafetensorsFile(Disk(), saved.file());
  ASSERT_TRUE(catalog.ok());
  checkpoint::WriteOptions options;
  options.max_shard_bytes = 1'000;
  const std::string sharded = saved.folder.path() + "/sharded";
  ASSERT_TRUE(WriteCheckpoint(Disk(), *catalog, sharded, options).ok());
  ASSERT_TRUE(Disk().Size(sharded + "/model.safetensors.index.json").ok());
  EXPECT_EQ(Load<float>(sharded, saved.config, saved.parameters), saved.values);
}

// Of both 16-bit types, each bit pattern that is a number is read exactly.
TEST(Weights, ShorterTypesAreReadExactly) {
  for (const std::string type : {"BF16", "F16"}) {
    nlohmann::json text = TinyConfig(Family::kQwen2);
    text["vocab_size"] = 65'536 / 8;
    const Saved saved(text);
    Change(saved, [&](std::vector<Stored>& tensors) {
      Stored& tensor = Named(tensors, "model.embed_tokens.weight");
      tensor.info.dtype = type;
      tensor.bytes.resize(tensor.bytes.size() / 2);
      for (uint32_t i = 0; i < 65'536; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        std::memcpy(tensor.bytes.data() + 2 * i, &bits, sizeof(bits));
      }
    });
    const Lists<float> read = Load<float>(saved.folder.path(), saved.config, saved.parameters);
    for (uint32_t i = 0; i < 65'536; ++i) {
      const double sign = i >> 15 != 0 ? -1 : 1;
      const int fraction_bits = type == "F16" ? 10 : 7;
      const int bias = type == "F16" ? 15 : 127;
      const int exponent = static_cast<int>(i & 0x7FFF) >> fraction_bits;
      const int fraction = static_cast<int>(i) & ((1 << fraction_bits) - 1);
      if (exponent == 2 * bias + 1) {
        EXPECT_EQ(std::isnan(read[0][i]), fraction != 0);
        if (fraction == 0) {
          EXPECT_EQ(read[0][i], sign * INFINITY);
        }
        continue;
      }
      const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
      const double value = std::ldexp(whole, std::max(exponent, 1) - bias - fraction_bits);
      ASSERT_EQ(read[0][i], sign * value) << type << " " << i;
      ASSERT_EQ(std::signbit(read[0][i]), sign < 0);
    }
  }
}

TEST(Weights, Gpt2WithoutPrefixAndWithConstantsIsRead) {
  const Saved saved(TinyConfig(Family::kGpt2));
  Change(saved, [&](std::vector<Stored>& tensors) {
    for (Stored& tensor : tensors) tensor.info.name.erase(0, std::strlen("transformer."));
    tensors.push_back({{"h.0.attn.bias", "U8", {2}}, std::vector<std::byte>(2)});
  });
  EXPECT_EQ(Load<float>(saved.folder.path(), saved.config, saved.parameters), saved.values);
  Change(saved, [&](std::vector<Stored>& tensors) {
    tensors.push_back(Named(tensors, "wte.weight"));
    tensors.back().info.name = "transformer.wte.weight";
  });
  EXPECT_THAT(saved.Refusal(), HasSubstr("is there twice, with and without 'transformer.'"));
}

TEST(Weights, ATiedOutputIsAbsentOrEqual) {
  nlohmann::json text = TinyConfig(Family::kLlama);
  text["tie_word_embeddings"] = true;
  const Saved saved(text);
  Change(saved, [](std::vector<Stored>& tensors) {
    tensors.push_back(Named(tensors, "model.embed_tokens.weight"));
    tensors.back().info.name = "lm_head.weight";
  });
  EXPECT_EQ(Load<float>(saved.folder.path(), saved.config, saved.parameters), saved.values);
  Change(saved, [](std::vector<Stored>& tensors) { tensors.back().bytes[100] ^= std::byte{1}; });
  const auto weights = StoredWeights::Open(Disk(), saved.folder.path(), saved.config);
  ASSERT_TRUE(weights.ok()) << weights.status();
  Lists<float> values = saved.values;
  const std::vector<std::span<float>> spans(values.begin(), values.end());
  EXPECT_THAT(
      weights->Read(saved.parameters, spans).message(),
      HasSubstr("model.safetensors: tensor 'lm_head.weight' differs from the embedding, but "
                "config.json ties them: set tie_word_embeddings to false"));
}

TEST(Weights, TensorsOfAnotherModelAreNamed) {
  const Saved saved(TinyConfig(Family::kMixtral));
  const std::string norm = "model.layers.1.input_layernorm.weight";
  Change(saved, [&](std::vector<Stored>& tensors) {
    Stored& tensor = Named(tensors, norm);
    tensor.info.shape = {4, 2};
    Stored& integers = Named(tensors, "model.norm.weight");
    integers.info.dtype = "I64";
    integers.bytes.resize(64);
    Named(tensors, "lm_head.weight").info.name = "score.weight";
  });
  const std::string where = saved.file() + ": tensor '";
  EXPECT_THAT(
      saved.Refusal(),
      AllOf(HasSubstr(where + norm + "' has the shape [4, 2], config.json needs [8]"),
            HasSubstr(where + "model.norm.weight' has the type I64, expected F32, BF16 or F16"),
            HasSubstr(where + "score.weight' of shape [15, 8] is not part of the model"),
            HasSubstr("tensor 'lm_head.weight' of shape [15, 8] is missing"),
            Not(HasSubstr("w1"))));
}

TEST(Weights, AConfigOfAnotherSizeIsRefused) {
  const Saved saved(TinyConfig(Family::kMixtral));
  nlohmann::json more = TinyConfig(Family::kMixtral);
  more["num_local_experts"] = 64;
  const auto weights = StoredWeights::Open(Disk(), saved.folder.path(), Parsed(more));
  ASSERT_FALSE(weights.ok());
  EXPECT_THAT(weights.status().message(),
              AllOf(HasSubstr("block_sparse_moe.gate.weight' has the shape [4, 8], config.json "
                              "needs [64, 8]"),
                    HasSubstr("experts.10.w1.weight' of shape [12, 8] is missing"),
                    HasSubstr("and 352 more")));
}

TEST(Weights, AConfigOfMoreTensorsThanFilesCanHaveIsRefused) {
  const Saved saved(TinyConfig(Family::kMixtral));
  nlohmann::json more = TinyConfig(Family::kMixtral);
  more["num_local_experts"] = 65'536;
  more["num_hidden_layers"] = 10'000;
  const auto weights = StoredWeights::Open(Disk(), saved.folder.path(), Parsed(more));
  ASSERT_FALSE(weights.ok());
  EXPECT_THAT(weights.status().message(),
              HasSubstr("config.json describes 10000 layers with 65536 experts each, more than the "
                        "1048576 tensors that files can have"));
}

TEST(Weights, AFileThatWasCutIsRefusedAtEachByte) {
  const Saved saved(TinyConfig(Family::kLlama));
  const uint64_t bytes = std::filesystem::file_size(saved.file());
  for (const uint64_t left : {bytes - 1, bytes / 2, uint64_t{4'096}, uint64_t{100}, uint64_t{8},
                              uint64_t{7}, uint64_t{0}}) {
    std::filesystem::resize_file(saved.file(), left);
    EXPECT_THAT(saved.Refusal(), HasSubstr(saved.file())) << left;
  }
}

TEST(Weights, AFolderWithoutWeightsIsRefused) {
  const Saved saved(TinyConfig(Family::kLlama));
  std::filesystem::remove(saved.file());
  EXPECT_THAT(saved.Refusal(), HasSubstr(saved.folder.path() + ": has no model.safetensors"));
}

TEST(Weights, AFolderWithAModelIsNotOverwritten) {
  const Saved saved(TinyConfig(Family::kLlama));
  EXPECT_EQ(Save(saved.folder.path(), saved.config, saved.values).code(), Code::kAlreadyExists);
  EXPECT_EQ(Load<float>(saved.folder.path(), saved.config, saved.parameters), saved.values);
}

}  // namespace
}  // namespace longhaul::training::weights_test
