#include "objects/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

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

class ObjectFilesBy : public testing::TestWithParam<size_t> {};  // requests at a time
INSTANTIATE_TEST_SUITE_P(Requests, ObjectFilesBy, testing::Values(1, 4));

TEST_P(ObjectFilesBy, ReadsWhatItWroteWholeAndInPieces) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket, /*part_bytes=*/1000, GetParam());
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

// Large enough for windows that are read ahead of each other, and for ranges of one read.
TEST_P(ObjectFilesBy, ReadsALargeFileInOrderAndFromAnywhere) {
  const auto bucket = std::make_shared<FakeBucket>();
  constexpr size_t kWindow = 64u << 10;
  const auto files = FakeFiles(bucket, 16u << 20, GetParam(), kWindow);
  const std::string text = RandomText(3, 10 * kWindow + 12'345);
  bucket->objects["models/x"] = text;
  const auto file = files->Open("s3://models/x");
  ASSERT_TRUE(file.ok());
  for (const size_t step : {kWindow / 8, kWindow / 3, 4 * kWindow + 1}) {
    std::string read(text.size(), '\0');
    for (size_t at = 0; at < text.size(); at += step) {
      const size_t bytes = std::min(step, text.size() - at);
      ASSERT_TRUE(
          (*file)->Read(at, std::as_writable_bytes(std::span(read).subspan(at, bytes))).ok());
    }
    ASSERT_TRUE(read == text) << step;
    std::string part(100, '\0');
    ASSERT_TRUE((*file)->Read(7 * kWindow, std::as_writable_bytes(std::span(part))).ok());
    ASSERT_EQ(part, text.substr(7 * kWindow, 100));
  }
  {
    const std::lock_guard lock(bucket->mutex);  // windows may still be under way
    bucket->objects["models/x"] = "another";
  }
  std::string read(4 * kWindow, '\0');
  EXPECT_EQ((*file)->Read(1, std::as_writable_bytes(std::span(read))).code(), Code::kDataLoss);
}

TEST_P(ObjectFilesBy, StableBytesGoUpFromWhereTheyLieBetweenOthers) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket, /*part_bytes=*/1000, GetParam());
  const std::string text = RandomText(4, 25'000);
  auto file = files->Create("s3://models/x");
  ASSERT_TRUE(file.ok());
  const auto bytes = std::as_bytes(std::span(text));
  ASSERT_TRUE((*file)->Append(bytes.first(10)).ok());
  ASSERT_TRUE((*file)->AppendStable(bytes.subspan(10, 20'000)).ok());
  ASSERT_TRUE((*file)->Append(bytes.subspan(20'010)).ok());
  ASSERT_TRUE((*file)->Close().ok());
  EXPECT_EQ(bucket->objects.at("models/x"), text);
}

TEST_P(ObjectFilesBy, AFileOfOnePartIsOneRequest) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto files = FakeFiles(bucket, /*part_bytes=*/1000, GetParam());
  const std::string text = RandomText(7, 1000);
  ASSERT_TRUE(WriteAll(*files, "s3://models/x", text).ok());
  auto stable = files->Create("s3://models/y");
  ASSERT_TRUE(stable.ok());
  ASSERT_TRUE((*stable)->AppendStable(std::as_bytes(std::span(text))).ok());
  ASSERT_TRUE((*stable)->Close().ok());
  EXPECT_EQ(bucket->objects.at("models/y"), text);
  EXPECT_THAT(bucket->asked, testing::ElementsAre("PUT /models/x", "PUT /models/y"));
}

TEST_P(ObjectFilesBy, APartThatFailsLeavesNothingBehind) {
  const auto bucket = std::make_shared<FakeBucket>();
  bucket->fault = [](const std::string& method, const std::string& target) {
    const bool third = method == "PUT" && target.find("partNumber=3") != std::string::npos;
    return third ? std::optional<Answer>(Answer{400, {}, "<Error><Code>Reported</Code></Error>"})
                 : std::nullopt;
  };
  const auto files = FakeFiles(bucket, /*part_bytes=*/1000, GetParam());
  const Status written = WriteAll(*files, "s3://models/x", RandomText(5, 20'000));
  EXPECT_EQ(written.code(), Code::kFailedPrecondition) << written;
  EXPECT_NE(written.message().find("Reported"), std::string::npos) << written;
  EXPECT_TRUE(bucket->objects.empty());
  EXPECT_TRUE(bucket->uploads.empty());
}

// Holds back each upload of a part, and each read of a range, until so many are there.
class Together final : public Transport {
 public:
  Together(std::shared_ptr<FakeBucket> bucket, size_t wanted)
      : under_(std::move(bucket)), wanted_(wanted) {}

  Result<Answer> Send(const Outgoing& request) override {
    const bool counts =
        request.target.find("partNumber") != std::string::npos || request.headers.contains("range");
    if (counts) {
      std::unique_lock lock(mutex_);
      ++there_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return there_ >= wanted_; });
    }
    return under_.Send(request);
  }

 private:
  FakeTransport under_;
  const size_t wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t there_ = 0;
};

// Ends only if that many requests are under way at the same time.
TEST(ObjectFiles, OneFileMovesAsSeveralRequestsAtATime) {
  const auto bucket = std::make_shared<FakeBucket>();
  const std::string text = RandomText(6, 640u << 10);
  bucket->objects["models/x"] = text;
  StoreOptions options;
  options.host = "store.test";
  options.credentials = {"key", "secret", ""};
  const auto files = [&] {
    auto store = std::make_unique<Store>(
        options, std::make_unique<Together>(bucket, 4), [] { return Instant{}; }, [](Duration) {});
    return ObjectFiles(std::move(store),
                       {.part_bytes = 64u << 10, .requests = 4, .window_bytes = 128u << 10});
  };
  ASSERT_TRUE(WriteAll(*files(), "s3://models/y", text).ok());
  EXPECT_TRUE(bucket->objects.at("models/y") == text);
  const auto reading = files();
  const auto file = reading->Open("s3://models/x");
  ASSERT_TRUE(file.ok());
  std::string read(text.size(), '\0');
  ASSERT_TRUE((*file)->Read(0, std::as_writable_bytes(std::span(read))).ok());
  EXPECT_TRUE(read == text);
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
