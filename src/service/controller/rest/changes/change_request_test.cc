#include "service/controller/rest/changes/change_request.h"

#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

using Json = nlohmann::ordered_json;

TEST(ChangeRequest, ReadsEachKind) {
  const auto request = ParseChanges(R"({"changes": [
      {"expedite": "a"}, {"evict": "b"}, {"job": "c", "nodes": 2, "topology": "leaf"},
      {"queue": "lab", "limit": {"accelerators": 4, "cpu": -1}}, {"node": "node-1"},
      {"link": "l1", "level": "leaf"}], "reason": "a test"})");
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->changes.size(), 6u);
  EXPECT_EQ(request->reason, "a test");
  EXPECT_EQ(request->changes[1].kind, ChangeRequest::Kind::kEvict);
  EXPECT_EQ(request->changes[2].nodes, 2u);
  EXPECT_EQ(request->changes[2].topology, "leaf");
  EXPECT_EQ(request->changes[3].accelerators, 4.0);
  EXPECT_EQ(request->changes[3].cpu, -1.0);
  EXPECT_EQ(request->changes[3].memory_gib, std::nullopt);
  EXPECT_EQ(request->changes[5].level, "leaf");
  EXPECT_EQ(request->changes[2].devices, std::nullopt);
  const auto devices =
      ParseChanges(R"({"changes": [{"job": "c", "devices": ["A", "B"], "mixed_devices": false}]})");
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->changes[0].devices, (std::vector<std::string>{"A", "B"}));
  EXPECT_EQ(devices->changes[0].mixed_devices, false);
}

TEST(ChangeRequest, ReadsAndWritesAScaledJob) {
  const auto request = ParseChanges(R"({"changes": [{"scale": "a-1", "nodes": 4}]})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->changes[0].kind, ChangeRequest::Kind::kScale);
  EXPECT_EQ(request->changes[0].subject, "a-1");
  EXPECT_EQ(request->changes[0].nodes, 4u);
  EXPECT_EQ(RoleFor(ChangeRequest::Kind::kScale), Role::kOperate);
  proto::Change change;
  change.mutable_scale()->set_job_id("a-1");
  change.mutable_scale()->set_nodes(4);
  const Json json = ToJson(change, {});
  EXPECT_EQ(json.dump(), R"({"scale":"a-1","nodes":4})");
  EXPECT_EQ(CommandOf(json), "longhaul jobs scale a-1 4");
  for (const char* nodes : {"", R"(, "nodes": 0)", R"(, "nodes": "4")", R"(, "nodes": 1e9)"}) {
    const std::string body = R"({"changes": [{"scale": "a-1")" + std::string(nodes) + "}]}";
    EXPECT_EQ(ParseChanges(body).status().code(), Code::kInvalidArgument) << body;
  }
}

TEST(ChangeRequest, ReadsAllRulesOfTheTopology) {
  const char* kBody = R"({"changes": [{"job": "c", "topology": {"required": "block",
      "preferred": "leaf", "slice": {"nodes": 4, "level": "leaf"}, "rail_aligned": true}}]})";
  const auto request = ParseChanges(kBody);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->changes[0].topology, std::nullopt);
  EXPECT_EQ(request->changes[0].rules, (spec::TopologySpec{"block", "leaf", {4, "leaf"}, true}));
}

TEST(ChangeRequest, WritesAllRulesOfTheTopologyIfMoreThanTheLevelDiffers) {
  proto::Job before;
  before.set_id("a-1");
  proto::Scheduling& old = *before.mutable_scheduling();
  old.set_topology("block");
  old.set_preferred_topology("leaf");
  old.set_rail_aligned(true);
  proto::Change change;
  *change.mutable_job() = before;
  change.mutable_job()->mutable_scheduling()->clear_topology();
  EXPECT_EQ(ToJson(change, before).dump(), R"({"job":"a-1","topology":"cluster"})");
  change.mutable_job()->mutable_scheduling()->set_rail_aligned(false);
  const Json json = ToJson(change, before);
  EXPECT_EQ(json.dump(), R"({"job":"a-1","topology":{"required":"cluster","preferred":"leaf"}})");
  EXPECT_EQ(CommandOf(json),
            R"(longhaul jobs change a-1 --topology '{"required":"cluster","preferred":"leaf"}')");
}

