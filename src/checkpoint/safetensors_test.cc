#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "checkpoint/testing.h"

namespace longhaul::checkpoint {
namespace {

// A file with this JSON as its header.
std::vector<std::byte> FileOf(const std::string& json, size_t data_bytes) {
  const uint64_t length = json.size();
  std::string text(reinterpret_cast<const char*>(&length), 8);
  text += json + std::string(data_bytes, 'd');
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const StatePlan plan = testing_support::SmallPlan();
  const TextMap metadata = {{"longhaul.step", "40"}, {"quote\"", "line\n\u00fc"}};
  std::string text = *EncodeSafetensorsHeader(plan, metadata);
  EXPECT_EQ(text.size() % 4096, 0u) << "data starts at a page";
  text.append(plan.total_bytes(), 'x');
  const Result<SafetensorsHeader> header = ParseSafetensors(std::as_bytes(std::span(text)));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->plan, plan);
  EXPECT_EQ(header->metadata, metadata);
  EXPECT_EQ(header->offsets[0], text.size() - plan.total_bytes());
}

// Put together by hand from the format's description.
TEST(Safetensors, ReadsAFileInAnotherOrderAndStyle) {
  const auto file = FileOf(
      R"({"b" : {"shape": [], "data_offsets": [6, 14], "dtype": "F64"}, )"
      R"("a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},"__metadata__":{"format":"pt"}}  )",
      14);
  const Result<SafetensorsHeader> header = ParseSafetensors(file);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->plan, *StatePlan::Create({{"a", "BF16", {3}}, {"b", "F64", {}}}));
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->offsets[1] - header->offsets[0], 6u);
}

TEST(Safetensors, RefusesWhatIsNotTheFormat) {
  const struct {
    const char* json;
    size_t data_bytes;
    const char* reason;
  } kRows[] = {
      {"", 0, "not one JSON object"},
      {" {}", 0, "not one JSON object"},
      {"{}\n", 0, "not one JSON object"},
      {"{} {}", 0, "not JSON"},
      {"{}", 1, "belong to no tensor"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1, "outside"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3, "hole"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}})", 3, "its shape and dtype"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "overlaps"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "comes twice"},
      {R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1, "comes twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1, "unknown key"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", 1, "incomplete"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "incomplete"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", 1, "more than two"},
      {R"({"a":{"dtype":"U9","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "negative"},
      {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "fraction"},
      {R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "an array"},
      {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1, "8 dim"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "64 TiB"},
      {R"({"a":1})", 0, "a number"},
      {R"({"a":null})", 0, "null"},
      {R"({"__metadata__":{"x":1}})", 0, "a number"},
      {R"({"__metadata__":{"x":"1","x":"2"}})", 0, "comes twice"},
      {R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "no name"},
      {"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not JSON"},
  };
  for (const auto& row : kRows) {
    const Status status = ParseSafetensors(FileOf(row.json, row.data_bytes)).status();
    EXPECT_EQ(status.code(), Code::kDataLoss) << row.json;
    EXPECT_NE(status.message().find(row.reason), std::string::npos) << row.json << ": " << status;
  }
}

TEST(Safetensors, RefusesALengthBeyondTheFileOrTheLimit) {
  std::vector<std::byte> file = FileOf("{}", 0);
  EXPECT_TRUE(ParseSafetensors(file).ok());
  for (const uint64_t length : {uint64_t{3}, kMaxSafetensorsHeader + 1, ~uint64_t{0}}) {
    std::memcpy(file.data(), &length, 8);
    EXPECT_EQ(ParseSafetensors(file).status().code(), Code::kDataLoss);
  }
  EXPECT_FALSE(ParseSafetensors(std::span(file).first(7)).ok());
}

TEST(Safetensors, KeepsTheOrderOfEmptyTensors) {
  const StatePlan plan =
      *StatePlan::Create({{"z", "U8", {0}}, {"a", "U8", {0}}, {"m", "U8", {4}}, {"k", "U8", {0}}});
  const std::string text = *EncodeSafetensorsHeader(plan, {}) + "data";
  const Result<SafetensorsHeader> header = ParseSafetensors(std::as_bytes(std::span(text)));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->plan, plan);
}

}  // namespace
}  // namespace longhaul::checkpoint
