#include "profiler/report/read_job.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <thread>

#include "profiler/read/nsight_reader.h"

namespace longhaul::profiler {

Result<RankTrace> ReadTraceFile(const std::string& path, const ReadOptions& options) {
  {
    ASSIGN_OR_RETURN(const auto head, OpenFile(path));
    std::array<char, 16> bytes = {};
    size_t size = 0;
    while (size < bytes.size()) {
      const Result<size_t> got = head->Read(std::span(bytes).subspan(size));
      if (!got.ok() || *got == 0) break;
      size += *got;
    }
    if (IsSqlite({bytes.data(), size})) return ReadNsight(path);
  }
  ASSIGN_OR_RETURN(const auto source, OpenFile(path));
  return ReadKineto(*source, path, options);
}

Result<std::vector<RankSummary>> ReadJob(const std::vector<std::string>& paths,
                                         const ReadJobOptions& options) {
  const size_t cores = options.threads > 0 ? options.threads : std::thread::hardware_concurrency();
  const size_t threads = std::clamp<size_t>(cores, 1, std::max<size_t>(paths.size(), 1));
  ReadOptions read;
  read.max_memory_bytes = options.max_memory_bytes / threads;
  std::vector<RankSummary> summaries(paths.size());
  std::vector<Status> failures(paths.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) {
      const Result<RankTrace> trace = ReadTraceFile(paths[i], read);
      if (trace.ok())
        summaries[i] = Summarize(*trace, options.summary);
      else
        failures[i] = trace.status();
    }
  };
  std::vector<std::thread> pool;
  for (size_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  for (const Status& failure : failures) RETURN_IF_ERROR(failure);
  return summaries;
}

}  // namespace longhaul::profiler
