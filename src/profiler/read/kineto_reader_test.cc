#include "profiler/read/kineto_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <isa-l.h>
#include <zstd.h>

#include <random>
#include <string>

#include "profiler/read/metadata.h"

namespace longhaul::profiler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<RankTrace> Read(std::string_view text, const ReadOptions& options = {}) {
  const auto source = OpenBytes(text);
  return ReadKineto(*source, "dir/rank-3.json", options);
}

std::string Span(int i) {
  return R"({"ph": "X", "cat": "cpu_op", "name": "op)" + std::to_string(i) +
         R"(", "pid": 1, "tid": 2, "ts": )" + std::to_string(i * 10) + R"(, "dur": 5})";
}

// A whole trace of `count` operators, an event a line.
std::string Trace(int count) {
  std::string text = "{\"schemaVersion\": 1,\n\"traceEvents\": [\n";
  for (int i = 0; i < count; ++i) text += Span(i) + (i + 1 < count ? ",\n" : "\n");
  return text + "], \"baseTimeNanoseconds\": 1000,\n" +
         R"("distributedInfo": {"rank": 5, "world_size": 8, "pg_config": [)" +
         R"({"pg_name": "3", "pg_desc": "mesh_tp", "ranks": [4, 5]}]}})";
}

TEST(ReadKineto, ReadsEventsAndWhatStandsBehindThem) {
  const Result<RankTrace> trace = Read(Trace(3));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->events.size(), 3u);
  EXPECT_EQ(trace->events.start_ns(2), 21'000);  // 20 us and the base of 1000 ns
  EXPECT_EQ(trace->strings[trace->events.name(2)], "op2");
  EXPECT_EQ(trace->metadata.rank, 5);
  EXPECT_EQ(trace->metadata.world_size, 8);
  ASSERT_EQ(trace->metadata.groups.size(), 1u);
  EXPECT_EQ(trace->metadata.groups[0].description, "mesh_tp");
  EXPECT_THAT(trace->metadata.groups[0].ranks, ElementsAre(4, 5));
  EXPECT_EQ(trace->report.damages, 0u);
  EXPECT_FALSE(trace->report.cut);
}

