#include "io/files/file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

namespace longhaul::io {
namespace {

class File : public testing::Test {
 protected:
  File() {
    std::string name = testing::TempDir() + "longhaul-file-XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~File() override {
    const Result<std::vector<std::string>> names = files_.List(root_);
    for (const std::string& name : *names) {
      if (!files_.Remove(Path(name)).ok()) (void)files_.RemoveDirectory(Path(name));
    }
    (void)files_.RemoveDirectory(root_);
  }

  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  static std::span<const std::byte> BytesOf(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  }

  std::string root_;
  FileSystem& files_ = PosixFileSystem();
};

TEST_F(File, IsReadAsItWasWritten) {
  const std::string text = "one\0two" + std::string(100'000, 'x');
  auto file = files_.Create(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Append(BytesOf(text.substr(0, 5))).ok());
  ASSERT_TRUE((*file)->Append(BytesOf(text.substr(5))).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  ASSERT_TRUE((*file)->Close().ok());

  EXPECT_EQ(*ReadText(Path("a"), text.size()), text);
  EXPECT_EQ(*files_.Size(Path("a")), text.size());
}

TEST_F(File, AboveTheLimitIsRefusedAndNamed) {
  ASSERT_TRUE(WriteTextAtomically(files_, Path("a"), "12345").ok());
  EXPECT_TRUE(ReadText(Path("a"), 5).ok());
  const Status status = ReadText(Path("a"), 4).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find(Path("a")), std::string::npos);
}

TEST_F(File, WithoutASizeIsReadToItsEnd) {
  const Result<std::string> text = ReadText("/proc/self/status", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("Name:"), std::string::npos);
}

TEST_F(File, AbsentIsNotFoundForEveryCall) {
  EXPECT_EQ(files_.ReadAll(Path("no"), 1).status().code(), Code::kNotFound);
  EXPECT_EQ(files_.Size(Path("no")).status().code(), Code::kNotFound);
  EXPECT_EQ(files_.Remove(Path("no")).code(), Code::kNotFound);
  EXPECT_EQ(files_.Rename(Path("no"), Path("b")).code(), Code::kNotFound);
  EXPECT_EQ(files_.List(Path("no")).status().code(), Code::kNotFound);
  EXPECT_EQ(files_.SyncDirectory(Path("no")).code(), Code::kNotFound);
  EXPECT_EQ(files_.Create(Path("no/b")).status().code(), Code::kNotFound);
}

TEST_F(File, ADirectoryIsNotAFile) {
  ASSERT_TRUE(files_.MakeDirectories(Path("d")).ok());
  EXPECT_FALSE(files_.ReadAll(Path("d"), 100).ok());
  EXPECT_FALSE(files_.Size(Path("d")).ok());
}

TEST_F(File, APipeWithoutAWriterIsRefusedWithoutWaiting) {
  const std::string pipe = Path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(files_.Open(pipe).status().code(), Code::kInvalidArgument);
}

TEST_F(File, DirectoriesAreMadeWithTheirParents) {
  ASSERT_TRUE(files_.MakeDirectories(Path("d/e/f")).ok());
  ASSERT_TRUE(files_.MakeDirectories(Path("d/e/f")).ok());
  EXPECT_EQ(*files_.List(Path("d")), std::vector<std::string>{"e"});
  ASSERT_TRUE(WriteTextAtomically(files_, Path("file"), "x").ok());
  EXPECT_FALSE(files_.MakeDirectories(Path("file/sub")).ok());
  EXPECT_TRUE(files_.RemoveDirectory(Path("d/e/f")).ok());
  EXPECT_FALSE(files_.RemoveDirectory(Path("d")).ok()) << "not empty";
  EXPECT_TRUE(files_.RemoveDirectory(Path("d/e")).ok());
}

TEST_F(File, WrittenAtomicallyReplacesTheOldAndLeavesNoTemporary) {
  ASSERT_TRUE(WriteTextAtomically(files_, Path("a"), "old").ok());
  ASSERT_TRUE(WriteTextAtomically(files_, Path("a"), "new").ok());
  EXPECT_EQ(*ReadText(Path("a"), 10), "new");
  EXPECT_EQ(*files_.List(root_), std::vector<std::string>{"a"});
}

TEST_F(File, AFailedAtomicWriteLeavesTheOldAndNoTemporary) {
  // A directory in the way: the rename fails after the temporary file was written.
  ASSERT_TRUE(files_.MakeDirectories(Path("a")).ok());
  EXPECT_FALSE(WriteTextAtomically(files_, Path("a"), "new").ok());
  EXPECT_EQ(*files_.List(root_), std::vector<std::string>{"a"});
}

TEST_F(File, AFullDiskIsResourceExhaustedNamingThePath) {
  auto file = files_.Create("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  const Status status = (*file)->Append(BytesOf("x"));
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("/dev/full"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::io
