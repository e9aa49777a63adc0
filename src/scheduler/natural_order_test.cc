#include "scheduler/natural_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longhaul::scheduler {
namespace {

TEST(NaturalLess, CountsAsPeopleDo) {
  const std::vector<std::string> kOrdered = {"",       "a",      "a1",     "a2",     "a02",
                                             "a10",    "a10b",   "b",      "node-2", "node-10",
                                             "r2-n10", "r10-n9", "r10-n10"};
  for (size_t i = 0; i < kOrdered.size(); ++i) {
    for (size_t j = 0; j < kOrdered.size(); ++j) {
      // a2 and a02 are the same number: then byte by byte.
      const bool swapped = (kOrdered[i] == "a2" && kOrdered[j] == "a02") ||
                           (kOrdered[i] == "a02" && kOrdered[j] == "a2");
      EXPECT_EQ(NaturalLess(kOrdered[i], kOrdered[j]), swapped ? i > j : i < j)
          << kOrdered[i] << " and " << kOrdered[j];
    }
  }
}

TEST(NaturalLess, TakesNumbersOfAnyLength) {
  const std::string small = "n" + std::string(40, '8');
  const std::string large = "n1" + std::string(40, '0');
  EXPECT_TRUE(NaturalLess(small, large));
  EXPECT_FALSE(NaturalLess(large, small));
  EXPECT_FALSE(NaturalLess(small, small));
}

}  // namespace
}  // namespace longhaul::scheduler
