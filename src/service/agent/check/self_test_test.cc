#include "service/agent/check/self_test.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/temporary_folder.h"

namespace longhaul::service {
namespace {

TEST(SelfTest, MeasuresAll) {
  const TemporaryFolder folder(testing::TempDir());
  const proto::SelfTestResult result = RunSelfTest(folder.path());
  std::map<std::string, proto::Measurement> by_name;
  for (const proto::Measurement& each : result.measurements()) by_name[each.name()] = each;
  ASSERT_EQ(by_name.size(), 4u);
  for (const char* name : {kMatrixProduct, kMemoryCopy, kDiskWrite, kDiskFree}) {
    EXPECT_GT(by_name[name].value(), 0) << name;
    EXPECT_NE(by_name[name].unit(), "") << name;
  }
  for (const char* name : {kMatrixProduct, kMemoryCopy, kDiskWrite}) {
    EXPECT_EQ(by_name[name].verdict(), "good") << by_name[name].detail();
  }
  EXPECT_LE(result.received_at_ns(), result.sent_at_ns());
}

TEST(SelfTest, ReportsAMissingDirectoryAsBad) {
  const proto::SelfTestResult result = RunSelfTest("/nonexistent-directory");
  size_t bad = 0;
  for (const proto::Measurement& each : result.measurements()) {
    if (each.verdict() != "bad") continue;
    ++bad;
    EXPECT_NE(each.detail().find("/nonexistent-directory"), std::string::npos);
  }
  EXPECT_EQ(bad, 2u);
}

TEST(SelfTest, FindsEverySingleWrongElementOfAProduct) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6, 7, 8, -8};
  const std::vector<float> b = {1, 0, -1, 2, 2, 2, 0, 1, 3};
  // Worked by hand.
  const std::vector<float> product = {5, 7, 12, 14, 16, 24, 23, 8, -15};
  EXPECT_TRUE(IsProduct(a.data(), b.data(), product.data(), 3));
  for (size_t i = 0; i < product.size(); ++i) {
    for (const float wrong : {product[i] + 1, product[i] + 0.5f, -2e9f, 0.0f / 0.0f}) {
      std::vector<float> damaged = product;
      damaged[i] = wrong;
      EXPECT_FALSE(IsProduct(a.data(), b.data(), damaged.data(), 3)) << i << " " << wrong;
    }
  }
}

}  // namespace
}  // namespace longhaul::service
