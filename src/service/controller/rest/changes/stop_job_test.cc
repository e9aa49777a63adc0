#include "service/controller/rest/changes/stop_job.h"

#include <gtest/gtest.h>

#include "service/controller/rest/rest_fixture.h"

namespace longhaul::service::stop_job_test {
namespace {

TEST(ParseStop, TakesNothingAReasonAndAnEvent) {
  EXPECT_FALSE(ParseStop("")->seen.has_value());
  EXPECT_EQ(ParseStop(R"({"reason": "maintenance"})")->reason, "maintenance");
  EXPECT_EQ(ParseStop(R"({"seen": "18446744073709551615"})")->seen, 18446744073709551615u);
}

TEST(ParseStop, RefusesWhatIsNoEvent) {
  for (const char* body : {R"({"seen": "ten"})", R"({"seen": ""})", R"({"seen": 7})",
                           R"({"seen": "-1"})", R"({"sean": "7"})", "[", R"({"seen": null})"}) {
    EXPECT_EQ(ParseStop(body).status().code(), Code::kInvalidArgument) << body;
  }
}

class StopJobTest : public RestTest {
 protected:
  // The event that a page has seen that shows the run now.
  std::string Seen(const std::string& id) {
    return Call("GET", "/v1/view/run/" + id).second["as_of"];
  }
  std::pair<int, Json> Stop(const std::string& id, const std::string& seen) {
    return Call("POST", "/v1/jobs/" + id + "/stop", Json({{"seen", seen}}).dump());
  }
  std::string StateOf(const std::string& id) {
    return Call("GET", "/v1/jobs/" + id).second["state"];
  }
};

TEST_F(StopJobTest, StopsAJobThatIsAsItWasSeen) {
  const std::string id = Submit();
  const std::string seen = Seen(id);
  Submit();  // another job changes meanwhile
  const auto [status, job] = Stop(id, seen);
  EXPECT_EQ(status, 200) << job;
  EXPECT_EQ(StateOf(id), "stopped");
}

TEST_F(StopJobTest, RefusesAStaleEventAndNamesTheStateOfNow) {
  const std::string first = Submit();
  const std::string before = Seen(first);
  const std::string id = Submit();  // `before` precedes its first state
  const auto [status, answer] = Stop(id, before);
  EXPECT_EQ(status, 409) << answer;
  EXPECT_EQ(answer["error"]["code"], "aborted");
  EXPECT_NE(answer["error"]["message"].get<std::string>().find("it is queued in attempt 0"),
            std::string::npos)
      << answer;
  EXPECT_EQ(StateOf(id), "queued") << "nothing was stopped";
  EXPECT_EQ(Stop(id, Seen(id)).first, 200) << "after another look";
  EXPECT_EQ(Stop(id, before).first, 409) << "also if it is over";
  EXPECT_EQ(Stop(id, Seen(id)).first, 200) << "a job that is over may be stopped again";
}

TEST_F(StopJobTest, RefusesAnEventThatHasNotHappened) {
  const std::string id = Submit();
  EXPECT_EQ(Stop(id, "18446744073709551615").first, 400);
  EXPECT_EQ(StateOf(id), "queued");
}

TEST_F(StopJobTest, StopsWithoutAnEventWhateverTheStateIs) {
  const std::string id = Submit();
  EXPECT_EQ(Call("POST", "/v1/jobs/" + id + "/stop", "{}").first, 200);
  EXPECT_EQ(StateOf(id), "stopped");
}

}  // namespace
}  // namespace longhaul::service::stop_job_test
