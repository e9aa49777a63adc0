#include "service/controller/plan/plan_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "spec/model/model_reader.h"

namespace longhaul::service {
namespace {

constexpr const char* kLeast = R"({"model": "gpt2", "device": "h100-sxm", "devices": 8})";

TEST(PlanRequest, BecomesTheWordsOfLonghaulPlan) {
  const auto request = ParsePlanRequest(
      R"({"model": "gpt2", "device": "h100-sxm", "devices": 16, "batch": 256, "sequence": 512,
          "tokens": "300B", "precision": "bf16", "framework": "megatron",
          "fix": "tensor=2,pipeline=1", "seconds": 2.5})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(PlannerArguments(*request),
            (std::vector<std::string>{"gpt2", "h100-sxm:16", "--batch=256", "--sequence=512",
                                      "--tokens=300B", "--precision=bf16", "--framework=megatron",
                                      "--fix=tensor=2,pipeline=1"}));
  EXPECT_EQ(request->limit, std::chrono::milliseconds(2'500));
}

TEST(PlanRequest, LeavesOutWhatThePlannerChooses) {
  const auto request = ParsePlanRequest(kLeast);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(PlannerArguments(*request), (std::vector<std::string>{"gpt2", "h100-sxm:8"}));
  EXPECT_EQ(request->limit, std::chrono::seconds(20));
}

TEST(PlanRequest, AModelsTextIsOnStandardInput) {
  nlohmann::json body = nlohmann::json::parse(kLeast);
  body.erase("model");
  body["model_text"] = spec::ToYaml(*spec::FindModel("gpt2"));
  const auto request = ParsePlanRequest(body.dump());
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(PlannerArguments(*request)[0], "/dev/stdin");
}

struct Wrong {
  const char* key;
  nlohmann::json value;
  const char* message;
};

class WrongPlanRequest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongPlanRequest, IsRefusedWithTheReason) {
  nlohmann::json body = nlohmann::json::parse(kLeast);
  body[GetParam().key] = GetParam().value;
  const auto request = ParsePlanRequest(body.dump());
  ASSERT_FALSE(request.ok());
  EXPECT_NE(request.status().message().find(GetParam().message), std::string::npos)
      << request.status().message();
}

// No text becomes an option of its own or a file that the controller may read.
INSTANTIATE_TEST_SUITE_P(
    All, WrongPlanRequest,
    testing::Values(Wrong{"model", "gpt3", "gpt2"}, Wrong{"model", "/etc/passwd", "/etc/passwd"},
                    Wrong{"model", nullptr, "\"model\", the name of a shipped model"},
                    Wrong{"model_text", "layers: 1", "\"model\", the name of a shipped model"},
                    Wrong{"device", "h101", "h101"}, Wrong{"device", nullptr, "is missing"},
                    Wrong{"devices", 0, "from 1 to 1,048,576"},
                    Wrong{"devices", -8, "from 1 to 1,048,576"},
                    Wrong{"devices", 1.5, "from 1 to 1,048,576"},
                    Wrong{"devices", 1e300, "from 1 to 1,048,576"},
                    Wrong{"devices", nullptr, "the number of accelerators, is missing"},
                    Wrong{"batch", "many", "from 1 to 1,000,000,000"},
                    Wrong{"precision", "bf16 --html=/tmp/x", "characters of"},
                    Wrong{"fix", std::string(201, 'a'), "at most 200"},
                    Wrong{"seconds", 0.5, "from 1 to 120"}, Wrong{"seconds", 121, "from 1 to 120"},
                    Wrong{"seconds", "NaN", "from 1 to 120"}, Wrong{"modell", 1, "model"}));

TEST(PlanRequest, AWrongModelIsRefusedWithItsLine) {
  const auto request = ParsePlanRequest(
      R"({"model_text": "layers: 1\nhiden: 4\n", "device": "h100-sxm", "devices": 8})");
  ASSERT_FALSE(request.ok());
  EXPECT_NE(request.status().message().find("model:2: hiden"), std::string::npos)
      << request.status().message();
}

}  // namespace
}  // namespace longhaul::service
