#include "service/security/audit_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace longhaul::service::audit_log_test {
namespace {

using Json = nlohmann::json;

const Instant kNow = InstantFromNanoseconds(1'769'846'400'000'000'000);  // 2026-01-31T08:00:00Z

class AuditLogTest : public testing::Test {
 protected:
  AuditLogTest() {
    std::string pattern = testing::TempDir() + "/audit_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    path_ = directory_ + "/audit.log";
  }
  ~AuditLogTest() override { std::filesystem::remove_all(directory_); }

  static std::vector<Json> LinesOf(const std::string& path) {
    std::vector<Json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }

  std::string directory_;
  std::string path_;
};

TEST(AuditLine, IsOneLineWhateverTheClientSends) {
  AuditEntry entry;
  entry.who = {"alice", Role::kOperate};
  entry.from = "10.0.0.7";
  entry.did = "POST /v1/jobs/{id}/stop";
  entry.object = "a\"\n{\"who\": \"root\"}" + std::string(1000, 'x');
  entry.status = 404;
  entry.error = "no job \xff\n";
  const std::string line = AuditLine(entry, 3, kNow);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_LT(line.size(), 1000u);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["at"], "2026-01-31T08:00:00.000Z");
  EXPECT_EQ(json["who"], "alice");
  EXPECT_EQ(json["role"], "operate");
  EXPECT_EQ(json["unlogged"], 3);
  // The name of an external identity is a text from outside, too.
  entry.who.name = "a\xff\n" + std::string(1000, 'x');
  const Json other = Json::parse(AuditLine(entry, 0, kNow));
  EXPECT_EQ(other["who"].get<std::string>().substr(0, 10), "a\\xff\\x0ax");
}

TEST(AuditLine, NamesNobodyWhereNobodyWasIdentified) {
  const Json json = Json::parse(AuditLine({{}, "::1", "GET /v1/jobs", "", 401, "no"}, 0, kNow));
  EXPECT_FALSE(json.contains("who"));
  EXPECT_FALSE(json.contains("role"));
  EXPECT_FALSE(json.contains("unlogged"));
}

// A million refused requests a day are a burst and one line every ten seconds.
TEST(RefusalLimit, AdmitsABurstThenOneEachPeriod) {
  RefusalLimit limit;
  uint64_t admitted = 0;
  for (uint64_t i = 0; i < 10 * RefusalLimit::kBurst; ++i) admitted += limit.Admit(kNow) ? 1 : 0;
  EXPECT_EQ(admitted, RefusalLimit::kBurst);
  EXPECT_EQ(limit.TakeUnlogged(), 9 * RefusalLimit::kBurst);
  EXPECT_EQ(limit.TakeUnlogged(), 0u);
  EXPECT_FALSE(limit.Admit(kNow + RefusalLimit::kPeriod - Duration(1)));
  EXPECT_TRUE(limit.Admit(kNow + RefusalLimit::kPeriod));
  EXPECT_FALSE(limit.Admit(kNow + RefusalLimit::kPeriod));
  EXPECT_FALSE(limit.Admit(kNow)) << "a clock that was set back";
  const Instant later = kNow + 1000 * RefusalLimit::kPeriod;
  admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += limit.Admit(later) ? 1 : 0;
  EXPECT_EQ(admitted, RefusalLimit::kBurst) << "what was not used does not add up";
}

TEST_F(AuditLogTest, KeepsABoundedNumberOfFilesOfABoundedSize) {
  AuditLog log(path_, {2000, 3});
  ASSERT_TRUE(log.Open().ok());
  for (int i = 0; i < 200; ++i) {
    log.Record({{"alice", Role::kView}, "::1", "did", std::to_string(i), 200, ""}, kNow);
  }
  int last = 200;
  for (const char* suffix : {"", ".1", ".2"}) {
    EXPECT_LE(std::filesystem::file_size(path_ + suffix), 2000u);
    struct stat facts {};
    ASSERT_EQ(::stat((path_ + suffix).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0600u);
    const auto lines = LinesOf(path_ + suffix);
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines.back()["object"], std::to_string(last - 1)) << "no line was lost between files";
    last -= static_cast<int>(lines.size());
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 3);
}

TEST_F(AuditLogTest, CountsTheRefusedActionsThatItLeavesOut) {
  AuditLog log(path_, {1 << 20, 3});
  ASSERT_TRUE(log.Open().ok());
  const AuditEntry refused{{}, "10.0.0.7", "GET /v1/jobs", "", 401, "wrong token"};
  for (int i = 0; i < 5000; ++i) log.Record(refused, kNow);
  log.Record({{"alice", Role::kView}, "::1", "did", "", 200, ""}, kNow);
  const auto lines = LinesOf(path_);
  ASSERT_EQ(lines.size(), RefusalLimit::kBurst + 1);
  EXPECT_EQ(lines.back()["unlogged"], 5000 - RefusalLimit::kBurst);
  EXPECT_EQ(lines.back()["status"], 200);
}

TEST_F(AuditLogTest, ContinuesAFileAndRefusesOneThatOthersMayRead) {
  for (int i = 0; i < 2; ++i) {
    AuditLog log(path_, {1 << 20, 3});
    ASSERT_TRUE(log.Open().ok());
    log.Record({{}, "::1", "did", "", 200, ""}, kNow);
  }
  EXPECT_EQ(LinesOf(path_).size(), 2u);
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_EQ(AuditLog(path_, {1 << 20, 3}).Open().code(), Code::kPermissionDenied);
}

}  // namespace
}  // namespace longhaul::service::audit_log_test
