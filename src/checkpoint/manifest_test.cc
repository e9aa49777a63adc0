#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <string>

#include "base/hash.h"

namespace longhaul::checkpoint {
namespace {

Manifest Sample() {
  Manifest manifest;
  manifest.job = "job-1 \"\u00fc\"";
  manifest.step = 40;
  manifest.attempt = 3;
  manifest.world = 2;
  manifest.data = {2560, 10'000, 64, ~uint64_t{0}, "abc"};
  manifest.tensors = {{"w", "F32", {4, 16}}, {"n", "I64", {}}};
  manifest.files = {{PieceName(0, 2), 0, 4096 + 136, 0x0123456789abcdefu, 4096},
                    {PieceName(1, 2), 1, 4096 + 128, 7, 4096}};
  const auto half = [](int64_t row) {
    return Box::At(std::vector<int64_t>{row, 0}, std::vector<int64_t>{2, 16});
  };
  manifest.pieces = {{0, 0, "w", half(0), 4096, 1},
                     {1, 0, "n", Box(), 4096 + 128, 2},
                     {0, 1, "w.1", half(2), 4096, 3}};
  return manifest;
}

TEST(Manifest, IsDecodedAsItWasEncoded) {
  const Result<Manifest> decoded = DecodeManifest(EncodeManifest(Sample()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
}

TEST(Manifest, TellsAValidationLossToTheLastBit) {
  for (const double loss : {0.1, 1.0 / 3, 2.0, 1e300, 5e-324, -0.0, 1e22}) {
    Manifest manifest = Sample();
    manifest.validation_loss = loss;
    const Result<Manifest> decoded = DecodeManifest(EncodeManifest(manifest));
    ASSERT_TRUE(decoded.ok()) << loss << ": " << decoded.status();
    EXPECT_EQ(*decoded->validation_loss, loss);
  }
}

TEST(Manifest, NoFlippedBitAndNoCutIsAccepted) {
  const std::string text = EncodeManifest(Sample());
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    ASSERT_EQ(DecodeManifest(flipped).status().code(), Code::kDataLoss) << "bit " << bit;
  }
  for (size_t cut = 0; cut < text.size(); ++cut) {
    ASSERT_FALSE(DecodeManifest(text.substr(0, cut)).ok()) << "cut at " << cut;
  }
  EXPECT_FALSE(DecodeManifest(text + "\n").ok());
}

TEST(Manifest, RefusesWhatMakesNoSense) {
  const auto refused = [](auto change) {
    Manifest manifest = Sample();
    change(manifest);
    return DecodeManifest(EncodeManifest(manifest)).status().code() == Code::kDataLoss;
  };
  EXPECT_TRUE(refused([](Manifest& m) { m.step = 0; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.world = 0; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.files.clear(); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.files.pop_back(); })) << "a rank's piece is missing";
  EXPECT_TRUE(refused([](Manifest& m) { m.files[1].name = "../../etc/passwd"; }));
  EXPECT_TRUE(refused([](Manifest& m) { std::swap(m.files[0], m.files[1]); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.files[1].rank = 2; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.files[1].header_bytes = 8192; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.files[1].bytes += 1; })) << "bytes of no piece";
  EXPECT_TRUE(refused([](Manifest& m) { m.pieces.pop_back(); }));
  EXPECT_TRUE(refused([](Manifest& m) { std::swap(m.pieces[0], m.pieces[2]); }));
  EXPECT_TRUE(refused([](Manifest& m) { m.pieces[1].tensor = 2; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.pieces[2].file = 2; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.pieces[1].offset += 8; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.tensors[0].shape = {3, 16}; })) << "outside";
  EXPECT_TRUE(refused([](Manifest& m) { m.tensors[0].dtype = "F16"; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.tensors[1].dtype = "I6"; }));
  EXPECT_TRUE(refused([](Manifest& m) { m.tensors[1].name = "w"; })) << "twice";
}

TEST(Manifest, OfAReplicatedStateNeedsOnePiece) {
  Manifest manifest = Sample();
  manifest.replicated = true;
  manifest.files.pop_back();
  manifest.pieces.pop_back();
  EXPECT_TRUE(DecodeManifest(EncodeManifest(manifest)).ok());
}

// Four ranks, of which two and two hold the same.
Manifest Shared() {
  Manifest manifest = Sample();
  manifest.world = 4;
  manifest.files[0].name = PieceName(0, 4);
  manifest.files[0].also = {2};
  manifest.files[1] = {PieceName(3, 4), 3, 4096 + 128, 7, 4096, {1}};
  return manifest;
}

TEST(Manifest, SaysWhoseStateAFileIsToo) {
  const std::string text = EncodeManifest(Shared());
  EXPECT_NE(text.find("\"also\": [2]}"), std::string::npos) << text;
  const Result<Manifest> decoded = DecodeManifest(text);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Shared());
  const uint32_t kFiles[] = {0, 3, 0, 3};  // by rank
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_NE(FileOfRank(*decoded, rank), nullptr);
    EXPECT_EQ(FileOfRank(*decoded, rank)->rank, kFiles[rank]);
  }
  EXPECT_EQ(FileOfRank(*decoded, 4), nullptr);
}

TEST(Manifest, EveryRankIsInOneFile) {
  const std::pair<std::vector<uint32_t>, std::vector<uint32_t>> kWrong[] = {
      {{}, {1}},       {{2}, {}},     {{2}, {2}},          {{2, 3}, {1}},
      {{1, 2}, {1}},   {{2, 4}, {1}}, {{0, 2}, {1}},       {{2, 1}, {}},
      {{1, 1, 2}, {}}, {{}, {}},      {{2, 1u << 31}, {1}}};
  for (const auto& [first, second] : kWrong) {
    Manifest manifest = Shared();
    manifest.files[0].also = first;
    manifest.files[1].also = second;
    EXPECT_EQ(DecodeManifest(EncodeManifest(manifest)).status().code(), Code::kDataLoss)
        << first.size() << " and " << second.size();
  }
  Manifest replicated = Shared();
  replicated.replicated = true;
  EXPECT_FALSE(DecodeManifest(EncodeManifest(replicated)).ok()) << "one way to say it";
}

// The text of a manifest without its last line, and with that line again.
std::string BodyOf(const Manifest& manifest) {
  const std::string text = EncodeManifest(manifest);
  return text.substr(0, text.size() - 25);
}
std::string WithHash(const std::string& body) {
  char line[32];
  std::snprintf(line, sizeof(line), "xxh3-64:%016llx\n",
                static_cast<unsigned long long>(Hash64(body)));
  return body + line;
}

TEST(Manifest, HasOneFormWhateverTheHash) {
  const std::string body = BodyOf(Sample());
  EXPECT_TRUE(DecodeManifest(WithHash(body)).ok());
  EXPECT_FALSE(DecodeManifest(WithHash(" " + body)).ok());
  EXPECT_FALSE(DecodeManifest(WithHash("{}")).ok());
  EXPECT_FALSE(DecodeManifest(WithHash(std::string(1 << 20, '['))).ok());
}

TEST(Manifest, OfAVersionThatCalledAnAttemptAnEpochIsRead) {
  std::string body = BodyOf(Sample());
  const std::string key = "\"attempt\"";
  body.replace(body.find(key), key.size(), "\"epoch\"");
  const Result<Manifest> decoded = DecodeManifest(WithHash(body));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
}

}  // namespace
}  // namespace longhaul::checkpoint
