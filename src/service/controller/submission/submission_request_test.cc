#include "service/controller/submission/submission_request.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

TEST(SubmissionRequest, TakesTextAndObject) {
  const auto text = ParseSubmissionRequest(R"({"job": "name: x", "name": "y", "resume": true})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->job, "name: x");
  EXPECT_EQ(text->name, "y");
  EXPECT_TRUE(text->resume);
  EXPECT_EQ(text->from, "");
  const auto from = ParseSubmissionRequest(R"({"job": "x", "from": "/runs/base"})");
  ASSERT_TRUE(from.ok()) << from.status();
  EXPECT_EQ(from->from, "/runs/base");
  const auto user = ParseSubmissionRequest(R"({"job": "x", "user": "ada@example.org"})");
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ(user->user, "ada@example.org");
  const auto object = ParseSubmissionRequest(R"({"job": {"name": "x"}})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(object->job, R"({"name":"x"})");
}

TEST(SubmissionRequest, SaysWhereAndWhatIsWrong) {
  const struct {
    const char* body;
    const char* part;
  } kRows[] = {
      {"", "line 1, column 1"},
      {"{\n  \"job\": nope}", "line 2, column "},
      {"[]", "must be a JSON object"},
      {"{}", "\"job\" is missing"},
      {R"({"job": 1})", "text or an object"},
      {R"({"job": "x", "nme": "y"})", "did you mean \"name\"?"},
      {R"({"job": "x", "from": true})", "\"from\" must be a text"},
      {R"({"job": "x", "name": 3})", "\"name\" must be a text"},
      {R"({"job": "x", "name": "-x"})", "a letter or digit first"},
      {R"({"job": "x", "name": "_x"})", "a letter or digit first"},
      {R"({"job": "x", "name": "a/b"})", "'a/b' is not a name"},
      {R"({"job": "x", "resume": 1})", "true or false"},
      {R"({"job": "x", "user": "a b"})", "\"user\": 'a b' is not a user's name"},
      {R"({"job": "x", "user": 7})", "\"user\" must be a text"},
      {"{\"job\": \"\xff\"}", "not JSON"},
  };
  for (const auto& row : kRows) {
    const Status status = ParseSubmissionRequest(row.body).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.body;
    EXPECT_NE(status.message().find(row.part), std::string::npos) << row.body << " -> " << status;
  }
}

TEST(SubmissionRequest, RefusesABodyThatNestsTooDeep) {
  const std::string deep = "{\"job\": " + std::string(100'000, '[');
  const Status status = ParseSubmissionRequest(deep).status();
  EXPECT_NE(status.message().find("nests deeper"), std::string::npos) << status;
}

TEST(ParseReason, TakesNothingAndAReason) {
  EXPECT_EQ(*ParseReason(""), "");
  EXPECT_EQ(*ParseReason(R"({"reason": "maintenance"})"), "maintenance");
  EXPECT_FALSE(ParseReason("{").ok());
}

}  // namespace
}  // namespace longhaul::service
