#include "objects/signature.h"

#include <gtest/gtest.h>

namespace longhaul::objects {
namespace {

// The examples of Amazon's S3 API reference, "Signature Calculations for the Authorization Header:
// Transferring Payload in a Single Chunk": keys, time, requests and signatures are theirs.
const Credentials kKeys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
const Instant kMay24th2013 = InstantFromNanoseconds(1'369'353'600'000'000'000);

Request Example(std::string method, std::string path) {
  Request request;
  request.method = std::move(method);
  request.host = "examplebucket.s3.amazonaws.com";
  request.path = std::move(path);
  return request;
}

std::string SignatureOf(const Request& request) {
  const std::string header = Sign(request, kKeys, "us-east-1", kMay24th2013).at("authorization");
  return header.substr(header.rfind('=') + 1);
}

TEST(Signature, OfAGetOfARangeIsThePublishedOne) {
  Request request = Example("GET", "/test.txt");
  request.headers["range"] = "bytes=0-9";
  EXPECT_EQ(SignatureOf(request),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Signature, OfAPutWithABodyIsThePublishedOne) {
  Request request = Example("PUT", "/test$file.text");
  request.headers["date"] = "Fri, 24 May 2013 00:00:00 GMT";
  request.headers["x-amz-storage-class"] = "REDUCED_REDUNDANCY";
  const std::string body = "Welcome to Amazon S3.";
  request.body = std::as_bytes(std::span(body));
  EXPECT_EQ(SignatureOf(request),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(Signature, OfAQueryWithoutValueIsThePublishedOne) {
  Request request = Example("GET", "/");
  request.query = {{"lifecycle", ""}};
  EXPECT_EQ(SignatureOf(request),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(Signature, OfAListingIsThePublishedOne) {
  Request request = Example("GET", "/");
  request.query = {{"prefix", "J"}, {"max-keys", "2"}};  // in any order
  EXPECT_EQ(SignatureOf(request),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  EXPECT_EQ(TargetOf(request), "/?max-keys=2&prefix=J");
}

TEST(Signature, CoversTheSessionAndTheBody) {
  Credentials keys = kKeys;
  keys.session_token = "token";
  Request request = Example("PUT", "/a");
  const auto plain = Sign(request, keys, "us-east-1", kMay24th2013);
  EXPECT_EQ(plain.at("x-amz-security-token"), "token");
  EXPECT_NE(plain.at("authorization").find("x-amz-security-token"), std::string::npos);
  const std::string body = "x";
  request.body = std::as_bytes(std::span(body));
  EXPECT_NE(Sign(request, keys, "us-east-1", kMay24th2013).at("authorization"),
            plain.at("authorization"));
}

TEST(PercentEncode, LeavesOnlyWhatIsUnreserved) {
  EXPECT_EQ(PercentEncode("a b/\xC3\xBC~-._%", true), "a%20b/%C3%BC~-._%25");
  EXPECT_EQ(PercentEncode("a/b+c=", false), "a%2Fb%2Bc%3D");
}

}  // namespace
}  // namespace longhaul::objects
