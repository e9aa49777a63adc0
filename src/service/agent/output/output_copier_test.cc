#include "service/agent/output/output_copier.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace longhaul::service {
namespace {

runtime::WorkerId Rank(uint32_t rank) { return {JobId("job-1"), 1, rank}; }

class OutputCopierTest : public testing::Test {
 protected:
  OutputCopierTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    reader_ = io::Fd(ends[0]);
    writer_ = io::Fd(ends[1]);
  }
  std::string Log(const std::string& name, const std::string& text) {
    std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::app) << text;
    return path;
  }
  // Everything until the end of the pipe, whose other end is closed first.
  std::string Rest() {
    writer_ = io::Fd();
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got; (got = read(reader_.get(), buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<size_t>(got));
    }
    return text;
  }

  TemporaryFolder folder_{"/tmp"};
  io::Fd reader_;
  io::Fd writer_;
};

TEST_F(OutputCopierTest, EachLineHasItsRankInFront) {
  const std::string path = Log("a", "of before\nstep 1\nste");
  {
    OutputCopier copier(writer_.get());
    ASSERT_TRUE(copier.Follow(Rank(3), path, 10).ok());
    Log("a", "p 2\nno end");
    copier.Finish(Rank(3));
    Log("a", " of it");
  }
  EXPECT_EQ(Rest(), "[rank 3] step 1\n[rank 3] step 2\n[rank 3] no end of it\n");
}

TEST_F(OutputCopierTest, ALongLineIsDivided) {
  const std::string line(OutputCopier::kLongestLine, 'x');
  const std::string path = Log("a", line + "y\n");
  {
    OutputCopier copier(writer_.get());
    ASSERT_TRUE(copier.Follow(Rank(0), path, 0).ok());
  }
  EXPECT_EQ(Rest(), "[rank 0] " + line + "\n[rank 0] y\n");
}

TEST_F(OutputCopierTest, TheWholeLogOfAWorkerThatHasEndedIsCopied) {
  const size_t lines = 100'000;  // more than is read at once
  const std::string path = Log("a", std::string(lines, '\n'));
  const std::string target = folder_.path() + "/target";
  const io::Fd file(open(target.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  {
    OutputCopier copier(file.get());
    ASSERT_TRUE(copier.Follow(Rank(0), path, 0).ok());
    copier.Finish(Rank(0));
  }
  EXPECT_EQ(std::filesystem::file_size(target), lines * std::string("[rank 0] \n").size());
}

TEST_F(OutputCopierTest, AReaderThatDoesNotReadHoldsNothingUp) {
  const std::string path = Log("a", std::string(1 << 20, '\n'));
  {
    OutputCopier copier(writer_.get());
    ASSERT_TRUE(copier.Follow(Rank(0), path, 0).ok());
    copier.Finish(Rank(0));
  }  // it ends
  EXPECT_FALSE(Rest().empty());
}

TEST_F(OutputCopierTest, SaysWhatCannotBeRead) {
  OutputCopier copier(writer_.get());
  EXPECT_EQ(copier.Follow(Rank(0), folder_.path() + "/none", 0).code(), Code::kNotFound);
}

}  // namespace
}  // namespace longhaul::service
