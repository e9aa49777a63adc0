#include "bin/client/top_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace longhaul::bin::client {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A cluster with `size` nodes, of which each tenth is down, and as many jobs of both kinds.
Json ClusterOf(int size) {
  Json nodes = {{"conditions", {"ready", "down"}}, {"places", {"leaf-1"}}, {"jobs", {"gpt-1"}}};
  Json running = Json::array();
  Json waiting = Json::array();
  for (int i = 0; i < size; ++i) {
    nodes["name"].push_back("node-" + std::to_string(i));
    nodes["condition"].push_back(i % 10 == 3 ? 1 : 0);
    nodes["place"].push_back(0);
    nodes["job"].push_back(i % 10 == 3 ? -1 : 0);
    nodes["slots"].push_back(8);
    nodes["used"].push_back(i % 10 == 3 ? 0 : 4);
    running.push_back({{"id", "gpt-" + std::to_string(i)},
                       {"queue", "research"},
                       {"state", "running"},
                       {"workers", 4},
                       {"step", 10},
                       {"total_steps", 40},
                       {"goodput", 0.913},
                       {"eta_seconds", 90},
                       {"faults", 1}});
    waiting.push_back({{"id", "moe-" + std::to_string(i)},
                       {"queue", ""},
                       {"workers", 64},
                       {"submitted_at_ms", 1'700'000'000'000 - 60'000},
                       {"sentence", "64 workers need 8 free nodes under one switch"}});
  }
  return {{"now_ms", 1'700'000'000'000},
          {"nodes", nodes},
          {"queues",
           {{{"name", "research"},
             {"guarantee", 16},
             {"limit", nullptr},
             {"usage", 12.5},
             {"borrowed", 0},
             {"running", size},
             {"waiting", size}}}},
          {"running", running},
          {"running_total", size},
          {"waiting", waiting},
          {"waiting_total", size + 5}};
}

TEST(Top, ShowsAllOfASmallCluster) {
  const std::vector<std::string> lines = TopLines(ClusterOf(10), {200, 0}, "");
  EXPECT_EQ(lines[0],
            "22:13:20Z  9 of 10 nodes ready  36 of 80 slots used  10 running  15 "
            "waiting");
  EXPECT_THAT(lines, Contains("research  12.5  16         -      0         10       10"));
  EXPECT_THAT(lines, Contains(HasSubstr("running  research  4        10/40  91.3 %   1 min 30 s")));
  EXPECT_THAT(lines, Contains(HasSubstr("64 workers need 8 free nodes under one switch")));
  EXPECT_THAT(lines, Contains("and 5 more"));
  EXPECT_THAT(lines, Contains("node-3          down       leaf-1  -"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("node-2 "))));
}

TEST(Top, FitsEachTerminalAndStatesWhatIsMissing) {
  const Json view = ClusterOf(200);
  for (size_t rows = 1; rows < 60; ++rows) {
    for (const size_t columns : {20, 80, 200}) {
      const std::vector<std::string> lines = TopLines(view, {columns, rows}, "q: quit");
      EXPECT_LE(lines.size(), rows);
      for (const std::string& line : lines) EXPECT_LE(Width(line), columns);
    }
  }
  const std::vector<std::string> lines = TopLines(view, {80, 23}, "q: quit");
  EXPECT_EQ(lines[1], "q: quit");
  for (const char* head : {"QUEUE", "RUNNING", "WAITING", "NODE NOT READY"}) {
    EXPECT_THAT(lines, Contains(testing::StartsWith(head)));
  }
  EXPECT_EQ(lines.size(), 23u) << "all rows are used";
}

TEST(Top, TakesAnythingForAnAnswer) {
  for (const char* text :
       {"{}", "[]", "3", R"({"nodes": 3, "queues": {}, "running": [1, {}], "waiting": [null]})",
        R"({"nodes": {"name": [1, "a"], "condition": ["x", -7], "conditions": [2]}})"}) {
    EXPECT_FALSE(TopLines(Json::parse(text), {80, 24}, "").empty()) << text;
  }
  Json view = ClusterOf(10);
  view["waiting"][0]["sentence"] = "\x1b[2J\xff";
  for (const std::string& line : TopLines(view, {80, 0}, "")) {
    EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  }
}

}  // namespace
}  // namespace longhaul::bin::client
