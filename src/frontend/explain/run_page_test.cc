#include "frontend/explain/run_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/temporary_folder.h"
#include "proto/json.h"

namespace longhaul::frontend {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class RunPageTest : public testing::Test {
 protected:
  // One line of events.jsonl.
  static std::string Line(int64_t second, const std::function<void(proto::Notification&)>& fill) {
    proto::Notification notification;
    notification.set_at_ns(1'700'000'000'000'000'000 + second * 1'000'000'000);
    notification.set_job_id("gpt-1");
    fill(notification);
    return proto::ToJson(notification).dump() + "\n";
  }

  static std::string Lines() {
    return Line(0, [](auto& each) { each.mutable_state()->set_state(proto::RUNNING); }) +
           Line(1,
                [](auto& each) {
                  each.mutable_attempt()->set_attempt(1);
                  each.mutable_attempt()->set_world(4);
                  each.mutable_attempt()->add_gang("node-1");
                  each.mutable_attempt()->add_gang("node-2");
                }) +
           Line(2,
                [](auto& each) {
                  each.mutable_step()->set_step(7);
                  each.mutable_step()->set_loss(2.5);
                  each.mutable_step()->set_has_loss(true);
                }) +
           Line(3, [](auto& each) {
             each.mutable_fault()->set_number(1);
             each.mutable_fault()->set_what("node-2 was lost");
             each.mutable_fault()->set_happened_at_ns(each.at_ns());
             each.mutable_fault()->set_detected_at_ns(each.at_ns());
           });
  }

  // The data of the page of a folder with this events.jsonl.
  nlohmann::json DataOf(const std::string& lines) {
    std::ofstream(folder_.path() + "/events.jsonl") << lines;
    const Result<std::string> page = RunPage(folder_.path(), "", std::nullopt);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) return nullptr;
    const std::string head = "id=\"report\">";
    const size_t begin = page->find(head) + head.size();
    return nlohmann::json::parse(page->substr(begin, page->find("</script>", begin) - begin));
  }

  const TemporaryFolder folder_{testing::TempDir()};
};

TEST_F(RunPageTest, ShowsARunWhoseControllerIsGone) {
  const auto data = DataOf(Lines());
  EXPECT_EQ(data["view"]["run"]["state"], "running");
  EXPECT_EQ(data["view"]["run"]["step"], 7);
  EXPECT_EQ(data["view"]["series"]["loss"]["last"][0], 2.5);
  EXPECT_EQ(data["view"]["nodes_total"], 2);
  EXPECT_EQ(data["view"]["nodes"][1]["first_rank"], 2);
  EXPECT_EQ(data["view"]["faults_total"], 1);
  EXPECT_EQ(data["view"]["now_ms"], 1'700'000'003'000) << "of the last line";
  EXPECT_EQ(data["faults"][0]["fault"]["what"], "node-2 was lost");
  EXPECT_EQ(data["faults"][0]["fault"]["open"], true);
  EXPECT_THAT(data["notes"].get<std::vector<std::string>>(),
              Contains(HasSubstr("The run has no report")));
}

TEST_F(RunPageTest, NamesWhatACutLogAndANewerVersionLeaveOut) {
  const auto data = DataOf(Lines() + R"({"at_ns":5,"job_id":"gpt-1","reshaped":{}})" + "\n" +
                           R"({"at_ns":6,"job_)");
  EXPECT_EQ(data["view"]["faults_total"], 1);
  const auto notes = data["notes"].get<std::vector<std::string>>();
  EXPECT_THAT(notes, Contains(HasSubstr("The last line of events.jsonl is cut off")));
  EXPECT_THAT(notes, Contains(HasSubstr("1 entry of the log has a kind that")));
}

TEST_F(RunPageTest, TakesTheControllersStatusWhereThereIsOne) {
  std::ofstream(folder_.path() + "/events.jsonl") << Lines();
  proto::JobStatus status;
  status.mutable_job()->set_id("gpt-1");
  status.set_state(proto::SUCCEEDED);
  status.set_step(99);
  const Result<std::string> page = RunPage(folder_.path(), "gpt-1", status);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(*page, HasSubstr("\"step\":99"));
  const Result<std::string> without_log = RunPage(folder_.path() + "/none", "gpt-1", status);
  ASSERT_TRUE(without_log.ok()) << without_log.status();
  EXPECT_THAT(*without_log, HasSubstr("The log of the run could not be read"));
  EXPECT_FALSE(RunPage(folder_.path() + "/none", "", std::nullopt).ok());
}

}  // namespace
}  // namespace longhaul::frontend
