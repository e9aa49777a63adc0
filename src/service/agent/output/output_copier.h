// Copies what workers write into their logs to another file too, each line with its rank in front:
// to this process's standard output, where a container's log is expected.
//
// A thread reads the logs and writes, because a reader that does not read must not hold up the
// agent. What is not copied yet stays in the logs, so that nothing has to be dropped or kept in
// memory. Lines of more than kLongestLine are divided.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/time.h"
#include "io/fd.h"
#include "runtime/agent/agent_messages.h"

namespace longhaul::service {

class OutputCopier {
 public:
  static constexpr size_t kLongestLine = 8 << 10;

  // Requires that `target` stays open.
  explicit OutputCopier(int target);
  // Copies the rest first, for at most a second.
  ~OutputCopier();
  OutputCopier(const OutputCopier&) = delete;
  OutputCopier& operator=(const OutputCopier&) = delete;

  // Copies the file from byte `begin` on.
  Status Follow(const runtime::WorkerId& worker, const std::string& path, uint64_t begin);
  // The worker has ended: what its file has now is its last.
  void Finish(const runtime::WorkerId& worker);

 private:
  struct File {
    io::Fd log;
    uint64_t offset = 0;
    std::string prefix;
    std::string unfinished;  // the line that has no end yet
    bool ended = false;
  };

  void Run();
  // Copies a part of a file. Returns whether there was something to copy.
  bool Copy(File& file);
  bool Write(std::string_view text);
  bool IsLate();

  const int target_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::map<runtime::WorkerId, std::shared_ptr<File>> files_;
  bool stops_ = false;
  Instant stops_at_;
  std::thread thread_;
};

}  // namespace longhaul::service
