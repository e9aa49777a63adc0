#include "frontend/tensorboard/tensorboard_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"
#include "frontend/tensorboard/tensorboard_records.h"

namespace longhaul::frontend::tensorboard_file_test {

Instant Second(double seconds) {
  return InstantFromNanoseconds(static_cast<int64_t>(seconds * 1e9));
}

std::string Hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[c & 15];
  }
  return text;
}

// As TensorBoard 2.21's own writer makes them.
TEST(TensorBoardRecords, AreThoseOfTensorBoardItself) {
  EXPECT_EQ(Hex(VersionRecord(Second(1.5))),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(Hex(RestartRecord(Second(2), 301)),
            "100000000000000095fbfe1809000000000000004010ad023a0208013264e72b");
  EXPECT_EQ(Hex(ScalarsRecord(Second(2.25), 7, {{"loss/training", 3.5}, {"goodput", 0.5}})),
            "33000000000000000ca7205609000000000000024010072a260a140a0d6c6f73732f747261696e696e67"
            "15000060400a0e0a07676f6f64707574150000003ffe5f5a83");
}

proto::Notification Step(int64_t seconds, uint64_t step, double loss) {
  proto::Notification notification;
  notification.set_at_ns(seconds * 1'000'000'000);
  notification.mutable_step()->set_step(step);
  notification.mutable_step()->set_has_loss(true);
  notification.mutable_step()->set_loss(loss);
  return notification;
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(TensorBoardFile, HasStepsAndWhereAnAttemptBegins) {
  const TemporaryFolder folder{testing::TempDir()};
  TensorBoardFile file(folder.path());
  proto::Notification attempt;
  attempt.set_at_ns(1'000'000'000);
  attempt.mutable_attempt()->mutable_restore()->set_step(20);
  file.Take(attempt);
  file.Take(Step(2, 21, 3.5));
  proto::Notification other;
  other.mutable_message()->set_text("not written");
  file.Take(other);
  EXPECT_EQ(Content(folder.path() + "/tensorboard/events.out.tfevents.1.longhaul"),
            VersionRecord(Second(1)) + RestartRecord(Second(1), 21) +
                ScalarsRecord(Second(2), 21, {{"loss/training", 3.5}, {"goodput", 0}}));
}

TEST(TensorBoardFile, BeginsAnotherFileAfterARecordThatCouldNotBeWritten) {
  const TemporaryFolder folder{testing::TempDir()};
  const std::string path = folder.path() + "/tensorboard/events.out.tfevents.";
  std::filesystem::create_directory(folder.path() + "/tensorboard");
  std::filesystem::create_symlink("/dev/full", path + "1.longhaul");
  TensorBoardFile file(folder.path());
  file.Take(Step(1, 1, 3.5));
  file.Take(Step(1, 2, 3.5));  // in the same second
  file.Take(Step(2, 3, 3.5));
  EXPECT_EQ(Content(path + "2.longhaul"),
            VersionRecord(Second(2)) +
                ScalarsRecord(Second(2), 3, {{"loss/training", 3.5}, {"goodput", 0}}));
}

TEST(TensorBoardFile, ThatCannotBeMadeIsNoFault) {
  TensorBoardFile file("/proc/none");
  file.Take(Step(1, 1, 3.5));
  file.Take(Step(2, 2, 3.5));
}

}  // namespace longhaul::frontend::tensorboard_file_test