TEST(ChangeRequest, ReadsAndWritesASpread) {
  const struct {
    const char* rules;
    spec::SpreadSpec want;
  } kRows[] = {{R"({"required":"cluster","spread":"leaf"})", {"leaf", 0}},
               {R"({"required":"cluster","spread":{"level":"leaf","at_most":2}})", {"leaf", 2}}};
  for (const auto& row : kRows) {
    const std::string rules = row.rules;
    const auto request =
        ParseChanges(R"({"changes": [{"job": "a-1", "topology": )" + rules + "}]}");
    ASSERT_TRUE(request.ok()) << request.status();
    spec::TopologySpec want;
    want.required = "cluster";
    want.spread = row.want;
    EXPECT_EQ(request->changes[0].rules, want);
    proto::Job before;
    before.set_id("a-1");
    proto::Change change;
    *change.mutable_job() = before;
    change.mutable_job()->mutable_scheduling()->set_spread_level(row.want.level);
    change.mutable_job()->mutable_scheduling()->set_spread_at_most(row.want.at_most);
    const Json json = ToJson(change, before);
    EXPECT_EQ(json.dump(), R"({"job":"a-1","topology":)" + rules + "}");
    EXPECT_EQ(CommandOf(json), "longhaul jobs change a-1 --topology '" + rules + "'");
  }
}

TEST(ChangeRequest, SaysWhatIsWrong) {
  const struct {
    const char* body;
    const char* part;
  } kRows[] = {
      {R"({})", "\"changes\" must be a list"},
      {R"({"changes": []})", "1 to 1,000 changes"},
      {R"({"changes": [3]})", "must be an object"},
      {R"({"changes": [{}]})", "names one of"},
      {R"({"changes": [{"expedite": "a", "evict": "b"}]})", "names one of"},
      {R"({"changes": [{"evict": 3}]})", "\"evict\" must be a text"},
      {R"({"changes": [{"evcit": "a"}]})", "did you mean \"evict\"?"},
      {R"({"changes": [{"job": "a"}]})", "what is to change"},
      {R"({"changes": [{"job": "a", "nodes": 0}]})", "1 to 1,000,000"},
      {R"({"changes": [{"job": "a", "nodes": -1}]})", "1 to 1,000,000"},
      {R"({"changes": [{"job": "a", "devices": "H100"}]})", "\"devices\" must be a list"},
      {R"({"changes": [{"job": "a", "devices": [""]}]})", "1 to 63 bytes"},
      {R"({"changes": [{"job": "a", "devices": [3]}]})", "1 to 63 bytes"},
      {R"({"changes": [{"job": "a", "mixed_devices": "yes"}]})", "must be true or false"},
      {R"({"changes": [{"job": "a", "topology": {"require": "x"}}]})",
       "did you mean \"required\"?"},
      {R"({"changes": [{"job": "a", "topology": {"slice": {"nodes": 1, "level": "leaf"}}}]})",
       "2 to 100,000"},
      {R"({"changes": [{"job": "a", "topology": {"slice": {"nodes": 2}}}]})", "\"level\" of the"},
      {R"({"changes": [{"job": "a", "topology": {"rail_aligned": 1}}]})",
       "\"rail_aligned\" must be true or false"},
      {R"({"changes": [{"job": "a", "topology": {"spread": ""}}]})", "must name a level"},
      {R"({"changes": [{"job": "a", "topology": {"spread": 2}}]})", "\"spread\" must be a text"},
      {R"({"changes": [{"job": "a", "topology": {"spread": {"at_most": 2}}}]})",
       "\"level\" of the spread is missing"},
      {R"({"changes": [{"job": "a", "topology": {"spread": {"level": "leaf", "at_most": 0}}}]})",
       "1 to 100,000"},
      {R"({"changes": [{"job": "a", "topology": {"spread": {"level": "leaf", "most": 2}}}]})",
       "\"most\""},
      {R"({"changes": [{"queue": "a"}]})", "\"limit\" must be an object"},
      {R"({"changes": [{"queue": "a", "limit": {"acelerators": 1}}]})",
       "did you mean \"accelerators\"?"},
      {R"({"changes": [{"queue": "a", "limit": {"accelerators": -2}}]})", "-1 for no limit"},
      {R"({"changes": [{"queue": "a", "limit": {"devices": 8}}]})", "an object of 1 to 5 device"},
      {R"({"changes": [{"queue": "a", "limit": {"devices": {}}}]})", "an object of 1 to 5 device"},
      {R"({"changes": [{"queue": "a", "limit": {"devices": {"h100": "8"}}}]})", "-1 for no limit"},
      {R"({"changes": [{"queue": "a", "limit": {"accelerators": 1e30}}]})", "-1 for no limit"},
      {R"({"changes": [{"link": "a"}]})", "\"level\""},
  };
  for (const auto& row : kRows) {
    const Status status = ParseChanges(row.body).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.body;
    EXPECT_NE(status.message().find(row.part), std::string::npos) << row.body << " -> " << status;
  }
}

