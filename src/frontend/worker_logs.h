// The output of a run's workers while they run: follows their log files
// (RUN/logs/attempt-A/rank-R.log).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace longhaul::frontend {

struct WorkerLine {
  uint64_t attempt = 0;
  uint32_t rank = 0;
  std::string text;  // without its line end, and without text that a carriage return overwrote
};

// Returns what precedes a worker's line on the console: "[rank 3] ", or torchrun's template with
// ${role_name}, ${rank}, ${local_rank} and ${hostname} replaced.
std::string LinePrefix(const std::string& pattern, const std::string& role, uint32_t rank,
                       uint32_t local_ranks);

class WorkerLogs {
 public:
  // Existing logs belong to an earlier run and are not shown. Construct before any worker starts.
  explicit WorkerLogs(std::string run_directory);

  // Follows the logs of an attempt that has begun. Of earlier attempts only the last one is still
  // followed, because its workers may still write their last lines.
  void Follow(uint64_t attempt, uint32_t world);

  // The lines written since the last call, by attempt and rank; a line of more than 8 KiB is split
  // into pieces. Reads at most 256 KiB of each log; the next call returns the rest.
  std::vector<WorkerLine> Read();

  // Returns all remaining text, including unfinished lines. For the end, when no worker runs.
  std::vector<WorkerLine> ReadRest();

 private:
  struct Log {
    std::string path;
    uint64_t offset = 0;
    std::string unfinished;
  };
  using Key = std::pair<uint64_t, uint32_t>;  // attempt, rank

  // Returns whether the log had new text.
  bool ReadLog(const Key& key, Log& log, std::vector<WorkerLine>& lines) const;

  const std::string folder_;
  std::map<std::string, uint64_t> earlier_;  // bytes of an earlier run's logs, by path
  std::map<Key, Log> logs_;
};

}  // namespace longhaul::frontend
