// Any text is read or refused with a place in it, by each reader; what is read can be resolved. A
// table of Pollux is followed by the jobs whose durations it gives, behind a line of one '%'.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "scheduler/replay/openb_replay.h"
#include "scheduler/traces/pollux.h"
#include "scheduler/traces/sacct.h"
#include "scheduler/traces/trace.h"

namespace {

using namespace longhaul::scheduler;

void CheckJobs(const longhaul::Result<std::vector<TraceJob>>& jobs) {
  if (!jobs.ok()) {
    CHECK(jobs.status().message().starts_with("t.csv:"));
    return;
  }
  for (const TraceJob& job : *jobs) {
    CHECK(job.tasks >= 1 && job.arrival_ms >= 0 && job.duration_ms.value_or(0) >= 0);
    CHECK(job.task.gpus == 0 || job.task.share_milli == 0);
  }
}

void CheckPollux(std::string_view text) {
  const auto jobs = ReadPolluxWorkload(text, "t.csv");
  CHECK(jobs.ok() || jobs.status().message().starts_with("t.csv:"));
  PolluxTimes times;
  std::string_view rest = text;
  for (;;) {
    const size_t end = rest.find("%\n");
    const std::string_view table = rest.substr(0, end);
    for (const longhaul::Status& read :
         {times.AddPlacements("a", table, "t.csv"), times.AddScalability("a", table, "t.csv"),
          times.AddTraining("a", 64, table, "t.csv")}) {
      CHECK(read.ok() || read.message().starts_with("t.csv:"));
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 2);
  }
  for (const int64_t gpus : {1, 3, 8, 64}) {
    const auto duration = times.DurationMs({"j", 0, "a", gpus, 64});
    CHECK(!duration.ok() || *duration >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckJobs(ReadOpenbTasks(text, "t.csv"));
  CheckJobs(ReadPhilly(text, "t.csv"));
  CheckJobs(ReadDlrm(text, "t.csv"));
  CheckPollux(text);
  const auto accounting = ReadSacct(text, "t.csv");
  CheckJobs(accounting.ok() ? longhaul::Result<std::vector<TraceJob>>(accounting->jobs)
                            : accounting.status());
  const auto curves = ReadPublishedCurves(text, "t.csv");
  CHECK(curves.ok() || curves.status().message().starts_with("t.csv:"));
  const auto cluster = ReadOpenbNodes(text, "t.csv");
  if (cluster.ok()) {
    const auto topology = longhaul::spec::Topology::Create(*cluster);
    CHECK(topology.ok() || !topology.status().message().empty());
  }
  return 0;
}
