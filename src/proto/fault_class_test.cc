#include "proto/fault_class.h"

#include <gtest/gtest.h>

namespace longhaul::proto {
namespace {

TEST(FaultClass, EveryClassHasItsName) {
  for (const FaultClass fault :
       {FaultClass::kProcess, FaultClass::kNode, FaultClass::kHang, FaultClass::kError,
        FaultClass::kStart, FaultClass::kStorage, FaultClass::kNumeric}) {
    EXPECT_EQ(FaultClassOf(NameOf(fault)), fault);
  }
  EXPECT_EQ(NameOf(FaultClass::kError), "error");
}

TEST(FaultClass, AnUnknownNameIsNoClass) {
  EXPECT_EQ(FaultClassOf("meteor"), std::nullopt);
  EXPECT_EQ(FaultClassOf(""), std::nullopt);
  EXPECT_EQ(FaultClassOf("Process"), std::nullopt);
}

}  // namespace
}  // namespace longhaul::proto
