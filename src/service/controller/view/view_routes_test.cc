#include <gtest/gtest.h>
#include <httplib.h>

#include "service/controller/rest/rest_fixture.h"

namespace longhaul::service {
namespace {

using ViewTest = RestTest;

TEST_F(ViewTest, ListsTheNewestRunFirst) {
  Submit("old");
  Submit("new");
  const Json runs = Call("GET", "/v1/view/runs").second;
  ASSERT_EQ(runs["runs"].size(), 2u);
  EXPECT_EQ(runs["runs"][0]["name"], "new");
  EXPECT_EQ(runs["total"], 2);
}

TEST_F(ViewTest, ShowsARunByNameAndRefusesWhatIsNotThere) {
  Submit("mine");
  const auto [status, view] = Call("GET", "/v1/view/run/mine");
  EXPECT_EQ(status, 200);
  EXPECT_EQ(view["run"]["state"], "queued");
  EXPECT_TRUE(view.contains("series"));
  EXPECT_FALSE(Call("GET", "/v1/view/run/mine?series=false").second.contains("series"));
  EXPECT_EQ(Call("GET", "/v1/view/run/mine?series=1").first, 400);
  EXPECT_EQ(Call("GET", "/v1/view/run/none").first, 404);
}

TEST_F(ViewTest, RefusesAFaultThatIsNotThere) {
  Submit("mine");
  EXPECT_EQ(Call("GET", "/v1/view/run/mine/faults/1").first, 404);
  EXPECT_EQ(Call("GET", "/v1/view/run/none/faults/1").first, 404);
  const auto [status, answer] = Call("GET", "/v1/view/run/mine/faults/first");
  EXPECT_EQ(status, 400);
  EXPECT_EQ(answer["error"]["message"],
            "the number of a fault must be a whole number, not \"first\"");
}

// The view and the stream after it: no event is missing and none is there twice.
TEST_F(ViewTest, EndsWithTheEventAfterWhichTheStreamContinues) {
  const std::string id = Submit();
  const Json view = Call("GET", "/v1/view/run/" + id).second;
  const std::string after = view["as_of"];
  const std::string events = "/v1/jobs/" + id + "/events?view=true&after=" + after;
  EXPECT_TRUE(Call("GET", events).second["events"].empty());
  ASSERT_EQ(Call("POST", "/v1/jobs/" + id + "/stop").first, 200);
  const Json later = Call("GET", events).second;
  ASSERT_FALSE(later["events"].empty());
  EXPECT_EQ(later["events"].back()["data"]["state"]["state"], "stopped");
  EXPECT_EQ(Call("GET", "/v1/view/run/" + id).second["as_of"],
            std::to_string(later["last"].get<uint64_t>()));
}

// The fixture's controller has no nodes.
TEST_F(ViewTest, HasNoOccupancyBeforeANodeHasJoined) {
  const Json view = Call("GET", "/v1/view/cluster").second;
  ASSERT_TRUE(view.contains("occupancy"));
  EXPECT_TRUE(view["occupancy"].is_null());
}

TEST_F(ViewTest, NamesTheReasonOfEachJobThatWaits) {
  Submit("first");
  Submit("second");
  const Json view = Call("GET", "/v1/view/cluster").second;
  EXPECT_EQ(view["waiting_total"], 2);
  ASSERT_EQ(view["waiting"].size(), 2u);
  for (const Json& job : view["waiting"]) {
    EXPECT_FALSE(job["sentence"].get<std::string>().empty()) << job;
    EXPECT_EQ(job["sentence"],
              Call("GET", "/v1/jobs/" + job["id"].get<std::string>() + "/why").second["sentence"]);
  }
}

}  // namespace
}  // namespace longhaul::service
