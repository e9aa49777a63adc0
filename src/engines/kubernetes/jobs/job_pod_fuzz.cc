// Any text as a pod of a LonghaulJob: what is accepted has names and bounded texts.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "engines/kubernetes/jobs/job_pod.h"
#include "engines/kubernetes/jobs/pod_templates.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  using namespace longhaul::engines::kubernetes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const JobJson object = JobJson::parse(text, nullptr, false);
  if (object.is_discarded()) return 0;
  const Result<JobPod> pod = ReadJobPod(object);
  if (!pod.ok()) {
    CHECK(!pod.status().message().empty());
    return 0;
  }
  CHECK(!pod->name.empty() && !pod->uid.empty() && !pod->job.empty());
  CHECK(!(pod->succeeded && pod->failed));
  CHECK(pod->trouble.size() <= 4'096);
  CHECK(pod->role == JobPodRole::kController || pod->authority.empty());
  const ControllerPlace place = PlaceOf(*pod);
  CHECK(place.address.empty() == place.authority.empty());
  return 0;
}
