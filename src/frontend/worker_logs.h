// What the workers of a run print, as it comes: their log files (RUN/logs/attempt-A/rank-R.log),
// followed.
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
  std::string text;  // without its end, and without what a carriage return has overwritten
};

class WorkerLogs {
 public:
  // What lies there now belongs to an earlier run and is not shown. Before any worker is started.
  explicit WorkerLogs(std::string run_directory);

  // An attempt has begun: from now on its logs are followed, of those before only the last one's,
  // whose workers may still be saying their last words.
  void Follow(uint64_t attempt, uint32_t world);

  // The lines written since the last call, by attempt and rank; a line of more than 8 KiB comes in
  // pieces. At most 256 KiB of each log: what is left comes with the next call.
  std::vector<WorkerLine> Read();

  // All that is left, unfinished lines too. For the end, when no worker is left.
  std::vector<WorkerLine> ReadRest();

 private:
  struct Log {
    std::string path;
    uint64_t offset = 0;
    std::string unfinished;
  };
  using Key = std::pair<uint64_t, uint32_t>;  // attempt, rank

  // Whether there was anything new.
  bool ReadLog(const Key& key, Log& log, std::vector<WorkerLine>& lines) const;

  const std::string folder_;
  std::map<std::string, uint64_t> earlier_;  // bytes of an earlier run's logs, by path
  std::map<Key, Log> logs_;
};

}  // namespace longhaul::frontend
