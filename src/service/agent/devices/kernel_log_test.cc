#include "service/agent/devices/kernel_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace longhaul::service::kernel_log_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A named pipe in place of /dev/kmsg, into which only the kernel can write its own records.
class KernelLogTest : public ::testing::Test {
 protected:
  KernelLogTest() {
    std::string folder = ::testing::TempDir() + "/kernel-log-XXXXXX";
    folder_ = mkdtemp(folder.data());
    path_ = folder_ + "/log";
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    loop_ = std::move(*io::EventLoop::Create());
    log_ = std::move(*KernelLog::Open(*loop_, path_, [this](const DeviceError& error) {
      found_.push_back(error.device + " " + std::to_string(error.code));
    }));
    writer_ = io::Fd(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  }
  ~KernelLogTest() override { std::filesystem::remove_all(folder_); }
  // Each write is one record, which is read before the next one.
  void Write(const std::string& record) {
    ASSERT_EQ(write(writer_.get(), record.data(), record.size()),
              static_cast<ssize_t>(record.size()));
    loop_->RunOnce(std::chrono::seconds(5));
  }

  std::string folder_;
  std::string path_;
  std::unique_ptr<io::EventLoop> loop_;
  std::vector<std::string> found_;
  std::unique_ptr<KernelLog> log_;
  io::Fd writer_;
};

TEST_F(KernelLogTest, AnErrorIsReportedOnceADeviceAndNumber) {
  Write("4,1,100,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n");
  Write("6,2,101,-;usb 1-1: new device\n");
  Write("4,3,102,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n");
  Write(
      "4,4,103,-;NVRM: Xid (PCI:0000:3b:00): 154, recovery\n SUBSYSTEM=pci\n"
      "4,5,104,-;NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus.\n");
  EXPECT_THAT(found_, ElementsAre("PCI:0000:3b:00 79", "PCI:0000:3b:00 154", "PCI:0000:86:00 79"));
}

TEST_F(KernelLogTest, WhatAProgramHasWrittenIsNotTheKernels) {
  Write("12,1,100,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n");
  Write("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n");
  EXPECT_THAT(found_, IsEmpty());
}

TEST_F(KernelLogTest, TheEndOfTheLogEndsTheWatch) {
  writer_ = io::Fd();
  loop_->RunOnce(std::chrono::seconds(5));
  int turns = 0;
  loop_->After(std::chrono::milliseconds(20), [&turns] { turns = -1000; });
  while (turns >= 0 && turns < 100) {
    loop_->RunOnce(std::chrono::seconds(5));
    ++turns;
  }
  EXPECT_LT(turns, 0) << "the loop is woken again and again";
}

TEST(KernelLog, ALogThatIsNotThereIsNamed) {
  const auto loop = std::move(*io::EventLoop::Create());
  const auto log = KernelLog::Open(*loop, "/nowhere/kmsg", [](const DeviceError&) {});
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(log.status().message(), testing::HasSubstr("/nowhere/kmsg"));
}

TEST(KernelLog, TakesRecordsOfTheKernelOnly) {
  EXPECT_EQ(KernelText("6,339,5140900,-;NET: Registered"), "NET: Registered");
  EXPECT_EQ(KernelText(" DEVICE=+pci:0000"), "");
  EXPECT_EQ(KernelText("14,339,5140900,-;systemd[1]: Started"), "");
  for (const char* record : {"", ";", "6", "6,1,1,-", "a,1,1,-;text", "99999999999,1,1,-;text"}) {
    EXPECT_EQ(KernelText(record), "") << record;
  }
}

}  // namespace
}  // namespace longhaul::service::kernel_log_test
