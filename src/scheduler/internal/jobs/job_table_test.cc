#include "scheduler/internal/jobs/job_table.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "base/random.h"

namespace longhaul::scheduler::internal {
namespace {

std::shared_ptr<const JobRequest> Named(const std::string& name) {
  auto request = std::make_shared<JobRequest>();
  request->id = JobId(name);
  return request;
}

TEST(JobTable, FindsJobsByNumberAndByName) {
  Random random(1);
  JobTable table;
  std::map<JobNumber, std::string> expected;
  for (JobNumber number = 1; number <= 2'000; ++number) {
    const std::string name = "job-" + std::to_string(number);
    JobEntry& job = table.Add(number, Named(name));
    EXPECT_EQ(job.number, number);
    expected[number] = name;
    if (random.Below(3) == 0) {
      auto ended = expected.begin();
      std::advance(ended, static_cast<std::ptrdiff_t>(random.Below(expected.size())));
      table.Erase(ended->first);
      EXPECT_EQ(table.Find(ended->first), nullptr);
      EXPECT_EQ(table.Find(JobId(ended->second)), nullptr);
      expected.erase(ended);
    }
  }
  ASSERT_EQ(table.size(), expected.size());
  for (const auto& [number, name] : expected) {
    EXPECT_EQ(table.Find(JobId(name)), table.Find(number));
    EXPECT_EQ(table.at(number).request->id, JobId(name));
  }
}

TEST(JobTable, ListsJobsByNumber) {
  JobTable table;
  for (const JobNumber number : {70'001, 3, 90, 12, 41}) {
    table.Add(number, Named(std::to_string(number)));
  }
  std::vector<JobNumber> numbers;
  for (const JobEntry* job : std::as_const(table).InOrder()) numbers.push_back(job->number);
  EXPECT_EQ(numbers, (std::vector<JobNumber>{3, 12, 41, 90, 70'001}));
}

TEST(JobTable, ACopyHasJobsOfItsOwn) {
  JobTable table;
  table.Add(1, Named("a"));
  JobTable copy = table;
  copy.Find(JobId("a"))->expedited = 7;
  EXPECT_EQ(copy.at(1).expedited, 7u);
  EXPECT_EQ(table.at(1).expedited, 0u);
  copy.Erase(1);
  EXPECT_NE(table.Find(JobId("a")), nullptr);
}

}  // namespace
}  // namespace longhaul::scheduler::internal
