#include "io/net/interface.h"

#include <gtest/gtest.h>

namespace longhaul::io {
namespace {

TEST(Interface, IsFoundByItsAddress) {
  EXPECT_EQ(InterfaceOf("127.0.0.1").value_or(""), "lo");
  EXPECT_EQ(InterfaceOf("192.0.2.1").status().code(), Code::kNotFound);  // of no machine
  EXPECT_EQ(InterfaceOf("localhost").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace longhaul::io
