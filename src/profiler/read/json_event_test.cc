#include "profiler/read/json_event.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul::profiler {
namespace {

// Keeps the text alive behind the views.
struct Scanned {
  explicit Scanned(std::string_view json) : text(std::string(json) + std::string(64, '\0')) {
    result = ScanEvent(text.data(), text.data() + json.size(), &event);
  }
  std::string text;
  RawEvent event;
  ScanResult result;
};

TEST(ScanEvent, ReadsAKernel) {
  const Scanned s(
      R"({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 3, "tid": "x", "ts": 12.345,)"
      R"( "dur": 7, "args": {"External id": 5, "grid": [64, 1, 1], "correlation": 9,)"
      R"( "Collective name": "allreduce", "In msg nelems": 1024, "Group size": 8}})");
  ASSERT_EQ(s.result.scan, Scan::kOk) << s.result.what;
  EXPECT_EQ(s.event.phase, 'X');
  EXPECT_EQ(s.event.category, "kernel");
  EXPECT_EQ(s.event.name, "gemm");
  EXPECT_EQ(s.event.pid, "3");
  EXPECT_EQ(s.event.tid, "\"x\"");
  EXPECT_EQ(s.event.time_ns, 12'345);
  EXPECT_TRUE(s.event.fraction);
  EXPECT_EQ(s.event.duration_ns, 7'000);
  EXPECT_EQ(s.event.external, 5);
  EXPECT_EQ(s.event.correlation, 9);
  EXPECT_TRUE(s.event.has_note);
  EXPECT_EQ(s.event.in_elements, 1024);
  EXPECT_EQ(s.event.group_size, 8);
}

TEST(ScanEvent, ReadsAnOperatorOfTheTrainer) {
  const Scanned s(
      R"({"ph":"X","cat":"user_annotation","name":"mlp.up","pid":1,"tid":1,"ts":1,"dur":2,"args":)"
      R"({"Operator":"matmul","Sizes":"[4.0,8.0,16.0]","Layer":3,"Direction":"backward",)"
      R"("Micro batch":1,"CPU ns":1500}})");
  ASSERT_EQ(s.result.scan, Scan::kOk) << s.result.what;
  EXPECT_TRUE(s.event.has_operator);
  EXPECT_EQ(s.event.model_operator, "matmul");
  EXPECT_EQ(s.event.sizes, "[4.0,8.0,16.0]");
  EXPECT_EQ(s.event.direction, "backward");
  EXPECT_EQ(s.event.layer, 3);
  EXPECT_EQ(s.event.micro_batch, 1);
  EXPECT_EQ(s.event.cpu_ns, 1500);
}

TEST(ScanEvent, ForgivesWhatProfilersWrite) {
  for (const char* json : {
           R"({"ph":"X", "ts":1, "dur":2, })",
           R"({"ph":"X",, "ts":1, "dur":2})",
           "{\"ph\":\"X\", \"name\":\"\x80\xff\x01\", \"ts\":1, \"dur\":2}",
           R"({"ph":"X", "unknown":[{"a":"}"},[[]]], "ts":1, "dur":2})",
           R"-({"ph":"X", "args":{"memory bandwidth (GB/s)": NaN}, "ts":1, "dur":2})-",
           R"({"ph":"X", "name":"a\"}\\", "ts":1, "dur":2})",
       }) {
    const Scanned s(json);
    EXPECT_EQ(s.result.scan, Scan::kOk) << json << ": " << s.result.what;
    EXPECT_EQ(s.event.duration_ns, 2'000) << json;
  }
}

TEST(ScanEvent, SaysWhatIsWrong) {
  const struct {
    const char* json;
    const char* what;
  } kRows[] = {
      {R"({"ph":"X", "name":"foo "bar" baz", "ts":1})",
       "a value is followed by neither comma nor brace"},
      {R"({"ph" "X"})", "a key is missing its colon"},
      {R"({ph:"X"})", "a key is missing its quote"},
      {R"({"ph":"X", "ts":})", "a value is missing"},
      {"{\"ph\":\"X\", \"name\":\"a\nb\"}", "a line ends inside a string"},
  };
  for (const auto& row : kRows) {
    const Scanned s(row.json);
    EXPECT_EQ(s.result.scan, Scan::kBad) << row.json;
    EXPECT_STREQ(s.result.what, row.what) << row.json;
  }
}

TEST(ScanEvent, AsksForMoreAtEveryCut) {
  const std::string json =
      R"({"ph":"X", "name":"a\"b", "ts":1.5, "args":{"x":[1,{"y":"}"}], "correlation":7}})";
  for (size_t size = 1; size < json.size(); ++size) {
    const Scanned s(json.substr(0, size));
    EXPECT_EQ(s.result.scan, Scan::kNeedMore) << json.substr(0, size);
  }
  EXPECT_EQ(Scanned(json).event.correlation, 7);
}

TEST(ParseMicroseconds, KeepsEveryNanosecondOfSixteenDigits) {
  const struct {
    const char* text;
    bool good;
    int64_t ns;
    bool fraction;
  } kRows[] = {
      {"1661203462598738", true, 1'661'203'462'598'738'000, false},
      {"4458676522690.655", true, 4'458'676'522'690'655, true},
      {"0.1", true, 100, true},
      {"-2.5", true, -2'500, true},
      {"1.23456", true, 1'234, true},
      {"1e3", true, 1'000'000, false},
      {"9223372036854775807", false, 0, false},
      {"NaN", false, 0, false},
      {"", false, 0, false},
      {"1x", false, 0, false},
  };
  for (const auto& row : kRows) {
    int64_t ns = 0;
    bool fraction = false;
    EXPECT_EQ(ParseMicroseconds(row.text, &ns, &fraction), row.good) << row.text;
    if (!row.good) continue;
    EXPECT_EQ(ns, row.ns) << row.text;
    EXPECT_EQ(fraction, row.fraction) << row.text;
  }
}

TEST(Unescape, KeepsWhatIsNoEscape) {
  EXPECT_EQ(Unescape(R"(a\"b\\c\/)"), R"(a"b\c/)");
  EXPECT_EQ(Unescape(R"(C:\dir\x)"), R"(C:\dir\x)");
  EXPECT_EQ(Unescape(R"(\u00e9\u20ac)"), "\xC3\xA9\xE2\x82\xAC");
  EXPECT_EQ(Unescape(R"(\ud800\u12)"), "\xEF\xBF\xBD\\u12");
}

}  // namespace
}  // namespace longhaul::profiler
