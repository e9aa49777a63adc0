#include "io/net/interface.h"

#include <gtest/gtest.h>

namespace longhaul::io {
namespace {

TEST(Interface, IsFoundByItsAddress) {
  const Result<std::string> found = InterfaceOf("127.0.0.1");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, "lo");
  EXPECT_EQ(InterfaceOf("192.0.2.1").status().code(), Code::kNotFound);  // of no machine
  EXPECT_EQ(InterfaceOf("localhost").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace longhaul::io