TEST(ReadKineto, ReadsABareListAndPairsOfBeginAndEnd) {
  const Result<RankTrace> trace =
      Read(R"([{"ph":"B","name":"a","pid":1,"tid":1,"ts":1},)"
           R"({"ph":"B","name":"b","pid":1,"tid":1,"ts":2},)"
           R"({"ph":"E","pid":1,"tid":1,"ts":5},{"ph":"E","pid":1,"tid":1,"ts":9}])");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->events.size(), 2u);
  EXPECT_EQ(trace->events.duration_ns(0), 8'000);
  EXPECT_EQ(trace->events.duration_ns(1), 3'000);
  EXPECT_EQ(trace->metadata.rank, 3);  // by the name
}

TEST(ReadKineto, LosesOneEventOfMillionsOfBytesAndSaysWhere) {
  std::string text = Trace(40'000);  // several windows
  const size_t at = text.find("\"op20000\"");
  text.insert(at + 4, "\"");
  const Result<RankTrace> trace = Read(text);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->events.size(), 39'999u);
  EXPECT_EQ(trace->metadata.rank, 5);
  ASSERT_EQ(trace->report.kept.size(), 1u);
  EXPECT_EQ(trace->report.kept[0].line, 20'003u);
  EXPECT_EQ(trace->report.kept[0].byte, text.rfind("\n{", at) + 1);
}

// Cut anywhere: everything before the cut is there, and the loss is reported.
TEST(ReadKineto, KeepsWhatStandsBeforeACut) {
  const std::string text = Trace(20);
  for (size_t size = text.find("{\"ph\""); size < text.size(); ++size) {
    const Result<RankTrace> trace = Read(text.substr(0, size));
    ASSERT_TRUE(trace.ok()) << size << trace.status();
    size_t whole = 0;
    while (whole < 20 &&
           text.find(Span(static_cast<int>(whole))) + Span(static_cast<int>(whole)).size() <=
               size) {
      ++whole;
    }
    EXPECT_EQ(trace->events.size(), whole) << size;
    EXPECT_TRUE(trace->report.cut || size + 1 >= text.size()) << size;
    EXPECT_GT(trace->report.damages, 0u) << size;
  }
}

// A byte that changes costs the event that it stands in, and at most its neighbours.
TEST(ReadKineto, LosesLittleByAnyFlippedByte) {
  const std::string good = Trace(30);
  const size_t begin = good.find("{\"ph\"");
  const size_t end = good.find("]", begin);
  std::mt19937_64 rng(11);
  for (int i = 0; i < 3'000; ++i) {
    std::string text = good;
    const size_t at = begin + rng() % (end - begin);
    text[at] = static_cast<char>(rng());
    SCOPED_TRACE("byte " + std::to_string(at) + " is " + std::to_string(text[at]));
    const Result<RankTrace> trace = Read(text);
    ASSERT_TRUE(trace.ok()) << trace.status();
    ASSERT_GE(trace->events.size(), 28u);
  }
}

TEST(ReadKineto, ReadsTwoDocumentsInOneFile) {
  const Result<RankTrace> trace = Read(Trace(3) + "\n" + Trace(2));
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->events.size(), 5u);
  ASSERT_EQ(trace->report.kept.size(), 1u);
  EXPECT_EQ(trace->report.kept[0].what, "a second document begins");
}

TEST(ReadKineto, RefusesWhatIsNoTrace) {
  for (const char* text : {"", "hello", "{}", "{\"a\": 1}", "\x1f\x8b junk"}) {
    EXPECT_FALSE(Read(text).ok()) << text;
  }
}

TEST(ReadKineto, EndsAnEventThatIsTooLong) {
  ReadOptions options;
  options.max_event_bytes = 1 << 20;
  std::string text =
      "[{\"ph\":\"X\",\"name\":\"" + std::string(5 << 20, 'x') + "\",\"ts\":1},\n" + Span(1) + "]";
  const Result<RankTrace> trace = Read(text, options);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->events.size(), 1u);
  EXPECT_THAT(trace->report.kept[0].what, HasSubstr("very long"));
}

TEST(ReadKineto, StopsKeepingWhereTheMemoryAllowedEnds) {
  ReadOptions options;
  options.max_memory_bytes = 1 << 20;
  const Result<RankTrace> trace = Read(Trace(200'000), options);
  ASSERT_TRUE(trace.ok());
  EXPECT_LT(trace->events.size(), 140'000u);
  EXPECT_TRUE(trace->report.cut);
  EXPECT_TRUE(trace->report.full);
}

std::string Gzip(std::string_view text) {
  std::string out(text.size() + 1024, '\0');
  isal_zstream stream;
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uint32_t>(text.size());
  stream.next_out = reinterpret_cast<uint8_t*>(out.data());
  stream.avail_out = static_cast<uint32_t>(out.size());
  EXPECT_EQ(isal_deflate(&stream), COMP_OK);
  out.resize(out.size() - stream.avail_out);
  return out;
}

TEST(ReadKineto, ReadsGzipAndZstdAndSurvivesTheirCuts) {
  const std::string text = Trace(20'000);
  std::string zstd(ZSTD_compressBound(text.size()), '\0');
  zstd.resize(ZSTD_compress(zstd.data(), zstd.size(), text.data(), text.size(), 1));
  for (const std::string& packed : {Gzip(text), zstd}) {
    const Result<RankTrace> whole = Read(packed);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->events.size(), 20'000u);
    EXPECT_EQ(whole->report.damages, 0u);
    const Result<RankTrace> cut = Read(packed.substr(0, packed.size() / 2));
    ASSERT_TRUE(cut.ok()) << cut.status();
    EXPECT_GT(cut->events.size(), 1'000u);
    EXPECT_LT(cut->events.size(), 20'000u);
    EXPECT_TRUE(cut->report.cut);
  }
  const std::string twice = Gzip(text.substr(0, 1000)) + Gzip(text.substr(1000));
  EXPECT_EQ(Read(twice)->events.size(), 20'000u);
}

TEST(OpenBytes, RefusesABomb) {
  SourceLimits limits;
  limits.max_ratio = 100;
  const std::string packed = Gzip(std::string(100 << 20, ' '));
  const auto source = OpenBytes(packed, limits);
  const Result<RankTrace> trace = ReadKineto(*source, "bomb");
  ASSERT_FALSE(trace.ok());
  EXPECT_THAT(trace.status().message(), HasSubstr("100 times its size"));
}

TEST(RankInName, KnowsTheUsualNames) {
  EXPECT_EQ(RankInName("/rank9/trace_rank-3.json"), 3);
  EXPECT_EQ(RankInName("rank[12].json.gz"), 12);
  EXPECT_EQ(RankInName("trace_8_rank_1.json"), 1);
  EXPECT_EQ(RankInName("frank.json"), kNoRank);
}

TEST(ParseRanks, SaysWhenTheListIsCut) {
  bool cut = false;
  EXPECT_THAT(ParseRanks("[0, 1, 12]", &cut), ElementsAre(0, 1, 12));
  EXPECT_FALSE(cut);
  EXPECT_THAT(ParseRanks("[0, 1, 2, ...]", &cut), ElementsAre(0, 1, 2));
  EXPECT_TRUE(cut);
}

}  // namespace
}  // namespace longhaul::profiler
