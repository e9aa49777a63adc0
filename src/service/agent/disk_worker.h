// The agent's disk work, one piece after the other on a thread of its own: arenas to files, files
// to a committed checkpoint, old ones pruned.
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
  // `answer` is called on the loop's thread with PiecesPersisted, ManifestWritten or
  // CheckpointsMissing, in order.
  // `files` and `loop` must outlive this. All calls on the loop's thread. At its end the piece
  // under way is finished; what has not begun is dropped, nothing is answered any more.
  DiskWorker(io::EventLoop& loop, io::FileSystem& files,
             std::function<void(runtime::AgentInput)> answer);
  DiskWorker(const DiskWorker&) = delete;
  DiskWorker& operator=(const DiskWorker&) = delete;

  // `arenas` are those of work.ranks; null where a rank has none.
  void Persist(runtime::PersistPieces work,
               std::vector<std::shared_ptr<const io::SharedMemory>> arenas, std::string directory);
  void Commit(runtime::WriteManifest work, std::string directory);
  // Answers with CheckpointsMissing if committed checkpoints of the directory have gone, else not
  // at all. Does nothing while an earlier check is under way.
  void Check(const JobId& job, const std::string& directory);

 private:
  void Enqueue(std::function<runtime::AgentInput()> work);
  runtime::CheckpointsMissing Missing(const JobId& job, const std::string& directory);

  io::FileSystem& files_;
  CheckpointWatch watch_;  // the queue's thread only
  std::set<JobId> checking_;
  const std::function<void(runtime::AgentInput)> answer_;
  WorkQueue queue_;
};

}  // namespace longhaul::service
