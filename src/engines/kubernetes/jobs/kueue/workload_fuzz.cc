// Any text as a Workload of a job: only an admitted one lets the job run, and what is written back
// can be read again.

#include <cstdint>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "engines/kubernetes/jobs/kueue/job_queue.h"

namespace longhaul::engines::kubernetes {
namespace {

LonghaulJob Job() {
  const JobJson object = JobJson::parse(R"({
    "metadata": {"name": "tune", "namespace": "ns", "uid": "u1",
                 "labels": {"kueue.x-k8s.io/queue-name": "team"}},
    "spec": {"workers": {"min": 1, "desired": 4}, "job": {"command": ["train"]}}})");
  Result<LonghaulJob> job = ReadLonghaulJob(object);
  CHECK(job.ok()) << job.status();
  return *std::move(job);
}

void CheckAction(const Workload& workload, const std::optional<JobAction>& action) {
  if (!action || !std::holds_alternative<PatchWorkload>(*action)) return;
  JobJson object = {{"metadata", {{"name", workload.name}, {"uid", "w1"}}},
                    {"status", std::get<PatchWorkload>(*action).patch["status"]}};
  const Result<Workload> after = ReadWorkload(object);
  CHECK(after.ok()) << after.status();
  CHECK(!object.dump(-1, ' ', false, JobJson::error_handler_t::replace).empty());
}

void Use(const Workload& workload) {
  const LonghaulJob job = Job();
  QueueObjects objects;
  objects.SetServed(true);
  for (const JobWish wish : {JobWish::kRun, JobWish::kStop, JobWish::kFinish}) {
    const QueueDecision decision =
        DecideQueue(job, &workload, objects, {}, wish, InstantFromNanoseconds(0));
    CHECK(!decision.runs || (workload.admitted && !workload.evicted && decision.workers <= 4));
    CHECK(wish != JobWish::kRun || decision.runs || !decision.reason.empty());
    CheckAction(workload, decision.now);
    CheckAction(workload, decision.when_stopped);
  }
}

}  // namespace
}  // namespace longhaul::engines::kubernetes

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::engines::kubernetes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const JobJson object = JobJson::parse(text, nullptr, false);
  if (object.is_discarded()) return 0;
  (void)ReadResourceFlavor(object);
  (void)ReadPriorityClass(PriorityKind::kWorkload, object);
  Result<Workload> workload = ReadWorkload(object);
  if (!workload.ok()) {
    CHECK(!workload.status().message().empty());
    return 0;
  }
  Use(*workload);
  // Most texts do not guess the number of the request.
  workload->request = [] {
    const QueueDecision made = DecideQueue(
        Job(), nullptr,
        [] {
          QueueObjects objects;
          objects.SetServed(true);
          return objects;
        }(),
        {}, JobWish::kRun, InstantFromNanoseconds(0));
    return std::get<CreateWorkload>(*made.when_stopped)
        .object["metadata"]["annotations"][kRequestAnnotation]
        .get<std::string>();
  }();
  Use(*workload);
  return 0;
}
