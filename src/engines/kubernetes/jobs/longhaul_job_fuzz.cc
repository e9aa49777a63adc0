// Any text as a LonghaulJob: what is accepted has a job file and pods, and refusals name a field.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/jobs/job_status.h"
#include "engines/kubernetes/jobs/longhaul_job.h"
#include "engines/kubernetes/jobs/pod_templates.h"

namespace longhaul::engines::kubernetes {
namespace {

void CheckPod(JobJson object, const LonghaulJob& job, JobPodRole role) {
  object["metadata"]["uid"] = "uid";
  const Result<JobPod> pod = ReadJobPod(object);
  CHECK(pod.ok()) << pod.status();
  CHECK(pod->job == job.name && pod->owner_uid == job.uid && pod->role == role);
  CHECK(pod->gated == (role == JobPodRole::kWorker));
  CHECK(!object.dump(-1, ' ', false, JobJson::error_handler_t::replace).empty());
}

void UseJob(const LonghaulJob& job) {
  JobFacts facts;
  facts.desired = job.desired;
  facts.goodput = StoredGoodput(job);
  facts.ready = StoredReady(job);
  const JobJson status = StatusOf(job, facts, InstantFromNanoseconds(1'769'846'400'000'000'000));
  CHECK(IsNews(JobJson(), status));
  CHECK(status["phase"] == "Queued");
  (void)IsFinished(job);
  const Result<std::string> file = JobFileOf(job);
  const Status usable = CheckPodTemplate(job);
  for (const Status& status_of : {file.ok() ? Status() : file.status(), usable}) {
    const bool named =
        status_of.message().starts_with("spec.") || status_of.message().starts_with("metadata.");
    CHECK(status_of.ok() || named) << status_of;
  }
  if (!file.ok() || !usable.ok()) return;
  PodSettings settings;
  settings.image = "longhaul:test";
  CheckPod(ControllerPod(job, settings, 3, *file, "{}"), job, JobPodRole::kController);
  CheckPod(WorkerPod(job, settings, 1, 2, {"10.0.0.1:8701", "CERTIFICATE"}), job,
           JobPodRole::kWorker);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::engines::kubernetes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const JobJson object = JobJson::parse(text, nullptr, false);
  if (object.is_discarded()) return 0;
  const Result<LonghaulJob> job = ReadLonghaulJob(object);
  if (job.ok()) {
    UseJob(*job);
  } else {
    CHECK(job.status().message().find(": expected ") != std::string::npos) << job.status();
  }
  return 0;
}