TEST(ChangeRequest, IsWrittenAsItIsReadAndAsACommand) {
  proto::Job before;
  before.set_id("a-1");
  before.set_nodes(3);
  before.mutable_scheduling()->set_topology("leaf");
  proto::Change change;
  *change.mutable_job() = before;
  change.mutable_job()->set_nodes(2);
  change.mutable_job()->mutable_scheduling()->clear_topology();
  EXPECT_EQ(ToJson(change, before).dump(), R"({"job":"a-1","nodes":2,"topology":"cluster"})");
  EXPECT_EQ(CommandOf(ToJson(change, before)),
            "longhaul jobs change a-1 --nodes 2 --topology cluster");
  *change.mutable_job() = before;
  before.mutable_scheduling()->add_devices("H100");
  change.mutable_job()->mutable_scheduling()->set_mixed_devices(true);
  EXPECT_EQ(ToJson(change, before).dump(), R"({"job":"a-1","devices":[],"mixed_devices":true})");
  EXPECT_EQ(CommandOf(ToJson(change, before)),
            "longhaul jobs change a-1 --devices any --mixed-devices");
  change.mutable_job()->mutable_scheduling()->add_devices("A 100");
  EXPECT_EQ(CommandOf(ToJson(change, before)),
            "longhaul jobs change a-1 --devices 'A 100' --mixed-devices");
  change.mutable_limit()->set_queue("lab");
  change.mutable_limit()->mutable_limit()->set_accelerators(4);
  change.mutable_limit()->mutable_limit()->set_cpu(-1);
  change.mutable_limit()->mutable_limit()->set_memory_gib(1.5);
  const Json limit = ToJson(change, before);
  EXPECT_EQ(CommandOf(limit),
            "longhaul queues limit lab --accelerators 4.0 --cpu -1.0 --memory-gib 1.5");
  proto::DeviceAmount& device = *change.mutable_limit()->mutable_limit()->add_devices();
  device.set_model("H100 SXM");
  device.set_accelerators(8);
  const Json of_model = ToJson(change, before);
  EXPECT_EQ(CommandOf(of_model),
            "longhaul queues limit lab --accelerators 4.0 --cpu -1.0 --memory-gib 1.5 --devices "
            "'H100 SXM=8.0'");
  Json all = Json::array({limit});
  proto::Change evict;
  evict.set_evict("it's");
  all.push_back(ToJson(evict, before));
  EXPECT_EQ(CommandOf(all[1]), "longhaul jobs evict 'it'\\''s'");
  const auto again = ParseChanges(Json{{"changes", all}}.dump());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->changes[0].memory_gib, 1.5);
  EXPECT_EQ(again->changes[1].subject, "it's");
  const auto models = ParseChanges(Json{{"changes", Json::array({of_model})}}.dump());
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_EQ(models->changes[0].device_limits, (std::map<std::string, double>{{"H100 SXM", 8.0}}));
  EXPECT_EQ(CommandOfAll(Json::array({ToJson(evict, before)})),
            R"(longhaul apply '[{"evict":"it'\''s"}]')");
}

}  // namespace
}  // namespace longhaul::service
