// A file system in memory that records every operation, and can produce the states that a disk may
// have if the machine lost power between any two of them.
//
// The model is the weakest that Linux promises. Appended bytes are durable only after Sync: until
// then each 512-byte sector may or may not have been written, and any length is possible. Names (of
// new, renamed and removed entries) are durable only after SyncDirectory of their directory: until
// then each change may or may not have been written, a rename being one change. Leaves out: renames
// between directories, sectors that are half written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "io/files/file.h"

namespace longhaul::sim {

class CrashFileSystem final : public io::FileSystem {
 public:
  CrashFileSystem();  // holds "/" alone
  ~CrashFileSystem() override;

  Result<std::unique_ptr<io::ReadableFile>> Open(const std::string& path) override;
  Result<std::unique_ptr<io::WritableFile>> Create(const std::string& path) override;
  Result<std::vector<std::byte>> ReadAll(const std::string& path, uint64_t limit) override;
  Result<uint64_t> Size(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  Status MakeDirectories(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;

  // After this call, appends beyond `bytes` in total fail as on a full disk.
  void SetFreeBytes(uint64_t bytes) { free_bytes_ = bytes; }
  // The n-th operation after this call (0: the next) that changes or syncs anything fails with
  // kInternal and does nothing, once.
  void FailOperation(size_t n) { fail_in_ = n; }
  // Flips a bit of a file, durably: a silent disk error. Requires the file and a bit within it.
  void FlipBit(const std::string& path, uint64_t bit);

  // The number of recorded operations that change or sync anything.
  size_t operations() const;

  // Calls `visit` with legal states after a crash: for each number of completed operations, all
  // states if they are at most `states_a_crash`, else that many of them drawn with `seed`,
  // including the one that lost all unsynced data and the one that kept everything. The survivor is
  // a fresh file system, valid during the call. Returns the number of states.
  size_t ForEachCrash(
      size_t states_a_crash, uint64_t seed,
      const std::function<void(size_t operations, CrashFileSystem& survivor)>& visit) const;

 private:
  class File;
  class Disk;
  struct Operation;

  Status Record(Operation operation);

  std::unique_ptr<Disk> disk_;
  std::unique_ptr<Disk> origin_;  // before the first recorded operation
  std::vector<Operation> log_;
  std::optional<uint64_t> free_bytes_;
  std::optional<size_t> fail_in_;
};

}  // namespace longhaul::sim
