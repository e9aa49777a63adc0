#include "objects/store.h"

#include <gtest/gtest.h>

#include "objects/testing.h"

namespace longhaul::objects::store_test {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Store, TriesAgainWhatMayPassAndNothingElse) {
  const struct {
    int status;
    size_t asked;
    Code code;
  } kRows[] = {{503, 5, Code::kUnavailable},       {500, 5, Code::kUnavailable},
               {429, 5, Code::kUnavailable},       {403, 1, Code::kPermissionDenied},
               {404, 1, Code::kNotFound},          {400, 1, Code::kFailedPrecondition},
               {507, 1, Code::kResourceExhausted}, {412, 1, Code::kDataLoss}};
  for (const auto& row : kRows) {
    const auto bucket = std::make_shared<FakeBucket>();
    bucket->fault = [&row](const std::string&, const std::string&) -> std::optional<Answer> {
      return Answer{row.status, {}, "<Error><Code>Reported</Code><Message>why</Message></Error>"};
    };
    const Status put = FakeStore(bucket)->Put("models", "a", Bytes("x"));
    EXPECT_EQ(put.code(), row.code) << put;
    EXPECT_EQ(bucket->asked.size(), row.asked) << row.status;
    EXPECT_NE(put.message().find("Reported: why"), std::string::npos) << put;
  }
}

TEST(Store, AFailureThatPassesIsNotSeen) {
  const auto bucket = std::make_shared<FakeBucket>();
  int failures = 4;
  bucket->fault = [&failures](const std::string&, const std::string&) -> std::optional<Answer> {
    if (failures-- > 0) return Answer{503, {}, ""};
    return std::nullopt;
  };
  EXPECT_TRUE(FakeStore(bucket)->Put("models", "a", Bytes("x")).ok());
  EXPECT_EQ(bucket->objects.at("models/a"), "x");
}

// Some servers repeat what was signed and with which key.
TEST(Store, AnErrorRepeatsNothingButCodeAndMessage) {
  const auto bucket = std::make_shared<FakeBucket>();
  bucket->fault = [](const std::string&, const std::string&) -> std::optional<Answer> {
    return Answer{403,
                  {},
                  "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message>"
                  "<AWSAccessKeyId>AKIAHIDDEN</AWSAccessKeyId></Error>"};
  };
  const Status put = FakeStore(bucket)->Put("models", "a", Bytes("x"));
  EXPECT_EQ(put.message().find("AKIAHIDDEN"), std::string::npos) << put;
  EXPECT_EQ(put.message().find("secret"), std::string::npos) << put;
}

TEST(Store, ListsPageByPage) {
  const auto bucket = std::make_shared<FakeBucket>();
  bucket->page = 3;
  for (int i = 0; i < 10; ++i) bucket->objects["models/run/k" + std::to_string(i)] = "x";
  bucket->objects["models/run/z/deep"] = "x";
  bucket->objects["models/other"] = "x";
  const Result<Listing> listing = FakeStore(bucket)->List("models", "run/");
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->objects.size(), 10u);
  EXPECT_EQ(listing->prefixes, std::vector<std::string>{"run/z/"});
}

TEST(Store, AListingThatDoesNotGetOnEnds) {
  const auto bucket = std::make_shared<FakeBucket>();
  bucket->fault = [](const std::string&, const std::string&) -> std::optional<Answer> {
    return Answer{200,
                  {},
                  "<ListBucketResult><IsTruncated>true</IsTruncated>"
                  "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"};
  };
  EXPECT_EQ(FakeStore(bucket)->List("models", "").status().code(), Code::kDataLoss);
}

TEST(Store, ARangeOfAnObjectThatHasChangedIsRefused) {
  const auto bucket = std::make_shared<FakeBucket>();
  bucket->objects["models/a"] = "0123456789";
  const auto store = FakeStore(bucket);
  const auto facts = store->Head("models", "a");
  ASSERT_TRUE(facts.ok());
  std::array<std::byte, 4> to{};
  ASSERT_TRUE(store->GetRange("models", "a", facts->tag, 3, to).ok());
  EXPECT_EQ(static_cast<char>(to[0]), '3');
  bucket->objects["models/a"] = "another, longer one";
  EXPECT_EQ(store->GetRange("models", "a", facts->tag, 3, to).code(), Code::kDataLoss);
}

// The answer begins with 200 before the parts are put together.
TEST(Store, ACompletionThatFailsLateIsAFailure) {
  const auto bucket = std::make_shared<FakeBucket>();
  const auto store = FakeStore(bucket);
  const auto upload = store->BeginParts("models", "a");
  ASSERT_TRUE(upload.ok());
  const auto tag = store->PutPart("models", "a", *upload, 1, Bytes("x"));
  ASSERT_TRUE(tag.ok());
  bucket->fault = [](const std::string& method, const std::string&) -> std::optional<Answer> {
    if (method != "POST") return std::nullopt;
    return Answer{200, {}, "<Error><Code>InternalError</Code></Error>"};
  };
  EXPECT_FALSE(store->CompleteParts("models", "a", *upload, {*tag}).ok());
}

using Variables = std::map<std::string, std::string>;

Result<StoreOptions> From(const Variables& variables, const Variables& files = {}) {
  return OptionsFrom(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      },
      [&](const std::string& path) -> Result<std::string> {
        const auto found = files.find(path);
        if (found == files.end()) return NotFound("no such file");
        return found->second;
      });
}

TEST(OptionsFrom, TakesTheEnvironment) {
  const auto options = From(
      {{"AWS_ACCESS_KEY_ID", "a"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_REGION", "eu-west-1"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->host, "s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(options->scheme, "https");
  EXPECT_EQ(options->credentials.secret_key, "s");
  const auto own = From({{"AWS_ACCESS_KEY_ID", "a"},
                         {"AWS_SECRET_ACCESS_KEY", "s"},
                         {"AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"}});
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->scheme + " " + own->host, "http 127.0.0.1:9000");
}

TEST(OptionsFrom, TakesTheFileWithoutKeysInTheEnvironment) {
  const std::string text =
      "# mine\n[default]\naws_access_key_id = d\naws_secret_access_key=e\n[other]\n"
      "aws_access_key_id = o\naws_secret_access_key = p\naws_session_token = t\n";
  const Variables files = {{"/home/me/.aws/credentials", text}};
  const auto standard = From({{"HOME", "/home/me"}}, files);
  ASSERT_TRUE(standard.ok()) << standard.status();
  EXPECT_EQ(standard->credentials.access_key, "d");
  const auto other = From({{"HOME", "/home/me"}, {"AWS_PROFILE", "other"}}, files);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->credentials.session_token, "t");
}

TEST(OptionsFrom, SaysWhatIsMissing) {
  const Status none = From({{"HOME", "/home/me"}}).status();
  EXPECT_EQ(none.code(), Code::kUnauthenticated);
  EXPECT_NE(none.message().find("AWS_ACCESS_KEY_ID"), std::string::npos) << none;
  for (const char* endpoint : {"ftp://host", "host:9000", "http://", "http://a/b"}) {
    EXPECT_EQ(From({{"AWS_ENDPOINT_URL", endpoint},
                    {"AWS_ACCESS_KEY_ID", "a"},
                    {"AWS_SECRET_ACCESS_KEY", "s"}})
                  .status()
                  .code(),
              Code::kInvalidArgument)
        << endpoint;
  }
}

}  // namespace
}  // namespace longhaul::objects::store_test
