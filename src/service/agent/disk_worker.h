// The agent's disk work, one piece after the other on a thread of its own: arenas to files, files
// to a committed checkpoint, old ones pruned.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/event_loop.h"
#include "io/fd.h"
#include "io/file.h"
#include "runtime/agent_messages.h"

namespace longhaul::service {

class DiskWorker {
 public:
  // `answer` is called on the loop's thread with PiecesPersisted or ManifestWritten, in order.
  // `files` and `loop` must outlive this. All calls on the loop's thread.
  DiskWorker(io::EventLoop& loop, io::FileSystem& files,
             std::function<void(runtime::AgentInput)> answer);
  // Finishes the piece under way; what has not begun is dropped, nothing is answered any more.
  ~DiskWorker();
  DiskWorker(const DiskWorker&) = delete;
  DiskWorker& operator=(const DiskWorker&) = delete;

  // `arenas` are those of work.ranks; null where a rank has none.
  void Persist(runtime::PersistPieces work, std::vector<std::shared_ptr<const io::Fd>> arenas,
               std::string directory);
  void Commit(runtime::WriteManifest work, std::string directory);

 private:
  void Run();
  void Enqueue(std::function<runtime::AgentInput()> work);

  io::EventLoop& loop_;
  io::FileSystem& files_;
  // Shared with what is posted to the loop, which may run after we are gone.
  std::shared_ptr<const std::function<void(runtime::AgentInput)>> answer_;

  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<std::function<runtime::AgentInput()>> queue_;

  std::thread thread_;
};

}  // namespace longhaul::service
