#include "spec/job/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longhaul::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JobFile MustParse(const std::string& text) {
  auto file = ParseJobFile(text, "jobs.yaml");
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : JobFile();
}

std::vector<std::string> NamesOf(const JobFile& file) {
  std::vector<std::string> names;
  for (const JobSpec& job : file.jobs) names.push_back(job.name);
  return names;
}

TEST(ParseJobFile, ReadsOneJobAsParseJobDoes) {
  const JobFile file = MustParse("name: a\ncommand: [x]\narray: {count: 3}\nafter: [b-1]\n");
  EXPECT_FALSE(file.several);
  ASSERT_EQ(file.jobs.size(), 1u);
  EXPECT_EQ(file.jobs[0].array.size(), 3u);
  EXPECT_THAT(file.jobs[0].after.jobs, ElementsAre("b-1"));
  EXPECT_EQ(file.jobs[0].after.when, "success");
}

TEST(ParseJobFile, PutsAJobAfterThoseThatItNames) {
  const JobFile file = MustParse(R"(jobs:
  - {name: test, command: [x], after: [train, prepare]}
  - {name: train, command: [x], array: {values: [a, b]}, after: {jobs: [prepare], when: end}}
  - {name: prepare, command: [x]}
  - {name: other, command: [x], after: [train_1, elsewhere-1]}
)");
  EXPECT_TRUE(file.several);
  EXPECT_THAT(NamesOf(file), ElementsAre("prepare", "train", "test", "other"));
  EXPECT_EQ(file.jobs[1].after.when, "end");
  EXPECT_EQ(file.Find("train")->job, 1u);
  EXPECT_EQ(file.Find("train")->element, std::nullopt);
  EXPECT_EQ(file.Find("train_1")->element, 1u);
  EXPECT_FALSE(file.Find("train_2").has_value());
  EXPECT_FALSE(file.Find("prepare_0").has_value());
  EXPECT_FALSE(file.Find("elsewhere-1").has_value());
}

// A chain as long as a file can have needs no deep stack.
TEST(ParseJobFile, SortsALongChain) {
  std::string text = "jobs:\n";
  for (int i = 0; i < 1000; ++i) {
    text += "- {name: j" + std::to_string(i) + ", command: [x]" +
            (i < 999 ? ", after: [j" + std::to_string(i + 1) + "]" : "") + "}\n";
  }
  const JobFile file = MustParse(text);
  ASSERT_EQ(file.jobs.size(), 1000u);
  EXPECT_EQ(file.jobs.front().name, "j999");
  EXPECT_EQ(file.jobs.back().name, "j0");
}

TEST(ParseJobFile, NamesTheMistakeAndTheRemedy) {
  const struct {
    const char* text;
    const char* want;
  } kRows[] = {
      {"jobs: 3", "jobs: must be a list of at least one job"},
      {"jobs: []", "jobs: must be a list of at least one job"},
      {"name: a\njobs: [{name: b, command: [x]}]", "jobs.yaml:1: name: beside 'jobs' no other key"},
      {"jobs: [{command: [x]}]", "jobs.yaml:1: name: is missing"},
      {"jobs: [3]", "a job is a map of keys"},
      {"jobs:\n- {name: a, command: [x]}\n- {name: a, command: [y]}",
       "jobs.yaml:3: name: job 'a' of line 2 has the same name"},
      {"jobs:\n- {name: a, command: []}\n- {name: b, comand: [y]}",
       "jobs.yaml:3: comand: unknown key, did you mean 'command'"},
      {"jobs:\n- {name: a, command: [x], after: [b]}\n- {name: b, command: [x], after: [c]}\n"
       "- {name: c, command: [x], after: [b]}",
       "jobs.yaml: after: these jobs wait for each other, so none could start: b -> c -> b"},
      {"jobs:\n- {name: a, command: [x], array: {count: 2}, after: [a_1]}", "a -> a"},
      {"jobs:\n- {name: a, command: [x], after: [a]}", "job 'a' would wait for itself"},
      {"name: a\ncommand: [x]\nafter: [a]", "would wait for itself; to wait for an earlier job"},
      {"name: a\ncommand: [x]\nafter: [b, b]", "after: names 'b' twice"},
      {"name: a\ncommand: [x]\nafter: {when: end}", "names no jobs"},
      {"name: a\ncommand: [x]\nafter: {jobs: [], when: end}", "names no jobs"},
      {"name: a\ncommand: [x]\nafter: {jobs: [b], when: later}",
       "after.when: must be success, end or failure, not 'later'"},
      {"name: a\ncommand: [x]\nafter: {jobs: [b], wen: end}", "did you mean 'when'"},
      {"name: a\ncommand: [x]\nafter: b", "must be a map of keys, not 'b'"},
      {"name: a\ncommand: [x]\nafter: [[b]]", "after[0]: must be a text"},
      {"name: a\ncommand: [x]\narray: {}", "array: has no elements"},
      {"name: a\ncommand: [x]\narray: {values: []}", "array: has no elements"},
      {"name: a\ncommand: [x]\narray: {at_once: 2}", "array: has no elements"},
      {"name: a\ncommand: [x]\narray: {count: 0}", "array.count: 0 is out of range"},
      {"name: a\ncommand: [x]\narray: {count: -3}", "array.count: -3 is out of range"},
      {"name: a\ncommand: [x]\narray: {count: 1000001}", "1 to 1,000,000"},
      {"name: a\ncommand: [x]\narray: {count: .nan}", "must be a whole number"},
      {"name: a\ncommand: [x]\narray: {count: 2, at_once: 0}", "array.at_once: 0 is out of range"},
      {"name: a\ncommand: [x]\narray: {count: 3, values: [a, b]}",
       "array.count: 3 disagrees with the 2 of array.values"},
      {"name: a\ncommand: [x]\narray: {count: 3}\nsnapshot: {copy_to: /shared}",
       "snapshot.copy_to: is not for an array"},
      {"name: a\ndata: {include: ['*.h']}\narray: {count: 3}", "array: is for a 'command'"},
      {"name: a\ncommand: [x]\nenvironment: {LONGHAUL_ARRAY_INDEX: 3}", "is set for each worker"},
  };
  for (const auto& row : kRows) {
    const auto file = ParseJobFile(row.text, "jobs.yaml");
    ASSERT_FALSE(file.ok()) << row.text;
    EXPECT_EQ(file.status().code(), Code::kInvalidArgument) << row.text;
    EXPECT_THAT(file.status().message(), HasSubstr(row.want)) << row.text;
  }
}

TEST(ParseJob, LeavesAFileOfSeveralJobsToAController) {
  const auto job = ParseJob("jobs: [{name: a, command: [x]}]", "jobs.yaml");
  EXPECT_THAT(job.status().message(), HasSubstr("longhaul submit jobs.yaml"));
}

TEST(ParseJob, ReadsBackArraysAndDependencies) {
  for (const char* text : {"name: a\ncommand: [x]\narray: {values: [0.1, 'b c'], at_once: 1}",
                           "name: a\ncommand: [x]\nafter: {jobs: [b, c-1_2], when: failure}"}) {
    const auto job = ParseJob(text, "job.yaml");
    ASSERT_TRUE(job.ok()) << job.status();
    for (const std::string& written : {ToYaml(*job), ToJson(*job)}) {
      EXPECT_EQ(*ParseJob(written, "again"), *job) << written;
    }
  }
}

}  // namespace
}  // namespace longhaul::spec
