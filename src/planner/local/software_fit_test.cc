#include "planner/local/software_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::planner {
namespace {

using testing::HasSubstr;

constexpr std::string_view kColumns =
    "case,model.layers,model.hidden,model.ffn_hidden,model.heads,model.vocabulary,"
    "model.sequence_length,cluster.gpu,cluster.gpus,layout.tensor,layout.pipeline,layout.data,"
    "batch.global,batch.micro,precision,step_seconds\n";
constexpr std::string_view kRow = "a,24,2048,8192,16,50257,2048,a100-sxm,8,2,1,4,64,2,bf16,3.5\n";

std::string File(std::string_view rows) { return std::string(kColumns) + std::string(rows); }

TEST(ParseRuns, ReadsKeysOfACase) {
  const auto runs = ParseRuns(
      File(std::string(kRow) + "\n\"b, \"\"c\"\"\"" + std::string(kRow.substr(1))), "runs.csv");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ((*runs)[0].line, 2u);
  EXPECT_EQ((*runs)[0].step_s, 3.5);
  EXPECT_EQ((*runs)[0].asked.question.model.hidden, 2048u);
  EXPECT_EQ((*runs)[0].asked.question.training.layout.tensor, 2u);
  EXPECT_EQ((*runs)[1].line, 4u);
  EXPECT_EQ((*runs)[1].asked.id, "b, \"c\"");
}

TEST(ParseRuns, SaysInWhichLineWhatIsWrong) {
  const std::string row(kRow);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = File(row);
    return text.replace(text.find(from), from.size(), to);
  };
  const struct {
    std::string text;
    const char* want;
  } kRows[] = {
      {"", "runs.csv: holds no line of column names"},
      {"model.layers\n3\n", "runs.csv:1: no column step_seconds"},
      {std::string(kColumns), "runs.csv: holds no measured step"},
      {File("a,24\n"), "runs.csv:2: 2 cells under 16 columns"},
      {File(row + row + row + row), "runs.csv:5: a fourth measured step"},
      {with(",3.5", ",-1"), "runs.csv:2: step_seconds must be a number above 0"},
      {with(",3.5", ",nan"), "runs.csv:2: step_seconds"},
      {with("layout.tensor", "layout.tonsor"), "runs.csv:2: unknown column layout.tonsor"},
      {with("layout.tensor", "layout..tensor"), "runs.csv:1: not a column's name"},
      {with("layout.tensor", "layout.data.x"), "contradicts another"},
      {File("\"a"), "2: a quote that does not end"},
      {with("a100-sxm", "a1000"), "runs.csv:2: "},
  };
  for (const auto& each : kRows) {
    const auto runs = ParseRuns(each.text, "runs.csv");
    ASSERT_FALSE(runs.ok()) << each.want;
    EXPECT_THAT(runs.status().message(), HasSubstr(each.want));
  }
}

// Steps of 1 s fixed and the factor's seconds of compute.
double Predict(const MeasuredStep&, double factor) { return 1 + factor; }

TEST(FitFactor, FindsTheFactorThatWasUsed) {
  std::vector<MeasuredStep> rows(2);
  rows[0].step_s = 2.5;
  rows[1].step_s = 2.5;
  const auto factor = FitFactor("mine", rows, Predict);
  ASSERT_TRUE(factor.ok()) << factor.status();
  EXPECT_NEAR(factor->compute_factor, 1.5, 1e-6);
  EXPECT_NEAR(factor->error_before, 0.2, 1e-9);
  EXPECT_NEAR(factor->error_after, 0, 1e-6);
}

TEST(FitFactor, BalancesRowsThatDisagree) {
  std::vector<MeasuredStep> rows(2);
  rows[0].step_s = 2;
  rows[1].step_s = 4.5;
  EXPECT_NEAR(FitFactor("mine", rows, Predict)->compute_factor, 2, 1e-6);  // (3/2) (3/4.5) = 1
}

TEST(FitFactor, RefusesWhatNoFactorExplains) {
  std::vector<MeasuredStep> rows(1);
  rows[0].step_s = 0.5;  // shorter than what is fixed
  EXPECT_EQ(FitFactor("mine", rows, Predict).status().code(), Code::kFailedPrecondition);
  rows[0].step_s = 500;
  EXPECT_EQ(FitFactor("mine", rows, Predict).status().code(), Code::kFailedPrecondition);
}

TEST(StackFile, ComesBackAsItWasWritten) {
  const StackFactor factor{"my cluster, release 0.14", 1.0625, 3, 0.12, 0.03};
  const auto read = ParseStackFile(ToJson(factor));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, factor);
}

TEST(StackFile, SaysWhatIsWrong) {
  const std::string text = ToJson(StackFactor{"x", 1.5, 2, 0.1, 0.1});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    return other.replace(other.find(from), from.size(), to);
  };
  const struct {
    std::string text;
    const char* want;
  } kRows[] = {
      {text.substr(0, 30), "not a JSON object, or cut off"},
      {with("longhaul-stack", "x"), "format is not"},
      {with("\"version\": 1", "\"version\": 3"), "only version 1 is known"},
      {with("1.5", "11"), "compute_factor must be from 0.1 to 10"},
      {with("1.5", "\"1.5\""), "compute_factor must be"},
      {with("\"rows\": 2", "\"rows\": 4"), "rows must be 1, 2 or 3"},
      {with("\"rows\"", "\"row\""), "unknown key row"},
  };
  for (const auto& row : kRows) {
    const auto read = ParseStackFile(row.text);
    ASSERT_FALSE(read.ok()) << row.want;
    EXPECT_THAT(read.status().message(), HasSubstr(row.want));
  }
}

}  // namespace
}  // namespace longhaul::planner
