#include "objects/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/random.h"
#include "objects/testing.h"

namespace longhaul::objects {
namespace {

std::string RandomText(uint64_t seed, size_t bytes) {
  Random random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random.Below(256));
  return text;
}

Status WriteAll(io::FileSystem& files, const std::string& path, const std::string& text) {
  auto file = files.Create(path);
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR((*file)->Append(std::as_bytes(std::span(text))));
  RETURN_IF_ERROR((*file)->Sync());
  return (*file)->Close();
}

TEST(ParseObjectPath, KnowsBucketAndKey) {
  const auto path = ParseObjectPath("s3://models/run/step-1/x");
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->bucket, "models");
  EXPECT_EQ(path->key, "run/step-1/x");
  EXPECT_EQ(ParseObjectPath("s3://models")->key, "");
  for (const char* wrong : {"/tmp/x", "s3://", "s3://ab", "s3://Models/x", "s3://models//x",
                            "s3://models/x/", "s3://models/../x", "s3://a b c/x"}) {
    EXPECT_EQ(ParseObjectPath(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(ObjectFiles, ReadsWhatItWroteWholeAndInPieces) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket, /*part_bytes=*/1000);
  for (const size_t bytes : {0u, 1u, 999u, 1000u, 1001u, 12'345u}) {
    const std::string text = RandomText(bytes + 1, bytes);
    ASSERT_TRUE(WriteAll(*files, "s3://models/run/x", text).ok());
    EXPECT_EQ(bucket->objects.at("models/run/x"), text) << bytes;
    const auto file = files->Open("s3://models/run/x");
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_EQ((*file)->bytes(), bytes);
    Random random(bytes);
    for (int i = 0; i < 50; ++i) {
      const uint64_t from = random.Below(bytes + 1);
      std::string part(random.Below(bytes - from + 1), '\0');
      ASSERT_TRUE((*file)->Read(from, std::as_writable_bytes(std::span(part))).ok());
      ASSERT_EQ(part, text.substr(from, part.size())) << "bytes " << bytes << " from " << from;
    }
  }
  EXPECT_TRUE(bucket->uploads.empty()) << "nothing is left half done";
}

// A request a chunk would be slow: who reads in order is read ahead for.
TEST(ObjectFiles, ReadingInOrderTakesFewRequests) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket);
  const std::string text = RandomText(1, 4u << 20);
  bucket->objects["models/x"] = text;
  const auto file = files->Open("s3://models/x");
  ASSERT_TRUE(file.ok());
  std::string chunk(4096, '\0');
  for (size_t at = 0; at < text.size(); at += chunk.size()) {
    ASSERT_TRUE((*file)->Read(at, std::as_writable_bytes(std::span(chunk))).ok());
    ASSERT_EQ(chunk, text.substr(at, chunk.size()));
  }
  EXPECT_LT(bucket->asked.size(), 12u);
}

TEST(ObjectFiles, AFileAppearsWholeOrNotAtAll) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket, 1000);
  EXPECT_TRUE(files->appears_whole());
  {
    auto file = files->Create("s3://models/x");
    ASSERT_TRUE(file.ok());
    const std::string text = RandomText(1, 5000);
    ASSERT_TRUE((*file)->Append(std::as_bytes(std::span(text))).ok());
    EXPECT_TRUE(bucket->objects.empty());
    EXPECT_EQ(bucket->uploads.size(), 1u);
  }
  EXPECT_TRUE(bucket->objects.empty());
  EXPECT_TRUE(bucket->uploads.empty()) << "given up, not left to be paid for";
}

TEST(ObjectFiles, ListsNamesOfFilesAndFolders) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket);
  bucket->page = 2;
  for (const char* key : {"run/step-1.e1/MANIFEST", "run/step-1.e1/a", "run/step-2.e1/a", "run/b",
                          "run/c", "other/d"}) {
    bucket->objects["models/" + std::string(key)] = "x";
  }
  const auto names = files->List("s3://models/run");
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, testing::ElementsAre("b", "c", "step-1.e1", "step-2.e1"));
  EXPECT_EQ(files->List("s3://models/nothing").status().code(), Code::kNotFound);
  ASSERT_TRUE(files->Remove("s3://models/run/b").ok());
  EXPECT_EQ(files->Size("s3://models/run/b").status().code(), Code::kNotFound);
  EXPECT_EQ(*files->Size("s3://models/run/c"), 1u);
}

TEST(ObjectFiles, ALimitHolds) {
  const auto bucket = std::make_shared<FakeBucket>();
  bucket->objects["models/x"] = std::string(100, 'x');
  const auto files = FakeFiles(bucket);
  EXPECT_EQ(files->ReadAll("s3://models/x", 99).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(files->ReadAll("s3://models/x", 100)->size(), 100u);
}

TEST(ObjectFiles, WritingAtomicallyNeedsNoRename) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket);
  ASSERT_TRUE(io::WriteTextAtomically(*files, "s3://models/run/MANIFEST", "text").ok());
  EXPECT_EQ(bucket->objects.at("models/run/MANIFEST"), "text");
  EXPECT_EQ(bucket->objects.size(), 1u);
}

}  // namespace
}  // namespace longhaul::objects
