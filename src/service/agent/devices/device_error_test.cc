#include "service/agent/devices/device_error.h"

#include <gtest/gtest.h>

namespace longhaul::service::device_error_test {
namespace {

TEST(DeviceError, HasDeviceNumberAndText) {
  const auto error = DeviceErrorOf(
      "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
      "bus.");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->device, "PCI:0000:3b:00");
  EXPECT_EQ(error->code, 79u);
  EXPECT_EQ(error->text, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
  EXPECT_TRUE(error->needs_reset);
}

TEST(DeviceError, AProgramsOwnErrorNeedsNoReset) {
  const auto error = DeviceErrorOf("NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault");
  ASSERT_TRUE(error.has_value());
  EXPECT_FALSE(error->needs_reset);
}

TEST(DeviceError, TheDriverItselfMayDemandAReset) {
  const struct {
    const char* to;
    bool needs_reset;
  } kRows[] = {{"0x0 (None)", false},
               {"0x1 (GPU Reset Required)", true},
               {"0x2 (Node Reboot Required)", true},
               {"0x3 (Drain P2P)", false},
               {"0x4 (Drain and Reset)", true}};
  for (const auto& row : kRows) {
    const auto error = DeviceErrorOf(
        std::string("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (GPU "
                    "Reset Required) to ") +
        row.to);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->needs_reset, row.needs_reset) << row.to;
  }
}

TEST(DeviceError, OtherMessagesAreNone) {
  for (const char* message :
       {"", "usb 1-1: new device", "NVRM: Xid (", "NVRM: Xid (): 79, lost",
        "NVRM: Xid (PCI:0000:3b:00): lost", "NVRM: Xid (PCI:0000:3b:00): 79lost",
        "NVRM: Xid (PCI:0000:3b:00): 99999999999, lost", "NVRM: Xid (PCI:0000:3b:00) 79, lost",
        "NVRM: Xid (a name that is far too long for a device): 79, lost",
        "a program says NVRM: Xid (PCI:0000:3b:00): 79, lost"}) {
    EXPECT_FALSE(DeviceErrorOf(message).has_value()) << message;
  }
}

TEST(DeviceError, WhatIsNotPrintableIsReplacedAndLongTextIsCut) {
  const auto error = DeviceErrorOf("NVRM: Xid (PCI:\x1b[31m): 13, \x07" + std::string(1000, 'x'));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->device.find('\x1b'), std::string::npos);
  EXPECT_EQ(error->text.find('\x07'), std::string::npos);
  EXPECT_LE(error->text.size(), 310u);
}

}  // namespace
}  // namespace longhaul::service::device_error_test
