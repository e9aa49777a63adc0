#include "service/controller/check/check_request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longhaul::service::check_request_test {
namespace {

using Names = std::vector<std::string>;

TEST(CheckRequest, NamesNodesOrNone) {
  EXPECT_EQ(ParseCheckRequest("").value(), Names());
  EXPECT_EQ(ParseCheckRequest("{}").value(), Names());
  EXPECT_EQ(ParseCheckRequest(R"({"nodes": null})").value(), Names());
  EXPECT_EQ(ParseCheckRequest(R"({"nodes": ["a", "b"]})").value(), (Names{"a", "b"}));
}

TEST(CheckRequest, RefusesWhatIsNoListOfNamesAndSaysWhat) {
  std::string many = R"({"nodes": ["n0")";
  for (int i = 1; i < 4097; ++i) many += ",\"n" + std::to_string(i) + "\"";
  const struct {
    std::string body;
    const char* error;
  } kRows[] = {
      {"[]", "object"},
      {"{\"nodes\": [", "line 1"},
      {R"({"node": ["a"]})", "did you mean \"nodes\""},
      {R"({"nodes": "a"})", "list of at most 4,096 names"},
      {R"({"nodes": [1]})", "not the name of a node: 1"},
      {R"({"nodes": [""]})", "not the name of a node"},
      {R"({"nodes": ["a", "a"]})", "names a twice"},
      {many + "]}", "list of at most 4,096 names"},
  };
  for (const auto& row : kRows) {
    const auto parsed = ParseCheckRequest(row.body);
    ASSERT_FALSE(parsed.ok()) << row.body.substr(0, 80);
    EXPECT_NE(parsed.status().message().find(row.error), std::string::npos) << parsed.status();
  }
}

}  // namespace
}  // namespace longhaul::service::check_request_test
