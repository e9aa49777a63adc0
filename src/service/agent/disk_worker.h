// The agent's disk work, one item at a time on its own thread: writes arenas to files, commits
// checkpoints and prunes old ones.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/event_loop.h"
#include "io/files/file.h"
#include "io/memory/shared_memory.h"
#include "runtime/agent/agent_messages.h"
#include "service/agent/checkpoint_watch.h"
#include "service/agent/work_queue.h"

namespace longhaul::service {

class DiskWorker {
 public:
  // Calls `answer` on the loop's thread with PiecesPersisted, ManifestWritten or
  // CheckpointsMissing, in order. `files` and `loop` must outlive this. All calls on the loop's
  // thread. The destructor waits for the item under way, drops the others, and calls `answer` no
  // more.
  DiskWorker(io::EventLoop& loop, io::FileSystem& files,
             std::function<void(runtime::AgentInput)> answer);
  DiskWorker(const DiskWorker&) = delete;
  DiskWorker& operator=(const DiskWorker&) = delete;

  // `arenas` are those of work.ranks; null for a rank without one.
  void Persist(runtime::PersistPieces work,
               std::vector<std::shared_ptr<const io::SharedMemory>> arenas, std::string directory);
  void Commit(runtime::WriteManifest work, std::string directory);
  // Answers CheckpointsMissing if committed checkpoints of the directory are missing; otherwise
  // there is no answer. No effect while an earlier check is under way.
  void Check(const JobId& job, const std::string& directory);

 private:
  void Enqueue(std::function<runtime::AgentInput()> work);
  runtime::CheckpointsMissing Missing(const JobId& job, const std::string& directory);

  io::FileSystem& files_;
  CheckpointWatch watch_;  // used on the queue's thread only
  std::set<JobId> checking_;
  const std::function<void(runtime::AgentInput)> answer_;
  WorkQueue queue_;
};

}  // namespace longhaul::service
