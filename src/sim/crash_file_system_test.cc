#include "sim/crash_file_system.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace longhaul::sim {
namespace {

std::string TextOf(io::FileSystem& files, const std::string& path) {
  const Result<std::vector<std::byte>> bytes = files.ReadAll(path, 1 << 20);
  if (!bytes.ok()) return "absent";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

void Append(io::FileSystem& files, const std::string& path, const std::string& text, bool sync) {
  auto file = files.Create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Append(std::as_bytes(std::span(text))).ok());
  if (sync) {
    ASSERT_TRUE((*file)->Sync().ok());
  }
}

// All that `path` may hold if power is lost after everything was done.
std::set<std::string> Outcomes(const CrashFileSystem& files, const std::string& path) {
  std::set<std::string> outcomes;
  files.ForEachCrash(100, 1, [&](size_t done, CrashFileSystem& survivor) {
    if (done == files.operations()) outcomes.insert(TextOf(survivor, path));
  });
  return outcomes;
}

TEST(CrashFileSystem, WorksAsAFileSystemWhilePowerIsOn) {
  CrashFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/a/b").ok());
  ASSERT_TRUE(io::WriteTextAtomically(files, "/a/b/x", "old").ok());
  ASSERT_TRUE(io::WriteTextAtomically(files, "/a/b/x", "new").ok());
  EXPECT_EQ(TextOf(files, "/a/b/x"), "new");
  EXPECT_EQ(*files.List("/a/b"), std::vector<std::string>{"x"});
  EXPECT_EQ(files.RemoveDirectory("/a/b").code(), Code::kFailedPrecondition);
  EXPECT_TRUE(files.Remove("/a/b/x").ok());
  EXPECT_TRUE(files.RemoveDirectory("/a/b").ok());
  EXPECT_EQ(files.List("/a/b").status().code(), Code::kNotFound);
}

TEST(CrashFileSystem, LosesANameThatWasNotSynced) {
  CrashFileSystem files;
  Append(files, "/x", "text", true);
  EXPECT_EQ(Outcomes(files, "/x"), (std::set<std::string>{"absent", "text"}));
  ASSERT_TRUE(files.SyncDirectory("/").ok());
  EXPECT_EQ(Outcomes(files, "/x"), (std::set<std::string>{"text"}));
}

TEST(CrashFileSystem, LosesAndTearsBytesThatWereNotSynced) {
  CrashFileSystem files;
  Append(files, "/x", std::string(1024, 'x'), false);
  ASSERT_TRUE(files.SyncDirectory("/").ok());
  const std::set<std::string> outcomes = Outcomes(files, "/x");
  EXPECT_TRUE(outcomes.count(""));
  EXPECT_TRUE(outcomes.count(std::string(512, 'x')));
  EXPECT_TRUE(outcomes.count(std::string(1024, 'x')));
  EXPECT_GE(outcomes.size(), 4u) << "no torn state was shown";
}

TEST(CrashFileSystem, ARenameWithoutASyncOfTheFileShowsItsHole) {
  CrashFileSystem files;
  Append(files, "/x.tmp", "text", false);
  ASSERT_TRUE(files.Rename("/x.tmp", "/x").ok());
  ASSERT_TRUE(files.SyncDirectory("/").ok());
  EXPECT_TRUE(Outcomes(files, "/x").count(""));
}

TEST(CrashFileSystem, AnAtomicWriteIsOldOrNewAtEveryCrash) {
  CrashFileSystem files;
  ASSERT_TRUE(io::WriteTextAtomically(files, "/x", "old").ok());
  const size_t before = files.operations();
  ASSERT_TRUE(io::WriteTextAtomically(files, "/x", "new").ok());
  const size_t states = files.ForEachCrash(1'000, 1, [&](size_t done, CrashFileSystem& survivor) {
    const std::string text = TextOf(survivor, "/x");
    if (done >= before) {
      ASSERT_TRUE(text == "old" || text == "new") << text << " at " << done;
    }
    if (done == files.operations()) {
      ASSERT_EQ(text, "new");
    }
  });
  EXPECT_GT(states, 20u);
}

TEST(CrashFileSystem, AFullDiskAndAnInjectedFailureAreErrors) {
  CrashFileSystem files;
  files.SetFreeBytes(3);
  EXPECT_EQ(io::WriteTextAtomically(files, "/x", "four").code(), Code::kResourceExhausted);
  EXPECT_TRUE(files.List("/")->empty()) << "the temporary file is gone";
  files.SetFreeBytes(100);
  files.FailOperation(2);  // create, append, sync
  EXPECT_EQ(io::WriteTextAtomically(files, "/x", "four").code(), Code::kInternal);
  EXPECT_TRUE(io::WriteTextAtomically(files, "/x", "four").ok());
}

}  // namespace
}  // namespace longhaul::sim
